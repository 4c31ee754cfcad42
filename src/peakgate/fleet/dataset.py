"""Stores the results of fleets as a Parquet table with one row per GPU, pass and case.

``DATASET_COLUMNS`` lists the columns with their dtypes. Facts of a GPU or its gate repeat in each of its rows; a GPU
that was not measured has one row without a case. Run files are processed in batches, so that ten thousand of them are
never in memory together; reports read only the columns that they need (``REPORT_COLUMNS``).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import parquet

from peakgate.base.errors import Code, PeakgateError
from peakgate.base.files import open_output, unwritable
from peakgate.base.formatting import encodable, short
from peakgate.base.records import Finite
from peakgate.fleet.place import GpuPlace
from peakgate.fleet.store import Store
from peakgate.runfile.saved import UNUSABLE, CaseResult, load_run
from peakgate.runfile.schema import Unmeasured

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
    **dict.fromkeys(("workers_lost", "wall_s", "temperature_before_c", "temperature_after_c"), NUMBER),
    **dict.fromkeys(("power_before_w", "power_after_w"), NUMBER),
}
OF_GATE = ("mode", "started", "outcome", "reason", "exit_code", "workers_lost", "wall_s")

DATASET_CASE_COLUMNS: Mapping[str, str] = {
    **dict.fromkeys(("case", "family", "bound", "verdict", "metric"), TEXT),
    **dict.fromkeys(("time_us", "sampling_error", "gbs", "tflops", "peak_fraction", "floor", "sm_clock_mhz"), NUMBER),
    "fingerprint": TEXT,
}
DATASET_COLUMNS: Mapping[str, str] = {**DATASET_GPU_COLUMNS, **GATE_COLUMNS, **DATASET_CASE_COLUMNS}
REPORT_COLUMNS = (
    *("uuid", "node", "rack", "slug", "driver", "vbios", "fleet", "mode", "started", "outcome", "reason", "exit_code"),
    *("emulated", "workers_lost", "wall_s", "temperature_after_c"),
    *("case", "bound", "verdict", "time_us", "peak_fraction", "fingerprint", "metric"),
)
"""The columns that reports use."""

COLUMN_TYPES = {TEXT: str | None, NUMBER: Finite | None, FLAG: bool | None}
ABOUT_COLUMNS = {**DATASET_GPU_COLUMNS, **GATE_COLUMNS}
AboutGate = msgspec.defstruct("AboutGate", [(name, COLUMN_TYPES[kind], None) for name, kind in ABOUT_COLUMNS.items()])
ARROW = {TEXT: pa.dictionary(pa.int32(), pa.string()), NUMBER: pa.float64(), FLAG: pa.bool_()}
DATASET_SCHEMA = pa.schema([(name, ARROW[kind]) for name, kind in DATASET_COLUMNS.items()])
GATES_OF_A_BATCH = 256
MeasuredCase = CaseResult | Unmeasured


def gather(store: Store) -> pd.DataFrame:
    """Update the Parquet file with all results of a fleet and return it; a GPU without a gate is lost.

    Gates already in that file (``store.gathered``) are not read again.
    """
    plan, places = store.read()
    path, gates = store.folder / DATASET_FILE, store.gates()
    missing = places.keys() - {gate["uuid"] for gate in gates}
    lost = [{"uuid": uuid, "mode": plan.mode, **NOT_MEASURED} for uuid in sorted(missing)]
    new = [*(gate for gate in gates if _name(gate) not in store.gathered), *lost]
    batches = (new[start : start + GATES_OF_A_BATCH] for start in range(0, len(new), GATES_OF_A_BATCH))
    _stream(path, (_table(store, places, batch) for batch in batches), keep=bool(store.gathered))
    # A GPU without a gate may have one when the store is gathered again.
    store.gathered = set() if lost else {_name(gate) for gate in gates}
    return read(path, REPORT_COLUMNS)


def _name(gate: Mapping[str, Any]) -> str:
    return f"{gate['uuid']}-{gate['mode']}"


def _table(store: Store, places: Mapping[str, GpuPlace], gates: Sequence[Mapping[str, Any]]) -> pa.Table:
    """The rows of some gates: the facts of each, repeated per case; one row for a gate without cases."""
    abouts, cases = [_about(store, places, gate) for gate in gates], list[list[MeasuredCase]]()
    for gate in gates:
        found: dict[str, MeasuredCase] = {}
        if gate["outcome"] == "measured":
            run = load_run(store.run_file(gate["uuid"], gate["mode"]))
            found |= {**run.unmeasured, **run.cases}
        cases.append(list(found.values()))
    repeated = np.repeat(np.arange(len(abouts)), [max(len(found), 1) for found in cases])
    flat = [case for found in cases for case in (found or (None,))]
    columns = [
        pa.array([about.get(name) for about in abouts], DATASET_SCHEMA.field(name).type).take(pa.array(repeated))
        for name in ABOUT_COLUMNS
    ]
    for name, kind in DATASET_CASE_COLUMNS.items():
        values = [getattr(case, name, None) for case in flat]
        if kind == TEXT:
            values = [value and _encodable(str(value)) for value in values]
        columns.append(pa.array(values, DATASET_SCHEMA.field(name).type))
    return pa.Table.from_arrays(columns, schema=DATASET_SCHEMA)


_encodable = cache(encodable)  # the same names repeat for every GPU


def _stream(path: Path, batches: Iterable[pa.Table], *, keep: bool = False) -> None:
    """Write a table as Parquet atomically; ``keep``: append to the existing rows."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with (
            open_output(scratch, "wb") as stream,
            parquet.ParquetWriter(stream, DATASET_SCHEMA, compression="zstd") as file,
        ):
            if keep:
                old = parquet.ParquetFile(path)
                for at in range(old.num_row_groups):
                    file.write_table(old.read_row_group(at).cast(DATASET_SCHEMA))
            for batch in batches:
                file.write_table(batch)
        with scratch.open("rb") as written:
            os.fsync(written.fileno())
        scratch.replace(path)
    except OSError as error:
        raise unwritable(path, error) from None
    finally:
        scratch.unlink(missing_ok=True)


