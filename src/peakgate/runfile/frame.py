"""Saved runs as one tidy pandas DataFrame, one row per case and run.

The columns of a case or a GPU are fields of the run file's schema. Properties of a run (date, commit, GPU) repeat in
each of its rows. Unknown values are missing. A case that the run could not time also has a row, with its verdict and
reason but no ``time_us``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import attrgetter
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
from msgspec import structs
from numpy.typing import NDArray
from pandas.api.extensions import ExtensionArray

from peakgate.base.errors import Code, PeakgateError
from peakgate.base.formatting import encodable
from peakgate.runfile.saved import CASE_COLUMNS, UNUSABLE, CaseResult, Run, commit_label
from peakgate.runfile.schema import (
    COUNTER_COLUMNS,
    ENVIRONMENT,
    FLAG,
    GPU_COLUMNS,
    NUMBER,
    TEXT,
    FrameColumn,
    Unmeasured,
)
from peakgate.spec.recorded import kernels_in_text

Objects = NDArray[np.object_]

OF_RUN: Mapping[str, tuple[FrameColumn, Callable[[Run], Any]]] = {
    "run": (FrameColumn(TEXT, "path of the run file"), lambda run: str(run.path)),
    "taken": (FrameColumn("datetime64[us, UTC]", "when the run was taken"), attrgetter("taken")),
    "commit": (FrameColumn(TEXT, "the commit measured"), attrgetter("commit")),
    "dirty": (FrameColumn(FLAG, "the tree had uncommitted changes"), attrgetter("dirty")),
    "run_tier": (FrameColumn(TEXT, "the tier that was run"), attrgetter("tier")),
    "whole": (FrameColumn(FLAG, "False for a selection of the tier's cases"), attrgetter("whole")),
    "device": (FrameColumn(TEXT, "`gpu` or `cpu`"), attrgetter("device")),
    "benchmark_version": (FrameColumn(TEXT, "version of pytest-benchmark"), attrgetter("benchmark_version")),
    "memory_roof_gbs": (
        FrameColumn(NUMBER, "fastest rate that the run measured of the GPU's memory (GB/s)"),
        attrgetter("memory_roof_gbs"),
    ),
}
COLUMNS: Mapping[str, FrameColumn] = {
    **{name: column for name, (column, _) in OF_RUN.items()},
    **{f"gpu_{name}": column for name, column in GPU_COLUMNS.items()},
    **CASE_COLUMNS,
    **COUNTER_COLUMNS,
}
FRAME_COLUMNS: Mapping[str, str] = {name: column.dtype for name, column in COLUMNS.items()}
"""Every column of a DataFrame of runs, in order, with its dtype."""

RUN_COLUMNS = {name: FRAME_COLUMNS[name] for name in (*OF_RUN, *(f"gpu_{name}" for name in GPU_COLUMNS))}

HISTORY_COLUMNS = (
    *("gpu_slug", "run", "taken", "commit", "dirty", "whole", "gpu_uuid", "run_tier"),
    *(f"gpu_{name}" for name in ENVIRONMENT),
    *("case", "time_us", "samples", "sampling_error", "fingerprint", "kernels", "sm_clock_mhz", "verdict"),
    *("host_bound", "metric"),
)
"""The columns needed to choose runs and to compute a history."""

PREDICTED = "predicted_"
"""Prefix of the columns with a family's predictions, ``predicted_NAME``, float64; they come last."""


def to_frame(runs: Iterable[Run], wanted: Collection[str] | None = None) -> pd.DataFrame:
    """One row per case and run, in the order of the runs and of their cases.

    The columns are those of ``FRAME_COLUMNS`` and a ``predicted_NAME`` for each prediction, or only the ``wanted``
    ones. ``runs`` may be an iterator: no run is kept, so a few columns of a thousand runs fit into memory.
    """
    predicted: list[Mapping[str, float]] = []
    everything, wanted = wanted is None, FRAME_COLUMNS.keys() if wanted is None else wanted
    facts: list[dict[str, Any]] = []
    counts: list[int] = []
    columns: dict[str, list[Any]] = {name: [] for name in (*CASE_COLUMNS, *COUNTER_COLUMNS) if name in wanted}
    for run in runs:
        recorded: dict[str, CaseResult | Unmeasured] = {**run.cases, **run.unmeasured}
        for case in run.cases.keys() & run.unmeasured.keys():
            left = run.unmeasured[case]
            recorded[case] = structs.replace(
                run.cases[case], time_us=math.nan, verdict=left.verdict, reason=left.reason
            )
        if everything:
            predicted += [getattr(each, "predicted", None) or {} for each in recorded.values()]
        facts.append(_facts(run))
        counts.append(len(recorded))
        counted = [getattr(each, "counters", None) for each in recorded.values()]
        for name, values in columns.items():
            records_of = counted if name in COUNTER_COLUMNS else recorded.values()
            values += [getattr(each, name, None) for each in records_of]
    columns["verdict"] = [verdict.value for verdict in columns["verdict"]]
    columns["host_bound"] = [bool(flag) for flag in columns["host_bound"]]
    of_runs = tidy(facts, {name: dtype for name, dtype in RUN_COLUMNS.items() if name in wanted})
    of_runs = of_runs.loc[of_runs.index.repeat(counts)].reset_index(drop=True)
    of_cases = {name: column(values, FRAME_COLUMNS[name]) for name, values in columns.items()}
    for model in dict.fromkeys(name for each in predicted for name in each):
        of_cases[encodable(PREDICTED + model)] = column([each.get(model) for each in predicted], NUMBER)
    return pd.concat([of_runs, pd.DataFrame(of_cases)], axis=1)


