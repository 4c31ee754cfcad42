"""How the noise of a case hangs together from session to session: candidate correlations and their weights; pure.

The noise of a case is normal with one variance and one of CANDIDATES as the correlation of its sessions. Which one it
is, no short series can tell; all cases together can. Their mixing weights are estimated by maximum likelihood over all
cases (empirical Bayes: Kiefer and Wolfowitz 1956; Efron, Large-scale inference, 2010, chapter 1), so that a case is
drawn toward what the suite shows, and the few that remember where others do not are still known by themselves.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import special  # type: ignore[import-untyped]  # SciPy ships no type information

from peakgate.compare.noise import Floats, Positions

CANDIDATES = ((0.0, 0.0), (0.3, 1.0), (0.6, 1.0), (0.8, 1.0), (0.9, 1.0), (0.95, 1.0), (0.95, 0.5), (0.98, 0.8))
"""Correlation of neighbouring sessions, which falls by this factor a session (AR(1)), and the share of the variance
that has it; the rest is independent. The last two are a level that wanders under independent noise."""

PRIOR_CASES = 1.0
"""Cases that are counted beforehand, half of them independent: what one or two cases alone are judged by."""

EM_STEPS = 30


class Regressors(NamedTuple):
    """What of a series depends on its sessions alone, for each candidate (m) of so many sessions (n) and columns (k).

    ``precision`` (m, n, n) is the inverse of the correlation with the levels of the GPUs taken out, ``gram`` (m, k, k)
    the columns' products by it, ``constant`` (m) the part of the restricted log likelihood that they decide,
    ``independent`` (m) the mean of the sum of squares of independent noise of variance 1. ``df`` are the degrees of
    freedom that the levels leave.
    """

    columns: Floats
    gpus: Positions
    precision: Floats
    gram: Floats
    constant: Floats
    independent: Floats
    df: int


def correlations(gpus: Positions, *, pooled: bool) -> Floats:
    """Each candidate's correlation matrix of sessions on these GPUs, ``pooled`` in their own order too.

    Which of the two it is differs: a kernel's two levels come with the process, a state with the GPU.
    """
    n = len(gpus)
    apart = [np.abs(np.subtract.outer(np.arange(n), np.arange(n))).astype(float)]
    if pooled:
        own = np.zeros(n)
        for gpu in set(gpus.tolist()):
            own[gpus == gpu] = np.arange(np.count_nonzero(gpus == gpu))
        apart.append(np.where(gpus[:, None] == gpus, np.abs(np.subtract.outer(own, own)), np.inf))
    found = [
        (1 - share) * np.eye(n) + share * correlation**distance
        for distance in apart
        for correlation, share in CANDIDATES[0 if distance is apart[0] else 1 :]
    ]
    return np.array(found)


def design(gpus: Positions, columns: Floats, *, pooled: bool) -> Regressors:
    """The design of columns (k, n) over sessions on these GPUs, each of which has a level of its own."""
    matrices = correlations(gpus, pooled=pooled)
    inverse = np.linalg.inv(matrices)
    levels = (gpus[:, None] == np.unique(gpus)).astype(float)
    towards = levels.T @ inverse
    between = towards @ levels
    precision = inverse - np.swapaxes(towards, 1, 2) @ np.linalg.solve(between, towards)
    gram = columns @ precision @ columns.T
    constant = -0.5 * (np.linalg.slogdet(matrices)[1] + np.linalg.slogdet(between)[1])
    independent = np.trace(precision, axis1=1, axis2=2)
    return Regressors(columns, gpus, precision, gram, constant, independent, len(gpus) - levels.shape[1])


def log_weights(log_likelihood: Floats) -> Floats:
    """Logarithms of the candidates' weights, from each case's log likelihood under each (case, candidate)."""
    count = log_likelihood.shape[1]
    prior = np.full(count, 0.5 / (count - 1))
    prior[0] = 0.5
    weights = prior
    for _ in range(EM_STEPS):
        posterior = special.softmax(log_likelihood + np.log(weights), axis=1)
        weights = (PRIOR_CASES * prior + posterior.sum(axis=0)) / (PRIOR_CASES + len(log_likelihood))
    return np.asarray(np.log(weights), dtype=np.float64)
