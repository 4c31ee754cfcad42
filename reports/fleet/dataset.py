"""The results of fleets as one table: one row per GPU, pass and case, kept as Parquet.

``DATASET_COLUMNS`` lists every column with its dtype. A fact of the GPU or of its gate repeats in each of its rows; a
GPU that was not measured has one row without a case.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pyarrow
from peakgate.core.codes import Code
from peakgate.core.errors import PeakgateError
from peakgate.core.files import write_whole
from peakgate.core.records import Finite, short
from peakgate.core.text import encodable
from peakgate.reports.fleet.place import GpuPlace
from peakgate.reports.fleet.store import Store
from peakgate.reports.runs.runfile import UNUSABLE, load_run

DATASET_FILE = "fleet.parquet"
NOT_MEASURED = {"outcome": "lost", "reason": "not measured; --resume continues"}
TEXT, NUMBER, FLAG = "category", "float64", "boolean"

DATASET_GPU_COLUMNS: Mapping[str, str] = {
    **dict.fromkeys(("uuid", "serial", "node", "rack", "name", "slug", "driver", "vbios", "pci_bus_id"), TEXT),
    "ecc": FLAG,
    **dict.fromkeys(("ecc_corrected", "ecc_uncorrected"), NUMBER),
    **dict.fromkeys(("remapped_rows_corrected", "remapped_rows_uncorrected"), NUMBER),
    **dict.fromkeys(("pcie_generation", "pcie_lanes", "power_limit_w"), NUMBER),
}
GATE_COLUMNS: Mapping[str, str] = {
    **dict.fromkeys(("fleet", "mode", "started", "outcome", "reason"), TEXT),
    "exit_code": NUMBER,
    "emulated": FLAG,
    **dict.fromkeys(("wall_s", "temperature_before_c", "temperature_after_c"), NUMBER),
    **dict.fromkeys(("power_before_w", "power_after_w"), NUMBER),
}
DATASET_CASE_COLUMNS: Mapping[str, str] = {
    **dict.fromkeys(("case", "family", "bound", "verdict"), TEXT),
    **dict.fromkeys(("time_us", "sampling_error", "gbs", "tflops", "peak_fraction", "floor", "sm_clock_mhz"), NUMBER),
    "fingerprint": TEXT,
}
DATASET_COLUMNS: Mapping[str, str] = {**DATASET_GPU_COLUMNS, **GATE_COLUMNS, **DATASET_CASE_COLUMNS}
COLUMN_TYPES = {TEXT: str | None, NUMBER: Finite | None, FLAG: bool | None}
DatasetRow = msgspec.defstruct(
    "DatasetRow", [(name, COLUMN_TYPES[kind], None) for name, kind in DATASET_COLUMNS.items()]
)


def of_store(store: Store) -> pd.DataFrame:
    """Everything that a fleet has measured so far; a GPU without a gate is lost until it has one."""
    plan, places = store.read()
    rows: list[dict[str, Any]] = []
    gates = store.gates()
    missing = places.keys() - {gate["uuid"] for gate in gates}
    gates += [{"uuid": uuid, "mode": plan.mode, **NOT_MEASURED} for uuid in sorted(missing)]
    for gate in gates:
        if gate["uuid"] not in places:
            raise PeakgateError(
                f"{store.folder}: has a gate of {short(gate['uuid'])}, which its plan has not; delete it", Code.NO_RUN
            )
        about = _about(places[gate["uuid"]], gate) | {"fleet": store.name}
        rows += [about | case for case in _cases(store, gate)] or [about]
    rows = [
        {name: encodable(value) if isinstance(value, str) else value for name, value in row.items()} for row in rows
    ]
    try:
        for row in rows:
            msgspec.convert(row, DatasetRow)
    except msgspec.ValidationError as error:
        raise PeakgateError(
            f"{store.folder}: a gate or a place is damaged: {error}; measure again", Code.NO_RUN
        ) from None
    return frame(rows)


def frame(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Rows as the documented table; what a row lacks is missing."""
    return pd.DataFrame.from_records(list(rows), columns=list(DATASET_COLUMNS)).astype(dict(DATASET_COLUMNS))


