"""Judges the table of a fleet: the status of every GPU (``GpuStatus``), slow nodes and racks, the exit code."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import pandas as pd

from peakgate.base.formatting import counted
from peakgate.base.verdict import FAULTY, REGRESSIONS, UNDECIDED, ExitCode, Verdict
from peakgate.fleet import dataset, paired, statistics
from peakgate.fleet.store import AGAIN, EXCLUSIVE, GATE_ATTEMPTS, TOGETHER

FIRST = (EXCLUSIVE, TOGETHER)
MOST_WORDS = 3
"""Cases listed in a GPU's reason."""


class GpuStatus(StrEnum):
    """The status of one GPU, worst first."""

    OUTLIER = "OUTLIER"
    CRASHED = "CRASHED"
    FAILED = "FAILED"
    LOST = "LOST"
    UNFIT = "UNFIT"
    UNDECIDED = "UNDECIDED"
    OK = "OK"


OUT_OF_SERVICE = (GpuStatus.OUTLIER, GpuStatus.CRASHED, GpuStatus.UNFIT)
"""Statuses that concern the GPU itself; a gate that FAILED or is UNDECIDED concerns kernels and floors."""

MOST_LOST_NODES = 0.25
"""If workers died during gates on a larger share of the nodes, the cluster is at fault, not the nodes."""


_OUTCOMES = {
    "lost": GpuStatus.LOST,
    "unfit": GpuStatus.UNFIT,
    "crashed": GpuStatus.CRASHED,
    "refused": GpuStatus.CRASHED,
}


@dataclass(frozen=True, slots=True)
class Analysis:
    """The result of a fleet's analysis.

    ``gpus`` has one row per uuid, worst first: ``node``, ``rack``, ``slug``, ``driver``, ``status``, ``reason``,
    ``group``, ``effect_percent``, ``p``, ``threshold_percent``, ``cases``, ``below_floor``, ``faults``, ``wall_s``,
    ``temperature_after_c``, ``open`` (a suspect that was not measured again), ``out_of_service``. ``nodes`` and
    ``racks`` are results of ``statistics.judge`` with ``slug`` and ``driver``. ``effects`` holds the GPUs' effects,
    ``deviations`` the deviation of each case (column) on each GPU (row) from the fleet's median, both in log time.
    ``failing`` is the number of GPUs whose gate failed, by case, largest first. ``together`` and ``changes`` compare by
    uuid (``paired``); None without earlier measurements.
    """

    fleet: str
    mode: str
    gpus: pd.DataFrame
    nodes: pd.DataFrame
    racks: pd.DataFrame
    effects: pd.DataFrame
    deviations: pd.DataFrame
    groups: pd.Series
    failing: pd.Series
    notes: tuple[str, ...]
    faulty: tuple[str, ...] = ()
    together: paired.FleetShift | None = None
    changes: tuple[paired.FleetShift, ...] = ()

    @property
    def counts(self) -> Mapping[GpuStatus, int]:
        seen = Counter(self.gpus["status"])
        return {each: seen[each] for each in GpuStatus if seen[each]}

    @property
    def exit_code(self) -> ExitCode:
        named = self.gpus["status"].isin([GpuStatus.OUTLIER, GpuStatus.CRASHED, GpuStatus.FAILED]).any()
        if named or self.faulty or self.nodes["named"].any() or self.racks["named"].any():
            return ExitCode.REGRESSION
        passed = (self.gpus["status"] == GpuStatus.OK).all() and not self.gpus["open"].any()
        return ExitCode.OK if passed else ExitCode.UNDECIDED


