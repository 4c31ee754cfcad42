"""What a project accepts of the commands that look for defects: ``waivers.toml`` in its baselines.

::

    [[defect]]                       # of check, or of a tool of sanitize
    command = "check"                # or memcheck, racecheck, initcheck, synccheck
    kernel = "norms.softmax"
    kind = "shared race"
    file = "softmax.cu"              # absent where the defect has no place in a file
    line = "parts[thread] = sum;"    # its text without indentation; of sanitize the instruction
    reason = "both threads write the same value"
    expires = 2026-12-31             # the last day

    [[survivor]]                     # of mutants
    file = "norms/softmax.cu"
    line = "__syncthreads();"
    change = "without __syncthreads()"
    occurrence = 2                   # where the file has several that read the same
    reason = "a thread reads what it wrote itself"

The commands print the entry to fill in. Strict both ways: what is not listed fails, and so does an entry that matches
nothing any more or whose last day has passed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from peakgate.common.errors import PeakgateError
from peakgate.common.toml import nearest, read_toml

Found = TypeVar("Found")

FILE = "waivers.toml"
COMMANDS = ("check", "memcheck", "racecheck", "initcheck", "synccheck")

SurvivorKey = tuple[str, str, str, int]
"""File under kernels/, text of the line, the change, and which of the changes that read the same."""

_SURVIVOR = ("file", "line", "change", "reason")
_DEFECT = ("command", "kernel", "kind", "file", "line", "reason", "expires")
_PLACE = ("file", "line")


class DefectKey(NamedTuple):
    """One defect as its entry names it; ``file`` and ``line`` are empty where it has no place."""

    command: str
    kernel: str
    kind: str
    file: str = ""
    line: str = ""

    def __str__(self) -> str:
        place = f" at `{self.line}`" if self.line else ""
        return f"{self.command}: {self.kernel}: {self.kind}{place}{f' in {self.file}' if self.file else ''}"


@dataclass(frozen=True, slots=True)
class Waiver:
    """Why a defect is accepted, and the last day on which it is."""

    reason: str
    expires: date


@dataclass(frozen=True, slots=True)
class Waivers:
    """The entries of a project."""

    defects: Mapping[DefectKey, Waiver] = field(default_factory=dict)
    survivors: Mapping[SurvivorKey, str] = field(default_factory=dict)


def read(path: Path) -> Waivers:
    """A project's entries, none where there is no file; PeakgateError names the entry and the key that is wrong."""
    try:
        file = read_toml(path)
    except FileNotFoundError:
        return Waivers()
    file.allow(file.table, ("defect", "survivor"))
    defects: dict[DefectKey, Waiver] = {}
    survivors: dict[SurvivorKey, str] = {}
    for number, table in enumerate(_entries(file.table.get("defect", []), f"{path}: defect"), 1):
        where = f"{path}: defect {number}"
        key, waiver = _defect(table, where)
        if key in defects:
            raise PeakgateError(f"{where}: {key} is listed twice; keep one entry")
        defects[key] = waiver
    for number, table in enumerate(_entries(file.table.get("survivor", []), f"{path}: survivor"), 1):
        where = f"{path}: survivor {number}"
        survivor, reason = _survivor(table, where)
        if survivor in survivors:
            raise PeakgateError(f"{where}: {survivor[0]}, {survivor[2]!r} is listed twice; keep one entry")
        survivors[survivor] = reason
    return Waivers(defects, survivors)


def set_apart(
    found: Iterable[tuple[DefectKey, Found]], waivers: Mapping[DefectKey, Waiver], today: date
) -> tuple[tuple[Found, ...], tuple[tuple[Found, Waiver], ...]]:
    """The defects that nothing accepts today, and the others with what accepts them."""
    left: list[Found] = []
    waived: list[tuple[Found, Waiver]] = []
    for key, defect in found:
        waiver = waivers.get(key)
        if waiver is not None and today <= waiver.expires:
            waived.append((defect, waiver))
        else:
            left.append(defect)
    return tuple(left), tuple(waived)


def complaints(
    defects: Mapping[DefectKey, Waiver],
    found: Collection[DefectKey],
    looked_at: Callable[[DefectKey], bool],
    today: date,
) -> list[str]:
    """A line for each entry that has expired or matches nothing, of those that a command has ``looked_at``."""
    said = []
    for key, waiver in defects.items():
        if not looked_at(key):
            continue
        if key not in found:
            said.append(f"{FILE}: {key}: accepted, but there is no such defect any more; delete the entry")
        elif today > waiver.expires:
            said.append(f"{FILE}: {key}: was accepted until {waiver.expires}; mend it, or give it another last day")
    return said


def offer(keys: Iterable[DefectKey], file: Path) -> str:
    """How to accept these defects: what to do, then an entry for each; empty where there is none."""
    how = f"to accept a defect until a day, copy its entry to {file} and fill in why and the last day (2026-12-31 say):"
    return listed_under(how, list(map(entry, dict.fromkeys(keys))))


def listed_under(how: str, entries: Sequence[str]) -> str:
    """Entries to copy under a line that says what to do with them; empty where there is none."""
    return "\n\n".join((f"\n{how}", *entries)) + "\n" if entries else ""


def entry(key: DefectKey) -> str:
    """A defect as an entry whose reason and last day are still to be found."""
    texts = {name: text for name, text in key._asdict().items() if text or name not in _PLACE}
    lines = (f"{name} = {quoted(text)}" for name, text in texts.items())
    return "\n".join(["[[defect]]", *lines, 'reason = ""', 'expires = ""'])


def quoted(text: str) -> str:
    """A text as TOML writes it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _entries(tables: object, where: str) -> list[Mapping[str, Any]]:
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        name = where.rpartition(" ")[2]
        raise PeakgateError(f"{where} is not a list of tables; write each entry under [[{name}]]")
    return tables


def _defect(table: Mapping[str, Any], where: str) -> tuple[DefectKey, Waiver]:
    optional = [name for name in _PLACE if name not in table]
    _check(table, _DEFECT, [name for name in _DEFECT[:-1] if name not in optional], where)
    if table["command"] not in COMMANDS:
        raise PeakgateError(f"{where}: command is {table['command']!r}; expected one of {', '.join(COMMANDS)}")
    expires = table.get("expires")
    if isinstance(expires, datetime) or not isinstance(expires, date):
        raise PeakgateError(f"{where}: expires is {expires!r}; expected a date without quotation marks, 2026-12-31 say")
    key = DefectKey(
        table["command"], table["kernel"], table["kind"], table.get("file", ""), table.get("line", "").strip()
    )
    return key, Waiver(table["reason"], expires)


def _survivor(table: Mapping[str, Any], where: str) -> tuple[SurvivorKey, str]:
    _check(table, (*_SURVIVOR, "occurrence"), _SURVIVOR, where)
    occurrence = table.get("occurrence", 1)
    if isinstance(occurrence, bool) or not isinstance(occurrence, int) or occurrence < 1:
        raise PeakgateError(f"{where}: occurrence is {occurrence!r}; expected a whole number from 1 on")
    return (table["file"], table["line"], table["change"], occurrence), table["reason"]


def _check(table: Mapping[str, Any], known: Collection[str], texts: Collection[str], where: str) -> None:
    for name in table:
        if name not in known:
            raise PeakgateError(f"{where}: unknown key {name!r}{nearest(name, known)}; expected {', '.join(known)}")
    for name in texts:
        if not isinstance(table.get(name), str) or not table[name].strip():
            raise PeakgateError(f"{where}: {name} is {table.get(name)!r}; expected a text that is not empty")
