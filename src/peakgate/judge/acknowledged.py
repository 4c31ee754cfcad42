"""Acknowledged changes: ``acknowledged.toml`` beside a GPU model's floors, or in baselines/ for all GPU models.

::

    schema = 1

    [[acknowledged]]
    case = "transpose.smem_pad-8192-32x8"  # its floor, or with `term` a term of its contract; or "settings"
    from = 0.7
    to = 0.65
    reason = "traded for 40 % less shared memory, see the pull request"
    expires = 2026-12-31

    [[acknowledged]]
    run = "20261121T134026-gate.json.gz"
    from = "a1b2c3d4e5f60718293a4b5c6d7e8f9012345678"
    to = "none"
    reason = "was taken on a throttled GPU"
    expires = 2026-12-31

    [[regression]]
    case = "transpose.smem-8192-32x8"  # an open regression of `peakgate history`
    percent = 2.1
    reason = "the price of the overflow check, see the pull request"
    date = 2026-11-22

``from`` and ``to`` are the exact values that ``protect`` prints. An entry is valid for at most 90 days. Reading is
strict, because a misread entry would excuse an unintended change. A ``regression`` accepts that a case is up to
``percent`` slower since a step not later than ``date``; it does not expire.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Annotated, Literal, NoReturn

from msgspec import Meta, Struct, field

from peakgate.base import records
from peakgate.base.errors import Code, PeakgateError
from peakgate.base.records import Filled

ACKNOWLEDGED_FILE = "acknowledged.toml"
FLOOR, RUN = "floor", "run"
"""Terms of an acknowledgement that are not terms of a contract."""
LONGEST_ACKNOWLEDGED = timedelta(days=90)

Day = Annotated[date, Meta(description="a date, e.g. 2026-12-31")]
AcknowledgedValue = (
    Annotated[str, Meta(description="the exact value that `peakgate protect` prints")] | int | float | bool
)
Percent = Annotated[
    float, Meta(gt=0, le=records.LARGEST_FLOAT, description="the size in percent that `peakgate history` prints")
]


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """An owner's statement that one change, from ``before`` to ``after``, is intended, with the reason."""

    gpu: str
    term: str
    what: str
    before: str
    after: str
    reason: str
    expires: str

    @property
    def key(self) -> tuple[str, ...]:
        return self.gpu, self.term, self.what, self.before, self.after


class AcknowledgedEntry(Struct, forbid_unknown_fields=True):
    """An entry under ``[[acknowledged]]``, for a case or a run."""

    reason: Filled
    expires: Day
    before: AcknowledgedValue = field(name="from")
    after: AcknowledgedValue = field(name="to")
    case: Filled | None = None
    run: Filled | None = None
    term: Filled | None = None


class Accepted(Struct, frozen=True, forbid_unknown_fields=True):
    """A regression that a person accepts: up to ``percent`` slower since a step not later than ``day``."""

    case: Filled
    percent: Percent
    reason: Filled
    day: Day = field(name="date")


class AcknowledgedFile(Struct, forbid_unknown_fields=True):
    """``acknowledged.toml``."""

    schema: Literal[1]
    acknowledged: list[AcknowledgedEntry] = []
    regression: list[Accepted] = []


def load(path: Path, gpu: str, today: date, *, may_be_expired: bool = False) -> list[Acknowledgement]:
    """The acknowledgements in a file for ``gpu`` ("" for all); none without the file.

    Raises PeakgateError for an unknown or missing key, a date that is invalid, past or over 90 days away, and a
    duplicate entry. With ``may_be_expired`` (a base's file) past dates are allowed: such an entry excuses nothing.
    """
    found: list[Acknowledgement] = []
    for number, entry in enumerate(_read(path).acknowledged):
        what = entry.case or entry.run
        if what is None or (entry.case and entry.run):
            both = "both a case and a run" if what else "neither case nor run"
            _refuse(path, number, f"entry {number + 1} names {both}; give one")
        if entry.expires < today and not may_be_expired:
            expired = f"the acknowledgement of {what} expired on {entry.expires}"
            _refuse(path, number, f"{expired}; delete it, or undo the change it excuses")
        if entry.expires > (latest := today + LONGEST_ACKNOWLEDGED):
            late = f"the acknowledgement of {what} expires on {entry.expires}"
            _refuse(path, number, f"{late}; expected at most {LONGEST_ACKNOWLEDGED.days} days from today: {latest}")
        term = entry.term or (FLOOR if entry.case else RUN)
        values = str(entry.before), str(entry.after)
        each = Acknowledgement(gpu, term, what, *values, entry.reason, entry.expires.isoformat())
        if each.key in {other.key for other in found}:
            _refuse(path, number, f"{what} is acknowledged twice; keep one entry")
        found.append(each)
    return found


def load_regressions(path: Path, today: date) -> list[Accepted]:
    """The accepted regressions in a file; none without the file.

    Raises PeakgateError for an unknown or missing key, a size of 0 or less, and a date that is invalid or in the
    future.
    """
    found = _read(path).regression
    for number, each in enumerate(found):
        if each.day > today:
            where = records.place(path, "regression", number, "date")
            raise PeakgateError(
                f"{where}: date of {each.case} is {each.day}, which is in the future; write today's date", Code.RECORD
            )
    return found


def _read(path: Path) -> AcknowledgedFile:
    return records.read(path, AcknowledgedFile, "correct the entry", absent=AcknowledgedFile(1))


def _refuse(path: Path, number: int, problem: str) -> NoReturn:
    raise PeakgateError(f"{records.place(path, 'acknowledged', number, 'expires')}: {problem}", Code.RECORD)
