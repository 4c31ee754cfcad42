"""A sharded tier on the terminal and as Markdown, CSV and JSON; none of them decides anything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
from peakgate.common.text import cell
from peakgate.reports.fleet.report import records
from peakgate.reports.fleet.sharded import EQUAL_WITHIN, Sharded
from peakgate.reports.ladder.markers import table
from peakgate.reports.render.markdown import code, escape
from peakgate.reports.render.terminal import line
from peakgate.verdict import Verdict, counts
from rich.console import Console

SCHEMA = 1
MOST_CASES = 20
MISSING = "–"


def headline(found: Sharded) -> str:
    """``890 cases on 2 GPUs: 889 PASS, 1 BELOW_FLOOR``, or INCONCLUSIVE with it."""
    judged = counts([Verdict(each) for each in found.cases["verdict"].dropna()]) or "nothing measured"
    word = f"{Verdict.INCONCLUSIVE}: " if found.problems else ""
    return f"{word}{len(found.cases)} cases on {len(found.gpus)} GPUs: {judged}"


def sentences(found: Sharded) -> list[str]:
    """Why it is inconclusive, and how equal the GPUs are."""
    common = int(found.cases["common"].sum())
    apart = ", ".join(f"{name} {percent:.2f} %" for name, percent in found.apart.items())
    equal = f"{common} cases were given to every GPU"
    if apart:
        equal += f", the slowest GPU beside the fastest: {apart} (at most {100 * EQUAL_WITHIN:.0f} %)"
    return [*found.problems, equal]


def show(found: Sharded, console: Console) -> None:
    """Print what came of the tier, worst cases first."""
    line(console, f"fleet {found.fleet}, sharded: {headline(found)}")
    for sentence in sentences(found):
        line(console, sentence)
    bad = found.failing
    for row in bad.head(MOST_CASES).itertuples():
        line(console, f"{row.Index}: {row.verdict} on {row.uuids}")
    if len(bad) > MOST_CASES:
        line(console, f"and {len(bad) - MOST_CASES} more; the files have them")


def markdown(found: Sharded) -> str:
    """The whole report; every text that comes from a file is escaped."""
    lines = [f"# Peakgate, sharded: {escape(headline(found))}", ""]
    lines += [f"- {escape(each)}" for each in (f"fleet {found.fleet}", *sentences(found))]
    groups = list(found.apart)
    head = ("GPU", "node", "outcome", "cases", "wall time", *(f"{name}, beside the median GPU" for name in groups))
    rows = [
        (
            *(
                code(str(uuid)),
                escape(str(row["node"]) if pd.notna(row["node"]) else MISSING),
                str(row["outcome"]),
                str(row["cases"]),
            ),
            *(_number(row["wall_s"], ".1f", " s"), *(_number(row[name], "+.2f", " %") for name in groups)),
        )
        for uuid, row in found.gpus.iterrows()
    ]
    lines += ["", table(head, rows), ""]
    if len(bad := found.failing):
        named = [(str(row.verdict), code(str(row.Index)), escape(str(row.uuids))) for row in bad.itertuples()]
        lines += [f"## Not passed ({len(bad)})", "", table(("verdict", "case", "measured on"), named), ""]
    return "\n".join(lines)


def csv(found: Sharded) -> str:
    """One row per case: which GPU measured it, its verdict and time."""
    plain = found.cases.reset_index()
    text: str = plain.map(cell).to_csv(index=False, float_format="%.8g", lineterminator="\n")
    return text


def as_json(found: Sharded) -> str:
    """Exit code, problems, GPUs and cases."""
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "fleet": found.fleet,
        "exit_code": int(found.exit_code),
        "problems": list(found.problems),
        "apart_percent": dict(found.apart),
        "gpus": records(found.gpus, "uuid"),
        "cases": records(found.cases, "case"),
    }
    return json.dumps(document, indent=1, allow_nan=False)


def written(found: Sharded, stem: Path) -> dict[Path, str]:
    """The texts of the written reports, by where they belong."""
    return {
        stem.with_suffix(".md"): markdown(found),
        stem.with_suffix(".csv"): csv(found),
        stem.with_suffix(".json"): as_json(found),
    }


def _number(value: Any, form: str, unit: str) -> str:
    return MISSING if pd.isna(value) else f"{value:{form}}{unit}"
