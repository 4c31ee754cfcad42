"""One tier that was spread over GPUs, judged as one run.

A case is judged by the GPU that measured it. The cases that all GPUs measured show whether it matters which one that
was: where they differ by more than ``EQUAL_WITHIN`` nothing is said about the tier. The emulator has no speed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from peakgate.common.text import counted
from peakgate.reports.fleet import dataset
from peakgate.reports.fleet.shard.tier import Shares
from peakgate.reports.fleet.store import SHARD
from peakgate.verdict import REGRESSIONS, UNDECIDED, ExitCode

EQUAL_WITHIN = 0.03
"""The slowest and the fastest GPU may be so far apart in the median over a group's common cases: as far as unchanged
code is from one H200 to another (``comparison.noise``)."""

FEWEST_COMMON_CASES = 3
"""Fewer common cases that every GPU measured show nothing about a group."""


@dataclass(frozen=True, slots=True)
class Sharded:
    """A sharded tier judged.

    ``cases`` has a row per case: ``uuids`` that measured it, ``common``, ``verdict`` (the worst of theirs; missing
    where no GPU measured it), ``time_us`` (median of theirs) and ``peak_fraction``. ``gpus`` has a row per uuid:
    ``node``, ``outcome``, ``reason``, ``exit_code``, ``wall_s``, ``cases``, and in percent how far it is from the
    median GPU in each group of common cases. ``apart`` is by group how far the slowest is from the fastest, in
    percent. ``problems`` say why nothing is said about the whole tier; empty where it was measured whole, on equal
    GPUs.
    """

    fleet: str
    cases: pd.DataFrame
    gpus: pd.DataFrame
    apart: Mapping[str, float]
    problems: tuple[str, ...]

    @property
    def failing(self) -> pd.DataFrame:
        """The cases that fail or could not be decided, worst first."""
        words = [each.value for each in (*sorted(REGRESSIONS), *sorted(UNDECIDED))]
        bad = self.cases[self.cases["verdict"].isin(words)]
        return bad.sort_values("verdict", key=lambda column: column.map(words.index), kind="stable")

    @property
    def exit_code(self) -> ExitCode:
        codes = set(self.gpus["exit_code"])
        if ExitCode.REGRESSION in codes or self.cases["verdict"].isin([each.value for each in REGRESSIONS]).any():
            return ExitCode.REGRESSION
        return ExitCode.OK if codes == {ExitCode.OK} and not self.problems else ExitCode.UNDECIDED


def judge(table: pd.DataFrame, shares: Shares) -> Sharded:
    """Judge the ``shard`` pass of a fleet: ``table`` as ``DATASET_COLUMNS``."""
    mine = table[table["mode"] == SHARD]
    rows = mine[mine["case"].notna()]
    real = dataset.of_gpus(rows)
    deviations, groups = _deviations(real[real["case"].isin(shares.common)])
    effects = deviations.T.groupby(groups).median().T
    apart = {str(name): 100 * float(np.expm1(column.max() - column.min())) for name, column in effects.items()}
    gpus, cases = _gpus(shares, mine).join(100 * effects.map(math.expm1)), _cases(shares, rows)
    gone = gpus[gpus["outcome"] != "measured"]
    problems = [f"{uuid}: {row['outcome']}: {row['reason']}" for uuid, row in gone.iterrows()]
    if len(missing := cases.index[cases["verdict"].isna()]):
        left = f"{len(missing)} of {counted(len(cases), 'case')} not measured, {missing[0]} the first"
        problems.append(f"{left}; --resume measures them")
    if real["uuid"].nunique() > 1:
        problems += _unequal(apart, groups, real)
    fleet = str(table["fleet"].iloc[0]) if len(table) else ""
    return Sharded(fleet, cases, gpus, apart, tuple(problems))


def _deviations(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.Series]:
    """Log times of the common cases that every GPU measured beside their medians, and the group of each."""
    log_us = dataset.log_times(rows).dropna(axis="columns") if len(rows) else pd.DataFrame()
    groups = dataset.groups(rows).reindex(log_us.columns).fillna("no peak").astype(str)
    return log_us - log_us.median(), groups


def _gpus(shares: Shares, rows: pd.DataFrame) -> pd.DataFrame:
    """A row per GPU that has a share; one that is not in the table was not measured."""
    names = ["node", "outcome", "reason", "exit_code", "wall_s"]
    known = rows.assign(uuid=rows["uuid"].astype(str)).drop_duplicates("uuid").set_index("uuid")[names].astype(object)
    known["exit_code"] = known["exit_code"].astype("Int64").astype(object)
    known["cases"] = rows.groupby(rows["uuid"].astype(str))["case"].count()
    found = known.reindex(pd.Index(list(shares.own), name="uuid"))
    return found.fillna({**dataset.NOT_MEASURED, "cases": 0}).astype({"cases": int})


def _cases(shares: Shares, rows: pd.DataFrame) -> pd.DataFrame:
    worst = {each.value: rank for rank, each in enumerate((*sorted(UNDECIDED), *sorted(REGRESSIONS)), 1)}
    verdicts = rows["verdict"].astype(object)
    ordered = rows.assign(verdict=verdicts, rank=verdicts.map(worst).fillna(0)).sort_values("rank", kind="stable")
    by_case = ordered.groupby(ordered["case"].astype(str))
    found = by_case.agg(
        uuids=("uuid", lambda uuids: ", ".join(sorted(uuids))),
        verdict=("verdict", "last"),
        time_us=("time_us", "median"),
        peak_fraction=("peak_fraction", "median"),
    ).reindex(pd.Index(shares.cases, name="case"))
    return found.assign(common=found.index.isin(shares.common))


def _unequal(apart: Mapping[str, float], groups: pd.Series, rows: pd.DataFrame) -> list[str]:
    """What speaks against taking the GPUs as one."""
    limit = 100 * EQUAL_WITHIN
    found = [
        f"the GPUs are not equal: up to {percent:.1f} % apart in the common cases of {name}, at most {limit:.0f} %"
        for name, percent in apart.items()
        if percent > limit
    ]
    counts = groups.value_counts()
    measured = {str(bound) for bound in rows["bound"].dropna()}
    unknown = sorted(name for name in measured if counts.get(name, 0) < FEWEST_COMMON_CASES)
    if unknown or not apart:
        found.append(f"too few common cases to show that the GPUs are equal: {', '.join(unknown) or 'no figure'}")
    kinds = rows.drop_duplicates("uuid")[["slug", "driver"]].astype(str).drop_duplicates()
    if len(kinds) > 1:
        found.append(f"the GPUs are of {len(kinds)} models and drivers: {'; '.join(map(', '.join, kinds.to_numpy()))}")
    return found
