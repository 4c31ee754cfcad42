"""Simulated fleets, resampled from the committed gates of all H200s; shares no code with the rule that judges them.

``profiles`` reads every whole gate of an H200 in this repository. A host's GPUs were measured at one commit, within a
minute. A simulated host takes the level of a real host, drawn at random; each of its GPUs is a real GPU of that level,
with all its cases, plus what one real session differed from its GPU's mean. Scenarios change one of these assumptions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from lab.records import whole_runs
from peakgate.base.text import counted

KEPT = (
    *("baselines/nvidia-h200/runs/*.json.gz", "baselines/nvidia-h200/ladder/*.json*"),
    *("lab/floors/runs/*.json.xz", "lab/fleet/trial-*/exclusive/runs/*.json.xz", "lab/hgemm/*.json.xz"),
)
"""Where whole runs of H200s are kept that have every case of the gate tier."""

GAP = 0.0025
"""Levels are at least so far apart, in log time; GPUs of one level are within."""

FEWEST_SESSIONS = 5
"""Sessions of a GPU by which its session noise is known."""

GPUS_OF_A_RACK = 64
Matrix = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Profiles:
    """Real GPUs: ``log_us`` has a row per GPU, its mean over sessions, and a column per case; ``host`` its host.

    ``level`` is the number of its host's level, fastest first; ``sessions`` has what single sessions of the GPUs with
    many of them differ from their GPU's mean; ``groups`` the limit of each case.
    """

    log_us: pd.DataFrame
    host: pd.Series
    level: pd.Series
    sessions: Matrix
    groups: pd.Series


def profiles() -> Profiles:
    """The GPUs of all kept gates, in the cases whose machine code is the same in all of them."""
    runs = list(whole_runs(*KEPT))
    code: dict[str, set[str | None]] = {}
    for case, found in [item for run in runs for item in run.cases.items()]:
        code.setdefault(case, set()).add(found.fingerprint)
    everywhere = [case for case in code if all(case in run.cases for run in runs)]
    same = [case for case in everywhere if len(code[case]) == 1]
    times = pd.DataFrame([{case: np.log(run.cases[case].time_us) for case in same} for run in runs])
    uuids, commits = pd.Series([str(run.uuid) for run in runs]), pd.Series([str(run.commit) for run in runs])
    means = times.groupby(uuids).mean()
    groups = pd.Series({case: str(runs[0].cases[case].bound) for case in same})
    counts = uuids.map(uuids.value_counts())
    wider = pd.Series(np.sqrt(counts / (counts - 1)))  # what a mean of few sessions takes of their spread
    noise = (times - times.groupby(uuids).transform("mean")).mul(wider, axis=0)[counts >= FEWEST_SESSIONS]
    host = commits.groupby(uuids).first()
    return Profiles(means, host, _levels(means), noise.to_numpy(), groups)


def effects(known: Profiles) -> pd.DataFrame:
    """Each real GPU's time relative to the mean of all, in percent: over all cases and by group; its level and host."""
    beside = 100 * (known.log_us - known.log_us.mean())
    found = pd.DataFrame({"all cases": beside.median(axis=1)})
    for group in sorted(set(known.groups)):
        found[group] = beside[known.groups.index[known.groups == group]].median(axis=1)
    return found.assign(level=known.level, host=known.host).sort_values("all cases")


def _levels(means: pd.DataFrame) -> pd.Series:
    """The number of each GPU's level: a new one begins at each gap between GPUs' medians."""
    medians = (means - means.mean()).median(axis=1).sort_values()
    return (medians.diff() > GAP).cumsum().reindex(means.index)


@dataclass(frozen=True, slots=True)
class Scenario:
    """Assumptions of a simulated fleet; the defaults are what was measured.

    ``per_host`` GPUs share a host; ``mixed`` is the share of hosts whose GPUs have levels of their own. ``noise``
    multiplies the sessions' noise; ``host_sd`` is added per host (normal) and ``own_sd`` per GPU (Student t of
    ``own_df``), in log time. In ``new_share`` of the hosts it is slower than the slowest known level by ``new_level``.
    Where ``cases`` is not 0, each fleet measures so many cases, drawn at random.
    """

    name: str = "as measured"
    per_host: int = 8
    mixed: float = 0.0
    noise: float = 1.0
    host_sd: float = 0.0
    own_sd: float = 0.0
    own_df: float = 5.0
    new_share: float = 0.0
    new_level: float = 0.0
    cases: int = 0


