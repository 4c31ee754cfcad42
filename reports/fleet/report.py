"""A judged fleet on the terminal and as Markdown, CSV and JSON; none of them decides anything."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from peakgate.common.text import cell, one_line
from peakgate.reports.fleet.analysis import OUT_OF_SERVICE, Analysis, Status
from peakgate.reports.fleet.paired import Change
from peakgate.reports.ladder.markers import table
from peakgate.reports.render.markdown import code, escape
from peakgate.reports.render.terminal import line
from rich.console import Console
from rich.text import Text

SCHEMA = 1
MOST_ROWS, MOST_CASES = 20, 5
STYLES = {Status.OK: "green"} | dict.fromkeys((Status.UNFIT, Status.LOST, Status.UNDECIDED), "yellow")
MISSING = "–"
HEADINGS = ("status", "GPU", "node", "slower by", "in", "below floor", "reason")
GPU_COLUMNS = (
    *("status", "reason", "node", "rack", "slug", "driver", "vbios", "group", "effect_percent", "p"),
    *("threshold_percent", "cases", "below_floor", "faults", "wall_s", "temperature_after_c"),
)


def show(found: Analysis, console: Console) -> None:
    """Print counts, the GPUs that are not OK, slow nodes and racks, and what changed."""
    line(console, f"fleet {found.fleet}, {found.mode}: {counts(found)}")
    for note in (*found.faulty, *found.notes):
        line(console, f"note: {note}", "dim")
    bad = found.gpus[(found.gpus["status"] != Status.OK) | found.gpus["open"].to_numpy(bool)]
    for row in bad.head(MOST_ROWS).itertuples():
        text = Text(f"{row.status:<9}", STYLES.get(Status(str(row.status)), "bold red")).append(f"{row.Index}", "bold")
        console.print(text.append(f" on {one_line(str(row.node))}"), soft_wrap=True)
        line(console, f"    {row.reason}", "dim")
    if len(bad) > MOST_ROWS:
        line(console, f"and {len(bad) - MOST_ROWS} more; the files have them")
    for sentence in (*units(found), *sentences(found)):
        line(console, sentence)
    for command in drain(found):
        line(console, f"to take it out of service: {command}")


def counts(found: Analysis) -> str:
    """``7 OK, 1 OUTLIER``, every GPU counted once."""
    return ", ".join(f"{count} {status}" for status, count in found.counts.items()) or "no GPU"


def units(found: Analysis) -> list[str]:
    """Named nodes and racks, a sentence each."""
    return [
        f"{level} {row.Index}: {row.effect_percent:.1f} % slower than the others in {row.group}"
        f" (named from {row.threshold_percent:.1f} %): cooling, power or the host before single GPUs"
        for level, judged in (("rack", found.racks), ("node", found.nodes))
        for row in judged[judged["named"].to_numpy(bool)].itertuples()
    ]


def sentences(found: Analysis) -> list[str]:
    """The spread of the fleet, its gates' floors, and what changed against other measurements."""
    lines = []
    if len(found.failing):
        most = ", ".join(f"{case} on {count} GPUs" for case, count in found.failing.head(MOST_CASES).items())
        lines.append(f"gates failed by {len(found.failing)} cases, most by {most}")
    if len(found.effects) > 1:
        spread = ", ".join(f"{name} {_percent(100 * value, '.2f')}" for name, value in found.effects.std().items())
        lines.append(f"spread between GPUs (SD): {spread}")
    if (below := int((found.gpus["below_floor"] > 0).sum())) > 0:
        lines.append(f"{below} GPUs have cases below their floor, {int(found.gpus['below_floor'].sum())} cases in all")
    changes = [*([found.together] if found.together else []), *found.changes]
    return lines + [each for change in changes for each in change_lines(change)]


def change_lines(change: Change) -> list[str]:
    """What changed by group, and the cases that moved most."""
    parts = []
    for name, row in change.groups.iterrows():
        bounds = (
            "" if math.isnan(row["low_percent"]) else f" ({row['low_percent']:+.2f} to {row['high_percent']:+.2f} %)"
        )
        parts.append(f"{name} {_percent(row['shift_percent'], '+.2f')}{bounds}")
    lines = [f"{change.what}, {change.pairs} GPUs, time: {', '.join(parts)}"]
    if len(change.cases):
        shifts = change.cases["shift_percent"].head(MOST_CASES)
        most = ", ".join(f"{case} {shift:+.1f} %" for case, shift in shifts.items())
        lines.append(f"{change.what}: {len(change.cases)} cases moved, most {most}")
    return lines


