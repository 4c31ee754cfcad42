"""Defects of kernels as ``check`` and ``sanitize`` report them, beside what the project accepts; pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from peakgate.core.report import Row
from peakgate.judge import waivers
from peakgate.judge.waivers import DefectKey, Waiver


@dataclass(frozen=True, slots=True)
class Defect:
    """One thing that is wrong with a kernel, at one place, however often it was seen.

    ``where`` is the case, or the tool and the kernel, that its line begins with; ``what`` the complaint with its place
    in the file. ``facts`` are its fields in the JSON document. A ``warning`` is reported and never fails.
    """

    key: DefectKey
    where: str
    what: str
    facts: Mapping[str, Any]
    count: int = 1
    warning: bool = False


@dataclass(frozen=True, slots=True)
class DefectRuling:
    """The defects that nothing accepts today, those that a waiver accepts, and what is wrong with the waivers."""

    left: tuple[Defect, ...]
    waived: tuple[tuple[Defect, Waiver], ...]
    complaints: tuple[str, ...]

    @property
    def failing(self) -> bool:
        """Whether a defect is left, or a waiver is wrong."""
        return bool(self.complaints) or any(not each.warning for each in self.left)

    def rows(self) -> list[Row]:
        """A line for each defect."""
        accepted = [
            Row(each.where, reason=f"{each.what}: waived until {waiver.expires}: {waiver.reason}")
            for each, waiver in self.waived
        ]
        return [*(Row(each.where, reason=each.what) for each in self.left), *accepted]

    def fields(self, belongs: Callable[[DefectKey], bool]) -> dict[str, Any]:
        """Those of one kernel or tool, as the JSON document has them."""
        return {
            "defects": [dict(each.facts) for each in self.left if belongs(each.key)],
            "waived": [
                {**each.facts, "reason": waiver.reason, "expires": waiver.expires.isoformat()}
                for each, waiver in self.waived
                if belongs(each.key)
            ],
        }

    def offer(self, accepted: Mapping[DefectKey, Waiver], file: Path) -> str:
        """How to accept the defects that are left: an entry for each; empty where there is none."""
        return waivers.offer((each.key for each in self.left if not each.warning and each.key not in accepted), file)


def rule(
    found: Sequence[Defect], accepted: Mapping[DefectKey, Waiver], looked_at: Callable[[DefectKey], bool], today: date
) -> DefectRuling:
    """Set apart what is accepted today; a complaint for each entry that has expired or matches nothing.

    ``looked_at``: whether the command would have found an entry's defect.
    """
    left, waived = waivers.set_apart(((each.key, each) for each in found), accepted, today)
    complaints = waivers.complaints(accepted, {each.key for each in found}, looked_at, today)
    return DefectRuling(left, waived, tuple(complaints))
