"""Small kernels of CuTe in the emulator, right and with one statement missing: ``python -m lab.cute.cute CUTLASS``.

CUTLASS is a checkout of NVIDIA/cutlass, whose headers the kernels include.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import peakgate_emulator as emulator
from peakgate.base import git
from peakgate.base.files import a_line_each, write_whole
from peakgate.base.text import say

HERE = Path(__file__).resolve().parent
RECORD = HERE / "cute.json"
ORDERING = ("__syncthreads", "cp_async_", "fence_view", "warpgroup_")
"""How statements begin that order threads, copies or products: each is left out once."""
DEPTHS = {"mma_sync": 32, "wgmma": 64}


def arguments(kernel: str) -> tuple[list[np.ndarray[Any, Any]], np.ndarray[Any, Any]]:
    """What a kernel is launched with, its output first, and what it is to compute."""
    generator = np.random.default_rng(1)
    if kernel == "transposed":
        given = generator.standard_normal((4, 32)).astype(np.float32)
        return [np.zeros((32, 4), np.float32), given], given.T
    a, b = (generator.standard_normal((64, DEPTHS[kernel])).astype(np.float16) for _ in range(2))
    return [np.zeros((64, 64), np.float32), a.view(np.uint16), b.view(np.uint16)], a.astype(float) @ b.astype(float).T


def outcome(kernel: str, text: str, folder: Path, include: Path) -> str:
    """``right``, or what is found in a kernel of this text."""
    source = folder / f"{kernel}.cu"
    source.write_text(text, encoding="utf-8")
    built = emulator.load(source, kernel, (), include=(include,), specific=kernel == "wgmma")
    given, right = arguments(kernel)
    try:
        built.launch((1, 1, 1), (128, 1, 1), given, outputs=[0])
    except emulator.KernelDefect as defect:
        return defect.kind.name.lower().replace("_", " ")
    return "right" if np.allclose(given[0], right, rtol=1e-4, atol=1e-4) else "wrong"


def rows(include: Path) -> list[dict[str, str]]:
    """Each kernel as it is, and without each statement that orders something."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for path in sorted(HERE.glob("*.cu")):
            lines = path.read_text(encoding="utf-8").splitlines()
            missing = [None, *(at for at, line in enumerate(lines) if any(word in line for word in ORDERING))]
            for at in missing:
                text = "\n".join("" if number == at else line for number, line in enumerate(lines))
                without = "" if at is None else lines[at].strip()
                got = outcome(path.stem, text, Path(folder), include)
                found.append({"kernel": path.stem, "without": without, "outcome": got})
                say(f"{path.stem} without {without or 'nothing'}: {got}\n")
    return found


def main(given: Sequence[str]) -> int:
    """Write the record."""
    (checkout,) = map(Path, given)
    commit = git.commit_of("HEAD", checkout, "CHECKOUT")
    made = {str(number): row for number, row in enumerate(rows(checkout / "include"))}
    write_whole(RECORD, a_line_each({"cutlass": commit}, "rows", made))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
