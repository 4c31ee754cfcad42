"""Acknowledged changes, in a file beside the floors they excuse, or in baselines/ for what concerns every GPU.

::

    schema = 1

    [[acknowledged]]
    case = "transpose.smem_pad-8192-32x8"  # its floor, or with `term`, that term of its contract
    from = 0.7
    to = 0.65
    reason = "traded for 40 % less shared memory, see the pull request"
    expires = 2026-12-31

    [[acknowledged]]
    run = "20261121T134026-gate.json"
    from = "a1b2c3d4e5f6"
    to = "none"
    reason = "was taken on a throttled GPU"
    expires = 2026-12-31

    [[regression]]
    case = "transpose.smem-8192-32x8"  # an open regression of `peakgate history`
    percent = 2.1
    reason = "the price of the overflow check, see the pull request"
    date = 2026-11-22

``from`` and ``to`` are the exact values that ``protect`` prints. An entry lives at most 90 days. Reading is strict,
because an entry that is misread excuses what nobody meant to excuse.
A ``regression`` stays as it is: it excuses a case up to ``percent`` slower since a step not later than ``date``.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

from peakgate.common.toml import TomlFile, read_toml
from peakgate.reports.protect.changes import FLOOR, RUN, Acknowledgement

FILE = "acknowledged.toml"
SCHEMA = 1
KEYS = ("schema", "acknowledged", "regression")
REGRESSION_KEYS = ("case", "percent", "reason", "date")
ENTRY_KEYS = ("case", "run", "term", "from", "to", "reason", "expires")
LONGEST = timedelta(days=90)


@dataclass(frozen=True, slots=True)
class Accepted:
    """A person's word that a case may stay this much slower (percent) since a step not later than ``day``."""

    case: str
    percent: float
    reason: str
    day: date


def load(path: Path, gpu: str, today: date) -> list[Acknowledgement]:
    """The acknowledgements in a file, of the GPU it stands for ("" for every one); none without the file.

    A PeakgateError names an unknown or missing key, a date that is none, has passed or is over 90 days away, and an
    entry given twice.
    """
    found = []
    for file, entry, where in _entries(path, "acknowledged", ENTRY_KEYS):
        found.append(each := _entry(file, entry, where, gpu, today))
        if each.key in {other.key for other in found[:-1]}:
            file.refuse("acknowledged", f"{each.what} is acknowledged twice; keep one entry")
    return found


def load_regressions(path: Path, today: date) -> list[Accepted]:
    """The regressions that a file accepts; none without the file.

    A PeakgateError names an unknown or missing key, a size that is not above 0, and a date that is none or to come.
    """
    return [_regression(*read, today) for read in _entries(path, "regression", REGRESSION_KEYS)]


def _entries(path: Path, key: str, allowed: Collection[str]) -> Iterator[tuple[TomlFile, dict[str, Any], str]]:
    """What stands under ``[[key]]``: the file, each entry and what errors call it; nothing without the file."""
    try:
        file = read_toml(path)
    except FileNotFoundError:
        return
    file.allow(file.table, KEYS)
    if file.table.get("schema") != SCHEMA or isinstance(file.table["schema"], bool):
        file.refuse("schema", f"schema is {file.table.get('schema')!r}, this version reads {SCHEMA}")
    entries = file.table.get(key, [])
    if not isinstance(entries, list):
        file.refuse(key, f"{key} is not a list; write each entry under [[{key}]]")
    for number, entry in enumerate(entries, 1):
        where = f"{'entry' if key == 'acknowledged' else key} {number}"
        if not isinstance(entry, dict):
            file.refuse(key, f"{where} is not a table; write it under [[{key}]]")
        file.allow(entry, allowed, f"in {where}: ")
        yield file, entry, where


def _regression(file: TomlFile, entry: dict[str, Any], where: str, today: date) -> Accepted:
    case, reason = _text(file, entry, "case", where), _text(file, entry, "reason", where)
    percent = entry.get("percent")
    number = float(percent) if isinstance(percent, int | float) and not isinstance(percent, bool) else math.nan
    if not 0 < number < math.inf:
        file.refuse("percent", f"percent of {case} is {percent!r}, expected the size that `peakgate history` prints")
    day = _date(file, entry.get("date"), case, "date")
    if day > today:
        file.refuse("date", f"date of {case} is {day}, which is to come; write the day it was accepted")
    return Accepted(case, number, reason, day)


def _entry(file: TomlFile, entry: dict[str, Any], where: str, gpu: str, today: date) -> Acknowledgement:
    if ("case" in entry) == ("run" in entry):
        both = "both a case and a run" if "case" in entry else "neither case nor run"
        file.refuse("acknowledged", f"{where} names {both}; give one")
    what = _text(file, entry, "case" if "case" in entry else "run", where)
    term = _text(file, entry, "term", what) if "term" in entry else FLOOR if "case" in entry else RUN
    before, after = _value(file, entry, "from", what), _value(file, entry, "to", what)
    reason = _text(file, entry, "reason", what)
    expires = _date(file, entry.get("expires"), what)
    if expires < today:
        file.refuse(
            "expires", f"the acknowledgement of {what} expired on {expires}; delete it, or undo the change it excuses"
        )
    if expires > today + LONGEST:
        file.refuse(
            "expires",
            f"the acknowledgement of {what} expires on {expires}; it may live {LONGEST.days} days: {today + LONGEST}",
        )
    return Acknowledgement(gpu, term, what, before, after, reason, expires.isoformat())


def _text(file: TomlFile, entry: dict[str, Any], key: str, where: str) -> str:
    value = entry.get(key)
    if not isinstance(value, str) or not value.strip():
        file.refuse(key, f"{key} of {where} is {value!r}, expected a text")
    return value


def _value(file: TomlFile, entry: dict[str, Any], key: str, where: str) -> str:
    """A value as ``protect`` prints it: text as it is, a number or true and false as Python writes them."""
    value = entry.get(key)
    if value is None or isinstance(value, (list, dict, date)):
        file.refuse(key, f"{key} of {where} is {value!r}, expected the exact value that `peakgate protect` prints")
    return str(value)


def _date(file: TomlFile, value: object, what: str, key: str = "expires") -> date:
    """A TOML date, or the same in quotation marks."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    try:
        return date.fromisoformat(value if isinstance(value, str) else "")
    except ValueError:
        file.refuse(key, f"{key} of {what} is {value!r}, expected a date such as 2026-12-31")
