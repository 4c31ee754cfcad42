"""Waivers: the defects and surviving mutants that a project accepts, in ``waivers.toml`` in its baselines.

::

    [[defect]]                       # found by check or by a tool of sanitize
    command = "check"                # or memcheck, racecheck, initcheck, synccheck
    kernel = "norms.softmax"
    kind = "shared race"
    file = "softmax.cu"              # absent if the defect has no place in a file
    line = "parts[thread] = sum;"    # its text without indentation; the instruction for sanitize
    reason = "both threads write the same value"
    expires = 2026-12-31             # the last day

    [[survivor]]                     # of mutants
    file = "norms/softmax.cu"
    line = "__syncthreads();"
    change = "without __syncthreads()"
    occurrence = 2                   # if several mutants of the file have the same text
    reason = "a thread reads what it wrote itself"

The commands write the entries to fill in to a file beside their JSON document. A defect that is not listed fails; so
does an entry that matches nothing any more, or whose last day has passed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta, Struct

from peakgate.base import records
from peakgate.base.errors import Code, PeakgateError
from peakgate.base.records import Filled
from peakgate.base.report import Annotation, Row, Tone
from peakgate.spec.stage import SourceLine

WAIVER = "waiver"
"""Rule of an annotation of an entry that does not apply."""
WAIVERS_FILE = "waivers.toml"

SurvivorKey = tuple[str, str, str, int]
"""File under kernels/, text of the line, the change, and the number among changes with the same text."""


class DefectKey(NamedTuple):
    """The key of a defect's entry; ``file`` and ``line`` are empty if it has no place in a file."""

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
    """Why a defect is accepted, and the last day of the waiver."""

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
    """A project's entries, none without a file; raises PeakgateError with the wrong entry and key."""
    remedy = "correct the entry; the commands write one to fill in"
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


def entry(key: DefectKey) -> str:
    """The entry for a defect, with an empty reason and last day."""
    texts = {name: text for name, text in key._asdict().items() if text}
    lines = (f"{name} = {quoted(text)}" for name, text in texts.items())
    return "\n".join(["[[defect]]", *lines, 'reason = ""', 'expires = ""'])


def quoted(text: str) -> str:
    """A text as a TOML string."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


@dataclass(frozen=True, slots=True)
class Defect:
    """One defect of a kernel at one place, found ``count`` times.

    ``where`` is the case, or the tool and kernel, at the start of its line; ``what`` the complaint with its place in
    the file. ``facts`` are its fields in the JSON document. A ``warning`` is reported and never fails. ``source`` is
    its line, or that of its kernel; None if unknown.
    """

    key: DefectKey
    where: str
    what: str
    facts: Mapping[str, Any]
    count: int = 1
    warning: bool = False
    source: SourceLine | None = None

    @property
    def annotation(self) -> Annotation:
        rule = self.key.kind if self.key.command == "check" else self.key.command  # a sanitizer's kinds are sentences
        tone = Tone.OPEN if self.warning else Tone.BAD
        path, line, _ = self.source or SourceLine(Path())
        return Annotation(rule, f"{self.where}: {self.what}", path, line, tone)


@dataclass(frozen=True, slots=True)
class DefectRuling:
    """The defects without a valid waiver (``left``), the waived ones, and complaints about waivers."""

    left: tuple[Defect, ...]
    waived: tuple[tuple[Defect, Waiver], ...]
    complaints: tuple[str, ...]

    @property
    def failing(self) -> bool:
        """Whether a defect is left, or there is a complaint about a waiver."""
        return bool(self.complaints) or any(not each.warning for each in self.left)

    def rows(self) -> list[Row]:
        """A line for each defect."""
        accepted = [
            Row(each.where, reason=f"{each.what}: waived until {waiver.expires}: {waiver.reason}")
            for each, waiver in self.waived
        ]
        return [*(Row(each.where, reason=each.what) for each in self.left), *accepted]

    def annotations(self, waivers_file: Path) -> list[Annotation]:
        """The defects that are left, and the complaints at the waivers' file."""
        wrong = [Annotation(WAIVER, complaint, waivers_file) for complaint in self.complaints]
        return [*(each.annotation for each in self.left), *wrong]

    def fields(self, **of: str) -> dict[str, Any]:
        """The defects of one kernel or tool, for the JSON document: those whose key has the value of each ``of``."""

        def belongs(key: DefectKey) -> bool:
            return of.items() <= key._asdict().items()

        return {
            "defects": [dict(each.facts) for each in self.left if belongs(each.key)],
            "waived": [
                {**each.facts, "reason": waiver.reason, "expires": waiver.expires.isoformat()}
                for each, waiver in self.waived
                if belongs(each.key)
            ],
        }

    def entries(self, accepted: Mapping[DefectKey, Waiver]) -> list[str]:
        """An entry to accept each defect that is left and has none yet."""
        keys = dict.fromkeys(each.key for each in self.left if not each.warning)
        return [entry(key) for key in keys if key not in accepted]


def rule(
    found: Sequence[Defect], accepted: Mapping[DefectKey, Waiver], looked_at: Callable[[DefectKey], bool], today: date
) -> DefectRuling:
    """Separate waived defects from others, with a complaint for each entry that has expired or matches nothing.

    ``looked_at``: whether the command checked the kernel of an entry, so that it would have found the defect.
    """
    left: list[Defect] = []
    waived: list[tuple[Defect, Waiver]] = []
    for each in found:
        waiver = accepted.get(each.key)
        if waiver is not None and today <= waiver.expires:
            waived.append((each, waiver))
        else:
            left.append(each)
    known = {each.key for each in found}
    wrong = []
    for key, waiver in accepted.items():
        if not looked_at(key):
            continue
        if key not in known:
            wrong.append(f"{WAIVERS_FILE}: {key}: accepted, but the defect no longer occurs; delete the entry")
        elif today > waiver.expires:
            wrong.append(
                f"{WAIVERS_FILE}: {key}: was accepted until {waiver.expires}; fix it, or give it another last day"
            )
    return DefectRuling(tuple(left), tuple(waived), tuple(wrong))
