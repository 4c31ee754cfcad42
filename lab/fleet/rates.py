"""Rates of the fleet's rule on simulated fleets: ``python -m lab.fleet.rates RECORD --processes 16`` writes the record.

Healthy fleets of every scenario (``generator.SCENARIOS``) and what is named of them; slow GPUs and nodes and whether
they are named; other tools' rules on the same fleets. What a fleet names in its first pass counts as named: measuring
a suspect again can only take names back. Every fleet has a seed of its own, from ``SEED`` and its numbers.
``--share 0.02`` is a quick try.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special  # type: ignore[import-untyped]  # SciPy ships no type information

from lab.fleet import generator
from lab.fleet.generator import FEW_CASES, MEASURED, SCENARIOS, SLOW_CASES, DrawnFleet
from peakgate.base.files import write_whole
from peakgate.base.text import say
from peakgate.base.verdict import ExitCode
from peakgate.fleet import statistics

SEED = 20261124
SIZES = (8, 64, 1000, 10_000)
FLEETS = {8: 2000, 64: 1000, 1000: 400, 10_000: 300}
"""Healthy fleets of so many GPUs, of each scenario; of the largest size only as measured."""

SLOWDOWNS = (0.01, 0.015, 0.02, 0.025, 0.03, 0.05)
TRIALS = {8: 200, 64: 160, 1000: 60, 10_000: 40}
"""Slow GPUs or nodes, of each kind and size of the slowdown."""

SLOW_SHARE = 0.002
"""Of a large fleet so many GPUs are slowed at once; of ``MANY`` a tenth."""

EVERY, NODE, MANY = next(iter(SLOW_CASES)), "a node of eight", "a tenth of the GPUs"
PEER_SIZES, PEER_FLEETS = (8, 64, 1000), {8: 100, 64: 50, 1000: 10}
GEMM = "sgemm.cublas-4096"
RULES = ("5 % of the mean, any case", "z > 2, one GEMM", "z > 3, one GEMM", "3 MAD", "peakgate")
CHUNKS = 40
HEALTHY, POWER, PEERS, FEW, KNOWN = "healthy.csv", "power.csv", "peers.csv", "few.csv", "known.csv"
FEW_FLEETS = {8: 300, 64: 150}
KEYS = {
    HEALTHY: ["gpus", "scenario"],
    FEW: ["gpus", "scenario"],
    POWER: ["gpus", "slow", "slowdown_percent"],
    PEERS: ["gpus", "rule"],
}
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Work:
    """Some simulated fleets of one kind: ``part`` is the record they belong to."""

    part: str
    gpus: int
    fleets: int
    chunk: int
    scenario: int = 0
    slow: str = ""
    slowdown: float = 0.0

    @property
    def rng(self) -> np.random.Generator:
        kinds = [*SLOW_CASES, NODE, MANY, ""]
        numbers = [self.gpus, self.chunk, self.scenario, kinds.index(self.slow), round(1000 * self.slowdown)]
        return np.random.default_rng([SEED, [HEALTHY, POWER, PEERS, FEW].index(self.part), *numbers])


known = cache(generator.profiles)


def named(fleet: DrawnFleet) -> dict[str, pd.Series]:
    """Which units the rule names, by level."""
    groups = known().groups[fleet.log_us.columns]
    effects, spread = statistics.effects(fleet.log_us, groups), statistics.H200.of_cases(groups)
    found = statistics.fleet(effects, fleet.nodes, fleet.racks, spread)
    return {level: table["named"] for level, table in found.items()}


def healthy(work: Work) -> list[dict[str, float | str]]:
    """How many healthy fleets name a GPU, a node or a rack, and in how many of them a GPU 3 % slow is named."""
    rng, scenario = work.rng, (*SCENARIOS, *FEW_CASES)[work.scenario]
    counts = dict.fromkeys(("gpu", "node", "rack", "any", "slow_named"), 0)
    for _ in range(work.fleets):
        fleet = generator.draw(known(), scenario, work.gpus, rng)
        flags: dict[str, bool] = {level: bool(found.any()) for level, found in named(fleet).items()}
        slow = rng.integers(0, work.gpus, 1)
        found = named(generator.slowed(fleet, known().groups, slow, EVERY, 0.03))
        flags |= {"any": any(list(flags.values())), "slow_named": bool(found["gpu"].iloc[int(slow[0])])}
        counts = {name: count + flags[name] for name, count in counts.items()}
    return [{"scenario": scenario.name, "gpus": work.gpus, "fleets": work.fleets, **counts}]


def detected(work: Work) -> list[dict[str, float | str]]:
    """How many slow GPUs (of a node: nodes) are named, and how many healthy GPUs beside them."""
    rng, hits, total, beside = work.rng, 0, 0, 0
    size = MEASURED.per_host if work.slow == NODE else 1
    share = 0.1 if work.slow == MANY else SLOW_SHARE
    count = max(1, round(share * work.gpus / size))
    while total < work.fleets:
        fleet = generator.draw(known(), MEASURED, work.gpus, rng)
        units = rng.choice(work.gpus // size, count, replace=False)
        rows = (units[:, None] * size + np.arange(size)).ravel()
        kind = work.slow if work.slow in SLOW_CASES else EVERY
        found = named(generator.slowed(fleet, known().groups, rows, kind, work.slowdown))
        if work.slow == NODE:
            hits += int(found["node"].reindex(units.astype(str)).sum())
        else:
            hits += int(found["gpu"].iloc[rows].sum())
            beside += int(found["gpu"].sum() - found["gpu"].iloc[rows].sum())
        total += count
    about: dict[str, float | str] = {"gpus": work.gpus, "slow": work.slow, "slowdown_percent": 100 * work.slowdown}
    return [about | {"named": hits, "of": total, "healthy_named": beside}]


def best(size: int, slow: str, slowdown: float) -> float:
    """Power of the best test that knows every level and a GPU's SD within it, but not which level a GPU has.

    By the effect over the slowed cases, at the same error; a slow GPU of a fast level looks like one of a slow level.
    """
    effects = generator.effects(known())
    column = {"the memory-bound cases": "memory", "the compute-bound cases": "compute"}.get(slow, "all cases")
    by_level = effects.groupby("level")[column]
    sd = float(np.sqrt(by_level.var().mean())) / (1.0 if slow != NODE else np.sqrt(MEASURED.per_host))
    hosts = effects.groupby("level")["host"].nunique()
    units, alpha = (size // MEASURED.per_host, 0.3) if slow == NODE else (size, 0.6)
    limit = by_level.mean().max() - sd * special.ndtri(0.01 * alpha / units)
    reached = special.ndtr((by_level.mean() + 100 * np.log1p(slowdown) - limit) / sd)
    return float((reached * hosts).sum() / hosts.sum())


def peers(work: Work) -> list[dict[str, float | str]]:
    """Other tools' rules on the same fleets: healthy ones that name a GPU, and 5 % slow GPUs that are named."""
    columns = ("healthy_fleets_named", "healthy_gpus_named", "slow_named")
    rng, counts = work.rng, {rule: np.zeros(len(columns), int) for rule in RULES}
    for _ in range(work.fleets):
        fleet = generator.draw(known(), MEASURED, work.gpus, rng)
        slow = rng.integers(0, work.gpus, 1)
        flags = _by_rule(generator.slowed(fleet, known().groups, slow, "the memory-bound cases", 0.05))
        for rule, fine in _by_rule(fleet).items():
            counts[rule] += [bool(fine.any()), int(fine.sum()), bool(flags[rule][slow].all())]
    about: dict[str, float | str] = {"gpus": work.gpus, "fleets": work.fleets}
    return [about | {"rule": rule, **dict(zip(columns, found, strict=True))} for rule, found in counts.items()]


