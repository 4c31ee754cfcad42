"""Spreads one tier over GPUs and judges the result as one run.

Every GPU gets a share of about the same expected time, and some common cases. A case is judged on the GPU that measured
it; the common cases show whether the GPUs are equally fast. If they differ by more than ``EQUAL_WITHIN``, the tier is
undecided. Emulated times are not compared.

``python -m peakgate.fleet.shard TIER SCALE`` prints the cases of the current project as JSON: for each case its id, its
limiter (null for a benchmark test), and an estimated time. Families and tests are imported in that process, not in the
command.
"""

from __future__ import annotations

import heapq
import math
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import pandas as pd
from msgspec import Struct, structs

from peakgate.base import records
from peakgate.base.config import Project
from peakgate.base.errors import Code, PeakgateError, refused
from peakgate.base.formatting import counted
from peakgate.base.processes import Asked, own_module
from peakgate.base.verdict import REGRESSIONS, UNDECIDED, ExitCode
from peakgate.fleet import dataset
from peakgate.fleet.store import SHARD, Shares
from peakgate.judge.metrics import Peaks
from peakgate.runfile.saved import Run, load_run, run_files
from peakgate.spec.case import Scale, Tier

COMMON, COMMON_SHARE = 24, 0.1
"""Approximate number of common cases, and their largest share of a tier."""

FEWEST_COMMON = 4
"""Common cases of each group, if it has as many."""

LONGEST_COMMON_S = 0.2
"""A longer case is not a common one, if there are enough others."""

TIER_LISTING_LIMIT_S = 300.0
TENSOR_TFLOPS = {"tf32": 535.0, "bf16": 1070.0, "fp16": 1070.0, "fp8": 2140.0, "fp4": 4280.0, "int8": 2140.0}
PEAKS = Peaks(4800.0, 67.0, "about an H200's", link_gbs=64.0, tensor_tflops=TENSOR_TFLOPS)
"""Used only to estimate times."""

FRACTION = 0.3
"""Assumed fraction of peak of a kernel that was never measured."""

CASE_S, LAUNCHES = 0.035, 16
"""Overhead of a case in seconds, and its number of launches, from full tiers on an H200."""

EQUAL_WITHIN = 0.03
"""Largest log difference between the slowest and the fastest GPU, in the median over a group's common cases, about that
of unchanged code between two H200s."""

FEWEST_COMMON_CASES = 3
"""Groups with fewer common cases measured by every GPU are not compared."""


def split(cases: pd.DataFrame, uuids: Sequence[str]) -> Shares:
    """Shares of about the same expected time (``expected``): the longest case first, each to the least loaded GPU."""
    common = _common(cases)
    left = cases[~cases["case"].isin(common)].sort_values(["seconds", "case"], ascending=[False, True])
    own: dict[str, list[str]] = {uuid: [] for uuid in uuids}
    loads = [(0.0, at) for at in range(len(uuids))]
    for case, case_s in zip(left["case"], left["seconds"], strict=True):
        seconds, at = heapq.heappop(loads)
        own[uuids[at]].append(case)
        heapq.heappush(loads, (seconds + case_s, at))
    return Shares(common, {uuid: tuple(chosen) for uuid, chosen in own.items()})


