"""Which device a run uses.

``python -m peakgate.device.choose`` prints the extras that this machine's device needs for a run with these arguments.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from typing import TYPE_CHECKING

from peakgate.base.errors import CannotDecide, Code, PeakgateError
from peakgate.base.formatting import counted
from peakgate.device import driver

if TYPE_CHECKING:  # what a run needs is said without numpy
    from peakgate.device.interface import Device

FALLBACK_NOTE = (
    "no GPU answers: kernels run through the checked CPU emulator on small problems, to prove them right; "
    "times are recorded, no fraction of peak is claimed"
)


def open_device(choice: str, *, later: bool = False) -> tuple[Device, str | None]:
    """Open what a user asked for: auto, cpu, gpu, gpu:N, or several: gpu:N,M; ``later`` leaves that to ``opened``.

    Gives the device and, where ``auto`` fell back to the emulator, one line that says so and what it means.
    """
    indices = gpu_indices(choice)
    if indices:
        try:
            from peakgate.device.gpu import GpuDevice  # noqa: PLC0415  (a machine without a GPU need not have CuPy)
        except ImportError as error:
            extra = driver.cuda_extra() or "cuda13"
            raise PeakgateError(
                f"--device gpu needs {error.name or 'CuPy'}, which is not installed: pip install 'peakgate[{extra}]'",
                Code.INSTALLATION,
            ) from None
        try:
            return GpuDevice(*indices, later=later), None
        except RuntimeError as error:  # CuPy's word for what CUDA refuses
            raise _not_opened(f"gpu:{','.join(map(str, indices))}", error) from None
    from peakgate.device.cpu import CpuDevice  # noqa: PLC0415  (a GPU does without the emulator)

    return CpuDevice(), None if choice == "cpu" else FALLBACK_NOTE


def opened(device: Device, choice: str) -> None:
    """Open a device that was left for later; CannotDecide where the GPU cannot be had."""
    try:
        device.open()
    except RuntimeError as error:
        raise _not_opened(choice, error) from None


def _not_opened(choice: str, error: RuntimeError) -> CannotDecide:
    return CannotDecide(f"{choice} cannot be opened ({error}); see nvidia-smi for what is on it", Code.BUSY)


def gpu_indices(choice: str) -> tuple[int, ...]:
    """The CUDA indices of the GPUs of a ``--device``, that of cases on one GPU first; none for the emulator.

    PeakgateError where it means none, or GPUs that this machine does not have.
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
        raise PeakgateError(
            f"--device {choice}: no GPU answers on this machine; check nvidia-smi, or use --device cpu", Code.NO_GPU
        )
    if choice != "auto" and max(indices) >= count:
        raise PeakgateError(
            f"--device {choice}: this machine has {counted(count, 'GPU')}, numbered from 0", Code.NO_GPU
        )
    if len(indices) > 1 and len(models := {driver.gpu_name(index) for index in indices}) > 1:
        raise PeakgateError(
            f"--device {choice}: these are of {' and '.join(sorted(models))}; floors belong to one GPU model",
            Code.GPU_MODELS,
        )
    return indices if count else ()


def groups(arguments: list[str]) -> list[str]:
    """The CUDA extra where a GPU answers, else the compiler extra where there is no compiler for the emulator.

    With ``--nvrtc`` also the NVRTC extra, where no CUDA extra brings it.
    """
    from peakgate_emulator import find_compiler  # noqa: PLC0415  (a GPU does without the emulator)

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
