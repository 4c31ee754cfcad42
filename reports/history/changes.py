"""The change points of a history and the regressions among them that are still open; pure.

Each GPU's sessions are a history of its own: nothing is compared between GPUs. Within it the known changes of the
environment (driver, NVRTC, libraries, firmware, power limit) are borders. A case may have another level on either side
of a border; such a shift is the environment's and no commit is named for it. Between the borders `scan` finds the
steps. docs/explanation/change-points.md says how often they are wrong.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from enum import StrEnum
from typing import NamedTuple

import numpy as np
import pandas as pd
from peakgate.reports.comparison import noise
from peakgate.reports.comparison.evidence import SAME_CODE
from peakgate.reports.comparison.judge import SMALLEST_SHIFT, WIDEST_RESOLVABLE
from peakgate.reports.comparison.noise import Floats, Positions
from peakgate.reports.gate.acknowledged import Accepted
from peakgate.reports.history import scan
from peakgate.reports.history.series import History, last_known
from peakgate.reports.history.steps import MOST, Known, Place, Surprises, locate, newest_step
from peakgate.reports.runs.runfile import ENVIRONMENT

INTERVAL_ERROR = 0.01
MOST_BESIDE = 60
"""A step's place is searched among at most so many sessions on either side."""

LONG = 200
"""So many sessions estimate a variance well enough at once; fewer do it again about the proposed segments."""


class Cause(StrEnum):
    """Cause of a change point."""

    COMMITS = "commits"
    ENVIRONMENT = "environment"


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """A step of one case on one GPU.

    ``log_ratio`` is its size with a 99 % interval, ``older_us`` the level before it; ``number`` counts the first
    session after it in the history, ``first_day`` is the day of the first one known to be after it, and ``since``
    counts the case's sessions since then on that GPU. A step that the environment caused has no command.
    """

    case: str
    uuid: str | None
    cause: Cause
    place: Place
    number: int
    first_day: date
    since: int
    older_us: float
    log_ratio: float
    low: float
    high: float

    @property
    def change_percent(self) -> float:
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


class NewestLevel(NamedTuple):
    """The level of a case on one GPU since its last step.

    ``detectable`` is the smallest log shift that the newest five sessions would have shown, infinite where they are too
    few. ``doubtful`` is a level so noisy that not even WIDEST_RESOLVABLE is detectable, and whose newest sessions
    differ from the others by more than their noise explains once in a hundred times.
    """

    level_us: float
    detectable: float
    doubtful: bool


class Unconfirmed(NamedTuple):
    """A step of the newest sessions, too few to be a change point; ``older_us`` is the level before it."""

    sessions: int
    log_ratio: float
    older_us: float
    cause: Cause
    place: Place


class Changes(NamedTuple):
    """Every change point of a history, newest first; by case and GPU, the newest level and what may have left it."""

    points: tuple[ChangePoint, ...]
    newest: Mapping[tuple[str, str | None], NewestLevel]
    unconfirmed: Mapping[tuple[str, str | None], Unconfirmed]


@dataclass(frozen=True, slots=True)
class _Block:
    """Sessions of one GPU and one environment; ``values`` are packed log times, ``at`` their sessions' numbers."""

    values: Floats
    counts: Floats
    at: Positions


@dataclass(frozen=True, slots=True)
class _Level:
    """A segment of one case: its sessions by number, its level and how many sessions agree with it.

    ``border`` is True where a change of the environment comes before it. ``limits`` are the critical values of a newest
    and of an older cut in it.
    """

    numbers: Positions
    values: Floats
    level: float
    agreeing: int
    border: bool
    limits: tuple[float, float]


@dataclass(frozen=True, slots=True)
class _Gpu:
    """One GPU's blocks, the variance of each case with its degrees of freedom, and the proposed segments by block."""

    uuid: str | None
    blocks: Sequence[_Block]
    variance: Floats
    df: Floats
    segments: list[list[scan.Segments]]

    def limits(self, series: int) -> list[tuple[Floats, Floats]]:
        """The critical values of newest and older cuts, for each block."""
        return [scan.critical(series, block.values.shape[1], self.df) for block in self.blocks]


