"""The noise of H200 gates, from committed records, which the generators of histories resample.

A donor is a case of the gate: its duration, the spread of its session medians and its residuals in units of that
spread. Residuals are of the logarithm, within one GPU and day, after subtracting the part that all cases of similar
duration share in a session; that part is kept separately, for the three classes of duration together, by session.

Spread is pooled over the days of a case (about 31 sessions), so that noisier days appear as heavy tails.
"""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Durations in microseconds between which the shared part of a session is estimated and drawn.
SHARED_EDGES = (100.0, 300.0)
# Durations between which residuals are pooled: a case draws from the residuals of cases of its own class.
RESIDUAL_EDGES = (30.0, 100.0, 300.0)
# Copies over PCIe from pageable memory are excluded: their spread is 7 to 15 %.
NO_KERNEL = "pageable"


@dataclass(frozen=True)
class Records:
    """The noise in the records: donors, one entry per case, and the shared parts, one row per recorded session."""

    cases: tuple[str, ...]
    duration_us: Floats
    spread: Floats  # standard deviation of the logarithm, without the shared part
    residuals: tuple[Floats, ...]  # by class of RESIDUAL_EDGES, in units of the spread of their case
    shared: Floats  # sessions x classes of SHARED_EDGES, of the logarithm

    def residual_class(self, duration_us: Floats) -> NDArray[np.int64]:
        """Class of residuals for cases of these durations."""
        return np.searchsorted(RESIDUAL_EDGES, duration_us, side="right").astype(np.int64)

    def shared_class(self, duration_us: Floats) -> NDArray[np.int64]:
        """Column of ``shared`` for cases of these durations."""
        return np.searchsorted(SHARED_EDGES, duration_us, side="right").astype(np.int64)


def read(folder: Path) -> Records:
    """Donors of the gates below ``folder``: run files named ``*gate.json.gz``, several of each GPU."""
    batches: dict[str, list[dict[str, float]]] = defaultdict(list)
    for path in sorted(folder.glob("*gate.json.gz")):
        with gzip.open(path) as file:
            run = json.load(file)
        times = {e["extra_info"]["case"]: e["extra_info"].get("time_us") for e in run["benchmarks"]}
        batches[run["machine_info"]["gpu"]["uuid"]].append({case: time for case, time in times.items() if time})
    batches = {uuid: runs for uuid, runs in batches.items() if len(runs) >= 5}
    if not batches:
        message = f"no gates of one GPU below {folder}"
        raise FileNotFoundError(message)
    common = set.intersection(*(set(run) for runs in batches.values() for run in runs))
    cases = tuple(sorted(case for case in common if NO_KERNEL not in case))

    def class_medians(values: Floats, classes: NDArray[np.int64]) -> Floats:
        columns = range(len(SHARED_EDGES) + 1)
        return np.stack([np.median(values[:, classes == one], axis=1) for one in columns], axis=1)

    logs = [np.log([[run[case] for case in cases] for run in runs]) for runs in batches.values()]
    duration: Floats = np.exp(np.mean([values.mean(axis=0) for values in logs], axis=0))
    classes = np.asarray(np.searchsorted(SHARED_EDGES, duration, side="right"), dtype=np.int64)
    shared, own = [], []
    for values in logs:
        centred = (values - values.mean(axis=0)) * np.sqrt(len(values) / (len(values) - 1))
        part = class_medians(centred, classes)
        shared.append(part)
        own.append(centred - part[:, classes])
    residuals = np.concatenate(own)
    spread = np.sqrt((residuals**2).mean(axis=0))
    groups = np.searchsorted(RESIDUAL_EDGES, duration, side="right")
    pools = tuple((residuals[:, groups == g] / spread[groups == g]).ravel() for g in range(len(RESIDUAL_EDGES) + 1))
    return Records(cases, duration, spread, pools, np.concatenate(shared))
