"""The changes of one series with their sizes and places, and whether its newest sessions left its level; pure."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from peakgate.compare import gpus as models
from peakgate.compare import noise
from peakgate.compare.history import search
from peakgate.compare.history.columns import LEAST_KNOWN, RECENT, SHORTEST, StepColumn
from peakgate.compare.history.hampel import FARTHEST
from peakgate.compare.history.scan import CaseSeries
from peakgate.compare.judge import SMALLEST_SHIFT
from peakgate.compare.noise import Floats, Positions

ROBUST_STEPS = 4
"""Fits in which a session counts no farther from its level than its case's reach (Huber's winsorised residuals)."""

NEWEST_ERROR = 0.004
"""Nominal probability that the newest sessions of any unchanged case seem to have left their level."""

YOUNGEST = SHORTEST - 1

TAIL_DF = 8.0
"""The mean of n sessions has tails no lighter than a t with so many degrees of freedom times n: single sessions of
kept runs do (page)."""

ALIKE = 1.5
"""Of a case that goes to and fro, a step no larger by this factor is of the same kind."""

AWAY = 5.0
"""SDs."""

NEARLY = 0.8
RARE = 0.02
"""So seldom must sessions of any case be as odd, in this share of sessions; NEARLY as far off counts."""


class Change(NamedTuple):
    """A change of the log level by ``shift``, after position ``good`` of the case's sessions and not after ``bad``."""

    column: StepColumn
    shift: float
    error: float
    df: float
    good: int
    bad: int


@dataclass(frozen=True)
class Levels:
    """A case's changes, oldest first; ``at`` are the numbers of its sessions.

    ``residuals`` are the raw log times less their levels, ``steps`` (n) what the changes add up to; ``offset`` is the
    level of the pool before all changes. ``detectable`` is the log shift that the newest sessions would have shown.
    """

    case: CaseSeries
    chosen: tuple[int, ...]
    changes: tuple[Change, ...]
    residuals: Floats
    steps: Floats
    offset: float
    sd: float
    detectable: float

    @property
    def at(self) -> Positions:
        return self.case.pattern.at

    def level(self, position: int) -> float:
        """Log level of the pool in this session."""
        return self.offset + float(self.steps[position])

    def known_shifts(self, count: int) -> list[float]:
        """The shift at each of so many known changes, whether it is one of the level's changes or not."""
        shifts = {each.column.known: each.shift for each in self.changes if each.column.known is not None}
        given = self.case.given(self.chosen)
        best = int(self.case.log_likelihood(given.squares).argmax())
        for index, column in enumerate(self.case.pattern.columns):
            if column.known is not None and given.known[0, index] > LEAST_KNOWN:
                shifts.setdefault(column.known, float(given.left[best, index] / given.known[best, index]))
        return [shifts.get(number, 0.0) for number in range(count)]

    @cached_property
    def turns(self) -> int:
        """How often the case went to another level, if each time back from the one before.

        Away for three sessions or more counts too, short of a change, and so do sessions at the level on the other side
        of a step; a single one may be odd.
        """
        cuts = [change for change in self.changes if change.column.is_cut]
        up = [change.shift > 0 for change in cuts]
        turned = sum(before != after for before, after in itertools.pairwise(up)) + bool(up)
        middle = np.median(np.lib.stride_tricks.sliding_window_view(self.residuals, 5), axis=1)
        away = np.abs(middle) > max(AWAY * self.sd, SMALLEST_SHIFT)
        visits = int(np.count_nonzero(away[1:] & ~away[:-1]) - bool(away[-1]))
        return turned + 2 * max(visits, self._beyond(cuts) > 1)

    def _beyond(self, cuts: Sequence[Change]) -> int:
        """The sessions nearer to the level on the other side of the step beside them, surely off their own."""
        count = 0
        starts = [0, *(each.column.start for each in cuts), len(self.residuals)]
        for number, change in enumerate(cuts):
            before = self.residuals[starts[number] : change.good + 1]
            after = -self.residuals[change.bad : starts[number + 2]]
            off = np.concatenate([before, after]) * np.sign(change.shift)
            size = abs(change.shift)
            count += int(np.count_nonzero((off > max(size / 2, FARTHEST * self.sd)) & (off < ALIKE * size)))
        return count

    @property
    def largest(self) -> float:
        """The largest step of the case, or the farthest it was away."""
        steps = [abs(each.shift) for each in self.changes if each.column.is_cut]
        return max(steps or [float(np.abs(self.residuals).max())])

    @cached_property
    def remembers(self) -> bool:
        """Whether the noise of the case's sessions is surely not independent."""
        return self.case.remembers(self.chosen)

    def jump(self, newest: int = 0) -> float:
        """The largest of a case's other steps from one session to the next, ``newest`` ones apart.

        A step of a case that remembers is the state's that it remembers if it is no larger.
        """
        jumps = np.abs(np.diff(np.clip(self.residuals, -self.case.reach, self.case.reach)))
        jumps[[each.column.start - 1 for each in self.changes if each.column.is_cut]] = 0.0
        return float(jumps[: len(jumps) - newest].max(initial=0.0))

    def wandered(self, newest: int = 0) -> float:
        """How far a level that wanders is from its mean in the last few sessions, before so many newest ones."""
        if not self.remembers:
            return 0.0
        end = len(self.residuals) - newest
        return float(np.median(self.residuals[max(0, end - SHORTEST) : end]))

    def off(self, cut: int) -> Floats:
        """How far the sessions from this position on are above their GPU's level before."""
        gpus, values = self.case.pattern.design.gpus, self.case.values - self.steps
        before = np.arange(len(values)) < cut
        levels = [float(values[before & (gpus == gpu)].mean()) if gpu in gpus[:cut] else np.nan for gpu in gpus[cut:]]
        return np.asarray(self.case.raw[cut:] - self.steps[cut:] - np.array(levels))