def find_changes(history: History) -> Changes:
    """Search every case on every GPU."""
    all_blocks = {uuid: _blocks(history, numbers) for uuid, numbers in history.by_gpu.items()}
    counts = np.concatenate([block.counts for blocks in all_blocks.values() for block in blocks])
    series = max(1, int((counts >= 2 * scan.FEWEST_AT_LEVEL).sum()))
    gpus = _noise_of_all([_Gpu(uuid, own, *_noise(own)) for uuid, own in all_blocks.items() if _long_enough(own)])
    limits = [gpu.limits(series) for gpu in gpus]
    points: list[ChangePoint] = []
    newest: dict[tuple[str, str | None], NewestLevel] = {}
    unconfirmed: dict[tuple[str, str | None], Unconfirmed] = {}
    kept = []
    for row in range(len(history.cases)):
        levels = [_levels(gpu, row, of_gpu) for gpu, of_gpu in zip(gpus, limits, strict=True)]
        kept.append(_without_chance(levels, [math.sqrt(gpu.variance[row]) for gpu in gpus], series))
    off = [[_off(own) for own in of_case] for of_case in kept]
    surprises = Surprises.of(itertools.chain.from_iterable(off))
    for row, (case, of_case) in enumerate(zip(history.cases, kept, strict=True)):
        anywhere = np.concatenate([np.empty(0), *off[row]])
        for gpu, own, here in zip(gpus, of_case, off[row], strict=True):
            if own:
                sd, df = math.sqrt(gpu.variance[row]), float(gpu.df[row])
                points += _steps(history, row, own, (sd, df), series)
                newest[case, gpu.uuid] = _newest(own[-1], sd, df)
                known = Known(sd, df, here, anywhere, surprises, series)
                if step := _unconfirmed(history, row, own, known):
                    unconfirmed[case, gpu.uuid] = step
    points.sort(key=lambda each: (-each.number, -abs(each.log_ratio), each.case))
    return Changes(tuple(points), newest, unconfirmed)


def _off(levels: Sequence[_Level]) -> Floats:
    """How far each session of a case on one GPU is above its level, oldest first, without the newest few."""
    if not levels:
        return np.empty(0)
    parts = [each.values - each.level for each in levels]
    return np.concatenate([*parts[:-1], parts[-1][:-MOST]])


def _unconfirmed(history: History, row: int, levels: Sequence[_Level], known: Known) -> Unconfirmed | None:
    """What the newest sessions of one case on one GPU show, against the level before them or before the border."""
    last = levels[-1]
    after_border = last.border and len(last.values) <= MOST and len(levels) > 1
    before, values, numbers = last.values[:-MOST], last.values[-MOST:], last.numbers
    if after_border:
        before, values = levels[-2].values, last.values
        numbers = np.concatenate([levels[-2].numbers, numbers])
    found = newest_step(before, values, known)
    if found is None:
        return None
    beside = numbers[-MOST_BESIDE:]
    place = locate(history, row, beside, known.sd, len(beside) - found.sessions)
    at_border = after_border and found.sessions == len(last.values)
    cause = Cause.ENVIRONMENT if at_border or place.command is None else Cause.COMMITS
    place = place._replace(command=None) if at_border else place
    return Unconfirmed(found.sessions, found.log_ratio, math.exp(found.level), cause, place)


def _newest(level: _Level, sd: float, df: float) -> NewestLevel:
    sessions = len(level.values)
    detectable = scan.detectable(sessions, sd, *level.limits)
    doubtful = False
    if WIDEST_RESOLVABLE < detectable < math.inf:
        alone, _ = scan.critical(1, sessions, np.array([df]))
        doubtful = scan.newest_moved(level.values, sd, float(alone[0]))
    return NewestLevel(math.exp(level.level), detectable, doubtful)


def open_regressions(points: Sequence[ChangePoint], accepted: Sequence[Accepted] = ()) -> tuple[OpenRegression, ...]:
    """The slower steps that later ones of the same case and GPU have not mended, largest first.

    A step caused by commits is mended by such steps alone: a faster driver hides it and does not undo it. Accepted is
    one that a person named with at least its size, no earlier than the day it was first measured; several steps of one
    case on one GPU are accepted as long as they are no larger together.
    """
    series: dict[tuple[str, str | None], list[ChangePoint]] = {}
    for change in sorted(points, key=lambda each: each.number):
        series.setdefault((change.case, change.uuid), []).append(change)
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


def _blocks(history: History, numbers: Positions) -> list[_Block]:
    """The sessions of one GPU, cut where its environment changed."""
    _, changed = last_known(history.facts.loc[numbers, list(ENVIRONMENT)])
    blocks = []
    for own in np.split(numbers, np.flatnonzero(changed.any(axis=1))):
        log_time = history.log_time[:, own]
        at = own[np.argsort(~np.isfinite(log_time), axis=1, kind="stable")]
        blocks.append(_Block(*scan.packed(log_time), at))
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
    for index, (block, of_block, (newest, older)) in enumerate(zip(gpu.blocks, gpu.segments, limits, strict=True)):
        values = block.values[row, : int(block.counts[row])]
        if len(values) == 0:
            continue
        critical = float((newest if block is gpu.blocks[-1] else older)[row]), float(older[row])
        for first, end in scan.tested(values, of_block[row], sd, *critical):
            middle, _, agreeing = scan.level(values[first:end], sd)
            border = first == 0 and index > 0
            numbers = block.at[row, first:end]
            levels.append(_Level(numbers, values[first:end], middle, agreeing, border, critical))
    return levels


