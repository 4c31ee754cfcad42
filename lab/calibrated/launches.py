"""``python -m lab.calibrated.launches JOURNAL NAME...``: each of these kernels launched once.

This runs under compute-sanitizer. The journal has a JSON object a line: each kernel before its launch, each fault
after it, at last ``{"done": true}``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import cupy
import numpy as np

from lab.calibrated.built import built
from lab.calibrated.kernels import kernels
from lab.calibrated.pattern import BLOCK, SHARED_BYTES, Kernel
from peakgate.device.texel_objects import TexelObject


def launch(kernel: Kernel, capability: tuple[int, int]) -> Any:
    """Launch the kernel on arrays of its own and wait for it; the output."""
    machine_code = built(kernel, capability)
    module = cupy.RawModule(path=str(machine_code.path), enable_cooperative_groups=kernel.cooperative)
    values = cupy.asarray(np.arange(kernel.n, dtype=kernel.dtype))
    out = cupy.asarray(np.zeros(kernel.n, kernel.dtype))
    function = module.get_function(machine_code.entry)
    objects = [
        None if described is None else TexelObject(described, array)
        for array, described in zip((out, values), kernel.objects, strict=True)
    ]
    seen = [array if each is None else each.handle for array, each in zip((out, values), objects, strict=True)]
    function((kernel.grid,), (BLOCK,), (*seen, np.int32(kernel.n)), shared_mem=SHARED_BYTES)
    cupy.cuda.get_current_stream().synchronize()
    return out


def main(journal_path: Path, names: list[str]) -> int:
    """Launch the kernels in this order, and note each."""
    # Without a pool every array is an allocation of its own.
    cupy.cuda.set_allocator(None)
    capability = cupy.cuda.Device(0).compute_capability
    by_name = {kernel.name: kernel for kernel in kernels()}
    with journal_path.open("a", encoding="utf-8") as journal:

        def note(entry: dict[str, Any]) -> None:
            journal.write(json.dumps(entry) + "\n")
            journal.flush()

        for name in names:
            note({"kernel": name})
            try:
                launch(by_name[name], (int(capability[:-1]), int(capability[-1])))
            except Exception as fault:
                note({"kernel": name, "fault": f"{type(fault).__name__}: {str(fault)[:200]}"})
                if "illegal" in str(fault).lower() or "unspecified" in str(fault).lower():
                    return 1  # the context is lost: the rest needs a fresh process
        note({"done": True})
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
