"""The most that any rule could detect on the noise of H200s, and what `history` does: ``python -m lab.history.bound``.

The noise is that of the saved gates: of each case, a t distribution between the sessions of a GPU, and a normal one
between GPUs. The bound is the power of the likelihood ratio (Neyman and Pearson) if the noise, the size of the step and
its session are known, at a false-positive rate of ALLOWED per session of the whole suite.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats  # type: ignore[import-untyped]  # SciPy ships no type information

from lab import records
from lab.history import pool
from lab.pages import percent, read_json, table
from peakgate.base.files import write_whole
from peakgate.base.verdict import Verdict
from peakgate.compare.history.causes import Cause
from peakgate.compare.history.series import history
from peakgate.compare.history.trend import Trend, find_trend
from peakgate.compare.noise import Floats, Positions
from peakgate.runfile.frame import HISTORY_COLUMNS

RECORD = Path(__file__).with_name("bound.json")
TAILS = 5  # degrees of freedom: of 3, 4, 5, 6, 8, 12 and more, those of the largest likelihood
ALLOWED = 0.01
REPORTED = {Verdict.SLOWER, Verdict.UNCONFIRMED}
POOLS, SESSIONS, HISTORIES, DRAWS, SLOWED = (1, 2, 8, 20), 60, 50, 500, 12
NODES = np.linspace(-5, 5, 201)  # in SDs, over which the level of a GPU is integrated


class Noise(NamedTuple):
    """The cases' rows of a saved run, and their noise in log time: the scale between sessions, the SD between GPUs."""

    rows: pd.DataFrame
    scale: Floats
    between: Floats


def measured(frame: pd.DataFrame) -> Noise:
    """The noise of the whole gates, except copies from pageable memory."""
    frame = frame[frame["time_us"].notna() & ~frame["case"].str.contains("pageable")]
    gpu = frame.groupby("run")["gpu_uuid"].first()
    timed = frame.assign(log_time=np.log(frame["time_us"].astype(float)))
    log_time = timed.pivot(index="run", columns="case", values="log_time")
    counts = log_time.groupby(gpu).transform("count")
    level = log_time.groupby(gpu).mean()
    own = (log_time - log_time.groupby(gpu).transform("mean")) * np.sqrt(counts / (counts - 1).where(counts > 1))
    own = own.sub(own.median(axis=1), axis=0)
    scale = np.array([stats.t.fit(each.dropna(), fdf=TAILS, floc=0)[2] for _, each in own.items()])
    apart = (level - level.median()).pipe(lambda each: each.sub(each.median(axis=1), axis=0))
    variance = apart.var() - own.var() * (1 / log_time.groupby(gpu).count().where(level.notna())).mean()
    rows = frame.drop_duplicates("case", keep="last").sort_values("case")[[*HISTORY_COLUMNS]]
    return Noise(rows, scale, np.sqrt(variance.clip(lower=1e-6).to_numpy()))


def bound(noise: Noise, gpus: int, size: float, age: int) -> float:
    """The highest detection rate, over the cases, of a step in the newest ``age`` of SESSIONS sessions."""
    rng, ratios = np.random.default_rng(gpus), []
    for _ in range(DRAWS):
        ratio = np.zeros(len(noise.scale))
        gpu = rng.integers(gpus, size=SESSIONS)
        for one in np.unique(gpu[-age:]):
            earlier, newest = (int(np.count_nonzero(part == one)) for part in (gpu[:-age], gpu[-age:]))
            # Fisher's information of t noise on the level, and what the other GPUs say of it
            known = earlier * (TAILS + 1) / (TAILS + 3) / noise.scale**2
            sd = 1 / np.sqrt(known + (1 / noise.between**2 if gpus > 1 else 0.0))
            level = (rng.standard_normal(len(sd)) * sd)[:, None]
            times = np.log1p(size) + level + rng.standard_t(TAILS, (len(sd), newest)) * noise.scale[:, None]
            likely = []
            for shift in (np.log1p(size), 0.0):
                off = (times[:, :, None] - shift - (sd[:, None] * NODES)[:, None]) / noise.scale[:, None, None]
                logs = stats.t.logpdf(off, TAILS).sum(axis=1) - NODES**2 / 2
                likely.append(np.logaddexp.reduce(logs, axis=1))
            ratio += likely[0] - likely[1]
        ratios.append(ratio)
    ordered = np.sort(np.ravel(ratios))[::-1]
    # P(ratio > c) without a step is the mean of 1 / ratio over draws with one that exceed c
    allowed = np.cumsum(np.exp(-ordered)) / DRAWS <= ALLOWED
    return float(np.count_nonzero(allowed) / len(ordered))