def _without_chance(gpus: Sequence[list[_Level]], sds: Sequence[float], series: int) -> list[list[_Level]]:
    """One case's levels on each GPU, joined where a case that visits two levels may show such a run (`scan.chance`)."""
    kept = [list(levels) for levels in gpus]
    for of_gpu, sd in zip(kept, sds, strict=True):
        index = 1
        while index < len(of_gpu):
            before, after = of_gpu[index - 1], of_gpu[index]
            if after.border:
                index += 1
                continue
            own, every = _towards([of_gpu], before, after), _towards(kept, before, after)
            places = series * (1 if index == len(of_gpu) - 1 else len(own))
            run, shift = min(before.agreeing, after.agreeing), after.level - before.level
            up = math.copysign(1.0, shift)
            off = up * (before.values - before.level), up * (after.level - after.values)
            mixed = scan.is_mixture(*off, sd, shift, series * len(own))
            if not (mixed or scan.is_chance((own, every), sd, shift, run, places)):
                index += 1
                continue
            values = np.concatenate([before.values, after.values])
            middle, _, agreeing = scan.level(values, sd)
            numbers = np.concatenate([before.numbers, after.numbers])
            of_gpu[index - 1 : index + 1] = [_Level(numbers, values, middle, agreeing, before.border, after.limits)]
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
    """Variance of a session's log time and its degrees of freedom for each case, and the proposed segments.

    Where sessions are alike for a while (`scan.correlation`), a mean of n has the variance of fewer independent ones:
    the variance is that of such sessions, larger by (1 + r) / (1 - r), and known from (1 - r^2) / (1 + r^2) of them.
    """
    alike = scan.correlation([block.values for block in blocks])
    inflation, known_share = (1 + alike) / (1 - alike), (1 - alike**2) / (1 + alike**2)
    typical = pd.DataFrame(np.hstack([block.values for block in blocks])).median(axis=1).fillna(0.0).to_numpy()
    first = [scan.first_variance(block.values, block.counts) for block in blocks]
    weights = np.sum([df for _, df in first], axis=0)
    pooled = np.sum([variance * df for variance, df in first], axis=0) / np.maximum(weights, 1e-9)
    variance, df = noise.squeeze(pooled / (1 - alike) * inflation, weights, typical)
    segments: list[list[scan.Segments]] = []
    for _ in range(2 if max(block.values.shape[1] for block in blocks) < LONG else 1):
        sds = np.sqrt(np.where(df > 0, variance, 1.0))
        segments = [scan.propose(block.values, sds) for block in blocks]
        squares = [scan.residuals(block.values, own, sds) for block, own in zip(blocks, segments, strict=True)]
        totals, degrees = np.sum(squares, axis=0)
        variance, df = noise.squeeze(inflation * totals / np.maximum(degrees, 1.0), degrees * known_share, typical)
    return np.where(df > 0, variance, 1.0), np.maximum(df, 1.0), segments


def _steps(
    history: History, row: int, levels: Sequence[_Level], noise_of: tuple[float, float], series: int
) -> list[ChangePoint]:
    found = []
    sd, df = noise_of
    quantile = noise.upper_quantile(INTERVAL_ERROR / 2, df)
    at_border = noise.upper_quantile(scan.ERROR / 2 / series, df)
    for index, (before, after) in enumerate(itertools.pairwise(levels), start=1):
        error = sd * math.sqrt(1 / max(before.agreeing, 1) + 1 / max(after.agreeing, 1))
        shift = after.level - before.level
        surely = min(before.agreeing, after.agreeing) >= scan.FEWEST_AT_LEVEL and abs(shift) > at_border * error
        if abs(shift) <= SMALLEST_SHIFT or (after.border and not surely):
            continue
        beside = np.concatenate([before.numbers[-MOST_BESIDE:], after.numbers[:MOST_BESIDE]])
        # A border is where it is: the place of a shift there is not searched.
        known = min(len(before.numbers), MOST_BESIDE) if after.border else None
        place = locate(history, row, beside, sd, known)
        good, bad = history.sessions[place.good], history.sessions[place.bad]
        one_commit = not good.dirty and not bad.dirty and good.commit == bad.commit
        of_environment = after.border or one_commit or SAME_CODE in place.facts
        measured = [number for number in after.numbers.tolist() if number >= place.bad] or [place.bad]
        change = ChangePoint(
            case=history.cases[row],
            uuid=bad.uuid,
            cause=Cause.ENVIRONMENT if of_environment else Cause.COMMITS,
            place=place._replace(command=None) if of_environment else place,
            number=int(after.numbers[0]),
            first_day=min(history.sessions[number].taken for number in measured).date(),
            since=sum(len(each.numbers) for each in levels[index:]),
            older_us=math.exp(before.level),
            log_ratio=shift,
            low=shift - quantile * error,
            high=shift + quantile * error,
        )
        found.append(change)
    return found
