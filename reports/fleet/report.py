"""Judge a fleet that was measured; its reports on the terminal and as Markdown, CSV and JSON decide nothing."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from peakgate.common.files import write_whole
from peakgate.common.text import cell, counted, one_line
from peakgate.reports.fleet import analysis, dataset, page
from peakgate.reports.fleet.analysis import OUT_OF_SERVICE, Analysis, GpuStatus
from peakgate.reports.fleet.page import MISSING
from peakgate.reports.fleet.paired import FleetShift
from peakgate.reports.fleet.shard import EQUAL_WITHIN, Sharded, judge
from peakgate.reports.fleet.store import GATES_PHASE, FleetPhases, Store, in_words
from peakgate.reports.ladder.markers import table
from peakgate.reports.render.markdown import code, escape
from peakgate.reports.render.terminal import VerdictConsole, line
from peakgate.reports.result import percent
from peakgate.verdict import Verdict, counts
from rich.console import Console
from rich.text import Text

FLEET_SCHEMA = 1
MOST_ROWS, MOST_CASES = 20, 5
STATUS_STYLES = {GpuStatus.OK: "green"} | dict.fromkeys(
    (GpuStatus.UNFIT, GpuStatus.LOST, GpuStatus.UNDECIDED), "yellow"
)
GPU_TABLE_COLUMNS = (
    *("status", "reason", "node", "rack", "slug", "driver", "vbios", "group", "effect_percent", "p"),
    *("threshold_percent", "cases", "below_floor", "faults", "wall_s", "temperature_after_c"),
)


def suspects(store: Store) -> list[str]:
    """The GPUs of a fleet to measure again."""
    return analysis.suspects(analysis.analyse(dataset.of_store(store)))


def conclude(store: Store, past: Sequence[Path], phases: FleetPhases) -> int:
    """Judge a fleet beside earlier ones, write its reports and print them; the exit code."""
    table, shares = dataset.of_store(store), store.shares()
    dataset.write(table, store.folder / dataset.DATASET_FILE)
    found = judge(table, shares) if shares else analysis.analyse(table, _earlier(store, past))
    written, files = write(found, store.folder)
    phases.ends("report")
    if GATES_PHASE in phases.seconds:
        store.add_wall(phases.seconds)
    console = VerdictConsole()
    show(written, console)
    if wall := store.wall():
        line(console, in_words(wall), "dim")
    files = sorted([store.folder / dataset.DATASET_FILE, *files])
    console.print(f"exit {int(found.exit_code)}; {', '.join(map(str, files))}", soft_wrap=True)
    return found.exit_code


def write(found: Analysis | Sharded, folder: Path) -> tuple[FleetReport, list[Path]]:
    """Write every output of a judged fleet or tier; its report, and the paths."""
    if isinstance(found, Sharded):
        written, texts = of_tier(found), {}
    else:
        written = of_fleet(found)
        texts = {
            "fleet.html": page.page(found, written.headline, [*written.sentences, *written.notes], written.commands)
        }
    stem = "shard" if isinstance(found, Sharded) else "fleet"
    texts |= {f"{stem}{ending}": text(written) for ending, text in WRITERS.items()}
    for name, text in texts.items():
        write_whole(folder / name, text)
    return written, [folder / name for name in texts]


def _earlier(store: Store, past: Sequence[Path]) -> pd.DataFrame | None:
    """The data sets of ``past`` and of the earlier fleets beside this one; None where there is none."""
    beside = [path for path in store.folder.parent.glob(f"*/{dataset.DATASET_FILE}") if path.parent.name < store.name]
    named = [path / dataset.DATASET_FILE if path.is_dir() else path for path in past]
    tables = [dataset.read(path) for path in [*named, *sorted(beside)]]
    return pd.concat(tables, ignore_index=True) if tables else None


@dataclass(frozen=True, slots=True)
class FleetReport:
    """What every output is written from.

    ``about`` says which fleet, ``headline`` what came of it. ``bad`` is the terminal's text on each GPU or case that
    did not pass, worst first. ``tables`` are those of the Markdown by title, ``rows`` those of the CSV. ``commands``
    take nodes out of service; they are never run here.
    """

    about: str
    headline: str
    sentences: Sequence[str]
    bad: Sequence[Text]
    tables: Mapping[str, pd.DataFrame]
    rows: pd.DataFrame
    document: Mapping[str, Any]
    notes: Sequence[str] = ()
    commands: Sequence[str] = ()


def of_fleet(found: Analysis) -> FleetReport:
    """The report of GPUs that measured the same cases, worst first."""
    gpus = found.gpus
    bad = gpus[(gpus["status"] != GpuStatus.OK) | gpus["open"].to_numpy(bool)]
    fine = gpus.drop(bad.index).sort_values("effect_percent", ascending=False)
    effects = found.effects.apply(lambda column: 100 * np.expm1(column)).add_suffix(" percent")
    changes = [*([found.together] if found.together else []), *found.changes]
    about, notes = {"fleet": found.fleet, "mode": found.mode}, [*found.faulty, *found.notes]
    document = {
        "counts": {status.value: count for status, count in found.counts.items()},
        "failing": {str(case): int(count) for case, count in found.failing.items()},
        "notes": notes,
        "gpus": records(gpus[list(GPU_TABLE_COLUMNS)], "uuid"),
        "nodes": records(found.nodes, "node"),
        "racks": records(found.racks, "rack"),
        "changes": [
            {"what": each.what, "gpus": each.pairs}
            | {"groups": records(each.groups, "group"), "cases": records(each.cases, "case")}
            for each in changes
        ],
    }
    return FleetReport(
        about=f"fleet {found.fleet}, {found.mode}",
        headline=", ".join(f"{count} {status}" for status, count in found.counts.items()) or "no GPU",
        sentences=[*_units(found), *_sentences(found), *(each for change in changes for each in _change_lines(change))],
        bad=[_bad_gpu(row) for row in bad.itertuples()],
        tables={
            f"Not OK ({len(bad)})": _gpu_table(bad),
            f"OK, slowest first ({len(fine)})": _gpu_table(fine.head(MOST_ROWS)),
        },
        rows=gpus[list(GPU_TABLE_COLUMNS)].join(effects).rename_axis("uuid").reset_index(),
        document={"schema": FLEET_SCHEMA, **about, "exit_code": int(found.exit_code), **document},
        notes=notes,
        commands=_drain(found),
    )


def of_tier(found: Sharded) -> FleetReport:
    """The report of a tier that was spread over GPUs."""
    judged = counts([Verdict(each) for each in found.cases["verdict"].dropna()]) or "nothing measured"
    word = f"{Verdict.INCONCLUSIVE}: " if found.problems else ""
    headline = f"{word}{counted(len(found.cases), 'case')} on {counted(len(found.gpus), 'GPU')}: {judged}"
    equal = f"{counted(int(found.cases['common'].sum()), 'case')} given to every GPU"
    if apart := ", ".join(f"{name} {percent:.2f} %" for name, percent in found.apart.items()):
        equal += f", the slowest GPU beside the fastest: {apart} (at most {100 * EQUAL_WITHIN:.0f} %)"
    gpus, bad = found.gpus, found.failing
    beside = {f"{name}, beside the median GPU": _texts(gpus[name], "+.2f", " %") for name in found.apart}
    facts = {"GPU": map(code, gpus.index), "node": [escape(str(node)) for node in gpus["node"].fillna(MISSING)]}
    facts |= {name: gpus[name].astype(str) for name in ("outcome", "cases")}
    named = {
        "verdict": bad["verdict"].astype(str),
        "case": map(code, bad.index),
        "measured on": map(escape, bad["uuids"]),
    }
    return FleetReport(
        about=f"fleet {found.fleet}, sharded",
        headline=headline,
        sentences=[*found.problems, equal],
        bad=[Text(one_line(f"{row.Index}: {row.verdict} on {row.uuids}")) for row in bad.itertuples()],
        tables={
            f"GPUs ({len(gpus)})": _columns(facts | {"wall time": _texts(gpus["wall_s"], ".1f", " s")} | beside),
            f"Not passed ({len(bad)})": _columns(named),
        },
        rows=found.cases.reset_index(),
        document={
            "schema": FLEET_SCHEMA,
            "fleet": found.fleet,
            "exit_code": int(found.exit_code),
            "problems": list(found.problems),
            "apart_percent": dict(found.apart),
            "gpus": records(gpus, "uuid"),
            "cases": records(found.cases, "case"),
        },
    )


def show(report: FleetReport, console: Console) -> None:
    """Print what came of the fleet, notes, what did not pass, and the sentences."""
    line(console, f"{report.about}: {report.headline}")
    for note in report.notes:
        line(console, f"note: {note}", "dim")
    for text in report.bad[:MOST_ROWS]:
        console.print(text, soft_wrap=True)
    if (more := len(report.bad) - MOST_ROWS) > 0:
        line(console, f"and {more} more; the files have them")
    for sentence in report.sentences:
        line(console, sentence)
    for command in report.commands:
        line(console, f"to take it out of service: {command}")


def markdown(report: FleetReport) -> str:
    """The whole report; every text that comes from a file is escaped."""
    lines = [f"# Peakgate fleet: {escape(report.headline)}", ""]
    lines += [f"- {escape(each)}" for each in (report.about, *report.sentences, *report.notes)]
    lines.append("")
    for title, found in report.tables.items():
        if len(found):
            lines += [f"## {title}", "", table([str(name) for name in found], found.itertuples(index=False)), ""]
    if report.commands:
        lines += ["To take nodes out of service:", "", "```sh", *report.commands, "```", ""]
    return "\n".join(lines)


def csv(report: FleetReport) -> str:
    """One row per GPU, worst first, with its effects in percent; of a sharded tier one per case."""
    text: str = report.rows.map(cell).to_csv(index=False, float_format="%.8g", lineterminator="\n")
    return text


def as_json(report: FleetReport) -> str:
    """Exit code, counts, GPUs, nodes, racks and changes; of a sharded tier problems, GPUs and cases."""
    return json.dumps(report.document, indent=1, allow_nan=False)


WRITERS = {".md": markdown, ".csv": csv, ".json": as_json}


def records(found: pd.DataFrame, name: str) -> list[dict[str, Any]]:
    """The rows of a table for JSON, each with its index under a name; what is missing is null."""
    plain = found.rename_axis(name).reset_index().astype(object)
    return [
        {str(key): getattr(value, "item", lambda value=value: value)() for key, value in record.items()}
        for record in plain.where(plain.notna(), None).to_dict("records")
    ]


def _bad_gpu(row: Any) -> Text:
    text = Text(f"{row.status:<9}", STATUS_STYLES.get(GpuStatus(str(row.status)), "bold red")).append(
        f"{row.Index}", "bold"
    )
    return text.append(f" on {one_line(str(row.node))}").append(f"\n    {one_line(str(row.reason))}", "dim")


def _units(found: Analysis) -> list[str]:
    """Named nodes and racks, a sentence each."""
    return [
        f"{level} {row.Index}: {row.effect_percent:.1f} % slower than the others in {row.group}"
        f" (named from {row.threshold_percent:.1f} %): cooling, power or the host before single GPUs"
        for level, judged in (("rack", found.racks), ("node", found.nodes))
        for row in judged[judged["named"].to_numpy(bool)].itertuples()
    ]


def _sentences(found: Analysis) -> list[str]:
    """By which cases gates failed, the spread of the fleet, and its gates' floors."""
    lines = []
    if len(found.failing):
        failing = found.failing.head(MOST_CASES).items()
        most = ", ".join(f"{case} on {counted(count, 'GPU')}" for case, count in failing)
        lines.append(f"gates failed by {counted(len(found.failing), 'case')}, most by {most}")
    if len(found.effects) > 1:
        spread = ", ".join(
            f"{name} {percent(100 * value, '.2f', MISSING)}" for name, value in found.effects.std().items()
        )
        lines.append(f"spread between GPUs (SD): {spread}")
    if below := int((found.gpus["below_floor"] > 0).sum()):
        cases = counted(int(found.gpus["below_floor"].sum()), "case")
        lines.append(f"cases below their floor on {counted(below, 'GPU')}, {cases} in all")
    return lines


