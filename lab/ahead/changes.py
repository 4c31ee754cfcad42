"""Times before and after two changes of kernels: ``python -m lab.ahead.changes [RUNS]``.

RUNS has a folder of run files for each session, named by ``SESSIONS``; their times become ``changes.json``, from which
the table of the page is filled.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lab.pages import fill_page, read_json
from peakgate.base.files import write_whole
from peakgate.render.files import table_line
from peakgate.runfile.saved import load_run

HERE = Path(__file__).parent
PAGE, RECORD = HERE / "README.md", HERE / "changes.json"
SESSIONS = {
    "one": ("every thread arrives", "before"),
    "all": ("every thread arrives", "after"),
    "l-old": ("one request for 32 bins", "before"),
    "l-new": ("one request for 32 bins", "after"),
}
"""By the name of a session's folder, without its number: the change, and the side."""
CHANGES = tuple(dict.fromkeys(change for change, _ in SESSIONS.values()))
UNCHANGED = ".histogram_shared-"
"""In the ids of cases that were measured beside the others, whose kernel nothing changed."""


def reduced(runs: Path) -> dict[str, Any]:
    """The medians of each session, in the order in which they were measured."""
    loaded = [(path.relative_to(runs).parts[0], load_run(path)) for path in runs.glob("*/*/*.json")]
    first = loaded[0][1]
    return {
        "gpu": first.gpu["name"],
        "driver": first.gpu["driver"],
        "commit": first.commit,
        "sessions": [
            {
                "name": name,
                "date": run.taken.isoformat(),
                "time_us": {case: round(found.time_us, 3) for case, found in run.cases.items()},
            }
            for name, run in sorted(loaded, key=lambda each: each[1].taken)
        ],
    }


def table(record: Mapping[str, Any]) -> Iterator[str]:
    """A row for each case: the median of each session, before and after."""
    where = f"{record['gpu']}, driver {record['driver']}, commit {record['commit'][:12]}"
    yield f"{where}; the median of each session in µs."
    yield ""
    yield table_line(("change", "case", "before", "after"))
    yield table_line(("---", "---", "--:", "--:"))
    for change in CHANGES:
        sessions = [each for each in record["sessions"] if _described(each)[0] == change]
        for case in sessions[0]["time_us"]:
            what = "none" if UNCHANGED in case else change
            yield table_line((what, f"`{case}`", *(_times(sessions, case, side) for side in ("before", "after"))))


def _times(sessions: Sequence[Mapping[str, Any]], case: str, side: str) -> str:
    return ", ".join(f"{each['time_us'][case]:.1f}" for each in sessions if _described(each)[1] == side)


def _described(session: Mapping[str, Any]) -> tuple[str, str]:
    return SESSIONS[session["name"].rpartition("-")[0]]


def blocks() -> dict[str, str]:
    """The block of the page."""
    return {"changes": "\n".join(table(read_json(RECORD)))}


def main(arguments: Sequence[str]) -> int:
    """Reduce runs that are given, and fill the page."""
    if arguments:
        write_whole(RECORD, json.dumps(reduced(Path(arguments[0])), indent=1) + "\n")
    fill_page(PAGE, blocks())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
