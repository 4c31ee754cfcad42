"""``python tests/helpers/occupancy_on_gpu.py FILE [INDEX]``: the driver's own occupancy of every kernel, written down.

The calculator is compared with it on any machine. The driver of the GPU with this CUDA index (0) is asked about all
machine code of the full tier, with the dynamic shared memory of its cases, at every block size of whole warps and at
three that are not whole. FILE is baselines/<gpu>/occupancy.json.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import cupy

from peakgate.base.files import a_line_each, write_whole
from peakgate.case import Case, Scale
from peakgate.device.gpu import GpuDevice
from peakgate.spec import catalogue

SCHEMA = 1
BLOCK_SIZES = (1, 33, *range(32, 1025, 32), 1000)
_MACHINE = ("name", "slug", "compute_capability", "driver", "cuda_driver", "nvrtc")

# CU_FUNC_ATTRIBUTE_* of the driver API
_MAX_THREADS_PER_BLOCK = 0
_SHARED_SIZE_BYTES = 1
_NUM_REGS = 4

_attribute = cupy.cuda.driver.funcGetAttribute


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
    built, shared = device.code.build(case), case.launch.shared_bytes
    function = device.code.functions(built, case)[0]
    handle = function.ptr
    most = _attribute(_MAX_THREADS_PER_BLOCK, handle)
    return {
        "kernel": f"{case.family}.{case.stage.name}",
        "defines": dict(case.defines),
        "registers": _attribute(_NUM_REGS, handle),
        "static_shared_bytes": _attribute(_SHARED_SIZE_BYTES, handle),
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


if __name__ == "__main__":
    taken = record(GpuDevice(int(sys.argv[2]) if len(sys.argv) > 2 else 0))
    head = {name: value for name, value in taken.items() if name != "kernels"}
    write_whole(Path(sys.argv[1]), a_line_each(head, "kernels", taken["kernels"]))