def _common(cases: pd.DataFrame) -> tuple[str, ...]:
    """Common cases of every group (memory, compute, link), spread evenly over the sorted names of its short cases."""
    wanted = min(COMMON, round(COMMON_SHARE * len(cases)))
    chosen: list[str] = []
    for _, members in cases.groupby(cases["bound"].fillna("None")):
        cheap = members[members["seconds"] <= LONGEST_COMMON_S].sort_values("case")
        names = (members if cheap.empty else cheap)["case"].to_list()
        count = min(max(FEWEST_COMMON, round(wanted * len(members) / len(cases))), len(names))
        chosen += [names[(2 * place + 1) * len(names) // (2 * count)] for place in range(count)]
    return tuple(chosen)


def listed(project: Project, tier: str, scale: Scale) -> pd.DataFrame:
    """The cases of a tier from ``main``, one row each; PeakgateError if they cannot be listed."""
    with Asked(own_module(__name__, tier, scale.value), TIER_LISTING_LIMIT_S, cwd=project.root) as asked:
        done = asked.finish()
    if done.problem:
        raise PeakgateError(f"{project.root}: its cases cannot be listed: {done.problem}", Code.FAMILY)
    cases = records.decode(done.output, list[ListedCase], Path("its list of cases"), "see its families")
    if not cases:
        raise PeakgateError(f"{project.root}: no case in the tier {tier}; nothing to spread over GPUs", Code.SELECTION)
    return pd.DataFrame(map(structs.asdict, cases))


def expected(cases: pd.DataFrame, project: Project, tier: str, slug: str | None) -> pd.DataFrame:
    """Add the expected ``seconds`` of each case, by the newest complete run of the tier on this GPU model.

    A case that the run lacks is assumed to reach FRACTION of an H200's peak.
    """
    run = _newest(project, tier, slug)
    time_us = cases["case"].map(run.times_us if run else {}).fillna(cases["time_us"])
    return cases.assign(seconds=CASE_S + LAUNCHES * time_us / 1e6)


def _newest(project: Project, tier: str, slug: str | None) -> Run | None:
    """The newest complete run of a tier on a GPU model, in the project's runs or baselines."""
    if slug is None:
        return None
    files = [*run_files(project.runs / slug), *run_files(project.baselines / slug / "runs")]
    for file in sorted(files, key=lambda path: path.name, reverse=True):
        with suppress(PeakgateError):
            found = load_run(file)
            if found.whole and found.tier == tier:
                return found
    return None


class ListedCase(Struct):
    """A case in the output of ``main``."""

    case: str
    bound: str | None = None
    time_us: float = 0.0


@dataclass(frozen=True, slots=True)
class Sharded:
    """The result of a sharded tier.

    ``cases`` has one row per case: ``uuids`` that measured it, ``common``, ``verdict`` (the worst one; missing if not
    measured), ``time_us`` (median) and ``peak_fraction``. ``gpus`` has one row per uuid: ``node``, ``outcome``,
    ``reason``, ``exit_code``, ``wall_s``, ``cases``, and its deviation from the median GPU by group of common cases, in
    percent. ``apart`` is the difference between the slowest and the fastest GPU by group, in percent. ``problems`` say
    why the tier is undecided; empty if it was measured completely on equal GPUs.
    """

    fleet: str
    cases: pd.DataFrame
    gpus: pd.DataFrame
    apart: Mapping[str, float]
    problems: tuple[str, ...]

    @property
    def failing(self) -> pd.DataFrame:
        """The failing and undecided cases, worst first."""
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
    """Judge the ``shard`` pass of a fleet; ``table`` has ``DATASET_COLUMNS``."""
    mine = table[table["mode"] == SHARD]
    rows = mine[mine["case"].notna()]
    real = dataset.of_gpus(rows)
    common = real[real["case"].isin(shares.common)]
    log_us = dataset.log_times(common).dropna(axis="columns") if len(common) else pd.DataFrame()  # of all GPUs
    groups = dataset.groups(common).reindex(log_us.columns).fillna("no peak").astype(str)
    effects = (log_us - log_us.median()).T.groupby(groups).median().T
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


def _gpus(shares: Shares, rows: pd.DataFrame) -> pd.DataFrame:
    """One row per GPU with a share; one that is not in the table was not measured."""
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
    """Reasons why the GPUs cannot be treated as equal."""
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


def main(arguments: Sequence[str]) -> int:
    """Print the cases; exit 2 on bad input."""
    from peakgate.base import config  # noqa: PLC0415  (not needed by the command)
    from peakgate.run import collection  # noqa: PLC0415
    from peakgate.spec import catalogue  # noqa: PLC0415  (not needed by the command)

    tier, scale = Tier(arguments[0]), Scale(arguments[1])
    try:
        project = config.required()
        cases = catalogue.cases(scale, tier)
        tests = collection.collected(project, {case.id for case in cases})
    except PeakgateError as error:
        return refused(error)
    rows = []
    for case in cases:
        time_us, bound = (PEAKS.least_time_us(case) if case.work.claimed else None) or (0.0, None)
        rows.append(ListedCase(case.id, bound, time_us / FRACTION))
    sys.stdout.write(msgspec.json.encode([*rows, *map(ListedCase, tests)]).decode())
    return ExitCode.OK


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