def analyse(table: pd.DataFrame, past: pd.DataFrame | None = None) -> Analysis:
    """Judge the newest pass of a fleet's table (``DATASET_COLUMNS``); ``past`` holds the rows of earlier fleets."""
    mode = next((each for each in reversed(FIRST) if (table["mode"] == each).any()), FIRST[0])
    first, again = table[table["mode"] == mode], table[table["mode"] == AGAIN]
    gates, real = pd.concat([first, again]), dataset.of_gpus(first)
    past = past if len(real) else None
    kinds = real[real["outcome"] == "measured"].groupby(["slug", "driver"], observed=True, dropna=False)
    cells: dict[Any, dict[str, pd.DataFrame]] = {}
    notes: list[str] = []
    for kind, rows in kinds:
        others = _of_past_fleets(rows, past)
        cells[kind] = _judged(rows, again, others)
        notes += _compared_with(", driver ".join(map(str, kind)), rows["uuid"].nunique(), others)
    gpus = _gpus(first)
    for cell in cells.values():
        gpus.loc[cell["gpus"].index, cell["gpus"].columns] = cell["gpus"]
    gpus["group"] = gpus["group"].where(gpus["group"].notna(), None)
    own, everywhere = _faults(first)
    frames = {name: pd.concat([cell[name] for cell in cells.values() or [NOTHING]]) for name in NOTHING}
    gpus = gpus.assign(faults=[len(own.get(uuid, [])) for uuid in gpus.index])
    words = _gate_words(gates)
    judged = [_status(row, own.get(row.Index), words, frames["effects"]) for row in gpus.itertuples()]
    gpus = gpus.assign(status=[status for status, _ in judged], reason=[reason for _, reason in judged])
    changes = paired.against_past(real, past) if past is not None else ()
    for uuid, why in [item for change in changes for item in change.named.items()]:
        gpus.loc[uuid, ["status", "reason"]] = [GpuStatus.OUTLIER, why]
    gpus = gpus.assign(out_of_service=gpus["status"].isin(OUT_OF_SERVICE) | _dead(gpus))
    order = gpus["status"].map({each: rank for rank, each in enumerate(GpuStatus)})
    gpus = gpus.assign(_order=order).sort_values(["_order", "p", "effect_percent"], ascending=[True, True, False])
    failed = gates[gates["verdict"].isin([each.value for each in REGRESSIONS])]
    failing = failed.groupby(failed["case"].astype(str))["uuid"].nunique()
    return Analysis(
        fleet=str(first["fleet"].iloc[0]) if len(first) else "",
        mode=mode,
        gpus=gpus.drop(columns="_order"),
        **frames,
        groups=dataset.groups(first),
        failing=failing.sort_values(ascending=False, kind="stable"),
        notes=tuple(notes),
        faulty=everywhere,
        together=paired.together(real, past) if past is not None and mode == TOGETHER else None,
        changes=changes,
    )


def suspects(found: Analysis) -> list[str]:
    """The GPUs to measure again: suspects, and all GPUs of a suspect node."""
    gpus = found.gpus
    nodes = set(found.nodes.index[found.nodes["suspect"].to_numpy(bool)])
    chosen = gpus["suspect"].to_numpy(bool) | gpus["node"].isin(nodes).to_numpy(bool)
    return [str(uuid) for uuid in gpus.index[chosen & (gpus["cases"] > 0).to_numpy(bool)]]


NOTHING: Mapping[str, pd.DataFrame] = {
    **dict.fromkeys(("nodes", "racks"), statistics.nothing()),
    **dict.fromkeys(("effects", "deviations"), pd.DataFrame()),
}


def _of_past_fleets(cell: pd.DataFrame, past: pd.DataFrame | None) -> pd.DataFrame:
    """GPUs of earlier fleets to compare with, if there are too few GPUs of this model and driver; else empty."""
    if past is None or cell["uuid"].nunique() >= statistics.FEWEST_GPUS:
        return cell.iloc[:0]
    same = [past[name].astype(str) == str(cell[name].iloc[0]) for name in ("slug", "driver", "mode")]
    others = past[np.logical_and.reduce(same) & ~past["uuid"].isin(cell["uuid"].astype(str))]
    return paired.same_code(cell, paired.newest(dataset.of_gpus(others[others["outcome"] == "measured"])))


