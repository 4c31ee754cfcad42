"""Detection of short kernels' slowdowns, by what of the same processes is compared; pure.

The record's SHORT has pairs of processes of the shortest copies. What ``ab`` compares is the last row of the table.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from peakgate.reports.injected.rates import detection, resampled_gates
from peakgate.reports.injected.record import CONTROL, TRIMMED, Experiment, cell_of, path_of, read_times
from peakgate.reports.injected.resample import Pairing, medians
from peakgate.reports.ladder.markers import percent, table

CONFIRMING = 10
"""Confirming pairs of a gate, half of what ``ab`` takes: the record has too few pairs for more."""

COMPARED = {
    "medians": [TRIMMED, CONTROL],
    "trimmed means": [CONTROL],
    "medians, without the process's overhead": [TRIMMED],
    "trimmed means, without the process's overhead": [],
}
"""What is compared, and the columns that are left out for it."""


def tables(record: Path, gates: int) -> dict[str, str]:
    """The page's block; none where the record has no such pairs."""
    return {"injected-short": short(read_times(record, Experiment.SHORT), gates)} if _has(record) else {}


def short(times: pd.DataFrame, gates: int) -> str:
    """Per way of comparing: the SD between pairs and the share of copies flagged, by duration and slowdown."""
    times = times[[cell_of(case) is not None for case in times["case"]]]
    rows, cells = [], sorted({cell for case in times["case"].unique() if (cell := cell_of(case))})
    unchanged = times[[cell is not None and cell.permille == 0 for cell in map(cell_of, times["case"])]]
    for name, without in COMPARED.items():
        measured = medians(times.drop(columns=without))
        found = detection(measured, gates, confirming=CONFIRMING)
        ratios = measured.head - measured.base
        texts = []
        for cell in cells:
            spread = np.nanstd(ratios[[cell_of(case) == cell for case in measured.cases]], axis=1, ddof=1)
            texts.append(f"{percent(found[cell]) if found else '–'} ({100 * float(np.sqrt(np.mean(spread**2))):.2f} %)")
        same = resampled_gates(
            medians(unchanged.drop(columns=without)), gates, Pairing.AS_MEASURED, confirming=CONFIRMING
        )
        rows.append((name, *texts, percent(float(same["slower"].mean()))))
    head = (f"{cell.duration_us} µs, {cell.permille / 10:g} %" for cell in cells)
    return table(("compared", *head, "gates of unchanged copies flagged"), rows)


def _has(record: Path) -> bool:
    return path_of(record, Experiment.SHORT).exists()
