"""The change points of a history and the regressions among them that are still open; pure.

Each GPU's sessions are a history of its own: nothing is compared between GPUs. Within it the known changes of the
environment (driver, NVRTC, libraries, firmware, power limit) are borders. A case may have another level on either side
of a border; such a shift is the environment's and no commit is named for it. Between the borders `scan` finds the
steps. README.md says how often they are wrong.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from peakgate.reports.comparison import noise
from peakgate.reports.comparison.judge import SMALLEST_SHIFT
from peakgate.reports.comparison.noise import Floats, Positions
from peakgate.reports.history import scan
from peakgate.reports.history.series import History, LevelStep, environment_changes, locate
from peakgate.reports.protect.acknowledged import Accepted
from peakgate.reports.runs.sessions import ENVIRONMENT

INTERVAL_ERROR = 0.01
MOST_BESIDE = 60
"""A step's place is searched among at most so many sessions on either side."""


LONG = 200
"""So many sessions estimate a variance well enough at once; fewer do it again about the proposed segments."""


class Cause(StrEnum):
    """What a change point is put down to."""

    COMMITS = "commits"
    ENVIRONMENT = "environment"


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """A step of one case on one GPU.

    ``log_ratio`` is its size with a 99 % interval; ``number`` counts the first session after it in the history and
    ``since`` the case's sessions since then on that GPU. A step that the environment caused has no command.
    """

    case: str
    uuid: str | None
    cause: Cause
    step: LevelStep
    number: int
    since: int
    log_ratio: float
    low: float
    high: float

    @property
    def percent(self) -> float:
        """Change of the time in percent, positive when slower."""
        return 100 * math.expm1(self.log_ratio)

    @property
    def interval_percent(self) -> tuple[float, float]:
        return 100 * math.expm1(self.low), 100 * math.expm1(self.high)


@dataclass(frozen=True, slots=True)
class OpenRegression:
    """A slower step that no later one mended; ``remaining`` is the log ratio that is left of it."""

    change: ChangePoint
    remaining: float
    accepted: Accepted | None = None

    @property
    def remaining_percent(self) -> float:
        return 100 * math.expm1(self.remaining)


@dataclass(frozen=True, slots=True)
class _Block:
    """Sessions of one GPU and one environment, by number; ``values`` are packed, ``at`` their numbers."""

    values: Floats
    counts: Floats
    at: Positions
    border: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Level:
    """A segment of one case: its sessions by number, its level and how many sessions agree with it."""

    numbers: tuple[int, ...]
    values: Floats
    level: float
    agreeing: int
    border: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Gpu:
    """One GPU's blocks, the variance of each case with its degrees of freedom, and the proposed segments by block."""

    blocks: Sequence[_Block]
    variance: Floats
    df: Floats
    segments: list[list[scan.Segments]]


def find_changes(history: History) -> tuple[ChangePoint, ...]:
    """Every change point, newest first."""
    all_blocks = [_blocks(history, numbers) for numbers in history.by_gpu.values()]
    series = sum(int((block.counts >= 2 * scan.FEWEST_AT_LEVEL).sum()) for blocks in all_blocks for block in blocks)
    gpus = _noise_of_all([_Gpu(blocks, *_noise(blocks)) for blocks in all_blocks if _long_enough(blocks)])
    limits = [[scan.critical(max(1, series), block.values.shape[1], gpu.df) for block in gpu.blocks] for gpu in gpus]
    found: list[ChangePoint] = []
    for row in range(len(history.cases)):
        if all(sum(len(of_block[row]) for of_block in gpu.segments) == 1 for gpu in gpus):
            continue
        levels = [_levels(gpu, row, of_gpu) for gpu, of_gpu in zip(gpus, limits, strict=True)]
        sds = [math.sqrt(gpu.variance[row]) for gpu in gpus]
        for gpu, sd, of_gpu in zip(gpus, sds, _without_chance(levels, sds, max(1, series)), strict=True):
            found += _steps(history, row, of_gpu, (sd, float(gpu.df[row])), max(1, series))
    return tuple(sorted(found, key=lambda each: (-each.number, -abs(each.log_ratio), each.case)))


