"""Compares two measurements of the same GPUs by uuid: load of all GPUs, earlier fleets, driver and VBIOS roll-outs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from scipy import stats  # type: ignore[import-untyped]  # scipy ships no type information

from peakgate.compare import noise
from peakgate.fleet import dataset, statistics

FEWEST_GPU_PAIRS = 4
CASE_ALPHA = 0.01
SMALLEST_LISTED_SHIFT = 0.0025
"""Smallest log shift of a listed case (0.25 %)."""


@dataclass(frozen=True, slots=True)
class FleetShift:
    """The change between two measurements of the same GPUs.

    ``what`` names the difference. ``groups`` holds the fleet's shift by group: ``shift_percent`` (median over the GPUs)
    and its 95 % interval from ``low_percent`` to ``high_percent``, NaN with too few pairs. ``gpus`` holds each GPU's
    shift by group, in log time. ``cases`` are those that moved (Holm-adjusted). ``named`` says why a GPU is an outlier,
    by uuid.
    """

    what: str
    pairs: int
    groups: pd.DataFrame
    gpus: pd.DataFrame
    cases: pd.DataFrame
    named: Mapping[str, str]


def together(now: pd.DataFrame, past: pd.DataFrame) -> FleetShift | None:
    """Compare running all GPUs of a node at once with one at a time, for unchanged machine code."""
    exclusive = past[(past["mode"] == "exclusive") & (past["outcome"] == "measured")]
    return _newest(now, exclusive, "all GPUs of a node at once, compared with one at a time")


def against_past(now: pd.DataFrame, past: pd.DataFrame) -> tuple[FleetShift, ...]:
    """Compare each GPU with its newest earlier measurement; GPUs whose driver or VBIOS changed also form a roll-out."""
    mode = now["mode"].astype(str).iloc[0] if len(now) else ""
    before = past[(past["mode"] == mode) & (past["outcome"] == "measured")]
    found = []
    for fact in ("driver", "vbios"):
        # The newest row of each GPU comes first.
        old, new = (dataset.facts_by(each.sort_values("started").iloc[::-1], "uuid", fact) for each in (before, now))
        moved = [uuid for uuid in new.index.intersection(old.index) if pd.notna(old[uuid]) and old[uuid] != new[uuid]]
        change = _newest(now[now["uuid"].isin(moved)], before, f"{fact} roll-out") if moved else None
        found += [change] if change else []
    if unmoved := _newest(now, before, "earlier measurements of the same GPUs"):
        found.append(_named(unmoved, dataset.groups(now), dataset.facts_by(now, "uuid", "node")))
    return tuple(found)


def _newest(now: pd.DataFrame, before: pd.DataFrame, what: str) -> FleetShift | None:
    """Compare with each GPU's newest earlier measurement, in cases with unchanged machine code."""
    before = before[before["uuid"].isin(now["uuid"].astype(str))]
    if before.empty or now.empty:
        return None
    old, new = dataset.log_times(same_code(now, newest(before))), dataset.log_times(now)
    uuids, cases = old.index.intersection(new.index), old.columns.intersection(new.columns)
    shift = new.loc[uuids, cases] - old.loc[uuids, cases]
    return None if shift.empty else _change(what, shift, dataset.groups(now))


def newest(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of each GPU's newest measurement."""
    started = rows["started"].astype(str)
    return rows[started == started.groupby(rows["uuid"].astype(str)).transform("max")]


def same_code(now: pd.DataFrame, before: pd.DataFrame) -> pd.DataFrame:
    """The earlier rows with unchanged machine code; cases without a fingerprint, of libraries, are kept."""
    code = dataset.facts_by(now, "case", "fingerprint")
    of_now = before["case"].astype(str).map(code)
    known = before["case"].astype(str).isin(code.index)
    return before[known & (before["fingerprint"].isna() | (before["fingerprint"].astype(object) == of_now))]


def _change(what: str, shift: pd.DataFrame, groups: pd.Series) -> FleetShift:
    gpus = {statistics.ALL: shift.median(axis=1)}
    for group in statistics.GROUPS:
        chosen = shift.columns[(groups.reindex(shift.columns) == group).to_numpy()]
        if len(chosen):
            gpus[group] = shift[chosen].median(axis=1)
    table = pd.DataFrame(gpus)
    count = len(table)
    errors = float(stats.t.isf(0.025, count - 1)) / math.sqrt(count) if count >= FEWEST_GPU_PAIRS else math.nan
    bounds = {"low_percent": table.mean() - errors * table.std(), "high_percent": table.mean() + errors * table.std()}
    logs = pd.DataFrame({"shift_percent": table.median(), **bounds})
    return FleetShift(what, count, logs.apply(lambda column: 100 * np.expm1(column)), table, _moved(shift), {})


def _moved(shift: pd.DataFrame) -> pd.DataFrame:
    """The cases that moved: paired t test over the GPUs, Holm-adjusted over the cases; empty with too few GPUs."""
    columns = ["shift_percent", "p"]
    if len(shift) < FEWEST_GPU_PAIRS:
        return pd.DataFrame(columns=columns, dtype=float)
    count, sd = shift.notna().sum(), shift.std()
    p = 2 * stats.t.sf(np.abs(shift.mean() / (sd / np.sqrt(count)).clip(lower=1e-6)), count - 1)
    adjusted = noise.holm(np.nan_to_num(p, nan=1.0))
    found = pd.DataFrame({"shift_percent": 100 * np.expm1(shift.median()), "p": adjusted}, index=shift.columns)
    moved = (found["p"] < CASE_ALPHA) & (shift.median().abs() > SMALLEST_LISTED_SHIFT)
    return found[moved].sort_values("shift_percent", ascending=False)


def _named(change: FleetShift, groups: pd.Series, hosts: pd.Series) -> FleetShift:
    """Add the GPUs that slowed down more than the fleet, by the rule for single GPUs."""
    if change.pairs < statistics.FEWEST_GPUS:
        return change
    beside, spread = change.gpus - change.gpus.median(), statistics.SINCE_PAST.of_cases(groups)
    sds = statistics.own_sds(beside, pd.Series("", index=beside.index), spread)
    alpha = statistics.FLEET_ALPHA * statistics.ALPHA_SHARES["gpu"]
    judged = statistics.judge(beside, alpha, statistics.slowest_healthy(beside, hosts.astype(str), spread), sds)
    named = {
        str(row.Index): f"{row.effect_percent:.1f} % slower than it was, beyond the fleet's shift, in {row.group}"
        for row in judged[judged["named"]].itertuples()
    }
    return replace(change, named=named)