def of_gpus(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of real GPUs, without the emulator's."""
    return table[~table["emulated"].fillna(value=False).to_numpy(bool)]


def log_times(table: pd.DataFrame) -> pd.DataFrame:
    """The log of the times in microseconds, a row per uuid and a column per case; missing where there is no figure."""
    usable = table[table["time_us"].gt(0) & ~table["verdict"].isin([each.value for each in UNUSABLE])]
    uuids, cases = (usable[name].astype("category").cat.remove_unused_categories() for name in ("uuid", "case"))
    times = np.full((len(uuids.cat.categories), len(cases.cat.categories)), np.nan)
    times[uuids.cat.codes, cases.cat.codes] = np.log(usable["time_us"].to_numpy())
    return pd.DataFrame(times, index=uuids.cat.categories.astype(str), columns=cases.cat.categories.astype(str))


def groups(table: pd.DataFrame) -> pd.Series:
    """The group of each case, by its limit: ``memory``, ``compute`` or ``link``; missing where no peak is claimed."""
    return facts_by(table, "case", "bound")


def facts_by(table: pd.DataFrame, key: str, column: str) -> pd.Series:
    """The first value of a column of each ``uuid`` or each ``case`` (the key)."""
    known = table.dropna(subset=[key]).drop_duplicates(key)
    return pd.Series(known[column].astype(object).to_numpy(), index=known[key].astype(str))


def write(table: pd.DataFrame, path: Path) -> None:
    """Write the table as Parquet, whole or not at all."""
    buffer = io.BytesIO()
    table[list(DATASET_COLUMNS)].to_parquet(buffer, index=False, compression="zstd")
    write_whole(path, buffer.getvalue())


def read(path: Path) -> pd.DataFrame:
    """A table that was written; PeakgateError if the file is not one. Earlier versions wrote no ``exit_code``."""
    try:
        found = pd.read_parquet(path)
        return found.assign(exit_code=found.get("exit_code", np.nan))[list(DATASET_COLUMNS)].astype(
            dict(DATASET_COLUMNS)
        )
    except (OSError, KeyError, ValueError, TypeError, pyarrow.ArrowException) as error:
        reason = " ".join(str(error).split())[:200]
        raise PeakgateError(f"{path}: no data set of a fleet ({reason}); name a {DATASET_FILE}", Code.NO_RUN) from None


def _about(where: GpuPlace, gate: Mapping[str, Any]) -> dict[str, Any]:
    before, after = gate.get("before") or {}, gate.get("after") or {}
    facts = {**where.facts, **{name: value for name, value in before.items() if value is not None}}
    about = {name: facts.get(name) for name in DATASET_GPU_COLUMNS}
    if where.emulated:
        about |= {"name": "emulator", "slug": "cpu-emulator"}
    about |= {"uuid": where.uuid, "node": where.node, "rack": where.rack, "emulated": where.emulated}
    about |= {name: gate.get(name) for name in ("mode", "started", "outcome", "reason", "exit_code", "wall_s")}
    for when, seen in (("before", before), ("after", after)):
        about |= {f"temperature_{when}_c": seen.get("temperature_c"), f"power_{when}_w": seen.get("power_w")}
    return about


def _cases(store: Store, gate: Mapping[str, Any]) -> list[dict[str, Any]]:
    if gate["outcome"] != "measured":
        return []
    run = load_run(store.run_file(gate["uuid"], gate["mode"]))
    results = {**run.unmeasured, **run.cases}
    rows = [{name: getattr(result, name, None) for name in DATASET_CASE_COLUMNS} for result in results.values()]
    return [row | {"verdict": row["verdict"] and str(row["verdict"])} for row in rows]