def open_regressions(changes: Sequence[ChangePoint], accepted: Sequence[Accepted] = ()) -> tuple[OpenRegression, ...]:
    """The slower steps that later ones of the same case and GPU have not mended, largest first.

    A step caused by commits is mended by such steps alone: a faster driver hides it and does not undo it. Accepted is
    one that a person named with at least its size, no earlier than the day it was first measured.
    """
    series: dict[tuple[str, str | None], list[ChangePoint]] = {}
    for change in sorted(changes, key=lambda each: each.number):
        series.setdefault((change.case, change.uuid), []).append(change)
    found = []
    for steps in series.values():
        for index, step in enumerate(steps):
            by_commits = step.cause is Cause.COMMITS
            counted = [each for each in steps[index:] if each.cause is Cause.COMMITS or not by_commits]
            remaining = min(np.cumsum([each.log_ratio for each in counted]).tolist())
            if remaining > SMALLEST_SHIFT:
                found.append(OpenRegression(step, remaining, _acceptance(step, remaining, accepted)))
    return tuple(sorted(found, key=lambda each: (each.accepted is not None, -each.remaining, each.change.case)))


def _acceptance(step: ChangePoint, remaining: float, accepted: Sequence[Accepted]) -> Accepted | None:
    surely = 100 * math.expm1(remaining - (step.log_ratio - step.low))
    for each in accepted:
        if each.case == step.case and each.percent >= surely and step.step.after.taken.date() <= each.day:
            return each
    return None


def _blocks(history: History, numbers: Positions) -> list[_Block]:
    """The sessions of one GPU, cut where its environment changed."""
    known: dict[str, str] = {}
    starts: list[tuple[int, tuple[str, ...]]] = []
    for position, number in enumerate(numbers.tolist()):
        session = history.sessions[number]
        facts = {**({"driver": session.driver} if session.driver else {}), **session.environment}
        changed = environment_changes(known, facts)
        if changed or not starts:
            starts.append((position, changed))
        known |= {name: facts[name] for name in ENVIRONMENT if name in facts}
    ends = [*(position for position, _ in starts[1:]), len(numbers)]
    blocks = []
    for (start, border), end in zip(starts, ends, strict=True):
        own = numbers[start:end]
        log_time = history.log_time[:, own]
        at = own[np.argsort(~np.isfinite(log_time), axis=1, kind="stable")]
        blocks.append(_Block(*scan.packed(log_time), at, border))
    return blocks


def _long_enough(blocks: Sequence[_Block]) -> bool:
    return bool((np.sum([block.counts for block in blocks], axis=0) >= 2 * scan.FEWEST_AT_LEVEL).any())


def _noise_of_all(gpus: Sequence[_Gpu]) -> list[_Gpu]:
    """The same, with a case's variance on one GPU no lower than over all of them: quiet for a while may be luck."""
    if len(gpus) < 2:
        return list(gpus)
    weights = np.array([np.maximum(np.sum([block.counts for block in gpu.blocks], axis=0) - 1, 0) for gpu in gpus])
    pooled = np.sum([gpu.variance for gpu in gpus] * weights, axis=0) / np.maximum(weights.sum(axis=0), 1)
    return [replace(gpu, variance=np.maximum(gpu.variance, pooled)) for gpu in gpus]


def _levels(gpu: _Gpu, row: int, limits: Sequence[tuple[Floats, Floats]]) -> list[_Level]:
    """The segments of one case on one GPU whose cuts exceed their critical values."""
    levels: list[_Level] = []
    sd = math.sqrt(gpu.variance[row])
    for block, of_block, (newest, older) in zip(gpu.blocks, gpu.segments, limits, strict=True):
        values = block.values[row, : int(block.counts[row])]
        if len(values) == 0:
            continue
        newest_limit = newest[row] if block is gpu.blocks[-1] else older[row]
        for first, end in scan.tested(values, of_block[row], sd, float(newest_limit), float(older[row])):
            own = tuple(block.at[row, first:end].tolist())
            levels.append(_level(own, values[first:end], sd, block.border if first == 0 else ()))
    return levels


def _level(numbers: tuple[int, ...], values: Floats, sd: float, border: tuple[str, ...]) -> _Level:
    middle, _, agreeing = scan.level(values, sd)
    return _Level(numbers, values, middle, agreeing, border)


