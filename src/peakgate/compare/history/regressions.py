"""Which slower steps no later one has mended, and which of them a person accepted; pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from peakgate.compare.history.changes import Cause, ChangePoint
from peakgate.compare.judge import SMALLEST_SHIFT
from peakgate.judge.acknowledged import Accepted


@dataclass(frozen=True, slots=True)
class OpenRegression:
    """A slower step that no later one mended; ``remaining`` is the log ratio that is left of it."""

    change: ChangePoint
    remaining: float
    accepted: Accepted | None = None

    @property
    def remaining_percent(self) -> float:
        return 100 * math.expm1(self.remaining)


def open_regressions(points: Sequence[ChangePoint], accepted: Sequence[Accepted] = ()) -> tuple[OpenRegression, ...]:
    """The slower steps that later ones of the same case have not mended, largest first.

    A step caused by commits is mended by such steps alone: a faster driver hides it and does not undo it. Accepted is
    one that a person named with at least its size, no earlier than the day it was first measured; several steps of one
    case are accepted as long as they are no larger together.
    """
    series: dict[str, list[ChangePoint]] = {}
    for change in sorted(points, key=lambda each: each.number):
        series.setdefault(change.case, []).append(change)
    found = []
    for steps in series.values():
        left = [math.log1p(each.percent / 100) for each in accepted]
        for index, step in enumerate(steps):
            by_commits = step.cause is Cause.COMMITS
            counted = [each for each in steps[index:] if each.cause is Cause.COMMITS or not by_commits]
            remaining = min(np.cumsum([each.log_ratio for each in counted]).tolist())
            if remaining > SMALLEST_SHIFT:
                found.append(OpenRegression(step, remaining, _acceptance(step, remaining, accepted, left)))
    return tuple(sorted(found, key=lambda each: (each.accepted is not None, -each.remaining, each.change.case)))


def _acceptance(
    step: ChangePoint, remaining: float, accepted: Sequence[Accepted], left: list[float]
) -> Accepted | None:
    """The first that covers the step, whose size is taken from the log ratio that is ``left`` of it."""
    surely = remaining - (step.log_ratio - step.low)
    for index, each in enumerate(accepted):
        if each.case == step.case and surely <= left[index] and step.first_day <= each.day:
            left[index] -= max(surely, 0.0)
            return each
    return None