def drain(found: Analysis) -> list[str]:
    """Commands for Slurm and Kubernetes that take nodes with bad GPUs out of service; they are never run here."""
    bad = found.gpus[found.gpus["status"].isin(OUT_OF_SERVICE)]
    nodes = dict.fromkeys([*bad["node"].astype(str), *found.nodes.index[found.nodes["named"].to_numpy(bool)]])
    commands = []
    for node in list(nodes)[:MOST_ROWS]:
        if not all(letter.isalnum() or letter in "-._" for letter in node):
            continue  # a name that a shell would take apart is nobody's node
        commands += [f"scontrol update NodeName={node} State=DRAIN Reason='peakgate fleet {found.fleet}'"]
        commands += [f"kubectl cordon {node}"]
    return commands


def markdown(found: Analysis) -> str:
    """The whole report; every text that comes from a file is escaped."""
    lines = [f"# Peakgate fleet: {escape(counts(found))}", ""]
    lines += [f"- {escape(f'fleet {found.fleet}, {found.mode}')}"]
    lines += [f"- {escape(each)}" for each in (*units(found), *sentences(found), *found.faulty, *found.notes)]
    lines.append("")
    bad = found.gpus[(found.gpus["status"] != Status.OK) | found.gpus["open"].to_numpy(bool)]
    fine = found.gpus.drop(bad.index).sort_values("effect_percent", ascending=False)
    for title, rows in (("Not OK", bad), ("OK, slowest first", fine.head(MOST_ROWS))):
        if len(rows):
            lines += [f"## {title} ({len(bad) if rows is bad else len(fine)})", ""]
            lines += [table(HEADINGS, map(_cells, rows.itertuples())), ""]
    if commands := drain(found):
        lines += ["To take nodes out of service:", "", "```sh", *commands, "```", ""]
    return "\n".join(lines)


def csv(found: Analysis) -> str:
    """One row per GPU, worst first, with its effects in percent."""
    effects = (100 * (found.effects.apply(lambda column: column.map(math.expm1)))).add_suffix(" percent")
    gpus = found.gpus[list(GPU_COLUMNS)].join(effects).rename_axis("uuid").reset_index()
    text: str = gpus.map(cell).to_csv(index=False, float_format="%.8g", lineterminator="\n")
    return text


def as_json(found: Analysis) -> str:
    """Counts, exit code, GPUs, nodes, racks and changes."""
    changes = [*([found.together] if found.together else []), *found.changes]
    document = {
        "schema": SCHEMA,
        "fleet": found.fleet,
        "mode": found.mode,
        "exit_code": int(found.exit_code),
        "counts": {status.value: count for status, count in found.counts.items()},
        "failing": {str(case): int(count) for case, count in found.failing.items()},
        "notes": [*found.faulty, *found.notes],
        "gpus": records(found.gpus[list(GPU_COLUMNS)], "uuid"),
        "nodes": records(found.nodes, "node"),
        "racks": records(found.racks, "rack"),
        "changes": [
            {
                "what": each.what,
                "gpus": each.pairs,
                "groups": records(each.groups, "group"),
                "cases": records(each.cases, "case"),
            }
            for each in changes
        ],
    }
    return json.dumps(document, indent=1, allow_nan=False)


def records(table: pd.DataFrame, name: str) -> list[dict[str, Any]]:
    """The rows of a table for JSON, each with its index under a name; what is missing is null."""
    plain = table.rename_axis(name).reset_index().astype(object)
    records = plain.where(plain.notna(), None).to_dict("records")
    return [
        {str(key): getattr(value, "item", lambda value=value: value)() for key, value in record.items()}
        for record in records
    ]


def _cells(row: Any) -> Sequence[str]:
    effect, group = _percent(row.effect_percent, ".1f"), escape(row.group or MISSING)
    texts = (str(row.status), code(str(row.Index)), escape(str(row.node)), effect, group)
    return (*texts, str(int(row.below_floor)), escape(row.reason))


def _percent(value: float, form: str) -> str:
    return MISSING if math.isnan(value) else f"{value:{form}} %"


def written(found: Analysis, stem: Path) -> dict[Path, str]:
    """The texts of the written reports, by where they belong."""
    return {
        stem.with_suffix(".md"): markdown(found),
        stem.with_suffix(".csv"): csv(found),
        stem.with_suffix(".json"): as_json(found),
    }
