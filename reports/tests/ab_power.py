"""What the rule of ``ab`` attains on real noise: false alarms of a whole gate, and the power to see planted shifts.

``python -m reports.tests.ab_power [GATES]``. A gate is 176 cases: 22 kernels, eight times each, with the process
medians of ``data/h200_24_processes.csv`` (24 processes on one NVIDIA H200, 40 flushed samples a kernel, so that short
kernels are noisier than under the suite's own sampling). Processes are drawn whole: what moved all kernels of a process
stays together.
"""

from __future__ import annotations

import csv
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from reports.ab.decide import Status, decide
from reports.ab.schedule import looks
from reports.noise import Floats

DATA = Path(__file__).parent / "data" / "h200_24_processes.csv"
COPIES = 8
EFFECTS = (0.005, 0.01, 0.02, 0.03, 0.05)
DURATIONS_US = ((0, 8), (8, 30), (30, 120), (120, math.inf))
SLOWED = 8
"""Cases of a gate that are slowed in the experiments on power."""


@dataclass(frozen=True, slots=True)
class Attained:
    """Shares from 0 to 1.

    A false gate calls something SLOWER. ``power`` is keyed by (duration in microseconds, effect); ``suspects`` and
    ``confirming_pairs`` are those of a gate in which nothing changed.
    """

    false_gates: float
    left_open: float
    suspects: float
    confirming_pairs: float
    power: dict[tuple[tuple[float, float], float], float]


def log_medians() -> Floats:
    """Log medians in microseconds by (case, process)."""
    with DATA.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    cases, processes = (sorted({row[name] for row in rows}) for name in ("case", "process"))
    times = np.zeros((len(cases), len(processes)))
    for row in rows:
        times[cases.index(row["case"]), processes.index(row["process"])] = math.log(float(row["median_us"]))
    return times


def attained(gates: int, pairs: int = 10, confirm_pairs: int = 20, seed: int = 1) -> Attained:
    """Play ``gates`` gates without any change, and as many with each effect."""
    rng = np.random.default_rng(seed)
    measured = log_medians()
    log_time = np.tile(measured.mean(axis=1), COPIES)
    planned = looks(confirm_pairs)
    alarms, undecided, suspects, confirming = [], [], [], []
    for screen, confirm in _gates(rng, measured, gates, pairs, planned[-1].pairs):
        found = [case for case in decide(screen, confirm, log_time, planned, [True] * len(screen)) if case]
        alarms.append(any(case.status is Status.CALLED and case.direction > 0 for case in found))
        undecided.append(any(case.status is Status.OPEN for case in found))
        suspects.append(sum(case.direction != 0 for case in found))
        confirming.append(max((case.estimate.pairs for case in found if case.direction), default=0))
    seen: dict[tuple[tuple[float, float], float], list[bool]] = {}
    for effect in EFFECTS:
        for screen, confirm in _gates(rng, measured, gates, pairs, planned[-1].pairs):
            slowed = rng.choice(len(screen), SLOWED, replace=False)
            screen[slowed] += math.log1p(effect)
            confirm[slowed] += math.log1p(effect)
            decisions = decide(screen, confirm, log_time, planned, [True] * len(screen))
            for case in slowed:
                decision = decisions[case]
                called = decision is not None and decision.status is Status.CALLED
                seen.setdefault((_group(math.exp(log_time[case])), effect), []).append(called)
    return Attained(
        false_gates=float(np.mean(alarms)),
        left_open=float(np.mean(undecided)),
        suspects=float(np.mean(suspects)),
        confirming_pairs=float(np.mean(confirming)),
        power={key: float(np.mean(calls)) for key, calls in seen.items()},
    )


def _gates(
    rng: np.random.Generator, measured: Floats, gates: int, pairs: int, confirm_pairs: int
) -> Iterator[tuple[Floats, Floats]]:
    """Screening and confirming log ratios of unchanged code."""
    for _ in range(gates):
        yield _pairs(rng, measured, pairs), _pairs(rng, measured, confirm_pairs)


def _pairs(rng: np.random.Generator, measured: Floats, pairs: int) -> Floats:
    """Differences of two processes drawn at random, for each copy of the kernels anew."""
    processes = measured.shape[1]
    return np.concatenate(
        [
            measured[:, rng.integers(processes, size=pairs)] - measured[:, rng.integers(processes, size=pairs)]
            for _ in range(COPIES)
        ]
    )


def _group(time_us: float) -> tuple[float, float]:
    return next(group for group in DURATIONS_US if group[0] <= time_us < group[1])


def _table(found: Attained, gates: int) -> str:
    lines = [
        f"{gates} gates of {22 * COPIES} unchanged cases: {100 * found.false_gates:.2f} % with a false SLOWER,",
        f"{100 * found.left_open:.1f} % with a case left open; {found.suspects:.1f} suspects and",
        f"{found.confirming_pairs:.0f} confirming pairs a gate",
        "| duration | " + " | ".join(f"{100 * effect:g} %" for effect in EFFECTS) + " |",
        "|---|" + "---|" * len(EFFECTS),
    ]
    for group in DURATIONS_US:
        name = f"{group[0]}-{group[1]} µs" if group[1] < math.inf else f"from {group[0]} µs"
        cells = (found.power.get((group, effect)) for effect in EFFECTS)
        lines.append(f"| {name} | " + " | ".join("" if cell is None else f"{100 * cell:.0f}" for cell in cells) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    sys.stdout.write(_table(attained(count), count))
