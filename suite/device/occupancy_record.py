"""The driver's own occupancy of every kernel, written down, so that the calculator is held to it on any machine.

``python -m peakgate.device.occupancy_record FILE [--device gpu:N]`` asks the driver about all machine code of the full
tier, with the dynamic shared memory of its cases, at every block size of whole warps and at three that are not whole.
Exits 2, with one line and nothing written, where no GPU answers.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from peakgate.case import Case, Scale
from peakgate.common.errors import PeakgateError, refused
from peakgate.common.files import a_line_each, write_whole
from peakgate.device.choose import open_device
from peakgate.project import catalogue
from peakgate.verdict import ExitCode

if TYPE_CHECKING:
    from peakgate.device.gpu import GpuDevice

SCHEMA = 1
BLOCK_SIZES = (1, 33, *range(32, 1025, 32), 1000)
_MACHINE = ("name", "slug", "compute_capability", "driver", "cuda_driver", "nvrtc")


def record(device: GpuDevice) -> dict[str, Any]:
    """Every kernel of the full tier with what the driver says of it; a JSON document."""
    wanted = [case for case in catalogue.cases(Scale.BENCH) if case.stage.source and device.refusal(case) is None]
    device.prebuild(wanted)
    distinct = {(case.stage, case.defines, case.launch.shared_bytes): case for case in wanted}
    described = device.describe()
    return {
        "peakgate_occupancy": SCHEMA,
        "device": {name: described[name] for name in _MACHINE},
        "block_sizes": BLOCK_SIZES,
        "kernels": [_asked(device, case) for case in distinct.values()],
    }


def _asked(device: GpuDevice, case: Case) -> dict[str, Any]:
    """One kernel; ``blocks_per_sm`` by block size up to the kernel's own limit, beyond which the driver refuses."""
    import cupy  # noqa: PLC0415  # a machine without a GPU need not have it

    built, shared = device.build(case), case.launch.shared_bytes
    function = device.functions(built, case)[0]
    most = function.max_threads_per_block
    handle = function.kernel.ptr
    return {
        "kernel": f"{case.family}.{case.stage.name}",
        "defines": dict(case.defines),
        "registers": function.num_regs,
        "static_shared_bytes": function.shared_size_bytes,
        "dynamic_shared_bytes": shared,
        "max_threads_per_block": most,
        "compiled_for": {
            "registers": built.resources.registers,
            "static_shared_bytes": built.resources.static_shared_bytes,
        },
        "blocks_per_sm": [
            cupy.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor(handle, threads, shared)
            for threads in BLOCK_SIZES
            if threads <= most
        ],
        "best_block_size": cupy.cuda.driver.occupancyMaxPotentialBlockSize(handle, shared, 0)[1],
    }


def main(arguments: Sequence[str]) -> int:
    """Write the record of one GPU and give the exit code."""
    parser = argparse.ArgumentParser(prog="python -m peakgate.device.occupancy_record", description=__doc__)
    parser.add_argument("file", type=Path, help="baselines/<gpu>/occupancy.json")
    parser.add_argument("--device", default="gpu", help="gpu or gpu:N (default: gpu)")
    chosen = parser.parse_args(arguments)
    try:
        taken = record(_gpu(chosen.device))
        head = {name: value for name, value in taken.items() if name != "kernels"}
        write_whole(chosen.file, a_line_each(head, "kernels", taken["kernels"]))
    except PeakgateError as error:
        return refused(error)
    print(f"{len(taken['kernels'])} kernels -> {chosen.file}")  # noqa: T201
    return ExitCode.OK


def _gpu(choice: str) -> GpuDevice:
    if not choice.startswith("gpu"):
        raise PeakgateError(f"--device {choice}: only a GPU's driver can be asked; expected gpu or gpu:N")
    return cast("GpuDevice", open_device(choice)[0])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
