"""The results of fleets as one table: one row per GPU, pass and case, kept as Parquet.

``COLUMNS`` lists every column with its dtype. A fact of the GPU or of its gate repeats in each of its rows; a GPU that
was not measured has one row without a case.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.parquet
from peakgate.common.errors import PeakgateError
from peakgate.common.files import write_whole
from peakgate.reports.fleet.place import Place
from peakgate.reports.fleet.store import Store
from peakgate.reports.runs.runfile import CaseResult, load_run
from peakgate.verdict import FAULTY, Verdict

FILE = "fleet.parquet"
UNUSABLE = [each.value for each in (*FAULTY, Verdict.INCONCLUSIVE)]
NOT_MEASURED = {"outcome": "lost", "reason": "not measured; --resume continues"}
TEXT, NUMBER, FLAG = "category", "float64", "boolean"

GPU_COLUMNS: Mapping[str, str] = {
    "uuid": TEXT,
    "serial": TEXT,
    "node": TEXT,
    "rack": TEXT,
    "name": TEXT,
    "slug": TEXT,
    "driver": TEXT,
    "vbios": TEXT,
    "pci_bus_id": TEXT,
    "ecc": FLAG,
    "ecc_corrected": NUMBER,
    "ecc_uncorrected": NUMBER,
    "remapped_rows_corrected": NUMBER,
    "remapped_rows_uncorrected": NUMBER,
    "pcie_generation": NUMBER,
    "pcie_lanes": NUMBER,
    "power_limit_w": NUMBER,
}
GATE_COLUMNS: Mapping[str, str] = {
    "fleet": TEXT,
    "mode": TEXT,
    "started": TEXT,
    "outcome": TEXT,
    "reason": TEXT,
    "exit_code": NUMBER,
    "emulated": FLAG,
    "wall_s": NUMBER,
    "temperature_before_c": NUMBER,
    "temperature_after_c": NUMBER,
    "power_before_w": NUMBER,
    "power_after_w": NUMBER,
}
CASE_COLUMNS: Mapping[str, str] = {
    "case": TEXT,
    "family": TEXT,
    "bound": TEXT,
    "verdict": TEXT,
    "time_us": NUMBER,
    "sampling_error": NUMBER,
    "gbs": NUMBER,
    "tflops": NUMBER,
    "peak_fraction": NUMBER,
    "floor": NUMBER,
    "sm_clock_mhz": NUMBER,
    "fingerprint": TEXT,
}
COLUMNS: Mapping[str, str] = {**GPU_COLUMNS, **GATE_COLUMNS, **CASE_COLUMNS}


def of_store(store: Store) -> pd.DataFrame:
    """Everything that a fleet has measured so far; a GPU without a gate is lost until it has one."""
    plan, places = store.read()
    rows: list[dict[str, Any]] = []
    gates = store.gates()
    missing = places.keys() - {gate["uuid"] for gate in gates}
    gates += [{"uuid": uuid, "mode": plan.mode, **NOT_MEASURED} for uuid in sorted(missing)]
    for gate in gates:
        about = _about(places[gate["uuid"]], gate) | {"fleet": store.name}
        rows += [about | case for case in _cases(store, gate)] or [about]
    return frame(rows)


def frame(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Rows as the documented table; what a row lacks is missing."""
    found = pd.DataFrame.from_records(list(rows), columns=list(COLUMNS))
    return _typed(found)


def log_times(table: pd.DataFrame) -> pd.DataFrame:
    """The log of the times in microseconds, a row per uuid and a column per case; missing where there is no figure."""
    usable = table[table["time_us"].gt(0) & ~table["verdict"].isin(UNUSABLE)]
    uuids, cases = (usable[name].astype("category").cat.remove_unused_categories() for name in ("uuid", "case"))
    times = np.full((len(uuids.cat.categories), len(cases.cat.categories)), np.nan)
    times[uuids.cat.codes, cases.cat.codes] = np.log(usable["time_us"].to_numpy())
    return pd.DataFrame(times, index=uuids.cat.categories.astype(str), columns=cases.cat.categories.astype(str))


def groups(table: pd.DataFrame) -> pd.Series:
    """What limits each case, by case: ``memory``, ``compute`` or ``link``; missing where no peak is claimed."""
    known = table.dropna(subset=["case"]).drop_duplicates("case")
    return pd.Series(known["bound"].astype(object).to_numpy(), index=known["case"].astype(str))


def write(table: pd.DataFrame, path: Path) -> None:
    """Write the table as Parquet, whole or not at all."""
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(
        pyarrow.Table.from_pandas(table[list(COLUMNS)], preserve_index=False), buffer, compression="zstd"
    )
    write_whole(path, buffer.getvalue())


def read(path: Path) -> pd.DataFrame:
    """A table that was written; a PeakgateError where the file is none. Earlier versions wrote no ``exit_code``."""
    try:
        found = pyarrow.parquet.read_table(path).to_pandas()
        return _typed(found.assign(exit_code=found.get("exit_code", np.nan))[list(COLUMNS)])
    except (OSError, KeyError, pyarrow.ArrowException) as error:
        reason = " ".join(str(error).split())[:200]
        raise PeakgateError(f"{path}: no data set of a fleet ({reason}); name a {FILE}") from None


def _typed(found: pd.DataFrame) -> pd.DataFrame:
    typed: dict[str, pd.Series] = {}
    for name, dtype in COLUMNS.items():
        values = found[name]
        if dtype == TEXT:
            typed[name] = values.astype("category")
        elif dtype == NUMBER:
            typed[name] = pd.to_numeric(values, errors="coerce").astype(np.float64)
        else:
            typed[name] = values.astype("boolean")
    return pd.DataFrame(typed)


def _about(where: Place, gate: Mapping[str, Any]) -> dict[str, Any]:
    before, after = gate.get("before") or {}, gate.get("after") or {}
    facts = {**where.facts, **{name: value for name, value in before.items() if value is not None}}
    about = {name: facts.get(name) for name in GPU_COLUMNS}
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
    rows = [_case(result) for result in run.cases.values()]
    missing = [each for each in run.unmeasured.values() if each.case not in run.cases]
    return rows + [{"case": each.case, "verdict": each.verdict.value} for each in missing]


def _case(result: CaseResult) -> dict[str, Any]:
    found = {name: getattr(result, name) for name in CASE_COLUMNS if name != "verdict"}
    return found | {"verdict": None if result.verdict is None else result.verdict.value}
