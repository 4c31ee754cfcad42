"""Acknowledged changes, in a file beside the floors they excuse.

::

    schema = 1

    [[acknowledged]]
    case = "transpose.smem_pad-8192-32x8"
    reason = "traded for 40 % less shared memory, see the pull request"
    expires = 2026-12-31

    [[acknowledged]]
    run = "0003_a1b2c3d.json"
    reason = "was taken on a throttled GPU"
    expires = 2026-12-31

Reading is strict, because an entry that is misread excuses what nobody meant to excuse.
"""

from __future__ import annotations

import tomllib
from datetime import date, datetime
from pathlib import Path
from typing import Any, NoReturn

from peakgate.common.errors import PeakgateError
from peakgate.reports.protect.changes import Acknowledgement

FILE = "acknowledged.toml"
SCHEMA = 1
KEYS = ("schema", "acknowledged")
ENTRY_KEYS = ("case", "run", "reason", "expires")


def load(folder: Path, today: date) -> list[Acknowledgement]:
    """The acknowledgements of the GPU whose baselines are in ``folder``; none without the file.

    A PeakgateError names an unknown or missing key, a date that is none, an entry that has expired, one given twice.
    """
    path = folder / FILE
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise PeakgateError(f"{path}: cannot be read as UTF-8 text ({error}); restore it") from error
    except tomllib.TOMLDecodeError as error:
        raise PeakgateError(f"{path}: not TOML: {error}; mend that line") from error
    _only_known(path, document, KEYS, "the top level")
    if document.get("schema") != SCHEMA or isinstance(document["schema"], bool):
        _refuse(path, f"schema is {document.get('schema')!r}, this version reads {SCHEMA}")
    entries = document.get("acknowledged", [])
    if not isinstance(entries, list):
        _refuse(path, "acknowledged is not a list; write each entry under [[acknowledged]]")
    found = [_entry(path, entry, f"entry {number}", today) for number, entry in enumerate(entries, 1)]
    names = [each.what for each in found]
    for name in names:
        if names.count(name) > 1:
            _refuse(path, f"{name} is acknowledged twice; keep one entry")
    return found


def _entry(path: Path, entry: Any, where: str, today: date) -> Acknowledgement:
    if not isinstance(entry, dict):
        _refuse(path, f"{where} is not a table; write it under [[acknowledged]]")
    _only_known(path, entry, ENTRY_KEYS, where)
    if ("case" in entry) == ("run" in entry):
        _refuse(
            path, f"{where} names {'both a case and a run' if 'case' in entry else 'neither case nor run'}; give one"
        )
    what = _text(path, entry, "case" if "case" in entry else "run", where)
    reason = _text(path, entry, "reason", what)
    expires = _date(path, entry.get("expires"), what)
    if expires < today:
        _refuse(path, f"the acknowledgement of {what} expired on {expires}; delete it, or undo the change it excuses")
    return Acknowledgement(path.parent.name, what, reason, expires.isoformat())


def _only_known(path: Path, table: dict[str, Any], known: tuple[str, ...], where: str) -> None:
    for key in table:
        if key not in known:
            _refuse(path, f"unknown key {key!r} in {where}; known are {', '.join(known)}")


def _text(path: Path, entry: dict[str, Any], key: str, where: str) -> str:
    value = entry.get(key)
    if not isinstance(value, str) or not value.strip():
        _refuse(path, f"{key} of {where} is {value!r}, expected a text")
    return value


def _date(path: Path, value: object, what: str) -> date:
    """A TOML date, or the same in quotation marks."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    try:
        return date.fromisoformat(value if isinstance(value, str) else "")
    except ValueError:
        _refuse(path, f"expires of {what} is {value!r}, expected a date such as 2026-12-31")


def _refuse(path: Path, problem: str) -> NoReturn:
    raise PeakgateError(f"{path}: {problem}")
