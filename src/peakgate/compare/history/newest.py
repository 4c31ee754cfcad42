"""Tests whether the newest sessions of a case, too few for a change point, left its level; pure.

They are compared with the case's own noise, and with how often sessions of any case were as far off; on GPUs that are
new to the case, also with the variation between GPUs of one model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from peakgate.compare import gpus as models
from peakgate.compare import noise
from peakgate.compare.history.levels import LEAST_INFORMATION, SHORTEST
from peakgate.compare.history.steps import ALIKE, Levels
from peakgate.compare.noise import Floats

# A step is recent if it has at most so many sessions after it. Small steps need 15 to 20 sessions to be detected.
RECENT = 35

NEWEST_ERROR = 0.004  # nominal probability that the newest sessions of any unchanged case are reported
AGE_SHARES = (0.48, 0.24, 0.16, 0.12)  # of it, for steps one to four sessions ago: as 1, 1/2, 1/3 and 1/4

# A step of this size should be seen in one session. A case's share of the error decides on it if the least step seen
# with an equal share is within these factors of it.
WANTED, DECISIVE = 0.05, (0.75, 2.0)
YOUNGEST = SHORTEST - 1

# The mean of n sessions is taken to have the tails of a t distribution with n times so many degrees of freedom, as
# single sessions of kept runs do (docs/explanation/change-points.md).
TAIL_DF = 8.0

# A step is reported only if outliers of at least NEARLY its size occur in less than RARE of the sessions.
NEARLY, RARE = 0.8, 0.02


class Newest(NamedTuple):
    """The newest ``sessions`` of a case, and their log time less the level before them.

    ``first``: they are the first ones of their GPUs.
    """

    sessions: int
    log_ratio: float
    first: bool = False


class Arrival(NamedTuple):
    """The newest ``sessions``, on new GPUs: how far ``above`` the mean of the earlier GPUs each of these is (log).

    A log shift beyond ``detectable`` exceeds both the variation between GPUs of one model and the noise.
    """

    sessions: int
    above: Floats
    detectable: float


def arrivals(found: Levels, series: int, usually: float) -> list[Arrival]:
    """Arrivals at each cut within the RECENT sessions that no GPU measured on both sides; the newest first.

    The variance between the earlier GPUs is moderated toward the ``usually`` found one, as in a comparison.
    """
    gpus, values = found.case.design.gpus, found.case.values - found.steps
    n = len(gpus)
    first = max(n - RECENT, SHORTEST + max([0, *(each.column.start for each in found.changes)]))
    _, begun, number = np.unique(gpus, return_index=True, return_inverse=True)
    earliest = np.minimum.accumulate(begun[number][::-1])[::-1]  # first session of the GPUs from each position on
    cuts = [cut for cut in range(n - 1, first - 1, -1) if earliest[cut] >= cut]
    error = NEWEST_ERROR / min(series, models.SHARING_CASES) / max(1, len(cuts))
    arrived = []
    for cut in cuts:
        before, after = (
            np.array([values[side][gpus[side] == gpu].mean() for gpu in np.unique(gpus[side])])
            for side in (slice(cut), slice(cut, n))
        )
        df = len(before) - 1.0
        between = models.moderated(usually, float(before.var(ddof=1)) if df else 0.0, df)
        # new GPUs count as one, since those that arrive together may share a host
        between *= noise.upper_quantile(error, models.USUAL_DF + df) ** 2 * (1 + 1 / len(before))
        # the sessions of one GPU count as one if the case is correlated
        own = len(after) if found.is_correlated else n - cut
        within = noise.upper_quantile(error, min(found.case.df, TAIL_DF * own)) ** 2 * found.sd**2 / own
        arrived.append(Arrival(n - cut, after - before.mean(), math.sqrt(between + within)))
    return arrived


def newest_step(found: Levels, cases: Sequence[Levels], share: float, arrived: Sequence[Arrival] = ()) -> Newest | None:
    """A step in the newest sessions of a case, too few for a change point; None if there is none.

    Otherwise an arrival whose GPUs are all slower, by more than GPUs of one model differ. ``cases`` are all cases,
    ``share`` is this one's share of the error (`shares`).
    """
    case, n, gpus = found.case, len(found.case.raw), found.case.design.gpus
    last = max([0, *(each.column.start for each in found.changes)])
    turned = found.largest if found.turns > 1 else 0.0
    best: tuple[float, Newest] | None = None
    for sessions in range(1, YOUNGEST + 1):
        cut = n - sessions
        known = np.flatnonzero(np.isin(gpus[cut:], gpus[:cut])) + cut  # on GPUs that measured it before
        if cut - last < SHORTEST or not len(known):
            continue
        levels = [(case.values - found.steps)[:cut][gpus[:cut] == gpu].mean() for gpu in gpus[known]]
        off = case.raw[known] - found.steps[known] - np.array(levels)
        count = min(len(off), int(np.isin(gpus[:cut], gpus[cut:]).sum()))  # the smaller of before and after
        size = float(max(off.min(), -off.max()))  # the smallest deviation, if all have the same sign
        if size < noise.ODD_SESSION / count / 2:
            continue
        raw = case.of(np.concatenate([case.values[:cut], case.raw[cut:]]))
        given = raw.given(found.chosen)
        likely = int(raw.log_likelihood(given.squares).argmax())
        if given.information[0, cut - 1] < LEAST_INFORMATION:
            continue
        shift = float(given.left[likely, cut - 1] / given.information[likely, cut - 1])
        score = float(raw.scores(given)[cut - 1])
        error = NEWEST_ERROR * AGE_SHARES[sessions - 1] * share
        least = raw.least_score(2 * error, min(case.df - 1, TAIL_DF * count))
        state = max(turned, found.jump(sessions) if raw.is_correlated([*found.chosen, cut - 1]) else 0.0)
        surely = score > least and abs(shift) > max(noise.ODD_SESSION / count, ALIKE * state) and size > abs(shift) / 2
        if surely and (best is None or score > best[0]) and not _is_chance(found, cases, off, sessions):
            best = score, Newest(sessions, shift)
    if best:
        return best[1]
    state = max(turned, found.jump() if found.is_correlated else 0.0)
    for each in arrived:
        shift = float(each.above.mean())
        surely = shift > max(each.detectable, ALIKE * state) and each.above.min() > shift / 2
        if surely and not _is_chance(found, cases, each.above, each.sessions):
            return Newest(each.sessions, shift, first=True)
    return None


def shares(cases: Sequence[Levels]) -> Floats:
    """Each case's share of NEWEST_ERROR: of one half equally, of the other if it decides whether a WANTED step is seen.

    In quieter cases such a step is beyond doubt, in noisier ones out of reach (weighted Bonferroni: Genovese, Roeder
    and Wasserman 2006).
    """
    equal = np.full(len(cases), 1 / max(1, len(cases)))
    least = noise.upper_quantile(NEWEST_ERROR * AGE_SHARES[0] * equal, TAIL_DF) * [each.earlier_sd for each in cases]
    decisive = (least > DECISIVE[0] * WANTED) & (least < DECISIVE[1] * WANTED)
    return (equal + decisive / decisive.sum()) / 2 if decisive.any() else equal


def _is_chance(found: Levels, cases: Sequence[Levels], off: Floats, sessions: int) -> bool:
    """Whether ``sessions`` successive outliers of this size may be chance, by how often older sessions had them.

    An older residual, from its GPU's other sessions, counts if it is as large in log time and in SDs of its case.
    """
    up = float(np.sign(off.mean()))
    size = NEARLY * float((up * off).min())
    older = [up * each.apart[:-YOUNGEST] for each in cases]
    least = [size * max(1.0, each.earlier_sd / found.earlier_sd) for each in cases]
    counts = np.array([np.count_nonzero(own >= limit) for own, limit in zip(older, least, strict=True)])
    alike = int(counts.sum())
    counts = np.minimum(counts, 1) if sessions == 1 else counts
    often = float(((counts / max(map(len, older))) ** sessions).sum())
    own = float(np.mean(up * found.apart[:-YOUNGEST] >= size))
    return own**sessions > RARE / 2 or (alike > 1 and often > RARE)