class Newest(NamedTuple):
    """The newest ``sessions`` of a case, and how much their log time is above the level before them.

    ``first``: they are the first sessions of their GPUs.
    """

    sessions: int
    log_ratio: float
    first: bool = False


def levels(case: CaseSeries, series: int, chosen: tuple[int, ...] | None = None, rounds: int = 2) -> Levels:
    """Search one case; the error is shared by so many series. ``chosen`` are its changes where they are known."""
    chosen = search.search(case, series) if chosen is None else chosen
    columns = case.pattern.design.columns[list(chosen)]
    values = case.values
    sd = 0.0
    shifts, covariance = np.zeros(0), np.zeros((0, 0))
    fitted = values
    for step in range(ROBUST_STEPS if chosen else 1):
        now = case.of(values) if step else case
        given = now.given(chosen)
        best = int(now.log_likelihood(given.squares).argmax())
        gram = case.pattern.design.gram[best][np.ix_(chosen, chosen)]
        squares = case.prior_df * case.prior_variance + max(0.0, float(given.squares[best]))
        sd = max(np.sqrt(squares / max(1.0, case.df - len(chosen))), noise.CASE_SD_FLOOR)
        covariance = np.linalg.inv(gram) if len(chosen) else covariance
        shifts = covariance @ now.towards[best, list(chosen)] if len(chosen) else shifts
        fitted = shifts @ columns + case.of_gpus(values - shifts @ columns)
        values = fitted + np.clip(case.raw - fitted, -case.reach, case.reach)
    if chosen and (left := search.confirmed(now, chosen, series)) != chosen:
        return levels(case, series, left)
    places = [_place(case, chosen, shifts, case.raw - fitted, float(sd), place=place) for place in range(len(chosen))]
    first, last = SHORTEST, len(values) - SHORTEST
    kept = [not case.pattern.columns[best].is_cut or first <= best + 1 <= last for best, _, _ in places]
    moved = tuple(best for (best, _, _), old in zip(places, kept, strict=True) if old)
    if moved != chosen and (rounds or not all(kept)):
        return levels(case, series, moved, rounds - 1)
    df = max(1.0, case.df - len(chosen))
    changes = [
        Change(case.pattern.columns[index], float(shift), float(sd * np.sqrt(variance)), df, good, bad)
        for index, shift, variance, (_, good, bad) in zip(chosen, shifts, np.diagonal(covariance), places, strict=True)
    ]
    steps = shifts @ columns if len(chosen) else np.zeros(len(values))
    n = len(values)
    newest = [cut - 1 for cut in range(max(1, n - 2 * SHORTEST), n - SHORTEST + 1)]
    informed = case.given(chosen).known[best][newest]
    known = float(informed[-1] if informed[-1] > LEAST_KNOWN else informed.max())
    share = search.NEWEST_SHARE / (search.NEWEST - SHORTEST)
    quantile = noise.upper_quantile(search.ERROR / 2 * share / series, df)
    detectable = float(quantile * sd / np.sqrt(known)) if known > LEAST_KNOWN else np.inf
    return Levels(
        case,
        chosen,
        tuple(changes),
        case.raw - fitted,
        steps,
        float(np.mean(fitted - steps)),
        float(sd),
        detectable,
    )


