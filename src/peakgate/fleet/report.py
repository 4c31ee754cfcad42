"""Judges a measured fleet and reports it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from peakgate.base.errors import Code, PeakgateError
from peakgate.base.formatting import counted, percent
from peakgate.base.report import Column, Report, Row, Table, Tone
from peakgate.base.verdict import EMULATED_PASS, ExitCode, Verdict
from peakgate.fleet import analysis, dataset
from peakgate.fleet.analysis import Analysis, GpuStatus
from peakgate.fleet.paired import FleetShift
from peakgate.fleet.pictures import pictures
from peakgate.fleet.shard import EQUAL_WITHIN, Sharded, judge
from peakgate.fleet.statistics import ALL
from peakgate.fleet.store import GATES_PHASE, SHARD, FleetPhases, Store, in_words
from peakgate.render import files, terminal
from peakgate.runfile import frame
from peakgate.spec.recorded import EMULATOR_SLUG

MOST_ROWS, MOST_CASES, MOST_NODES = 20, 5, 200
GPU_TABLE_COLUMNS = (
    *("status", "reason", "node", "rack", "slug", "driver", "vbios", "group", "effect_percent", "p"),
    *("threshold_percent", "cases", "below_floor", "faults", "wall_s", "temperature_after_c"),
)
GPU_COLUMNS = (
    Column("node", "node", brief=True),
    Column("rack", "rack"),
    Column("effect_percent", "slower by", "{:.2f} %".format, brief=True),
    Column("group", "in", brief=True),
    Column("p", "p", "{:.4f}".format),
    Column("below_floor", "below floor", brief=True),
    Column("temperature_after_c", "°C", "{:.0f}".format),
)
TIER_COLUMNS = (Column("uuids", "measured on", brief=True),)


def suspects(store: Store, past: Sequence[Path] = ()) -> list[str]:
    """The GPUs of a fleet to measure again; a small fleet is compared with earlier fleets."""
    return analysis.suspects(analysis.analyse(dataset.gather(store), _earlier(store.folder, past)))


def conclude(store: Store, past: Sequence[Path], phases: FleetPhases) -> int:
    """Judge a fleet, considering earlier ones, write and print its reports, and return the exit code."""
    table, shares = dataset.gather(store), store.shares()
    found = of_tier(judge(table, shares)) if shares else of_fleet(analysis.analyse(table, _earlier(store.folder, past)))
    written = [store.folder / dataset.DATASET_FILE, *write(found, store.folder)]
    phases.ends("report")
    if GATES_PHASE in phases.seconds:
        store.add_wall(phases.seconds)
    return _shown(found, written, store.wall())


def of_table(path: Path, root: Path, past: Sequence[Path]) -> int:
    """Judge a fleet's Parquet file; its reports are written to the folder of its name below ``root``."""
    table = dataset.read(path, dataset.REPORT_COLUMNS)
    names = table["fleet"].dropna().astype(str).unique()
    if len(names) != 1 or (table["mode"] == SHARD).any() or not names[0].isalnum():
        raise PeakgateError(
            f"{path}: expected the table of one fleet that measured all cases on every GPU, given "
            f"{counted(len(names), 'fleet')}; for a sharded tier name its folder",
            Code.NO_RUN,
        )
    folder = root / names[0]
    found = of_fleet(analysis.analyse(table, _earlier(folder, past)))
    return _shown(found, write(found, folder), {})


def _shown(found: Report, written: Sequence[Path], wall: Mapping[str, float]) -> int:
    terminal.show(found, most=MOST_ROWS)
    if wall:
        terminal.line(terminal.VerdictConsole(), in_words(wall), "dim")
    terminal.last_line(found, written=sorted(written))
    return found.exit_code


def write(found: Report, folder: Path) -> list[Path]:
    """Write all outputs; Markdown and HTML contain only the first of the rows that passed."""
    passed = [row for row in found.rows if row.tone is Tone.SAME][MOST_ROWS * 10 :]
    dropped = {row.name for row in passed}
    brief = replace(found, rows=[row for row in found.rows if row.name not in dropped], totals=found.counts)
    return [*files.write(brief, folder, ("md", "html")), *files.write(found, folder, ("csv", "json"))]


def _earlier(folder: Path, past: Sequence[Path]) -> pd.DataFrame | None:
    """The measurements of ``past`` and of the earlier fleets in this one's parent folder; None without any.

    Only the newest measurement of each GPU and pass is kept, which limits the memory needed.
    """
    beside = [path for path in folder.parent.glob(f"*/{dataset.DATASET_FILE}") if path.parent.name < folder.name]
    named = [path / dataset.DATASET_FILE if path.is_dir() else path for path in past]
    kept: list[pd.DataFrame] = []
    known: set[tuple[str, str]] = set()
    begun = {path: dataset.read(path, ["started"])["started"].astype(str).max() for path in [*beside, *named]}
    for path in sorted(begun, key=lambda path: begun[path], reverse=True):
        table = dataset.read(path, dataset.REPORT_COLUMNS)
        measured = table[table["outcome"] == "measured"]
        passes = pd.MultiIndex.from_arrays([measured["uuid"].astype(str), measured["mode"].astype(str)])
        kept.append(measured[~passes.isin(list(known))] if known else measured)
        known.update(passes.unique())
    return pd.concat(kept, ignore_index=True) if kept else None


