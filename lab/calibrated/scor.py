"""Judge ScoR's microbenchmarks: ``python -m lab.calibrated.scor CHECKOUT`` fills scor.json beside this file.

CHECKOUT is a clone of github.com/csl-iisc/ScoR; none of its code is kept here. All files of ``microbenchmarks/src`` are
taken, and their names say whether they race.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np

import peakgate_emulator as emulator
from peakgate.base import git
from peakgate.base.files import a_line_each, write_whole
from peakgate.inspect.emulate import schedules
from peakgate_emulator import KernelDefect

RECORD = Path(__file__).parent / "scor.json"


def reported(source: Path) -> list[str]:
    """The kinds of defect that are reported of a microbenchmark in the orders of threads that ``check`` runs."""
    text = source.read_text(encoding="utf-8")
    blocks, threads = (int(re.findall(rf"define {name}\s+(\d+)", text)[0]) for name in ("NBLOCKS", "TPERBLK"))
    kernel = emulator.load(source, "kmain")
    # A program runs its kernel once; here its variables begin anew for each order.
    variables = {name: np.zeros(1, np.int32) for name in ("flag", "lock") if f"__device__ int {name}" in text}
    kinds: set[str] = set()
    for schedule in schedules(2):
        try:
            kernel.launch(
                (blocks, 1, 1), (threads, 1, 1), (np.zeros(1, np.uint32),), schedule=schedule, constants=variables
            )
        except KernelDefect as defect:
            kinds |= {found.kind.words for found in defect.defects}
    return sorted(kinds)


def main(checkout: Path) -> None:
    """Write the record."""
    commit = git.commit_of("HEAD", checkout, "CHECKOUT")
    found = {
        source.stem: {"label": source.stem.split("_")[0], "reported": reported(source)}
        for source in sorted((checkout / "microbenchmarks" / "src").glob("*.cu"))
    }
    head = {"repository": "csl-iisc/ScoR", "commit": commit, "rule": "all of microbenchmarks/src"}
    write_whole(RECORD, a_line_each(head, "kernels", found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