def _place(
    case: CaseSeries, chosen: Sequence[int], shifts: Floats, residuals: Floats, sd: float, *, place: int
) -> tuple[int, int, int]:
    """The column that fits best in the place of a chosen one, and the positions between which the change happened.

    A cut is moved to where the sessions are least off their levels, none by more than `FARTHEST` SDs; an odd one
    beside it does not draw it. Places that are worse by less than `search.DOUBT` are not separated from it. What is no
    cut has its own place.
    """
    index, n = chosen[place], len(residuals)
    column = case.pattern.columns[index]
    if not column.is_cut:
        return (
            index,
            max(0, column.start - 1),
            max(column.start, column.end - 1 if column.known is None else column.start),
        )
    others = [case.pattern.columns[each].start for each in chosen if each != index]
    first = max((each + SHORTEST for each in others if each < column.start), default=1)
    last = min((each - SHORTEST for each in others if each > column.start), default=n - 1)
    cuts = np.arange(min(first, column.start), max(last, column.start) + 1)
    own = residuals + shifts[place] * (np.arange(n) >= column.start)
    before, after = (np.minimum(np.abs(each) / sd, FARTHEST) ** 2 for each in (own, own - shifts[place]))
    losses = np.cumsum(np.append(0.0, before))[cuts] + np.cumsum(np.append(0.0, after[::-1]))[::-1][cuts]
    close = cuts[losses <= losses.min() + search.DOUBT]
    return int(cuts[losses.argmin()]) - 1, int(close[0]) - 1, int(close[-1])


def newest(found: Levels, surprises: Surprises, series: int) -> Newest | None:
    """The step that the newest sessions show, too few to be a change; None where they show none."""
    case, n = found.case, len(found.case.raw)
    last = max([0, *(each.column.start for each in found.changes)])
    best: tuple[float, Newest] | None = None
    gpus = case.pattern.design.gpus
    for sessions in range(1, YOUNGEST + 1):
        cut = n - sessions
        off = found.off(cut)[np.isin(gpus[cut:], gpus[:cut])]
        if cut - last < SHORTEST or not len(off):
            continue
        count = min(len(off), int(np.isin(gpus[:cut], gpus[cut:]).sum()))  # the fewer before and after
        size = float(max(off.min(), -off.max()))  # the least of them, where all are off to one side
        if size < noise.ODD_SESSION / count / 2:
            continue
        raw = case.of(np.concatenate([case.values[:cut], case.raw[cut:]]))
        given = raw.given(found.chosen)
        likely = int(raw.log_likelihood(given.squares).argmax())
        if given.known[0, cut - 1] < LEAST_KNOWN:
            continue
        shift = float(given.left[likely, cut - 1] / given.known[likely, cut - 1])
        score = float(raw.scores(given)[cut - 1])
        least = raw.least_score(2 * NEWEST_ERROR / YOUNGEST / series, min(case.df - 1, TAIL_DF * count))
        surely = score > least and abs(shift) > noise.ODD_SESSION / count and size > abs(shift) / 2
        state = found.jump(sessions) if raw.remembers([*found.chosen, cut - 1]) else 0.0
        state = max(state, found.largest if found.turns > 1 else 0.0)
        surely = surely and abs(shift) > ALIKE * state
        if surely and (best is None or score > best[0]) and not surprises.explain(found, off, sessions):
            best = score, Newest(sessions, shift)
    return best[1] if best else None


