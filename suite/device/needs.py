"""``python -m peakgate.device.needs``: print the extras that this machine's device needs.

The CUDA extra where a GPU answers, the compiler extra where the emulator would find none; with ``--nvrtc`` the NVRTC
extra where no CUDA extra brings it. The other arguments are those of the run that follows; ``--device`` matters.
"""

from __future__ import annotations

import sys
from itertools import pairwise

from peakgate.common.errors import PeakgateError
from peakgate.device import driver
from peakgate.device.emulator import find_compiler


def groups(arguments: list[str]) -> list[str]:
    """The extras for a run with these arguments."""
    cuda = driver.cuda_extra()
    if cuda is not None and not _asks_for_cpu(arguments):
        return [cuda]
    needed = ["nvrtc"] if "--nvrtc" in arguments else []
    try:
        find_compiler()
    except PeakgateError:
        needed.append("compiler")
    return needed


def _asks_for_cpu(arguments: list[str]) -> bool:
    return "--device=cpu" in arguments or ("--device", "cpu") in pairwise(arguments)


if __name__ == "__main__":
    print(*groups(sys.argv[1:]))  # noqa: T201