def _change_lines(change: FleetShift) -> list[str]:
    """What changed by group, and the cases that moved most."""
    parts = []
    for name, row in change.groups.iterrows():
        known = not math.isnan(row["low_percent"])
        bounds = f" ({row['low_percent']:+.2f} to {row['high_percent']:+.2f} %)" if known else ""
        parts.append(f"{name} {percent(row['shift_percent'], '+.2f', MISSING)}{bounds}")
    lines = [f"{change.what}, {counted(change.pairs, 'GPU')}, time: {', '.join(parts)}"]
    if len(change.cases):
        shifts = change.cases["shift_percent"].head(MOST_CASES)
        most = ", ".join(f"{case} {shift:+.1f} %" for case, shift in shifts.items())
        lines.append(f"{change.what}: {counted(len(change.cases), 'case')} moved, most {most}")
    return lines


def _drain(found: Analysis) -> list[str]:
    """Commands for Slurm and Kubernetes, for nodes with bad GPUs."""
    bad = found.gpus[found.gpus["status"].isin(OUT_OF_SERVICE)]
    nodes = dict.fromkeys([*bad["node"].astype(str), *found.nodes.index[found.nodes["named"].to_numpy(bool)]])
    commands = []
    for node in list(nodes)[:MOST_ROWS]:
        if not all(letter.isalnum() or letter in "-._" for letter in node):
            continue  # a name that a shell would take apart is nobody's node
        commands += [f"scontrol update NodeName={node} State=DRAIN Reason='peakgate fleet {found.fleet}'"]
        commands += [f"kubectl cordon {node}"]
    return commands


def _gpu_table(gpus: pd.DataFrame) -> pd.DataFrame:
    return _columns(
        {
            "status": gpus["status"],
            "GPU": map(code, gpus.index),
            "node": map(escape, gpus["node"].astype(str)),
            "slower by": _texts(gpus["effect_percent"], ".1f", " %"),
            "in": [escape(group or MISSING) for group in gpus["group"]],
            "below floor": gpus["below_floor"].astype(int),
            "reason": map(escape, gpus["reason"]),
        }
    )


def _columns(columns: Mapping[str, Any]) -> pd.DataFrame:
    return pd.DataFrame({name: list(values) for name, values in columns.items()})


def _texts(values: pd.Series, form: str, unit: str) -> list[str]:
    return [MISSING if pd.isna(value) else f"{value:{form}}{unit}" for value in values]