def of_gpus(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of real GPUs, without the emulator's."""
    return table[~table["emulated"].fillna(value=False).to_numpy(bool)]


def log_times(table: pd.DataFrame) -> pd.DataFrame:
    """Log of the times in microseconds, one row per uuid, one column per case; NaN without a usable time.

    Not those of the host.
    """
    usable = table[table["time_us"].gt(0) & ~table["verdict"].isin([each.value for each in UNUSABLE])]
    usable = usable[~usable["metric"].isin(["launch"])]
    uuids, cases = (usable[name].astype("category").cat.remove_unused_categories() for name in ("uuid", "case"))
    times = np.full((len(uuids.cat.categories), len(cases.cat.categories)), np.nan)
    times[uuids.cat.codes, cases.cat.codes] = np.log(usable["time_us"].to_numpy())
    return pd.DataFrame(times, index=uuids.cat.categories.astype(str), columns=cases.cat.categories.astype(str))


def groups(table: pd.DataFrame) -> pd.Series:
    """The group of each case by its limiter: ``memory``, ``compute`` or ``link``; missing without a peak."""
    return facts_by(table, "case", "bound")


def facts_by(table: pd.DataFrame, key: str, column: str) -> pd.Series:
    """The first value of a column by ``key``, which is ``uuid`` or ``case``."""
    known = table.dropna(subset=[key]).drop_duplicates(key)
    return pd.Series(known[column].astype(object).to_numpy(), index=known[key].astype(str))


def read(path: Path, columns: Sequence[str] = tuple(DATASET_COLUMNS)) -> pd.DataFrame:
    """Read a table; PeakgateError if the file is not one."""
    kinds = {name: DATASET_COLUMNS[name] for name in columns}
    texts = [name for name, kind in kinds.items() if kind == TEXT]
    try:
        arrow = parquet.read_table(path, columns=list(columns), read_dictionary=texts)
        return pd.DataFrame(arrow.to_pandas(split_blocks=True, self_destruct=True)[list(columns)]).astype(kinds)
    except (OSError, KeyError, ValueError, TypeError, pa.ArrowException) as error:
        reason = " ".join(str(error).split())[:200]
        raise PeakgateError(
            f"{path}: not the table of a fleet ({reason}); name a {DATASET_FILE}", Code.NO_RUN
        ) from None


def _about(store: Store, places: Mapping[str, GpuPlace], gate: Mapping[str, Any]) -> dict[str, Any]:
    """The validated facts of a gate and of its GPU."""
    if gate["uuid"] not in places:
        raise PeakgateError(
            f"{store.folder}: has a gate of {short(gate['uuid'])}, which is not in its plan; delete it", Code.NO_RUN
        )
    where = places[gate["uuid"]]
    before, after = gate.get("before") or {}, gate.get("after") or {}
    facts = {**where.facts, **{name: value for name, value in before.items() if value is not None}}
    about = {name: facts.get(name) for name in DATASET_GPU_COLUMNS}
    if where.emulated:
        about |= {"name": "emulator", "slug": "cpu-emulator"}
    about |= {"uuid": where.uuid, "node": where.node, "rack": where.rack, "emulated": where.emulated}
    about |= {name: gate.get(name) for name in OF_GATE} | {"fleet": store.name}
    for when, seen in (("before", before), ("after", after)):
        about |= {f"temperature_{when}_c": seen.get("temperature_c"), f"power_{when}_w": seen.get("power_w")}
    about = {name: encodable(value) if isinstance(value, str) else value for name, value in about.items()}
    try:
        msgspec.convert(about, AboutGate)
    except msgspec.ValidationError as error:
        raise PeakgateError(
            f"{store.folder}: a gate or a place is damaged: {error}; measure again", Code.NO_RUN
        ) from None
    return about
