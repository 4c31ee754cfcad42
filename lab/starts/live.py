"""`ab` of unchanged code, everything measured, again and again: ``python -m lab.starts.live FILE SECONDS [RUNS]``.

On a GPU that is free, until the next run would end after SECONDS, or RUNS are there; FILE has what came of each,
written anew after each. ``overlap --page`` fills the table from the records beside this module.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from lab.growth.waits import WAITS
from lab.injected.campaign import VERDICTS
from lab.pages import read_json, table
from lab.records import checked_out
from peakgate.base.files import write_whole
from peakgate.device.driver import gpu_name, gpu_uuid

HERE = Path(__file__).parent
SHOWN = ("verdict", "counts", "smallest_detectable_change_percent", "stopped")


def run(out: Path) -> dict[str, Any]:
    """One `ab`: its exit code, its seconds, and what its document says in short."""
    found = WAITS["ab_everything"](out)
    said = read_json(out / VERDICTS)
    apart = [row["case"] for row in said["rows"] if row["verdict"] != "SAME"]
    return found | {name: said[name] for name in SHOWN} | {"not_same": apart}


def main(path: Path, seconds: float, most: int) -> None:
    """Run, and write the record after each run."""
    until = time.monotonic() + seconds
    record: dict[str, Any] = {"commit": checked_out(), "gpu": gpu_name(0), "uuid": gpu_uuid(0), "runs": []}
    longest_s = 0.0
    with tempfile.TemporaryDirectory() as scratch:
        while len(record["runs"]) < most and time.monotonic() + longest_s < until:
            record["runs"].append(run(Path(scratch, f"out-{len(record['runs'])}")))
            longest_s = max(longest_s, record["runs"][-1]["wall_s"])
            write_whole(path, json.dumps(record, indent=1) + "\n")


def page() -> str:
    """The table of the page."""
    rows = []
    for path in sorted(HERE.glob("live-*.json")):
        record = read_json(path)
        runs = record["runs"]
        walls, codes = [each["wall_s"] for each in runs], [each["exit_code"] for each in runs]
        apart = ", ".join(sorted({case for each in runs for case in each["not_same"]}))
        gpu = f"{record['gpu']} {record['uuid'][:12]}"
        same = f"{codes.count(0)} of {len(codes)}"
        rows.append((gpu, record["commit"], same, f"{min(walls):.0f} to {max(walls):.0f}", apart))
    return table(("GPU", "commit", "runs with exit code 0", "seconds", "cases that were not SAME"), rows)


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else sys.maxsize)
