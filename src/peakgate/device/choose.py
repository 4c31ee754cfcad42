"""Opens the device of a run.

``python -m peakgate.device.choose`` prints the pip extras that this machine needs for a run with these arguments.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from typing import TYPE_CHECKING

from peakgate.base.errors import CannotDecide, Code, PeakgateError
from peakgate.base.formatting import counted
from peakgate.base.ranks import ALONE, Ranks
from peakgate.device import driver

if TYPE_CHECKING:  # the extras are printed without importing NumPy
    from peakgate.device.interface import Device

FALLBACK_NOTE = (
    "no usable GPU: small problems run in the emulator, which checks results and judges no speed "
    "(`peakgate help without-a-gpu`)"
)


def open_device(choice: str, *, later: bool = False, ranks: Ranks = ALONE) -> tuple[Device, str | None]:
    """Open the device that a user chose: auto, cpu, gpu, gpu:N or gpu:N,M; with ``later`` by a call of ``opened``.

    Returns the device and, if ``auto`` fell back to the emulator, a note about that. Of several ``ranks`` each opens
    the GPU of its local number, or the only one that its launcher let it see.
    """
    if ranks.size > 1:
        choice = _of_rank(choice, ranks.local)
    indices = gpu_indices(choice)
    if indices:
        try:
            from peakgate.device.gpu import GpuDevice  # noqa: PLC0415  (a machine without a GPU need not have CuPy)
        except ImportError as error:
            from peakgate.base.packages import install_command  # noqa: PLC0415  (only a mistake needs it)

            extra = driver.cuda_extra() or "cuda13"
            raise PeakgateError(
                f"--device gpu needs {error.name or 'CuPy'}, which is not installed: {install_command(extra)}",
                Code.INSTALLATION,
            ) from None
        try:
            return GpuDevice(*indices, later=later, ranks=ranks), None
        except RuntimeError as error:  # CuPy's error if CUDA refuses
            raise _not_opened(f"gpu:{','.join(map(str, indices))}", error) from None
    from peakgate.device.cpu import CpuDevice  # noqa: PLC0415  (not needed on a GPU)

    device = CpuDevice()
    device.ranks = ranks
    return device, None if choice == "cpu" else FALLBACK_NOTE


def _of_rank(choice: str, local: int) -> str:
    """The choice of one of several ranks; raises PeakgateError if it names GPUs, which ranks share out themselves."""
    if ":" in choice:
        raise PeakgateError(
            f"--device {choice} in a process per GPU; expected auto, gpu or cpu: each measures on the GPU of its "
            "LOCAL_RANK, and CUDA_VISIBLE_DEVICES chooses which there are",
            Code.OPTION,
        )
    return choice if choice == "cpu" or driver.gpu_count() < 2 else f"gpu:{local}"


def opened(device: Device, choice: str) -> None:
    """Open a device that was chosen with ``later``; raises CannotDecide if the GPU cannot be opened."""
    try:
        device.open()
    except RuntimeError as error:
        raise _not_opened(choice, error) from None


def _not_opened(choice: str, error: RuntimeError) -> CannotDecide:
    return CannotDecide(f"{choice} cannot be opened ({error}); see nvidia-smi for processes on it", Code.BUSY)


def gpu_indices(choice: str) -> tuple[int, ...]:
    """The CUDA indices of the GPUs that ``--device`` names, the one for single-GPU cases first; none for the emulator.

    Raises PeakgateError for an invalid choice, CannotDecide for GPUs that this machine does not have.
    """
    if choice == "cpu":
        return ()
    indices, count = driver.named_gpus(choice), driver.gpu_count()
    if not indices or len({*indices}) < len(indices):
        raise PeakgateError(
            f"--device {choice!r}: expected auto, cpu, gpu or gpu:N with N the CUDA device index, "
            "or several, each once: gpu:0,1",
            Code.OPTION,
        )
    if choice != "auto" and count == 0:
        raise CannotDecide(
            f"--device {choice}: no usable GPU on this machine; check nvidia-smi, or use --device cpu", Code.NO_GPU
        )
    if choice != "auto" and max(indices) >= count:
        raise CannotDecide(f"--device {choice}: this machine has {counted(count, 'GPU')}, numbered from 0", Code.NO_GPU)
    if len(indices) > 1 and len(models := {driver.gpu_name(index) for index in indices}) > 1:
        raise PeakgateError(
            f"--device {choice}: these are of {' and '.join(sorted(models))}; floors belong to one GPU model",
            Code.GPU_MODELS,
        )
    return indices if count else ()


def groups(arguments: list[str]) -> list[str]:
    """The needed extras: the CUDA extra with a GPU, else the compiler extra if the emulator finds no compiler.

    With ``--nvrtc`` also the NVRTC extra, unless the CUDA extra includes it.
    """
    from peakgate.base.emulated import find_compiler  # noqa: PLC0415  (not needed on a GPU)

    cuda = driver.cuda_extra()
    on_cpu = "--device=cpu" in arguments or ("--device", "cpu") in pairwise(arguments)
    if cuda is not None and not on_cpu:
        return [cuda]
    needed = ["nvrtc"] if "--nvrtc" in arguments else []
    try:
        find_compiler()
    except PeakgateError:
        needed.append("compiler")
    return needed


if __name__ == "__main__":
    print(*groups(sys.argv[1:]))  # noqa: T201
