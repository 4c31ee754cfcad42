"""What a CUDA error means for the case whose launch met it."""

from __future__ import annotations

from peakgate.device.interface import KernelCrash, KernelFault

OUT_OF_MEMORY = ("cudaErrorMemoryAllocation", "CUDA_ERROR_OUT_OF_MEMORY")
"""How the runtime and the driver name it, before a colon and their words."""


def failure(error: Exception, *, lost: bool = False) -> KernelFault | MemoryError:
    """A full GPU is no fault of the kernel: a spilling kernel's local memory may be what did not fit.

    ``lost`` says that the CUDA context takes no more launches: the kernel crashed.
    """
    message = str(error)
    if message.partition(":")[0] in OUT_OF_MEMORY:
        return MemoryError(message)
    return KernelCrash(message) if lost else KernelFault(message)