def _by_rule(fleet: DrawnFleet) -> dict[str, Flags]:
    """Which GPUs each rule names, by rule."""
    times = np.exp(fleet.log_us.to_numpy())
    gemm = times[:, fleet.log_us.columns.get_loc(GEMM)]
    z = (gemm - gemm.mean()) / gemm.std()
    everything = (fleet.log_us - fleet.log_us.median()).median(axis=1).to_numpy()
    away = everything - np.median(everything)
    mad = away > 3 * 1.4826 * np.median(np.abs(away))
    return dict(zip(RULES, (_beyond_mean(times), z > 2, z > 3, mad, named(fleet)["gpu"].to_numpy(bool)), strict=True))


def _beyond_mean(times: generator.Matrix) -> Flags:
    """GPUs more than 5 % above the mean of a case, the mean taken again without them until none is left out."""
    kept = np.ones(times.shape, bool)
    while True:
        away = times / np.nanmean(np.where(kept, times, np.nan), axis=0) - 1
        within = np.abs(away) <= 0.05
        if (within | ~kept).all():
            return np.asarray((away > 0.05).any(axis=1))
        kept &= within


def works(parts: Sequence[str], share: float) -> Iterator[Work]:
    """What is to be simulated, the largest fleets first, cut into chunks of about equal length."""
    for size in reversed(SIZES):
        if HEALTHY in parts:
            for scenario in range(len(SCENARIOS) if size < max(SIZES) else 1):
                yield from _chunks(FLEETS[size] * share, part=HEALTHY, gpus=size, scenario=scenario)
        if FEW in parts and size in FEW_FLEETS:
            for scenario in range(len(SCENARIOS), len(SCENARIOS) + len(FEW_CASES)):
                yield from _chunks(FEW_FLEETS[size] * share, 4, part=FEW, gpus=size, scenario=scenario)
        if POWER in parts:
            kinds = (*SLOW_CASES, *((NODE, MANY) if size >= 64 else ()))
            for slow, slowdown in itertools.product(kinds, SLOWDOWNS):
                yield from _chunks(TRIALS[size] * share, 4, part=POWER, gpus=size, slow=slow, slowdown=slowdown)
        if PEERS in parts and size in PEER_SIZES:
            yield from _chunks(PEER_FLEETS[size] * share, 4, part=PEERS, gpus=size)


