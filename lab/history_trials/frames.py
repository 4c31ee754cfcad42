"""Converts drawn histories to data frames in the format of ``peakgate.reports.load``.

The columns, their types and all fields of a case except its time are those of one committed run, loaded by the tool.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
from histories import History
from noise import Records

FIRST = datetime(2026, 1, 1, tzinfo=UTC)
DRIVERS = ("580.159.04", "590.44.01")
GPU = "GPU-{:08x}-aae2-2006-bd21-e4b4880b4ed3"


def commit_hash(number: int) -> str:
    """A hash whose first eight digits are the number of the commit."""
    return f"{number:08x}" + "c0ffee" * 5 + "00"


def commit_number(text: object) -> int | None:
    """The number of a commit that a report names; None if it names none."""
    return int(text[:8], 16) if isinstance(text, str) and len(text) >= 8 else None


def case_names(history: History, records: Records) -> list[str]:
    """Ids of the cases: those of the records, with a suffix for repeated ones."""
    seen: dict[int, int] = {}
    names = []
    for donor in history.donors.tolist():
        seen[donor] = seen.get(donor, -1) + 1
        names.append(records.cases[donor] + (f"-copy{seen[donor]}" if seen[donor] else ""))
    return names


def frame(history: History, records: Records, template: pd.DataFrame) -> pd.DataFrame:
    """The history as ``load`` would give it, one row per case and session; ``template`` is one loaded run."""
    sessions, cases = history.time_us.shape
    order = {case: row for row, case in enumerate(template["case"])}
    rows = template.iloc[[order[records.cases[donor]] for donor in history.donors]]
    result = rows.iloc[np.tile(np.arange(cases), sessions)].reset_index(drop=True)
    session = np.repeat(np.arange(sessions), cases)
    was = result["time_us"].to_numpy()
    result["time_us"] = history.time_us.ravel()
    ratio = was / result["time_us"].to_numpy()
    for rate in ("gbs", "tflops", "peak_fraction", "roof_fraction"):
        result[rate] = result[rate] * ratio
    result["floor"] = result["floor"].where(result["floor"].isna(), result["peak_fraction"] / 2)  # never below it

    def text(values: Sequence[str | None], index: np.ndarray | None = None) -> Any:
        column = pd.array(values, dtype="string")
        return column if index is None else column[index]

    result["case"] = text(case_names(history, records), np.tile(np.arange(cases), sessions))
    result["run"] = text([f"runs/{one:04d}.json" for one in range(sessions)], session)
    result["commit"] = text([commit_hash(one) for one in history.commit.tolist()], session)
    taken = pd.Series(pd.to_datetime([FIRST + timedelta(days=one) for one in range(sessions)]))
    result["taken"] = taken.iloc[session].reset_index(drop=True).astype(template["taken"].dtype)
    result["gpu_uuid"] = np.array([GPU.format(one + 0xA0) for one in history.gpu.tolist()], dtype=object)[session]
    result["gpu_driver"] = np.array([DRIVERS[one] for one in history.driver.tolist()], dtype=object)[session]
    if history.plan.code == "unknown":
        result["fingerprint"] = text([None] * len(result))
    else:
        code = (np.arange(cases) * 1000 + history.code).ravel().tolist()
        result["fingerprint"] = text([f"{one:016x}" for one in code])
    result.attrs = {"notes": []}
    return result