def _without_chance(gpus: Sequence[list[_Level]], sds: Sequence[float], series: int) -> list[list[_Level]]:
    """One case's levels on each GPU, joined where a case that visits two levels may show such a run (`modes`)."""
    kept = [list(levels) for levels in gpus]
    for of_gpu, sd in zip(kept, sds, strict=True):
        index = 1
        while index < len(of_gpu):
            before, after = of_gpu[index - 1], of_gpu[index]
            own, every = _towards([of_gpu], before, after), _towards(kept, before, after)
            places = series * (1 if index == len(of_gpu) - 1 else len(own))
            run, shift = min(before.agreeing, after.agreeing), after.level - before.level
            if after.border or not scan.is_chance((own, every), sd, shift, run, places):
                index += 1
                continue
            values = np.concatenate([before.values, after.values])
            of_gpu[index - 1 : index + 1] = [_level(before.numbers + after.numbers, values, sd, before.border)]
            index = 1
    return kept


def _towards(gpus: Sequence[Sequence[_Level]], before: _Level, after: _Level) -> Floats:
    """How far each session is off its level towards the other level of this step; of a third level either way."""
    up = math.copysign(1.0, after.level - before.level)
    parts = []
    for each in itertools.chain.from_iterable(gpus):
        off = each.values - each.level
        parts.append(up * off if each is before else -up * off if each is after else np.abs(off))
    return np.concatenate(parts)


def _noise(blocks: Sequence[_Block]) -> tuple[Floats, Floats, list[list[scan.Segments]]]:
    """Variance of a session's log time and its degrees of freedom for each case, and the proposed segments."""
    typical = np.array([_typical(blocks, row) for row in range(len(blocks[0].values))])
    first = [scan.first_variance(block.values, block.counts) for block in blocks]
    weights = np.sum([df for _, df in first], axis=0)
    pooled = np.sum([variance * df for variance, df in first], axis=0) / np.maximum(weights, 1e-9)
    variance, df = noise.squeeze(pooled, weights, typical)
    segments: list[list[scan.Segments]] = []
    for _ in range(2 if max(block.values.shape[1] for block in blocks) < LONG else 1):
        sds = np.sqrt(np.where(df > 0, variance, 1.0))
        segments = [scan.propose(block.values, sds) for block in blocks]
        totals, own = np.zeros(len(typical)), np.zeros(len(typical))
        for block, of_block in zip(blocks, segments, strict=True):
            total, degrees = scan.residuals(block.values, of_block, sds)
            totals += total
            own += degrees
        variance, df = noise.squeeze(totals / np.maximum(own, 1.0), own, typical)
    return np.where(df > 0, variance, 1.0), np.maximum(df, 1.0), segments


def _typical(blocks: Sequence[_Block], row: int) -> float:
    values = np.concatenate([block.values[row, : int(block.counts[row])] for block in blocks])
    return float(np.median(values)) if len(values) else 0.0


def _steps(
    history: History, row: int, levels: Sequence[_Level], noise_of: tuple[float, float], series: int
) -> list[ChangePoint]:
    found = []
    case, (sd, df) = history.cases[row], noise_of
    quantile = noise.upper_quantile(INTERVAL_ERROR / 2, df)
    at_border = noise.upper_quantile(scan.ERROR / 2 / series, df)
    for index in range(1, len(levels)):
        before, after = levels[index - 1], levels[index]
        error = sd * math.sqrt(1 / max(before.agreeing, 1) + 1 / max(after.agreeing, 1))
        shift = after.level - before.level
        surely = min(before.agreeing, after.agreeing) >= scan.FEWEST_AT_LEVEL and abs(shift) > at_border * error
        if abs(shift) <= SMALLEST_SHIFT or (after.border and not surely):
            continue
        numbers = (*before.numbers[-MOST_BESIDE:], *after.numbers[:MOST_BESIDE])
        sessions = [history.sessions[number] for number in numbers]
        # A border is where it is: the place of a shift there is not searched.
        known = min(len(before.numbers), MOST_BESIDE) if after.border else None
        step = locate(case, sessions, history.log_time[row, list(numbers)], sd, known)
        clean = not step.before.dirty and not step.after.dirty
        of_environment = after.border or (clean and step.before.commit == step.after.commit)
        change = ChangePoint(
            case=case,
            uuid=step.after.uuid,
            cause=Cause.ENVIRONMENT if of_environment else Cause.COMMITS,
            step=replace(step, command=None) if of_environment else step,
            number=after.numbers[0],
            since=sum(len(each.numbers) for each in levels[index:]),
            log_ratio=shift,
            low=shift - quantile * error,
            high=shift + quantile * error,
        )
        found.append(change)
    return found
