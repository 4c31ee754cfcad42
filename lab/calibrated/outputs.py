"""``python -m lab.calibrated.outputs DEVICE FILE``: what the kernels of both folders ``digests`` put out on a device.

FILE has each output of each problem as ``ID/NUMBER``, written anew after every tenth problem. A
problem that does not run is named with its reason and left out. ``rows`` compares two such files.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import sys
from pathlib import Path
from typing import Any

import numpy as np

from lab.pages import ROOT
from peakgate.base.files import write_whole
from peakgate.device.choose import open_device
from peakgate.spec.catalogue import problems

Arrays = dict[str, np.ndarray[Any, Any]]
EVERY = 10
PROJECTS = (Path(__file__).with_name("digests"), ROOT / "tests" / "data" / "digests")
"""Ours, and that of the emulator's tests of textures."""


def main(choice: str, path: Path) -> int:
    """Run every problem; 1 where one does not run."""
    device, _ = open_device(choice)
    wanted = []
    for project in PROJECTS:
        with contextlib.chdir(project):
            wanted += problems()
    device.prebuild(wanted)
    found: Arrays = {}
    failed = 0
    for number, case in enumerate(wanted, 1):
        try:
            launchable = device.prepare(case)
            launchable.run()
            for at, output in enumerate(launchable.outputs):
                found[f"{case.id}/{at}"] = np.asarray(output.get() if hasattr(output, "get") else output)
        except Exception as fault:
            failed += 1
            print(f"{case.id}: {type(fault).__name__}: {fault}", flush=True)  # noqa: T201
        if number % EVERY == 0 or number == len(wanted):
            write(path, found)
    print(f"{len(wanted) - failed} of {len(wanted)} problems ran on {device.slug}")  # noqa: T201
    return 1 if failed else 0


def write(path: Path, found: Arrays) -> None:
    """Save the arrays, whole or not at all."""
    packed = io.BytesIO()
    np.savez_compressed(packed, allow_pickle=False, **found)
    write_whole(path, packed.getvalue())


def read(path: Path) -> Arrays:
    """The arrays of a file; none where there is no file."""
    if not path.exists():
        return {}
    with np.load(path, allow_pickle=False) as saved:
        return {name: saved[name] for name in saved.files}


def rows(emulated: Arrays, real: Arrays) -> dict[str, dict[str, Any]]:
    """By output: its digest on either device, whether they are equal, and how far they differ where not."""
    return {name: _row(emulated.get(name), real.get(name)) for name in sorted({*emulated, *real})}


def _row(emulated: np.ndarray[Any, Any] | None, real: np.ndarray[Any, Any] | None) -> dict[str, Any]:
    row: dict[str, Any] = {"gpu": _digest(real), "emulator": _digest(emulated)}
    row = {"equal": emulated is not None and row["gpu"] == row["emulator"]} | row
    if emulated is None or real is None or row["equal"] or emulated.shape != real.shape:
        return row
    apart = np.abs(emulated.astype(np.float64) - real.astype(np.float64))
    return row | {"differ": int(np.count_nonzero(apart)), "of": int(real.size), "largest": float(apart.max())}


def _digest(array: np.ndarray[Any, Any] | None) -> str | None:
    if array is None:
        return None
    named = f"{array.dtype.str}{array.shape}".encode()
    return hashlib.sha256(named + np.ascontiguousarray(array).tobytes()).hexdigest()[:16]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]).absolute()))
