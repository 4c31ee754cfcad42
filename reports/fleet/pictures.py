"""Pictures of a fleet: heat map of GPUs and cases, spread per case.

Both are pixels inside their SVG: ten thousand GPUs are one picture, not two million elements.
"""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from peakgate.core.report import Picture
from peakgate.core.text import counted
from peakgate.reports.fleet.analysis import Analysis
from peakgate.reports.fleet.statistics import ALL
from peakgate.reports.write.pictures import STYLE, svg

MOST_GPUS, MOST_CASES = 2000, 400
"""Rows and columns of the heat map; of more GPUs the slowest are shown, and the page says so."""

MOST_DOTS = 400_000
SCALE = 0.05
"""The heat map's colours end at 5 % slower and faster."""


def pictures(found: Analysis) -> tuple[Picture, ...]:
    """Both; none where no GPU has a time."""
    if found.deviations.empty:
        return ()
    with mpl.rc_context(STYLE):
        return heat_map(found), spread(found)


def _ordered(found: Analysis) -> pd.DataFrame:
    """Deviations with the cases group by group, node by node; of very many GPUs the slowest."""
    table = found.deviations
    if len(table) > MOST_GPUS:
        table = table.loc[found.effects[ALL].nlargest(MOST_GPUS).index]
    groups = found.groups.reindex(table.columns).fillna("").astype(str)
    cases = sorted(table.columns, key=lambda case: (groups[case], case))[:MOST_CASES]
    nodes = found.gpus["node"].astype(str).reindex(table.index)
    return table.loc[sorted(table.index, key=lambda uuid: (nodes[uuid], uuid)), cases]


def heat_map(found: Analysis) -> Picture:
    """A row per GPU, a column per case; red is slower than the fleet's median of the case."""
    table = _ordered(found)
    figure, axes = _plot(11, min(max(1.2 + 0.16 * len(table), 2.5), 14))
    slower = np.expm1(table.to_numpy()) * 100
    picture = axes.imshow(
        slower, aspect="auto", cmap="RdBu_r", interpolation="nearest", vmin=-100 * SCALE, vmax=100 * SCALE
    )
    figure.colorbar(picture, ax=axes, label="slower than the fleet's median (%)", pad=0.01)
    groups = ", ".join(dict.fromkeys(str(found.groups.get(case)) for case in table))
    axes.set_xlabel(f"{counted(table.shape[1], 'case')}, by group: {groups}")
    axes.set_xticks([])
    if len(table) <= 40:
        names = [f"{found.gpus['node'].get(uuid)} {uuid[:12]}" for uuid in table.index]
        axes.set_yticks(range(len(table)), names, fontsize=7)
    else:
        axes.set_ylabel(f"{len(table)} GPUs, by node")
    shown, of = len(table), len(found.deviations)
    text = "Each row is a GPU, each column a case; red is slower than the fleet's median of the case."
    text += f" The slowest {shown} of {of} GPUs are shown." if shown < of else ""
    return Picture("GPUs and cases", text, svg(figure))


def spread(found: Analysis) -> Picture:
    """A dot per GPU and case, cases by their spread."""
    table = found.deviations
    order = table.std().fillna(0).sort_values().index
    values = 100 * np.expm1(table[order].to_numpy())
    x = np.broadcast_to(np.arange(values.shape[1]), values.shape)
    keep = np.isfinite(values)
    x, y = x[keep], values[keep]
    if len(y) > MOST_DOTS:  # every n-th dot of the middle; none of the outer ones is left out
        outer = np.abs(y) > np.quantile(np.abs(y), 1 - MOST_DOTS / 2 / len(y))
        chosen = outer | (np.arange(len(y)) % (2 * len(y) // MOST_DOTS + 1) == 0)
        x, y = x[chosen], y[chosen]
    figure, axes = _plot(11, 3.6)
    axes.plot(x, y, ".", rasterized=True, markersize=3 if len(y) < 20_000 else 1, alpha=0.6, color="#1f5fa8")
    axes.axhline(0, color="#888", linewidth=0.6)
    axes.set_xlabel("cases, by their spread between GPUs")
    axes.set_ylabel("slower than median (%)")
    return Picture("Spread per case", "Every GPU is a dot.", svg(figure))


def _plot(width: float, height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()
