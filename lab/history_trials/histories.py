"""Synthetic histories of benchmark sessions with the true changes: which commit changed which case by how much.

    time[session, case] = duration[case] * exp(everything relative) + microseconds that a host adds

Everything relative: the GPU's offset for the case, noise of the records, slow processes (AR(1), two levels, drift,
wave), changes of the driver and the steps of commits. A history depends only on a ``Plan`` and a seed. Nothing here
depends on how a history is judged.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from noise import Floats, Records
from numpy.typing import NDArray

Ints = NDArray[np.int64]

# The spread of the noisy case of the records (cublas-256).
NOISY_SPREAD = 0.036
# Steps are injected into cases with at most this spread: 2 % over three sessions is five standard errors.
TARGET_SPREAD = 0.007
# Share of fresh Gaussian noise in a resampled residual (a smoothed bootstrap), so that no two sessions are equal.
SMOOTHING = 0.3
AR_COEFFICIENT = 0.8
# Between GPUs of the records, a case's standard deviation is 0.6 % in the median, and up to 5 % in a tenth of cases.
GPU_SPREAD, GPU_COMMON, GPU_LARGEST = 0.006, 0.003, 0.05
DRIFT_PER_SESSION = 0.03 / 50
WAVE_AMPLITUDE, WAVE_PERIOD = 0.004, 120
HOST_LARGEST_US = 1.0
LEVELS_SIZES, LEVELS_DWELL = (0.01, 0.03), 8.0
# Mean number of sessions on one GPU before the next for "as they come", as in the saved gates of H200s.
LEASE_SESSIONS = 4

Order = Literal["random", "in turn", "as they come"]
Driver = Literal["", "nothing", "six", "all"]
Hosts = Literal["", "one change", "in turn", "own rate"]
Drift = Literal["", "suite", "three", "suite late"]
Code = Literal["unknown", "known"]


@dataclass(frozen=True)
class Step:
    """A commit that changed ``cases`` cases (0: the whole suite) by ``size``, ``age`` sessions before the end."""

    size: float
    age: int
    cases: int = 1


@dataclass(frozen=True)
class Plan:
    """Parameters of a history."""

    cases: int
    sessions: int
    gpus: int = 1
    order: Order = "random"
    steps: tuple[Step, ...] = ()
    quiet: bool = False  # without the noisy cases of the records, so without cublas-256
    noisy: bool = False  # one case with a spread of 3.6 %, and one with a single odd session
    heavy: bool = False  # slow single times, and whole odd sessions
    ar_share: float = 0.0  # share of cases with AR(1)
    level_share: float = 0.0  # share of cases with two levels that last
    drift: Drift = ""
    wave: bool = False
    hosts: Hosts = ""
    driver: Driver = ""
    driver_age: int = 0  # sessions since the driver changed
    reruns: bool = False  # one to three sessions of a commit
    spread_grows: bool = False  # of one case the spread is seven times as large in the newest third
    code: Code = "unknown"  # whether runs have the hash of the machine code


@dataclass
class History:
    """A drawn history: the contents of the runs, and the true changes."""

    plan: Plan
    seed: int
    donors: Ints  # case of the records for each case
    time_us: Floats  # sessions x cases
    gpu: Ints  # of each session
    driver: Ints  # of each session: 0 before, 1 after the change
    commit: Ints  # number of the commit of each session
    code: Ints  # sessions x cases: version of the machine code
    guilty: dict[int, tuple[int, float]] = field(default_factory=dict)  # case: (number of its commit, size)
    ages: dict[int, int] = field(default_factory=dict)  # case: age of its step
    offsets: Floats = field(default_factory=lambda: np.zeros((1, 1)))  # GPUs x cases, of the logarithm

    def run_last_on(self, gpu: int) -> History:
        """The same history with the newest session on another GPU of the pool: the same noise, that GPU's offset."""
        moved = self.time_us.copy()
        moved[-1] *= np.exp(self.offsets[gpu] - self.offsets[self.gpu[-1]])
        order = self.gpu.copy()
        order[-1] = gpu
        return replace(self, time_us=moved, gpu=order)


