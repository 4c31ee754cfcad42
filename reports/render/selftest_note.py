"""What a saved selftest says of this runner, as a note of a comparison."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from peakgate.common.errors import PeakgateError
from peakgate.common.text import counted
from peakgate.reports.result import percent
from peakgate.reports.runs.find import Side

SCHEMA = 1
FILE = "selftest.json"


@dataclass(frozen=True, slots=True)
class SavedSelftest:
    """What a later comparison says of a saved selftest: ``sees_percent`` is of the first design's median case."""

    gpu: str
    uuid: str | None
    driver: str | None
    taken: datetime
    sessions: int
    gates: int
    flagged: int
    sees_percent: float
    tight_floors: int


def selftest_notes(new: Side, places: Sequence[Path]) -> tuple[str, ...]:
    """The newest selftest of this side's GPU model in one line; empty if none was saved.

    A PeakgateError names a file that is no selftest.
    """
    run = new.runs[-1]
    known = [found for path in places if path.is_file() and (found := _load(path)).gpu == run.slug]
    if not known:
        return ()
    found = max(known, key=lambda each: each.taken)
    differs = [
        what for what, same in (("GPU", found.uuid == run.uuid), ("driver", found.driver == run.driver)) if not same
    ]
    where = f" on another {' and '.join(differs)}" if differs else ""
    sees = f"; one session against one detects {percent(found.sees_percent)} in the median case"
    tight = f"; {counted(found.tight_floors, 'floor')} tighter than this runner repeats" if found.tight_floors else ""
    failed = f"{found.flagged} of {found.gates} gates failed on unchanged code"
    return (f"selftest of {found.sessions} sessions{where}, {found.taken:%Y-%m-%d}: {failed}{sees}{tight}",)


def _load(path: Path) -> SavedSelftest:
    try:
        record = json.loads(path.read_bytes())
        designs = record["designs"]
        kind = record["command"], record["schema"]
        quoted = SavedSelftest(
            gpu=record["gpu"],
            uuid=record["uuid"],
            driver=record["driver"],
            taken=datetime.fromisoformat(record["taken"]),
            sessions=len(record["sessions"]),
            gates=sum(each["gates"] for each in designs),
            flagged=sum(each["alarms"] for each in designs),
            sees_percent=float(designs[0]["smallest_detectable_change_percent"]["median"]),
            tight_floors=len(record["floors_too_tight"]),
        )
    except (
        OSError,
        RecursionError,
        ValueError,
        KeyError,
        IndexError,
        TypeError,
        AttributeError,
        OverflowError,
    ) as error:
        raise PeakgateError(f"{path}: not a selftest ({error}); delete it or run `peakgate selftest` again") from None
    if kind != ("selftest", SCHEMA):
        raise PeakgateError(
            f"{path}: {kind[0]} of schema {kind[1]}, not a selftest of schema {SCHEMA}; delete it or run"
            " `peakgate selftest` again"
        )
    return quoted