def of_fleet(found: Analysis) -> Report:
    """The report of GPUs that measured the same cases: those not OK, worst first, then the others, slowest first."""
    effects = found.effects.apply(lambda column: 100 * np.expm1(column)).add_suffix(" percent")
    gpus = found.gpus[list(GPU_TABLE_COLUMNS)].join(effects)
    unsettled = set(found.gpus.index[found.gpus["open"].to_numpy(bool)])  # suspects that were not measured again
    bad = (gpus["status"] != GpuStatus.OK) | gpus.index.isin(list(unsettled))
    fine = gpus[~bad].sort_values("effect_percent", ascending=False)
    changes = [*([found.together] if found.together else []), *found.changes]
    notes = [*found.faulty, *found.notes]
    nodes = _nodes(found)
    rows = []
    for each in records(pd.concat([gpus[bad], fine]), "uuid"):
        unmeasured = each["uuid"] in unsettled and each["status"] == GpuStatus.OK
        status = str(GpuStatus.UNDECIDED if unmeasured else each["status"])
        rows.append(Row(each["uuid"], status, each["reason"] or "", cells=each, group=str(each["node"])))
    return Report(
        command="fleet",
        exit_code=found.exit_code,
        verdict=_verdict(found),
        qualified=EMULATED_PASS if _verdict(found) is Verdict.PASS and set(gpus["slug"]) == {EMULATOR_SLUG} else "",
        about=(("fleet", f"{found.fleet}, {found.mode}"),),
        notes=notes,
        rows=rows,
        columns=GPU_COLUMNS,
        sentences=[
            *_sentences(found),
            *(each for change in changes for each in _change_lines(change)),
            *(f"to take it out of service: `{command}`" for command in _drain(found)),
        ],
        tables=[nodes] if nodes.rows else [],
        pictures=pictures(found),
        fields={
            "fleet": found.fleet,
            "mode": found.mode,
            "counts": {status.value: count for status, count in found.counts.items()},
            "failing": {str(case): int(count) for case, count in found.failing.items()},
            "notes": notes,
            "gpus": records(found.gpus[list(GPU_TABLE_COLUMNS)], "uuid"),
            "nodes": records(found.nodes, "node"),
            "racks": records(found.racks, "rack"),
            "changes": [
                {"what": each.what, "gpus": each.pairs}
                | {"groups": records(each.groups, "group"), "cases": records(each.cases, "case")}
                for each in changes
            ],
        },
        unit="GPU",
        totals={status.value: count for status, count in found.counts.items()},
    )


def _verdict(found: Analysis) -> str:
    """The worst status of a GPU, or the fleet's own failure; PASS if there is none."""
    worst = next(iter(found.counts), GpuStatus.UNDECIDED)
    if worst is not GpuStatus.OK:
        return worst
    if found.exit_code is ExitCode.REGRESSION:
        return GpuStatus.FAILED if found.faulty else GpuStatus.OUTLIER
    return Verdict.PASS if found.exit_code is ExitCode.OK else GpuStatus.UNDECIDED


def of_tier(found: Sharded) -> Report:
    """The report of a tier that was spread over GPUs."""
    equal = f"{counted(int(found.cases['common'].sum()), 'case')} given to every GPU"
    if apart := ", ".join(f"{name} {percent:.2f} %" for name, percent in found.apart.items()):
        equal += f", the slowest GPU compared with the fastest: {apart} (at most {100 * EQUAL_WITHIN:.0f} %)"
    failing = found.failing
    cases = pd.concat([failing, found.cases.drop(failing.index)])
    gpus = records(found.gpus, "uuid")
    headings = ("uuid", "node", "outcome", "cases", "wall_s", *found.apart)
    return Report(
        command="shard",
        exit_code=found.exit_code,
        verdict=Verdict.INCONCLUSIVE if found.problems else "",
        about=(("fleet", f"{found.fleet}, sharded: {counted(len(cases), 'case')} on {counted(len(gpus), 'GPU')}"),),
        rows=[
            Row(each["case"], each["verdict"] or Verdict.INCONCLUSIVE, cells=each, group=each["case"].partition(".")[0])
            for each in records(cases, "case")
        ],
        columns=TIER_COLUMNS,
        sentences=[*found.problems, equal],
        tables=[Table("GPUs", headings, [[each.get(name) for name in headings] for each in gpus])],
        fields={
            "fleet": found.fleet,
            "problems": list(found.problems),
            "apart_percent": dict(found.apart),
            "gpus": gpus,
            "cases": records(found.cases, "case"),
        },
    )


