"""What a planted-truth campaign says of itself, in ``planted.json`` beside the processes.

Where it ran, which commits it measured, how much slower its copies really were, what its whole gates said.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from peakgate.reports.planted.processes import Experiment
from peakgate.reports.planted.stored import read_record, write_record
from peakgate.verdict import Verdict

NAME = "planted.json"
STEP = re.compile(r"steps\.[a-z_]+-(?P<duration>\d+)us-(?P<share>\d+)pm-(?P<repeat>\d+)")


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """A duration and a planted slowdown, in per mille of the whole time."""

    duration_us: int
    permille: int

    @property
    def log_shift(self) -> float:
        """What was meant to be planted: ln(head / base)."""
        return math.log1p(self.permille / 1000)


@dataclass(frozen=True, slots=True)
class Gate:
    """What one whole ``ab`` said: its exit code, cases, pairs of processes, seconds, and every verdict but SAME."""

    experiment: Experiment
    exit_code: int
    cases: int
    screening_pairs: int
    confirming_pairs: int
    seconds: float
    verdicts: Mapping[str, str]

    @property
    def slower(self) -> tuple[str, ...]:
        """The cases it called slower."""
        return tuple(case for case, verdict in self.verdicts.items() if verdict == Verdict.SLOWER)


@dataclass(frozen=True, slots=True)
class Origin:
    """The commit that an experiment measured, and when (ISO 8601) it began."""

    commit: str
    taken: str


@dataclass(frozen=True, slots=True)
class About:
    """Facts of one campaign.

    ``planted`` are the shifts ln(head / base) that were planted, as the clock inside the copies' kernel tells them.
    """

    gpu: str
    driver: str
    origins: Mapping[Experiment, Origin]
    planted: Mapping[Cell, float]
    gates: tuple[Gate, ...]


def cell_of(case: str) -> Cell | None:
    """The cell of a planted copy, by its case id; None for another case."""
    named = STEP.fullmatch(case)
    return None if named is None else Cell(int(named["duration"]), int(named["share"]))


def write_about(folder: Path, about: About) -> Path:
    """Write the campaign's facts and give the path."""
    planted = [asdict(cell) | {"log_shift": shift} for cell, shift in sorted(about.planted.items())]
    return write_record(folder / NAME, asdict(replace(about, planted={})) | {"planted": planted})


def read_about(folder: Path) -> About:
    """What ``write_about`` wrote there; a PeakgateError names what is wrong with it."""
    return read_record(folder / NAME, _about)


def _about(content: Mapping[str, Any]) -> About:
    return About(
        gpu=content["gpu"],
        driver=content["driver"],
        origins={Experiment(name): Origin(**each) for name, each in content["origins"].items()},
        planted={Cell(each["duration_us"], each["permille"]): each["log_shift"] for each in content["planted"]},
        gates=tuple(_gate(gate) for gate in content["gates"]),
    )


def _gate(content: Mapping[str, Any]) -> Gate:
    return Gate(**{**content, "experiment": Experiment(content["experiment"])})