def _compared_with(kind: str, count: int, others: pd.DataFrame) -> list[str]:
    """Notes on the number of GPUs of one model and driver."""
    if count >= statistics.FEWEST_GPUS:
        return []
    known = others["uuid"].nunique()
    if count + known >= statistics.FEWEST_GPUS:
        return [f"{kind}: {counted(count, 'GPU')}, compared with {counted(known, 'GPU')} of earlier fleets"]
    more = f" and {known} of earlier fleets" if known else ""
    fewest = f"at least {statistics.FEWEST_GPUS} are needed, including those of earlier fleets (--past)"
    return [f"{kind}: {counted(count, 'GPU')}{more}, too few to compare; {fewest}"]


def _judged(cell: pd.DataFrame, again: pd.DataFrame, others: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Judge the GPUs of one model and driver together with ``others``: ``gpus``, and the frames of ``NOTHING``."""
    every = pd.concat([cell, others]) if len(others) else cell
    about = every.drop_duplicates("uuid").set_index(every.drop_duplicates("uuid")["uuid"].astype(str))
    kind = {name: str(about[name].iloc[0]) for name in ("slug", "driver")}
    times, groups = dataset.log_times(every), dataset.groups(cell)
    here = times.index[times.index.isin(cell["uuid"].astype(str))]
    fresh = dataset.log_times(again[again["uuid"].isin(here)]).reindex(columns=times.columns)
    units = (about["node"].astype(str), about["rack"].astype(object))
    spread = statistics.spread_of(kind["slug"]).of_cases(groups.reindex(times.columns))
    effects = statistics.effects(times, groups)
    first = final = statistics.fleet(effects, *units, spread)
    if len(fresh):
        times.loc[fresh.index] = fresh
        effects = statistics.effects(times, groups)
        final = statistics.fleet(effects, *units, spread)
    judged = final["gpu"].reindex(here)
    judged[["named", "suspect"]] = judged[["named", "suspect"]].fillna(False).astype(bool)
    measured_again = here.isin(fresh.index)
    judged["open"] = judged["suspect"] & ~measured_again
    judged["named"] &= measured_again & first["gpu"]["suspect"].reindex(here).fillna(False).astype(bool)
    levels = {}
    for level, of_gpu in zip(("node", "rack"), units, strict=True):
        found = final[level][final[level].index.isin(of_gpu[here])]
        named = found["named"] & found.index.isin(of_gpu[here[measured_again]])
        levels[f"{level}s"] = found.assign(named=named, **kind)
    deviations = times.loc[here] - statistics.polish(times.to_numpy())[1]
    return {"gpus": judged, **levels, "effects": effects.loc[here], "deviations": deviations}


def _gpus(first: pd.DataFrame) -> pd.DataFrame:
    """One row per uuid with the facts that need no comparison."""
    once = first.drop_duplicates("uuid")
    names = [
        "node",
        "rack",
        "slug",
        "driver",
        "vbios",
        "outcome",
        "reason",
        "workers_lost",
        "wall_s",
        "temperature_after_c",
    ]
    known = once[names].astype(object)
    gpus = known.where(known.notna(), None).set_axis(once["uuid"].astype(str), axis="index")
    below = first["verdict"] == Verdict.BELOW_FLOOR.value
    for name, flags in (("cases", first["time_us"].notna()), ("below_floor", below)):
        numbers = flags.groupby(first["uuid"], observed=True).sum()
        gpus[name] = numbers.set_axis(numbers.index.astype(str)).reindex(gpus.index)
    gpus[["group", "effect_percent", "p", "threshold_percent"]] = [None, np.nan, np.nan, np.nan]
    gpus["group"] = gpus["group"].astype(object)
    gpus[["named", "suspect", "open"]] = False
    return gpus


def _faults(first: pd.DataFrame) -> tuple[pd.Series, tuple[str, ...]]:
    """By uuid, texts on faulty cases that most other GPUs run without a fault; and texts on the other faulty cases."""
    faulty = first[first["verdict"].isin([each.value for each in FAULTY])]
    faulty = faulty.assign(case=faulty["case"].astype(str), verdict=faulty["verdict"].astype(str))
    measured = first.loc[first["outcome"] == "measured", "uuid"].nunique()
    counts = faulty.groupby("case")["uuid"].nunique()
    own = faulty[faulty["case"].map(counts) < 0.5 * measured]
    words = (own["case"] + ": " + own["verdict"]).groupby(own["uuid"].astype(str)).agg(list)
    verdicts = faulty.groupby("case")["verdict"].unique()
    everywhere = [
        f"{case}: {', '.join(sorted(verdicts[str(case)]))} on {count} of {counted(measured, 'GPU')}: "
        "attributed to the kernel, not to a GPU"
        for case, count in counts[counts >= 0.5 * measured].items()
    ]
    return words, tuple(everywhere)


def _dead(gpus: pd.DataFrame) -> pd.Series:
    """The LOST GPUs for which GATE_ATTEMPTS workers died, on few of the nodes.

    A GPU without a worker does not count: its worker may have ended with the scheduler or with its job.
    """
    dead = (gpus["status"] == GpuStatus.LOST) & pd.to_numeric(gpus["workers_lost"]).ge(GATE_ATTEMPTS)
    nodes = gpus.loc[dead, "node"].nunique()
    return dead & (nodes <= max(1, MOST_LOST_NODES * gpus["node"].nunique())) & (gpus["node"].nunique() > 1)


def _gate_words(gates: pd.DataFrame) -> Mapping[str, tuple[GpuStatus, str]]:
    """FAILED or UNDECIDED by uuid, from the exit code of ``bench``, with the reason."""
    found = {}
    measured = gates[(gates["outcome"] == "measured") & gates["exit_code"].gt(0)]
    for uuid, rows in measured.groupby(measured["uuid"].astype(str)):
        failed = (rows["exit_code"] == ExitCode.REGRESSION).any()
        why = rows[rows["verdict"].isin([each.value for each in (REGRESSIONS if failed else UNDECIDED)])]
        cases = dict(zip(why["case"].astype(str), why["verdict"].astype(str), strict=True))
        words = [f"{case}: {verdict}" for case, verdict in cases.items()]
        more = [f"{len(words) - MOST_WORDS} more"] if len(words) > MOST_WORDS else []
        reason = "; ".join([*words[:MOST_WORDS], *more]) or f"its gate exited {rows['exit_code'].max():.0f}"
        found[str(uuid)] = (GpuStatus.FAILED if failed else GpuStatus.UNDECIDED, reason)
    return found


def in_words(effects: pd.Series, row: Any) -> str:
    """How much slower a unit is than the fleet's median by group, and the threshold."""
    parts = ", ".join(
        f"{name} {100 * math.expm1(value):.1f} %" for name, value in effects.items() if not math.isnan(value)
    )
    return f"slower than the fleet's median: {parts} (threshold {row.threshold_percent:.1f} % in {row.group})"


def _status(
    row: Any, faults: list[str] | None, gates: Mapping[str, tuple[GpuStatus, str]], effects: pd.DataFrame
) -> tuple[GpuStatus, str]:
    if row.outcome in _OUTCOMES:
        return _OUTCOMES[row.outcome], str(row.reason or "")
    if faults:
        wrong = any(word.endswith((Verdict.WRONG.value, Verdict.IMPOSSIBLE.value)) for word in faults)
        words = "; ".join(faults[:MOST_WORDS])
        return GpuStatus.OUTLIER if wrong else GpuStatus.CRASHED, f"{words}; other GPUs run it"
    if row.named:
        return GpuStatus.OUTLIER, f"{in_words(effects.loc[row.Index], row)}, measured twice"
    if row.Index in gates:
        return gates[row.Index]
    if row.open:
        return (
            GpuStatus.OK,
            f"{in_words(effects.loc[row.Index], row)}: a suspect, not measured again; --resume does that",
        )
    return GpuStatus.OK, str(row.reason or "")