def _chunks(fleets: float, most: int = CHUNKS, **about: object) -> Iterator[Work]:
    count = max(1, round(fleets))
    chunks = min(most, count)
    for chunk in range(chunks):
        yield Work(fleets=count // chunks + (chunk < count % chunks), chunk=chunk, **about)  # type: ignore[arg-type]


def _done(work: Work) -> tuple[str, list[dict[str, float | str]]]:
    return work.part, {HEALTHY: healthy, FEW: healthy, POWER: detected, PEERS: peers}[work.part](work)


def _rank(column: pd.Series) -> pd.Series:
    """Numbers by size, names in the order of this module."""
    order = [*(each.name for each in (*SCENARIOS, *FEW_CASES)), *SLOW_CASES, NODE, MANY, *RULES]
    return column if pd.api.types.is_numeric_dtype(column) else column.map(order.index)


def main(arguments: Sequence[str] | None = None) -> int:
    """Simulate and write the record."""
    parser = argparse.ArgumentParser(prog="python -m lab.fleet.rates", description=__doc__)
    parser.add_argument("record", type=Path)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--share", type=float, default=1.0, help="of the fleets")
    parser.add_argument("--parts", default=f"{HEALTHY},{FEW},{POWER},{PEERS}")
    options = parser.parse_args(arguments)
    rows: dict[str, list[dict[str, float | str]]] = {part: [] for part in options.parts.split(",")}
    known()
    with multiprocessing.get_context("fork").Pool(options.processes) as pool:
        for part, found in pool.imap_unordered(_done, works(list(rows), options.share)):
            rows[part] += found
    for part, found in rows.items():
        table = pd.DataFrame(found).groupby(KEYS[part], as_index=False).sum()
        table = table.sort_values(["gpus", *KEYS[part][1:]], key=_rank, ignore_index=True)
        if part == POWER:
            slowed = zip(table["gpus"], table["slow"], table["slowdown_percent"], strict=True)
            table["best"] = [best(gpus, slow, slowdown / 100) for gpus, slow, slowdown in slowed]
        write_whole(options.record / part, table.to_csv(index=False, float_format="%.6g", lineterminator="\n"))
    about = generator.effects(known()).rename_axis("gpu").reset_index()
    about["host"] = about["host"].str[:7]
    write_whole(options.record / KNOWN, about.to_csv(index=False, float_format="%.4f", lineterminator="\n"))
    say(f"{options.record}: {', '.join(rows)} written\n")
    return ExitCode.OK


if __name__ == "__main__":
    sys.exit(main())