def found(noise: Noise, off: Floats, gpu: Positions) -> Trend:
    """What `history` finds in sessions on these GPUs; ``off`` (case, session) is added to the log times."""
    rows, first = noise.rows.assign(fingerprint=None), noise.rows["taken"].max()
    parts = [
        rows.assign(run=f"{each}.json", taken=first + pd.Timedelta(days=each), commit=f"{each:040x}", gpu_uuid=f"{one}")
        for each, one in enumerate(gpu)
    ]
    runs = pd.concat(parts, ignore_index=True)
    return find_trend(history(runs.assign(time_us=runs["time_us"] * np.exp(off.T.ravel()))))


def reported(noise: Noise, gpus: int) -> dict[str, Any]:
    """What `history` reports of HISTORIES histories, unchanged and with each step in SLOWED cases."""
    cases = noise.rows["case"].to_numpy()
    unconfirmed, named, seen = 0, 0, np.zeros(len(pool.STEPS), dtype=int)
    for seed in range(HISTORIES):
        rng = np.random.default_rng([gpus, seed])
        gpu = rng.integers(gpus, size=SESSIONS)
        apart = (gpus > 1) * rng.standard_normal((len(cases), gpus)) * noise.between[:, None]
        off = apart[:, gpu] + rng.standard_t(TAILS, (len(cases), SESSIONS)) * noise.scale[:, None]
        unchanged = found(noise, off, gpu)
        unconfirmed += Verdict.UNCONFIRMED in unchanged.counts
        named += any(each.cause is Cause.COMMITS for each in unchanged.changes)
        slowed = rng.permutation(len(cases)).reshape(-1, SLOWED)[: len(seen)]
        for own, (size, age) in zip(slowed, pool.STEPS, strict=True):
            off[own, -age:] += np.log1p(size)
        slower = {each.case for each in found(noise, off, gpu).findings if each.verdict in REPORTED}
        seen += [len(slower.intersection(cases[own])) for own in slowed]
    return {"seen": seen.tolist(), "unconfirmed": unconfirmed, "named": named}


def blocks() -> dict[str, str]:
    """The blocks of the page."""
    record = read_json(RECORD)
    head = ["GPUs", *(f"{percent(size)}, {age}: {what}" for size, age in pool.STEPS for what in ("bound", "detected"))]
    rows = []
    for gpus, each in record["pools"].items():
        shares = [(most, seen / record["of"]) for most, seen in zip(each["bounds"], each["seen"], strict=True)]
        rows.append([gpus, *(percent(share) for pair in shares for share in pair), each["unconfirmed"], each["named"]])
    return pool.blocks() | {"history-bound": table([*head, "UNCONFIRMED", "a commit named"], rows)}


def main() -> None:
    """Write the record."""
    noise, pools = measured(pool.gates()), {}
    for gpus in POOLS:
        bounds = [bound(noise, gpus, *step) for step in pool.STEPS]
        pools[str(gpus)] = {"bounds": bounds, **reported(noise, gpus)}
    record = {"commit": records.checked_out(), "of": HISTORIES * SLOWED, "pools": pools}
    write_whole(RECORD, json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