MEASURED = Scenario()
SCENARIOS = (
    MEASURED,
    Scenario("hosts of 2", per_host=2),
    Scenario("hosts of 1", per_host=1),
    Scenario("a quarter of the hosts mix levels", mixed=0.25),
    Scenario("session noise twice as large", noise=2.0),
    Scenario("hosts differ by SD 0.1 % more", host_sd=0.001),
    Scenario("GPUs differ by SD 0.1 % more (t of 5 df)", own_sd=0.001),
    Scenario("a tenth of the hosts 0.3 % slower than any known", new_share=0.1, new_level=0.003),
)
FEW_CASES = tuple(
    Scenario(f"{counted(count, 'case')} at random, hosts of {hosts}", per_host=hosts, cases=count)
    for count in (1, 5, 20)
    for hosts in (8, 1)
)


@dataclass(frozen=True, slots=True)
class DrawnFleet:
    """Log times (a row per GPU, a column per case) with the node and the rack of each GPU."""

    log_us: pd.DataFrame
    nodes: pd.Series
    racks: pd.Series


def draw(known: Profiles, scenario: Scenario, count: int, rng: np.random.Generator) -> DrawnFleet:
    """A healthy fleet of so many GPUs, each measured once."""
    nodes = np.arange(count) // scenario.per_host
    hosts = int(nodes[-1]) + 1
    real_hosts = known.host.unique()
    level_of = known.level.groupby(known.host).first()
    drawn = level_of[rng.choice(real_hosts, hosts)].to_numpy()
    levels = drawn[nodes]
    mixed = (rng.random(hosts) < scenario.mixed)[nodes]
    levels[mixed] = level_of[rng.choice(real_hosts, int(mixed.sum()))].to_numpy()
    chosen = np.empty(count, np.int64)
    for level in np.unique(levels):
        members = np.flatnonzero(known.level.to_numpy() == level)
        here = levels == level
        chosen[here] = rng.choice(members, int(here.sum()))
    sessions = rng.integers(0, len(known.sessions), count)
    times = known.log_us.to_numpy()[chosen] + scenario.noise * known.sessions[sessions]
    shift = rng.normal(0.0, scenario.host_sd, hosts)[nodes]
    unit = np.sqrt(scenario.own_df / (scenario.own_df - 2))
    shift = shift + rng.standard_t(scenario.own_df, count) * scenario.own_sd / unit
    new = rng.random(hosts) < scenario.new_share
    if new.any():
        medians = (known.log_us - known.log_us.mean()).median(axis=1).groupby(known.level).median()
        shift = shift + new[nodes] * (medians.iloc[-1] - medians.to_numpy()[levels] + scenario.new_level)
    table = pd.DataFrame(times + shift[:, None], columns=known.log_us.columns)
    if scenario.cases:
        table = table.iloc[:, rng.choice(table.shape[1], scenario.cases, replace=False)]
    return DrawnFleet(
        table,
        pd.Series(nodes).astype(str),
        pd.Series(np.arange(count) // GPUS_OF_A_RACK).astype(str),
    )


SLOW_CASES: Mapping[str, tuple[str, ...]] = {
    "every case but the link's": ("memory", "compute"),
    "the memory-bound cases": ("memory",),
    "the compute-bound cases": ("compute",),
}


def slowed(fleet: DrawnFleet, groups: pd.Series, rows: Places, kind: str, slowdown: float) -> DrawnFleet:
    """The same fleet with some GPUs slower in the cases of some groups, none of them the link's."""
    columns = groups.reindex(fleet.log_us.columns).isin(SLOW_CASES[kind]).to_numpy()
    times = fleet.log_us.to_numpy().copy()
    times[np.ix_(rows, np.flatnonzero(columns))] += np.log1p(slowdown)
    return DrawnFleet(pd.DataFrame(times, columns=fleet.log_us.columns), fleet.nodes, fleet.racks)
