"""Saved runs as one tidy pandas frame: one row per case and run; and the way back to records.

``FRAME_COLUMNS`` lists every column with its dtype. A fact of the run (when, which commit, which GPU) repeats in each
of its rows. What a run does not say is missing. A case that the run could not time has a row too: its verdict, its
reason and no ``time_us``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from peakgate.common.text import encodable
from peakgate.reports.runs.facts import GPU_FACTS
from peakgate.reports.runs.find import Archive, find_side
from peakgate.reports.runs.runfile import NUMBERS, TEXTS, CaseResult, Run, Unmeasured
from peakgate.verdict import Verdict

TEXT, NUMBER, FLAG = "string", "float64", "bool"

RUN_COLUMNS: Mapping[str, str] = {
    "run": TEXT,
    "taken": "datetime64[us, UTC]",
    "commit": TEXT,
    "dirty": FLAG,
    "run_tier": TEXT,
    "whole": FLAG,
    "device": TEXT,
    "benchmark_version": TEXT,
    **{f"gpu_{name}": "object" for name in GPU_FACTS},
}

CASE_COLUMNS: Mapping[str, str] = {
    "case": TEXT,
    **dict.fromkeys(("time_us", "samples", "sampling_error"), NUMBER),
    **dict.fromkeys(("verdict", "reason", *TEXTS), TEXT),
    **dict.fromkeys(NUMBERS, NUMBER),
    "host_bound": FLAG,
}
FRAME_COLUMNS: Mapping[str, str] = {**RUN_COLUMNS, **CASE_COLUMNS}
"""Every column of a frame of runs, in order, with its dtype; reports/README.md explains them."""


def load(*wanted: str | Path, runs: Iterable[str | Path] | None = None) -> pd.DataFrame:
    """The saved runs that each of ``wanted`` names, as one tidy frame, oldest run first within each.

    ``wanted`` are what ``peakgate compare`` takes: files, folders, commits, ``latest``, ``driver:VERSION``; ``runs``
    are the folders to search instead of the default ones. A PeakgateError names what cannot be found or read.
    """
    archive = Archive(None if runs is None else [Path(folder) for folder in runs])
    found = [run for each in wanted for run in find_side(str(each), archive).runs]
    return to_frame({run.path: run for run in found}.values())


def to_frame(runs: Iterable[Run]) -> pd.DataFrame:
    """One row per case and run, in the order of the runs and of their cases; columns are ``FRAME_COLUMNS``."""
    rows = []
    for run in runs:
        facts = _run_facts(run)
        records: dict[str, CaseResult | Unmeasured] = {**run.cases, **run.unmeasured, **run.cases}
        for record in records.values():
            row = facts | {name: getattr(record, name, None) for name in CASE_COLUMNS}
            said: CaseResult | Unmeasured = run.unmeasured.get(record.case, record)
            verdict = None if said.verdict is None else str(said.verdict)
            rows.append(row | {"verdict": verdict, "reason": said.reason, "host_bound": bool(row["host_bound"])})
    return tidy(rows, FRAME_COLUMNS)


def tidy(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str]) -> pd.DataFrame:
    """Rows as a frame of these columns and dtypes; None is a missing value."""
    return pd.DataFrame({name: as_series([row[name] for row in rows], dtype) for name, dtype in columns.items()})


def as_series(values: Sequence[Any], dtype: str) -> pd.Series[Any]:
    """A column of this dtype; of text, what no encoding takes is a question mark."""
    if dtype == "string":
        values = [encodable(value) if isinstance(value, str) else value for value in values]
    return pd.Series(values, dtype=dtype)


def to_runs(frame: pd.DataFrame) -> tuple[Run, ...]:
    """The records that ``to_frame`` made the frame of, without notes and what ``FRAME_COLUMNS`` leaves out.

    A KeyError names a column that is not there; columns of your own are ignored.
    """
    plain = frame[list(FRAME_COLUMNS)].astype(object)
    plain = plain.where(plain.notna(), None)
    return tuple(_run(str(name), rows.to_dict("records")) for name, rows in plain.groupby("run", sort=False))


def _run_facts(run: Run) -> dict[str, Any]:
    return {
        "run": str(run.path),
        "run_tier": run.tier,
        **{name: getattr(run, name) for name in ("taken", "commit", "dirty", "whole", "device", "benchmark_version")},
        **{f"gpu_{name}": run.gpu.get(name) for name in GPU_FACTS},
    }


def _run(path: str, rows: list[dict[Any, Any]]) -> Run:
    first = rows[0]
    gpu = {name: first[f"gpu_{name}"] for name in GPU_FACTS if first[f"gpu_{name}"] is not None}
    timed = [row for row in rows if row["time_us"] is not None]
    untimed = [row for row in rows if row["time_us"] is None]
    return Run(
        **{name: first[name] for name in ("commit", "dirty", "whole", "device", "benchmark_version")},
        path=Path(path),
        taken=first["taken"].to_pydatetime(),
        tier=first["run_tier"],
        gpu=gpu,
        cases={row["case"]: _result(row) for row in timed},
        unmeasured={row["case"]: Unmeasured(row["case"], Verdict(row["verdict"]), row["reason"]) for row in untimed},
    )


def _result(row: dict[Any, Any]) -> CaseResult:
    values = {name: row[name] for name in CASE_COLUMNS}
    values |= {"samples": int(row["samples"]), "verdict": row["verdict"] and Verdict(row["verdict"])}
    return CaseResult(**values)
