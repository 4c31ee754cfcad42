"""What a saved selftest says of this runner, as a note of a comparison."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from peakgate.common.errors import PeakgateError
from peakgate.common.text import counted
from peakgate.reports.result import percent
from peakgate.reports.runs.find import Side

SCHEMA = 1
FILE = "selftest.json"


def selftest_notes(new: Side, places: Sequence[Path]) -> tuple[str, ...]:
    """The newest selftest of this side's GPU model in one line; empty if none was saved.

    A PeakgateError names a file that is no selftest.
    """
    run = new.runs[-1]
    known = [found for path in places if path.is_file() and (found := _load(path))["gpu"] == run.slug]
    if not known:
        return ()
    found = max(known, key=lambda each: each["taken"])
    differs = [what for what, name in (("GPU", "uuid"), ("driver", "driver")) if found[name] != getattr(run, name)]
    where = f" on another {' and '.join(differs)}" if differs else ""
    return (f"selftest of {found['sessions']} sessions{where}, {found['taken']:%Y-%m-%d}: {found['result']}",)


def _load(path: Path) -> dict[str, Any]:
    """Which GPU model, GPU and driver a saved selftest holds for, when it was taken, and its result in words."""
    try:
        record = json.loads(path.read_bytes())
        kind = record["command"], record["schema"]
        found = {name: record[name] for name in ("gpu", "uuid", "driver")}
        found |= {"taken": datetime.fromisoformat(record["taken"]), "sessions": len(record["sessions"])}
        found["result"] = _result(record["designs"], len(record["floors_too_tight"]))
    except (OSError, RecursionError, LookupError, ValueError, TypeError, AttributeError, OverflowError) as error:
        raise PeakgateError(f"{path}: not a selftest ({error}); delete it or run `peakgate selftest` again") from None
    if kind != ("selftest", SCHEMA):
        raise PeakgateError(
            f"{path}: {kind[0]} of schema {kind[1]}, not a selftest of schema {SCHEMA}; delete it or run"
            " `peakgate selftest` again"
        )
    return found


def _result(designs: Sequence[Mapping[str, Any]], tight_floors: int) -> str:
    """Failed gates of all designs, and what the first one, one session against one, detects in its median case."""
    flagged, gates = (sum(each[name] for each in designs) for name in ("alarms", "gates"))
    detects = percent(float(designs[0]["smallest_detectable_change_percent"]["median"]))
    tight = f"; {counted(tight_floors, 'floor')} tighter than this runner repeats" if tight_floors else ""
    failed = f"{flagged} of {gates} gates failed on unchanged code"
    return f"{failed}; one session against one detects {detects} in the median case{tight}"
