"""How long a gate run takes by two versions of the tool, alternately on one GPU.

``python -m lab.refills.gates FILE --side base PACKAGES PROJECT --side new PACKAGES PROJECT`` runs ``peakgate bench`` of
the tool that is installed in the folder PACKAGES in the folder PROJECT, the sides in turn. The first run of each side
fills its caches and is recorded apart.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from peakgate.base.files import write_whole
from peakgate.base.text import say
from peakgate.base.verdict import ExitCode

TIMEOUT_S = 120


def run(packages: Path, project: Path) -> float:
    """Wall time in seconds of one gate run; RuntimeError unless it passes or is undecided."""
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, "-P", "-m", "peakgate", "bench", "--device", "gpu", "--out", out]
        begun = time.perf_counter()
        done = subprocess.run(
            command,
            cwd=project,
            env=os.environ | {"PYTHONPATH": str(packages)},
            stdout=subprocess.DEVNULL,
            timeout=TIMEOUT_S,
            check=False,
        )
        wall_s = time.perf_counter() - begun
        if done.returncode not in (ExitCode.OK, ExitCode.UNDECIDED):
            raise RuntimeError(f"{project}: a gate run of {packages} ended with {done.returncode}")
        return wall_s


def main(arguments: list[str]) -> int:
    """Run both sides alternately and write the record."""
    parser = argparse.ArgumentParser(prog="python -m lab.refills.gates", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--side", nargs=3, action="append", metavar=("NAME", "PACKAGES", "PROJECT"), required=True)
    parser.add_argument("--runs", type=int, default=5, help="of each side, besides the first (default: 5)")
    parser.add_argument("--gpu", default="NVIDIA H200")
    options = parser.parse_args(arguments)
    wall_s: dict[str, list[float]] = {name: [] for name, _, _ in options.side}
    for _ in range(1 + options.runs):
        for name, packages, project in options.side:
            wall_s[name].append(round(run(Path(packages).resolve(), Path(project).resolve()), 2))
            say(f"{name} {wall_s[name][-1]} s")
    found = {
        name: {"first_s": times[0], "warm_s": times[1:], "median_s": statistics.median(times[1:])}
        for name, times in wall_s.items()
    }
    write_whole(options.file, json.dumps({"gpu": options.gpu, "sides": found}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
