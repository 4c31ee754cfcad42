"""Where the change is, given pairs at some groups: the posterior of a change point; pure.

Every pair is ln(time at a group / time at GOOD). Under the hypothesis that the change came with group k, pairs at
groups before k have mean 0, and pairs from k on have one common mean, the change. Both that mean and the variance of a
pair are unknown and integrated out (flat prior for the mean, 1 / variance for the variance); before measuring every k
is as likely as any other: A. F. M. Smith, A Bayesian approach to inference about a change-point in a sequence of random
variables, Biometrika 62 (1975). Measuring next at the posterior's median is Horstein's rule (IEEE Transactions on
Information Theory 9, 1963); R. Waeber, P. I. Frazier and S. G. Henderson, Bisection search with noisy responses, SIAM
Journal on Control and Optimization 51 (2013), for its convergence.

A posterior stays what it is however often it is looked at. So stopping where one k has 1 - e leaves at most a share e
of whole bisects wrong, however many steps they take, and no step needs a share of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

LEAST_SD = 1e-5
"""Pairs that agree better than this, 0.001 %, are not taken for that exact."""


def posterior(pairs: Mapping[int, Sequence[float]], candidates: Sequence[int]) -> dict[int, float]:
    """The probability of each candidate group that the change came with it.

    ``pairs`` by group; some must be at or after the last candidate, the end that is known to differ.
    """
    logs = np.array([_log_likelihood(pairs, candidate) for candidate in candidates])
    weights = np.exp(logs - logs.max())
    return dict(zip(candidates, (weights / weights.sum()).tolist(), strict=True))


def halving(beliefs: Mapping[int, float], usable: Sequence[int]) -> int:
    """The usable group whose measurement splits the posterior most evenly; the older of two that do it alike."""

    def imbalance(group: int) -> float:
        before = sum(probability for candidate, probability in beliefs.items() if candidate <= group)
        return abs(before - 0.5)

    return min(usable, key=lambda group: (round(imbalance(group), 9), group))


def _log_likelihood(pairs: Mapping[int, Sequence[float]], candidate: int) -> float:
    before = np.array([value for group, values in pairs.items() if group < candidate for value in values])
    after = np.array([value for group, values in pairs.items() if group >= candidate for value in values])
    count = len(before) + len(after)
    squares = float((before**2).sum() + ((after - after.mean()) ** 2).sum())
    squares = max(squares, count * LEAST_SD**2)
    return -0.5 * math.log(len(after)) - 0.5 * (count - 1) * math.log(squares)
