"""Defects that a project accepts: ``waivers.toml`` in its baselines.

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
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from msgspec import Meta, Struct
from peakgate.core import records
from peakgate.core.errors import Code, PeakgateError
from peakgate.core.records import Filled

Found = TypeVar("Found")

WAIVERS_FILE = "waivers.toml"

SurvivorKey = tuple[str, str, str, int]
"""File under kernels/, text of the line, the change, and which of the changes that read the same."""


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


class DefectEntry(Struct, forbid_unknown_fields=True):
    """An entry under ``[[defect]]``."""

    command: Literal["check", "memcheck", "racecheck", "initcheck", "synccheck"]
    kernel: Filled
    kind: Filled
    reason: Filled
    expires: Annotated[date, Meta(description="a date without quotation marks, e.g. 2026-12-31")]
    file: Filled | None = None
    line: Filled | None = None

    @property
    def key(self) -> DefectKey:
        return DefectKey(self.command, self.kernel, self.kind, self.file or "", (self.line or "").strip())


class SurvivorEntry(Struct, forbid_unknown_fields=True):
    """An entry under ``[[survivor]]``."""

    file: Filled
    line: Filled
    change: Filled
    reason: Filled
    occurrence: Annotated[int, Meta(ge=1, description="a whole number from 1 on")] = 1

    @property
    def key(self) -> SurvivorKey:
        return self.file, self.line, self.change, self.occurrence


class WaiversFile(Struct, forbid_unknown_fields=True):
    """``waivers.toml``."""

    defect: list[DefectEntry] = []
    survivor: list[SurvivorEntry] = []


@dataclass(frozen=True, slots=True)
class Waivers:
    """The entries of a project."""

    defects: Mapping[DefectKey, Waiver] = field(default_factory=dict)
    survivors: Mapping[SurvivorKey, str] = field(default_factory=dict)


def read(path: Path) -> Waivers:
    """A project's entries, none where there is no file; PeakgateError names the entry and the key that is wrong."""
    remedy = "correct the entry; the commands print one to fill in"
    found = records.read(path, WaiversFile, remedy, absent=WaiversFile())
    keys: Mapping[str, list[Any]] = {
        "defect": [each.key for each in found.defect],
        "survivor": [each.key for each in found.survivor],
    }
    for name, own in keys.items():
        for number, key in enumerate(own):
            if key in own[:number]:
                where = records.place(path, name, number)
                raise PeakgateError(
                    f"{where}: {name} {number + 1}, {key}, is listed twice; keep one entry", Code.RECORD
                )
    return Waivers(
        {each.key: Waiver(each.reason, each.expires) for each in found.defect},
        {each.key: each.reason for each in found.survivor},
    )


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
            said.append(f"{WAIVERS_FILE}: {key}: accepted, but the defect no longer occurs; delete the entry")
        elif today > waiver.expires:
            said.append(
                f"{WAIVERS_FILE}: {key}: was accepted until {waiver.expires}; mend it, or give it another last day"
            )
    return said


def offer(keys: Iterable[DefectKey], file: Path) -> str:
    """How to accept these defects: what to do, then an entry for each; empty where there is none."""
    how = f"to accept a defect, copy its entry to {file} and fill in `reason` and `expires`, e.g. 2026-12-31:"
    return listed_under(how, list(map(entry, dict.fromkeys(keys))))


def listed_under(how: str, entries: Sequence[str]) -> str:
    """Entries to copy, below a line with instructions and before an empty line; empty if there are none."""
    return "\n\n".join((f"\n{how}", *entries)) + "\n\n" if entries else ""


def entry(key: DefectKey) -> str:
    """A defect as an entry whose reason and last day are still to be found."""
    texts = {name: text for name, text in key._asdict().items() if text}
    lines = (f"{name} = {quoted(text)}" for name, text in texts.items())
    return "\n".join(["[[defect]]", *lines, 'reason = ""', 'expires = ""'])


def quoted(text: str) -> str:
    """A text as TOML writes it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
