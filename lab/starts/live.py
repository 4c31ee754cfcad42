"""`ab` of unchanged code, everything measured, again and again: ``python -m lab.starts.live FILE SECONDS [RUNS]``.

On a GPU that is free, until the next run would end after SECONDS, or RUNS are there; FILE has what came of each,
written anew after each. ``overlap --page`` fills the table from the records beside this module.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from peakgate.core.files import CACHE_VARIABLE, cache_folder, write_whole
from peakgate.device.driver import gpu_name, gpu_uuid
from peakgate.reports.pages.markers import table

from lab.growth.waits import committed
from lab.injected.campaign import VERDICTS
from lab.records import checked_out

HERE = Path(__file__).parent
SHOWN = ("verdict", "counts", "smallest_detectable_change_percent", "stopped")


def run(repository: Path, out: Path) -> dict[str, Any]:
    """One `ab` of the last two commits: its exit code, its seconds, and what its document says in short."""
    command = [sys.executable, "-m", "peakgate", "ab", "HEAD~1", "HEAD", "--measure-unchanged", f"--out={out}"]
    environment = os.environ | {CACHE_VARIABLE: str(cache_folder())}
    start = time.monotonic()
    code = subprocess.run(command, cwd=repository, env=environment, check=False, stdout=subprocess.DEVNULL).returncode
    found: dict[str, Any] = {"exit_code": code, "wall_s": round(time.monotonic() - start, 1)}
    said = json.loads((out / VERDICTS).read_text(encoding="utf-8"))
    apart = [row["case"] for row in said["rows"] if row["verdict"] != "SAME"]
    return found | {name: said[name] for name in SHOWN} | {"not_same": apart}


def main(path: Path, seconds: float, most: int) -> None:
    """Run, and write the record after each run."""
    until = time.monotonic() + seconds
    record: dict[str, Any] = {"commit": checked_out(), "gpu": gpu_name(0), "uuid": gpu_uuid(0), "runs": []}
    with tempfile.TemporaryDirectory() as scratch:
        repository = Path(scratch, "repository")
        for number in (0, 1):
            committed([], number, repository)
        longest_s = 0.0
        while len(record["runs"]) < most and time.monotonic() + longest_s < until:
            found = run(repository, Path(scratch, f"out-{len(record['runs'])}"))
            longest_s = max(longest_s, found["wall_s"])
            record["runs"].append(found)
            write_whole(path, json.dumps(record, indent=1) + "\n")


def page() -> str:
    """The table of the page."""
    rows = []
    for path in sorted(HERE.glob("live-*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        runs = record["runs"]
        walls, codes = [each["wall_s"] for each in runs], [each["exit_code"] for each in runs]
        apart = ", ".join(sorted({case for each in runs for case in each["not_same"]}))
        gpu = f"{record['gpu']} {record['uuid'][:12]}"
        same = f"{codes.count(0)} of {len(codes)}"
        rows.append((gpu, record["commit"], same, f"{min(walls):.0f} to {max(walls):.0f}", apart))
    return table(("GPU", "commit", "runs with exit code 0", "seconds", "cases that were not SAME"), rows)


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else sys.maxsize)
