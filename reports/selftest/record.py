"""What a selftest found, as the JSON that later comparisons quote in one line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

from peakgate.common.errors import PeakgateError
from peakgate.reports.locate import Side
from peakgate.reports.result import percent
from peakgate.reports.runfile import Run
from peakgate.reports.selftest.carry import TightFloor, TightThreshold
from peakgate.reports.selftest.resample import Measured
from peakgate.verdict import ExitCode, Verdict, exit_code

SCHEMA = 1
FILE = "selftest.json"
MOST_FALSE_ALARMS = 0.05
"""A gate that calls unchanged code slower more often than this is switched off by those it wakes."""


@dataclass(frozen=True, slots=True)
class Selftest:
    """What the gate did on unchanged sessions of one runner, and which floors and thresholds ask too much of it."""

    runs: tuple[Run, ...]
    measured: tuple[Measured, ...]
    floors: tuple[TightFloor, ...]
    thresholds: tuple[TightThreshold, ...]

    @property
    def verdict(self) -> Verdict:
        """PASS, or INCONCLUSIVE: this runner cannot decide what is asked of it."""
        too_many = any(each.rate > MOST_FALSE_ALARMS for each in self.measured)
        return Verdict.INCONCLUSIVE if too_many or self.floors else Verdict.PASS

    @property
    def exit_code(self) -> ExitCode:
        return exit_code({self.verdict})


@dataclass(frozen=True, slots=True)
class Quoted:
    """What a later comparison says of a saved selftest: ``sees_percent`` is of the first design's median case."""

    gpu: str
    uuid: str | None
    driver: str | None
    taken: datetime
    sessions: int
    gates: int
    alarms: int
    sees_percent: float
    tight_floors: int


def to_json(found: Selftest) -> str:
    """The whole record; sessions are named by file, alarms by design."""
    last = found.runs[-1]
    cases = sorted({case for each in found.measured for case in each.detectable_percent})
    document = {
        "schema": SCHEMA,
        "command": "selftest",
        "verdict": found.verdict,
        "exit_code": int(found.exit_code),
        "gpu": last.slug,
        "uuid": last.uuid,
        "driver": last.driver,
        "commit": last.commit,
        "taken": last.taken.isoformat(),
        "sessions": [run.path.name for run in found.runs],
        "designs": [_design(each, found.runs) for each in found.measured],
        "floors_too_tight": [asdict(each) for each in found.floors],
        "thresholds_too_tight": [asdict(each) for each in found.thresholds],
        "smallest_detectable_change_percent": {
            case: {each.design.name.lower(): _rounded(each.detectable_percent.get(case)) for each in found.measured}
            for case in cases
        },
    }
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def notes(new: Side, places: Sequence[Path]) -> tuple[str, ...]:
    """What the newest selftest of this side's GPU model said, in a line; none where none was saved.

    A PeakgateError names a file that is no selftest.
    """
    run = new.runs[-1]
    known = [found for path in places if path.is_file() and (found := _load(path)).gpu == run.slug]
    if not known:
        return ()
    found = max(known, key=lambda each: each.taken)
    differs = [
        what for what, same in (("chip", found.uuid == run.uuid), ("driver", found.driver == run.driver)) if not same
    ]
    where = f" on another {' and '.join(differs)}" if differs else ""
    sees = f"; one session against one sees {percent(found.sees_percent)} in the median case"
    tight = f"; {found.tight_floors} floors are tighter than this runner can carry" if found.tight_floors else ""
    failed = f"{found.alarms} of {found.gates} gates failed on unchanged code"
    return (f"selftest of {found.sessions} sessions{where}, {found.taken:%Y-%m-%d}: {failed}{sees}{tight}",)


def _design(measured: Measured, runs: Sequence[Run]) -> dict[str, Any]:
    changes = sorted(measured.detectable_percent.values())
    return {
        "design": measured.design,
        "gates": measured.gates,
        "alarms": measured.alarms,
        "false_alarm_rate": measured.rate,
        "false_alarm_rate_at_most": measured.at_most,
        "alarming_cases": dict(measured.alarming_cases),
        "alarming_sessions": {runs[index].path.name: count for index, count in measured.alarming_sessions.items()},
        "smallest_detectable_change_percent": {
            "median": _rounded(median(changes)) if changes else None,
            "worst": _rounded(changes[-1]) if changes else None,
        },
    }


def _load(path: Path) -> Quoted:
    try:
        record = json.loads(path.read_bytes())
        designs = record["designs"]
        kind = record["command"], record["schema"]
        quoted = Quoted(
            gpu=record["gpu"],
            uuid=record["uuid"],
            driver=record["driver"],
            taken=datetime.fromisoformat(record["taken"]),
            sessions=len(record["sessions"]),
            gates=sum(each["gates"] for each in designs),
            alarms=sum(each["alarms"] for each in designs),
            sees_percent=float(designs[0]["smallest_detectable_change_percent"]["median"]),
            tight_floors=len(record["floors_too_tight"]),
        )
    except (OSError, RecursionError, ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise PeakgateError(f"{path}: not a selftest ({error}); delete it or run `nox -s selftest` again") from None
    if kind != ("selftest", SCHEMA):
        raise PeakgateError(
            f"{path}: {kind[0]} of schema {kind[1]}, not a selftest of schema {SCHEMA}; delete it or run"
            " `nox -s selftest` again"
        )
    return quoted


def _rounded(percent: float | None) -> float | None:
    return None if percent is None else round(percent, 4)
