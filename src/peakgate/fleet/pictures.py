"""Pictures of a fleet: a heat map of GPUs and cases, and the spread per case.

Both embed pixels in the SVG, so that ten thousand GPUs do not make two million elements.
"""

from __future__ import annotations

import bisect

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from numpy.typing import NDArray

from peakgate.base.report import Picture
from peakgate.fleet.analysis import Analysis, GpuStatus
from peakgate.fleet.statistics import ALL
from peakgate.render.pictures import COLOURS, LONGEST_LABEL, STYLE, TEXT_COLOUR, label, svg

MOST_GPUS, MOST_CASES = 2000, 400
"""Maximum rows and columns of the heat map; if there are more GPUs, the slowest are shown, as the page says."""

ROW_INCHES, LETTER_INCHES = 0.15, 0.068
"""Height of a label, width of a letter."""

FADING = LinearSegmentedColormap.from_list(
    "fading", [(0, "#1f6fd0ff"), (0.5, "#1f6fd000"), (0.5, "#d0302600"), (1, "#d03026ff")]
).with_extremes(bad="#80808060")

MOST_SPREAD_DOTS = 400_000
SCALE = 0.05
"""The heat map's colours end at 5 % slower and faster."""


def pictures(found: Analysis) -> tuple[Picture, ...]:
    """Both pictures; empty if no GPU has a time."""
    if found.deviations.empty:
        return ()
    with mpl.rc_context(STYLE):
        return heat_map(found), spread(found)


def _ordered(found: Analysis) -> pd.DataFrame:
    """Deviations with cases sorted by group and GPUs by node, limited to the slowest GPUs."""
    table = found.deviations
    if len(table) > MOST_GPUS:
        table = table.loc[found.effects[ALL].nlargest(MOST_GPUS).index]
    groups = found.groups.reindex(table.columns).fillna("").astype(str)
    cases = sorted(table.columns, key=lambda case: (groups[case], case))[:MOST_CASES]
    nodes = found.gpus["node"].astype(str).reindex(table.index)
    gpus = sorted(table.index, key=lambda uuid: (nodes[uuid], uuid))
    return table.loc[gpus, cases]


def heat_map(found: Analysis) -> Picture:
    """One row per GPU, one column per case; red is slower than the fleet's median of the case.

    Small deviations are transparent, for light and dark pages. As many GPUs and cases are labelled as fit, first GPUs
    that are not OK and the cases that differ most.
    """
    table = _ordered(found)
    bottom = 0.3 + LETTER_INCHES * min(max(map(len, map(str, table.columns))), LONGEST_LABEL)
    height = min(max(0.16 * len(table), 2.0), 12.5)
    figure, axes = _plot(11, bottom + height)
    slower = np.expm1(table.to_numpy()) * 100
    ends = -100 * SCALE, 100 * SCALE
    picture = axes.imshow(slower, aspect="auto", cmap=FADING, interpolation="nearest", vmin=ends[0], vmax=ends[1])
    figure.colorbar(picture, ax=axes, label="slower than the fleet's median (%)", pad=0.01)
    status, nodes = (found.gpus[name].astype(str).reindex(table.index) for name in ("status", "node"))
    wanted = np.argsort((status == GpuStatus.OK).to_numpy() * 2 + nodes.duplicated().to_numpy(), kind="stable")
    rows = _spaced(wanted, len(table) / (height / ROW_INCHES))
    axes.set_yticks(rows, [label(f"{nodes.iloc[row]} {str(table.index[row])[:12]}") for row in rows], fontsize=8)
    for tick, row in zip(axes.get_yticklabels(), rows, strict=True):
        if status.iloc[row] != GpuStatus.OK:
            tick.set(color=COLOURS[5], fontweight="bold")
    farthest = np.argsort(-np.nanmax(np.abs(np.nan_to_num(slower)), axis=0), kind="stable")
    columns = _spaced(farthest, table.shape[1] / (6.5 / ROW_INCHES))
    axes.set_xticks(columns, [label(str(table.columns[each])) for each in columns], rotation=90, fontsize=8)
    groups = [str(found.groups.get(case)) for case in table]
    borders = [at for at in range(1, len(groups)) if groups[at] != groups[at - 1]]
    for start, end in zip([0, *borders], [*borders, len(groups)], strict=True):
        axes.text((start + end - 1) / 2, -0.7, f"{groups[start]} ({end - start})", ha="center", va="bottom", fontsize=8)
        axes.axvline(end - 0.5, color=TEXT_COLOUR, linewidth=0.6)
    few, of = len(table), len(found.deviations)
    text = "Each row is a GPU, each column a case; red is slower than the fleet's median of the case."
    text += f" The slowest {few} of {of} GPUs are shown." if few < of else ""
    return Picture("GPUs and cases", text, svg(figure, "GPUs and cases"))


def _spaced(wanted: NDArray[np.intp], apart: float) -> list[int]:
    """Positions of labels chosen in the order ``wanted``, each at least ``apart`` from the others."""
    taken: list[int] = []
    for place in wanted.tolist():
        at = bisect.bisect(taken, place)
        if all(abs(place - each) >= apart for each in taken[max(at - 1, 0) : at + 1]):
            taken.insert(at, place)
    return taken


def spread(found: Analysis) -> Picture:
    """One dot per GPU and case, cases sorted by their spread."""
    table = found.deviations
    order = table.std().fillna(0).sort_values().index
    values = 100 * np.expm1(table[order].to_numpy())
    x = np.broadcast_to(np.arange(values.shape[1]), values.shape)
    keep = np.isfinite(values)
    x, y = x[keep], values[keep]
    if len(y) > MOST_SPREAD_DOTS:  # keep all outer dots and every n-th inner one
        outer = np.abs(y) > np.quantile(np.abs(y), 1 - MOST_SPREAD_DOTS / 2 / len(y))
        chosen = outer | (np.arange(len(y)) % (2 * len(y) // MOST_SPREAD_DOTS + 1) == 0)
        x, y = x[chosen], y[chosen]
    names = [label(str(each)) for each in order]
    figure, axes = _plot(11, 3.6 + LETTER_INCHES * max(map(len, names)))
    axes.plot(x, y, ".", rasterized=True, markersize=3 if len(y) < 20_000 else 1, alpha=0.6, color=COLOURS[0])
    axes.axhline(0, color="#888", linewidth=0.6)
    named = _spaced(np.arange(len(names))[::-1], len(names) / (8.0 / ROW_INCHES))
    axes.set_xticks(named, [names[each] for each in named], rotation=90, fontsize=8)
    axes.margins(x=0.01)
    axes.set_ylabel("slower than median (%)")
    title = "Spread per case"
    return Picture(title, "Every GPU is a dot; cases are sorted by their spread.", svg(figure, title))


def _plot(width: float, height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()