def _choose_donors(plan: Plan, records: Records, rng: np.random.Generator) -> Ints:
    """Cases of the records: all in turn if that many are needed, otherwise some; one or two cases are quiet ones."""
    everyone = np.arange(len(records.cases))
    if plan.cases <= 2 or plan.quiet:
        everyone = everyone[records.spread <= TARGET_SPREAD]
    rounds = [rng.permutation(everyone) for _ in range(-(-plan.cases // len(everyone)))]
    return np.sort(np.concatenate(rounds)[: plan.cases]).astype(np.int64)


def _ar(rng: np.random.Generator, sessions: int, count: int) -> Floats:
    """Stationary AR(1) of unit variance, sessions x count."""
    values = rng.standard_normal((sessions, count))
    scale = np.sqrt(1 - AR_COEFFICIENT**2)
    for session in range(1, sessions):
        values[session] = AR_COEFFICIENT * values[session - 1] + scale * values[session]
    return values


def _levels(rng: np.random.Generator, sessions: int) -> Floats:
    """0 or 1 by session, each level for a geometric number of sessions."""
    changes = rng.random(sessions) < 1 / LEVELS_DWELL
    return ((np.cumsum(changes) + rng.integers(2)) % 2).astype(np.float64)


def _noise(plan: Plan, records: Records, donors: Ints, rng: np.random.Generator) -> tuple[Floats, Floats, Ints]:
    """Noise of the logarithm, the spread of each case, and the cases without injected steps."""
    shape = (plan.sessions, plan.cases)
    duration, spread = records.duration_us[donors], records.spread[donors].copy()
    groups = records.residual_class(duration)
    resampled = np.empty(shape)
    for group in np.unique(groups):
        chosen = groups == group
        resampled[:, chosen] = rng.choice(records.residuals[group], (plan.sessions, int(chosen.sum())))
    units = np.sqrt(1 - SMOOTHING**2) * resampled + SMOOTHING * rng.standard_normal(shape)
    shared = records.shared[rng.integers(len(records.shared), size=plan.sessions)]
    peculiar: set[int] = set()
    free = rng.permutation(plan.cases)
    odd = np.zeros(shape)
    if plan.noisy:
        spread[free[0]] = NOISY_SPREAD
        odd[rng.integers(plan.sessions), free[1 % plan.cases]] = rng.uniform(0.2, 0.6)
        peculiar |= {int(free[0]), int(free[1 % plan.cases])}
    count = round(plan.ar_share * plan.cases)
    if count:
        chosen = free[2 % plan.cases :][:count]
        spread[chosen] = np.maximum(spread[chosen], 0.003)
        units[:, chosen] = _ar(rng, plan.sessions, len(chosen))
        peculiar |= set(chosen.tolist())
    values = units * spread + shared[:, records.shared_class(duration)] + odd
    count = round(plan.level_share * plan.cases)
    for case in free[::-1][:count]:
        values[:, case] += rng.uniform(*LEVELS_SIZES) * _levels(rng, plan.sessions)
        peculiar.add(int(case))
    if plan.heavy:
        values += (rng.random(shape) < 1 / 50) * rng.uniform(0.01, 0.05, shape)
        whole = rng.random(plan.sessions) < 1 / 60
        values += whole[:, None] * (rng.random(shape) < 0.2) * rng.uniform(0.01, 0.03, shape)
    if plan.spread_grows:
        case, newest = int(free[-1]), plan.sessions // 3
        values[-newest:, case] *= 7
        peculiar.add(case)
    return values, spread, np.array(sorted(peculiar), dtype=np.int64)


def _slow(plan: Plan, peculiar: Ints, rng: np.random.Generator) -> tuple[Floats, Ints]:
    """Drift and wave of the logarithm, sessions x cases, and the cases that drift by themselves."""
    values = np.zeros((plan.sessions, plan.cases))
    session = np.arange(plan.sessions, dtype=np.float64)
    own = np.empty(0, dtype=np.int64)
    if plan.drift == "suite":
        values += (DRIFT_PER_SESSION * session)[:, None]
    elif plan.drift == "suite late":
        values += (DRIFT_PER_SESSION * np.maximum(0, session - plan.sessions / 2))[:, None]
    elif plan.drift == "three":
        left = np.setdiff1d(np.arange(plan.cases), peculiar)
        own = rng.choice(left, min(3, len(left)), replace=False).astype(np.int64)
        values[:, own] += (DRIFT_PER_SESSION * session)[:, None]
    if plan.wave:
        phase = rng.uniform(0, 2 * np.pi)
        values += (WAVE_AMPLITUDE * np.sin(2 * np.pi * session / WAVE_PERIOD + phase))[:, None]
    return values, own


def _hosts(plan: Plan, rng: np.random.Generator) -> Floats:
    """Microseconds that the hosts add, sessions x cases."""
    shape = (plan.sessions, plan.cases)
    if not plan.hosts:
        return np.zeros(shape)
    if plan.hosts == "in turn":  # four hosts, each for some sessions
        added = rng.uniform(0, HOST_LARGEST_US, 4)
        host = np.cumsum(rng.random(plan.sessions) < 1 / 15) % 4
        return np.broadcast_to(added[host][:, None], shape).copy()
    at = int(rng.integers(min(8, plan.sessions // 2), plan.sessions - min(5, plan.sessions // 4)))
    each = np.ones(plan.cases) if plan.hosts == "one change" else rng.uniform(0.8, 1.2, plan.cases)
    return np.where(np.arange(plan.sessions)[:, None] >= at, rng.uniform(0, HOST_LARGEST_US) * each, 0.0)


def draw(plan: Plan, records: Records, seed: int) -> History:
    """The history of a plan and a seed."""
    rng = np.random.default_rng(seed)
    donors = _choose_donors(plan, records, rng)
    session = np.arange(plan.sessions)
    values, spread, peculiar = _noise(plan, records, donors, rng)
    slow, drifting = _slow(plan, peculiar, rng)
    values += slow
    # The pool.
    if plan.order == "as they come":  # some sessions on each, then never again
        gpu = np.cumsum(rng.random(plan.sessions) < 1 / LEASE_SESSIONS) % plan.gpus
    else:
        gpu = session % plan.gpus if plan.order == "in turn" else rng.integers(plan.gpus, size=plan.sessions)
    offsets = np.zeros((plan.gpus, plan.cases))
    if plan.gpus > 1:
        wide = rng.random(plan.cases) < 0.1
        shape = offsets.shape
        offsets = np.where(wide, rng.uniform(-GPU_LARGEST, GPU_LARGEST, shape), rng.normal(0, GPU_SPREAD, shape))
        offsets = np.clip(offsets + rng.normal(0, GPU_COMMON, (plan.gpus, 1)), -GPU_LARGEST, GPU_LARGEST)
        values += offsets[gpu]
    # The driver.
    driver = np.zeros(plan.sessions, dtype=np.int64)
    moved = np.empty(0, dtype=np.int64)
    if plan.driver:
        driver[plan.sessions - plan.driver_age :] = 1
        free = np.setdiff1d(np.arange(plan.cases), np.concatenate([peculiar, drifting]))
        if plan.driver == "six":
            moved = rng.choice(free, min(6, len(free)), replace=False).astype(np.int64)
            values[driver == 1] += np.bincount(moved, rng.uniform(0.02, 0.1, len(moved)), plan.cases)
        elif plan.driver == "all":
            values[driver == 1] += rng.uniform(-0.03, 0.05, plan.cases)
    # Commits.
    commit = session.copy()
    if plan.reruns:
        commit = np.cumsum(rng.random(plan.sessions) < 0.5)
    code = np.zeros((plan.sessions, plan.cases), dtype=np.int64)
    for innocuous in np.flatnonzero(rng.random(plan.cases) < 0.05).tolist():  # code changes without an effect
        code[rng.integers(plan.sessions) :, innocuous] += 1
    history = History(plan, seed, donors, np.empty(0), gpu.astype(np.int64), driver, commit, code, offsets=offsets)
    quiet = np.flatnonzero(spread <= TARGET_SPREAD)
    free = rng.permutation(np.setdiff1d(quiet, np.concatenate([peculiar, drifting, moved])))
    for step in plan.steps:
        at = plan.sessions - step.age
        chosen = np.arange(plan.cases) if step.cases == 0 else free[: step.cases]
        free = free[len(chosen) :] if step.cases else free
        values[at:, chosen] += np.log1p(step.size)
        code[at:, chosen] += 1
        for case in chosen.tolist():
            history.guilty[case] = (int(commit[at]), step.size)
            history.ages[case] = step.age
    history.time_us = records.duration_us[donors] * np.exp(values) + _hosts(plan, rng)
    return history
