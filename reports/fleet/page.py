"""The fleet as one HTML page that opens anywhere: heat map of GPUs and cases, spread per case, node view.

The heat map is a PNG in the page, a pixel block per GPU and case, and the spread a dot per GPU and case drawn by
matplotlib: ten thousand GPUs are one picture, not two million elements. No script, nothing loaded from anywhere.
"""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Hashable, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from peakgate.common.text import counted
from peakgate.reports.fleet.analysis import Analysis, GpuStatus
from peakgate.reports.fleet.statistics import ALL
from peakgate.reports.render.template import environment

MISSING = "–"
MOST_GPUS, MOST_CASES = 2000, 400
"""Rows and columns of the heat map; of more GPUs the slowest are shown, and the page says so."""

MOST_DOTS, MOST_NODES = 400_000, 200
SCALE = 0.05
"""The heat map's colours end at 5 % slower and faster."""


def page(found: Analysis, headline: str, lines: Sequence[str], commands: Sequence[str]) -> str:
    """The whole page as text; ``commands`` take nodes out of service."""
    slowest = found.gpus.sort_values("effect_percent", ascending=False)
    bad = found.gpus[found.gpus["status"] != GpuStatus.OK]
    rows = pd.concat([bad, slowest.drop(bad.index).head(max(200 - len(bad), 50))])
    return (
        environment()
        .get_template("fleet.html")
        .render(
            title=f"Peakgate fleet: {headline}",
            found=found,
            lines=lines,
            rows=list(rows.itertuples()),
            total=len(found.gpus),
            heat=_heat_map(found),
            dots=_spread(found),
            nodes=_nodes(found),
            commands=commands,
            number=_number,
        )
    )


def _number(value: Any, digits: int = 1) -> str:
    return MISSING if value is None or math.isnan(value) else f"{value:.{digits}f}"


def _ordered(found: Analysis) -> pd.DataFrame:
    """Deviations with the cases group by group, node by node; of very many GPUs the slowest."""
    table = found.deviations
    if len(table) > MOST_GPUS:
        table = table.loc[found.effects[ALL].nlargest(MOST_GPUS).index]
    groups = found.groups.reindex(table.columns).fillna("").astype(str)
    cases = sorted(table.columns, key=lambda case: (groups[case], case))[:MOST_CASES]
    nodes = found.gpus["node"].astype(str).reindex(table.index)
    return table.loc[sorted(table.index, key=lambda uuid: (nodes[uuid], uuid)), cases]


def _heat_map(found: Analysis) -> dict[str, Any] | None:
    if found.deviations.empty:
        return None
    table = _ordered(found)
    figure, axes = _figure(11, min(max(1.2 + 0.16 * len(table), 2.5), 14))
    ends = {"vmin": -100 * SCALE, "vmax": 100 * SCALE}
    slower = np.expm1(table.to_numpy()) * 100
    picture = axes.imshow(slower, aspect="auto", cmap="RdBu_r", interpolation="nearest", **ends)
    figure.colorbar(picture, ax=axes, label="slower than the fleet's median (%)", pad=0.01)
    groups = ", ".join(dict.fromkeys(str(found.groups.get(case)) for case in table))
    axes.set_xlabel(f"{counted(table.shape[1], 'case')}, by group: {groups}")
    axes.set_xticks([])
    if len(table) <= 40:
        names = [f"{found.gpus['node'].get(uuid)} {uuid[:12]}" for uuid in table.index]
        axes.set_yticks(range(len(table)), names, fontsize=7)
    else:
        axes.set_ylabel(f"{len(table)} GPUs, by node")
    return {"picture": _png(figure), "shown": len(table), "of": len(found.deviations)}


def _spread(found: Analysis) -> Markup | None:
    """A dot per GPU and case, cases by their spread."""
    if found.deviations.empty:
        return None
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
    figure, axes = _figure(11, 3.6)
    axes.plot(x, y, ".", markersize=3 if len(y) < 20_000 else 1, alpha=0.6, color="#1f5fa8")
    axes.axhline(0, color="#888", linewidth=0.6)
    axes.set_xlabel("cases, by their spread between GPUs")
    axes.set_ylabel("slower than median (%)")
    return _png(figure)


def _nodes(found: Analysis) -> list[dict[Hashable, Any]]:
    """Per node, slowest first: GPUs by status, median effect of all cases, hottest GPU."""
    gpus = found.gpus.assign(
        node=found.gpus["node"].astype(str),
        rack=found.gpus["rack"].fillna(""),
        bad=found.gpus["status"] != GpuStatus.OK,
        effect=found.effects[ALL] if len(found.effects) else math.nan,
        celsius=pd.to_numeric(found.gpus["temperature_after_c"]),
    )
    by_node = gpus.groupby("node")
    nodes = pd.DataFrame(
        {
            "rack": by_node["rack"].first(),
            "gpus": by_node.size(),
            "bad": by_node["bad"].sum(),
            "effect_percent": 100 * np.expm1(by_node["effect"].median()),
            "hottest_c": by_node["celsius"].max(),
        }
    )
    nodes["named"] = nodes.index.isin(found.nodes.index[found.nodes["named"].to_numpy(bool)])
    order = nodes.sort_values(["named", "bad", "effect_percent"], ascending=False, kind="stable")
    return order.head(MOST_NODES).reset_index().to_dict("records")


def _figure(width: float, height: float) -> tuple[Figure, Any]:
    with mpl.rc_context({"font.size": 9}):
        figure = Figure(figsize=(width, height), dpi=110, layout="constrained")
        FigureCanvasAgg(figure)
        return figure, figure.subplots()


def _png(figure: Figure) -> Markup:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": None})
    return Markup("data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode())  # noqa: S704  (base64)