def records(found: pd.DataFrame, name: str) -> list[dict[str, Any]]:
    """The rows of a table for JSON, with the index under ``name`` and missing values as null."""
    return [vars(each) for each in frame.records(found.rename_axis(name).reset_index())]


def _sentences(found: Analysis) -> list[str]:
    """Sentences on slow nodes and racks, cases that failed gates, the fleet's spread, and cases below their floors."""
    lines = []
    for level, judged in (("rack", found.racks), ("node", found.nodes)):
        for row in judged[judged["named"].to_numpy(bool)].itertuples():
            members = found.gpus.index[(found.gpus[level] == row.Index).to_numpy(bool)]
            medians = found.effects.reindex(members).median()
            lines.append(
                f"{level} {row.Index}: {analysis.in_words(medians, row)}: check cooling, power and the host first"
            )
    if len(found.failing):
        failing = found.failing.head(MOST_CASES).items()
        most = ", ".join(f"{case} on {counted(count, 'GPU')}" for case, count in failing)
        lines.append(f"gates failed by {counted(len(found.failing), 'case')}, most by {most}")
    if len(found.effects) > 1:
        spread = ", ".join(f"{name} {percent(100 * value, '.2f', '–')}" for name, value in found.effects.std().items())
        lines.append(f"spread between GPUs (SD): {spread}")
    if below := int((found.gpus["below_floor"] > 0).sum()):
        cases = counted(int(found.gpus["below_floor"].sum()), "case")
        lines.append(f"cases below their floor on {counted(below, 'GPU')}, {cases} in all")
    return lines


def _change_lines(change: FleetShift) -> list[str]:
    """Sentences on changes by group, and on the cases that changed most."""
    parts = []
    for name, row in change.groups.iterrows():
        known = not math.isnan(row["low_percent"])
        bounds = f" ({row['low_percent']:+.2f} to {row['high_percent']:+.2f} %)" if known else ""
        parts.append(f"{name} {percent(row['shift_percent'], '+.2f', '–')}{bounds}")
    lines = [f"{change.what}, {counted(change.pairs, 'GPU')}, time: {', '.join(parts)}"]
    if len(change.cases):
        shifts = change.cases["shift_percent"].head(MOST_CASES)
        most = ", ".join(f"{case} {shift:+.1f} %" for case, shift in shifts.items())
        lines.append(f"{change.what}: {counted(len(change.cases), 'case')} moved, most {most}")
    return lines


def _drain(found: Analysis) -> list[str]:
    """Drain commands for Slurm and Kubernetes, for nodes with bad GPUs."""
    bad = found.gpus[found.gpus["out_of_service"].to_numpy(bool)]
    nodes = dict.fromkeys([*bad["node"].astype(str), *found.nodes.index[found.nodes["named"].to_numpy(bool)]])
    commands = []
    for node in list(nodes)[:MOST_ROWS]:
        if not all(letter.isalnum() or letter in "-._" for letter in node):
            continue  # a node's name has no shell metacharacters
        commands += [f"scontrol update NodeName={node} State=DRAIN Reason='peakgate fleet {found.fleet}'"]
        commands += [f"kubectl cordon {node}"]
    return commands


def _nodes(found: Analysis) -> Table:
    """A table of nodes, slowest first: GPUs that are not OK, median effect over all cases, hottest GPU."""
    gpus = found.gpus.assign(
        node=found.gpus["node"].astype(str),
        rack=found.gpus["rack"].fillna(""),
        bad=found.gpus["status"] != GpuStatus.OK,
        effect=found.effects[ALL] if len(found.effects) else math.nan,
        celsius=pd.to_numeric(found.gpus["temperature_after_c"]),
    )
    by_node = gpus.groupby("node")
    nodes = pd.DataFrame(
        {
            "rack": by_node["rack"].first(),
            "GPUs": by_node.size(),
            "not OK": by_node["bad"].sum(),
            "median slower by, %": (100 * np.expm1(by_node["effect"].median())).round(2),
            "hottest, °C": by_node["celsius"].max(),
        }
    )
    named = nodes.index.isin(found.nodes.index[found.nodes["named"].to_numpy(bool)])
    nodes["named"] = np.where(named, "slower than the others", "")
    order = nodes.sort_values(["named", "not OK", "median slower by, %"], ascending=False, kind="stable")
    rows = records(order.head(MOST_NODES), "node")
    return Table("Nodes", list(rows[0]) if rows else ("node",), [list(row.values()) for row in rows], folded=True)