def require(frame: object, columns: Iterable[str], name: str) -> None:
    """Raise a PeakgateError unless this is a DataFrame of runs with these columns, times and dates among them."""
    wanted = f"{name}: expected a frame of runs, as peakgate.reports.load gives it"
    if not isinstance(frame, pd.DataFrame):
        raise PeakgateError(f"{wanted}, given {type(frame).__name__}", Code.NO_RUN)
    if missing := [each for each in columns if each not in frame.columns]:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise PeakgateError(f"{wanted}; its column {missing[0]} is missing{more}", Code.NO_RUN)
    for column, kinds, expected in (
        ("time_us", {"floating", "integer", "mixed-integer-float", "empty"}, "numbers"),
        ("taken", {"datetime64", "datetime", "empty"}, "dates"),
    ):
        if (kind := pd.api.types.infer_dtype(frame[column], skipna=True)) not in kinds:
            raise PeakgateError(f"{wanted}; its column {column} has {kind}, expected {expected}", Code.NO_RUN)


def run_rows(runs: Iterable[Run]) -> pd.DataFrame:
    """One row per run, with the columns ``RUN_COLUMNS``."""
    return tidy(list(map(_facts, runs)), RUN_COLUMNS)


def _facts(run: Run) -> dict[str, Any]:
    facts = {name: value_of(run) for name, (_, value_of) in OF_RUN.items()}
    return facts | {f"gpu_{name}": run.gpu.get(name) for name in GPU_COLUMNS}


def tidy(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str]) -> pd.DataFrame:
    """Rows as a DataFrame of these columns and dtypes; None is a missing value."""
    return pd.DataFrame({name: column([row[name] for row in rows], dtype) for name, dtype in columns.items()})


def column(values: Sequence[Any], dtype: str) -> NDArray[np.float64] | ExtensionArray | pd.Series[Any]:
    """A column of this dtype; in text, characters that cannot be encoded become question marks.

    Numbers and text are arrays, since a DataFrame of many Series is made twice as slowly: their indexes are compared.
    """
    if dtype == NUMBER:
        return np.array(values, np.float64)
    if dtype == TEXT:
        texts = [kernels_in_text(value) if isinstance(value, Mapping) else value for value in values]
        return pd.array([encodable(each) if isinstance(each, str) else each for each in texts], dtype="string")
    return pd.Series(values, dtype=dtype)


def objects(frame: pd.DataFrame) -> Objects:
    """The values as Python objects, with None for missing ones."""
    found = frame.to_numpy(object, copy=True)
    found[pd.isna(found)] = None
    return found


def records(frame: pd.DataFrame) -> list[SimpleNamespace]:
    """The rows with values that are Python objects, with None for missing ones."""
    names = [str(name) for name in frame.columns]
    return [SimpleNamespace(**dict(zip(names, row, strict=True))) for row in objects(frame).tolist()]


def is_usable(rows: pd.DataFrame) -> NDArray[np.bool_]:
    """A mask of the rows with a usable time: one that the run's verdict does not reject."""
    return rows["time_us"].notna().to_numpy() & ~rows["verdict"].isin(UNUSABLE).to_numpy()


def is_library(rows: pd.DataFrame) -> NDArray[np.bool_]:
    """A mask of the rows of operations of the driver or a vendor's library.

    A GPU run records the registers of every other kernel. A callable may call a library.
    """
    return rows["registers"].isna().to_numpy()


def is_of_host(rows: pd.DataFrame) -> NDArray[np.bool_]:
    """A mask of the rows whose time is that of a call on the host."""
    return rows["metric"].isin(["launch"]).to_numpy()


GPU_NAMES: Mapping[str, str] = {
    name: column.meaning for name, column in GPU_COLUMNS.items() if name not in ("name", "peak_gbs", "peak_tflops")
}
"""Names in reports of the fields of ``machine_info.gpu`` that times may depend on."""

UUID = re.compile(r"(?P<short>[A-Z]+-[0-9a-f]{8})(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

RUN_FACTS: Mapping[str, str] = {
    "tier": "run_tier",
    **{name: f"gpu_{fact}" for fact, name in GPU_NAMES.items()},
    "pytest-benchmark": "benchmark_version",
}
"""Names in reports of what times may depend on besides the commit, and their columns."""


def shortly(name: str) -> str:
    """A GPU's uuid cut to its first part, as ``GPU-820987e0``; any other name unchanged."""
    found = UUID.fullmatch(name)
    return found["short"] if found else name


def gpu_label(uuid: str | None) -> str:
    """``GPU-820987e0``, or ``an unknown GPU``."""
    return "an unknown GPU" if uuid is None else shortly(uuid)


def run_facts(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """The commit and the ``RUN_FACTS`` of each run, by their names in reports; None for unknown values."""
    runs = records(rows.loc[~rows["run"].duplicated(), ["commit", "dirty", *RUN_FACTS.values()]])
    return [
        {"commit": commit_label(run.commit, run.dirty)}
        | {name: getattr(run, column) for name, column in RUN_FACTS.items()}
        for run in runs
    ]