class Arrival(NamedTuple):
    """Newest ``sessions`` on GPUs that measured none before: how far ``above`` the mean of the others each GPU is.

    Beyond the log shift ``detectable`` it is neither what GPUs of one model differ by nor the noise of so few sessions.
    """

    sessions: int
    above: Floats
    detectable: float


def arrivals(found: Levels, series: int, time_us: float) -> list[Arrival]:
    """From each place on, among RECENT sessions, before and after which no GPU measured; the newest first.

    The variance between the GPUs before is moderated as between the sides of a comparison (`compare.gpus`).
    """
    gpus, values = found.case.pattern.design.gpus, found.case.values - found.steps
    n = len(gpus)
    first = max(n - RECENT, SHORTEST + max([0, *(each.column.start for each in found.changes)]))
    _, begun, number = np.unique(gpus, return_index=True, return_inverse=True)
    earliest = np.minimum.accumulate(begun[number][::-1])[::-1]  # of the GPUs from each place on
    cuts = [cut for cut in range(n - 1, first - 1, -1) if earliest[cut] >= cut]
    error = NEWEST_ERROR / min(series, models.SHARING_CASES) / max(1, len(cuts))
    arrived = []
    for cut in cuts:
        new = np.arange(n) >= cut
        before, after = (_means(values[side], gpus[side]) for side in (~new, new))
        df = len(before) - 1.0
        between = models.moderated(time_us, float(before.var(ddof=1)) if df else 0.0, df)
        # new GPUs count as one: those that come together may share a host
        between *= noise.upper_quantile(error, models.USUAL_DF + df) ** 2 * (1 + 1 / len(before))
        # the sessions of one GPU are no more than one where the case remembers
        own = len(after) if found.remembers else n - cut
        within = noise.upper_quantile(error, min(found.case.df, TAIL_DF * own)) ** 2 * found.sd**2 / own
        arrived.append(Arrival(n - cut, after - before.mean(), math.sqrt(between + within)))
    return arrived


def _means(values: Floats, gpus: Positions) -> Floats:
    """The mean of each GPU."""
    return np.array([values[gpus == gpu].mean() for gpu in np.unique(gpus)])


def newest_gpus(found: Levels, surprises: Surprises, arrived: Sequence[Arrival]) -> Newest | None:
    """The newest sessions on GPUs that measured none before, if each is slower and all by more than GPUs differ."""
    state = max(found.jump() if found.remembers else 0.0, found.largest if found.turns > 1 else 0.0)
    for each in arrived:
        shift = float(each.above.mean())
        surely = shift > max(each.detectable, ALIKE * state) and each.above.min() > shift / 2
        if surely and not surprises.explain(found, each.above, each.sessions):
            return Newest(each.sessions, shift, first=True)
    return None


class Surprises(NamedTuple):
    """Every older session of every case: how far above its level it was, in log time and in the case's own SDs."""

    off: Floats
    sds: Floats
    row: Positions
    sessions: int

    @staticmethod
    def of(found: Sequence[Levels]) -> Surprises:
        off, sds, row = [np.zeros(0)], [np.zeros(0)], [np.zeros(0, dtype=np.intp)]
        longest = 0
        for number, each in enumerate(found):
            own = each.residuals[:-YOUNGEST]
            off.append(own)
            sds.append(own / each.sd)
            row.append(np.full(len(own), number))
            longest = max(longest, len(own))
        return Surprises(np.concatenate(off), np.concatenate(sds), np.concatenate(row), longest)

    def explain(self, found: Levels, off: Floats, sessions: int) -> bool:
        """Whether such odd sessions in a row may well be chance, from how often each case had one as odd."""
        up = float(np.sign(off.mean()))
        size = float((up * off).min())
        alike = (up * self.off >= NEARLY * size) & (up * self.sds >= NEARLY * size / found.sd)
        own = float(np.mean(up * found.residuals[:-YOUNGEST] >= NEARLY * size))
        counts = np.bincount(self.row[alike])
        if sessions == 1:
            counts = np.minimum(counts, 1)
        often = float(((counts / self.sessions) ** sessions).sum())
        return own**sessions > RARE / 2 or (alike.sum() > 1 and often > RARE)
