"""The interactive charts as data for plotly.js: the roofline, and one ladder per family.

plotly.js reads a little HTML in every text it shows, so each name from a file is escaped here, and cut where it would
push the chart aside. Colours of background and text are the page's and set there; families differ by shape as well as
by colour.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from peakgate.reports.render import phrases
from peakgate.reports.render.page import CaseLine, Page, number

Figure = dict[str, Any]

COLOURS = ("#3d85c6", "#d9730d", "#2f9e77", "#b565b0", "#b8960c", "#cc4f5c", "#5b7db1", "#808890")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "star", "hexagon", "x")

ROOFLINE_HEIGHT_PX, LADDER_HEIGHT_PX, STAGE_HEIGHT_PX = 520, 120, 26
LONGEST_LABEL = 36
LONGEST_HOVER = 120

NO_ARITHMETIC = (1 / 128, 1 / 32)
"""Where cases without arithmetic are drawn, in flop/byte: their distance to the memory roof is right at any."""

WIDEST_INTENSITY = 8192.0


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart under its heading; ``text`` describes it in one sentence."""

    name: str
    title: str
    text: str
    figure: Figure


def ladders(page: Page) -> tuple[Chart, ...]:
    """One for each family that has a peak to be held against."""
    return tuple(chart for family in page.families if (chart := _ladder(page, family)))


def roofline(page: Page) -> Chart | None:
    """Every timed case by arithmetic intensity and TFLOP/s, under the GPU's roofs; None where no peak is claimed."""
    gpu = page.run.gpu
    peak_gbs, peak_tflops = number(gpu.get("peak_gbs")), number(gpu.get("peak_tflops"))
    timed = [(index, line) for index, line in enumerate(page.lines) if line.now and line.now.gbs]
    if peak_gbs is None or peak_tflops is None or not timed:
        return None
    traces = [_roof("theoretical roof", peak_gbs, peak_tflops, "solid")]
    measured = _measured_roofs(gpu.get("roofs") or {})
    if measured:
        traces.append(_roof("measured roof", *measured, "dash"))
    for order, family in enumerate(page.families):
        own = [(index, line) for index, line in timed if line.family == family]
        if own:
            traces.append(_points(family, own, order))
    ticks = [4.0**power for power in range(-3, 7)]
    layout = {
        "xaxis": {
            "type": "log",
            "title": {"text": "flop per byte of device memory"},
            "tickvals": ticks,
            "ticktext": [f"{tick:g}" if tick >= 1 else f"1/{1 / tick:g}" for tick in ticks],
        },
        "yaxis": {"type": "log", "title": {"text": "TFLOP/s"}, "exponentformat": "none", "dtick": 1},
        "shapes": [
            {
                "type": "rect",
                "yref": "paper",
                "x0": NO_ARITHMETIC[0] / 1.2,
                "x1": NO_ARITHMETIC[1] * 1.2,
                "y0": 0,
                "y1": 1,
                "line": {"width": 0},
                "fillcolor": "rgba(128,128,128,0.12)",
                "layer": "below",
            }
        ],
        "annotations": [
            {
                "text": "no arithmetic",
                "xref": "x",
                "x": sum(map(math.log10, NO_ARITHMETIC)) / 2,
                "yref": "paper",
                "y": 1,
                "yanchor": "bottom",
                "showarrow": False,
            }
        ],
        "legend": {"orientation": "h", "y": -0.2},
        "height": ROOFLINE_HEIGHT_PX,
    }
    text = (
        f"{len(timed)} timed cases under the theoretical roofs of {peak_gbs:,.0f} GB/s and {peak_tflops:.1f} TFLOP/s. "
        "Cases without arithmetic stand in the grey strip, as far below the memory roof as their bandwidth is."
    )
    return Chart("roofline", "Roofline", text, {"data": traces, "layout": layout})


def _ladder(page: Page, family: str) -> Chart | None:
    """A bar per stage, in the order of the lessons: the best case's share of the peak that binds it."""
    best_of_stage: dict[str, CaseLine] = {}
    for line in page.lines:
        if line.family == family and line.now and line.now.peak_fraction is not None:
            stage = line.now.stage or line.case
            best_of_stage[stage] = max(best_of_stage.get(stage, line), line, key=lambda each: _fraction(each) or 0.0)
    if not best_of_stage:
        return None
    of_family = (result for result in page.run.cases.values() if result.family == family)
    order = list(dict.fromkeys(result.stage or result.case for result in of_family))
    stages = sorted(best_of_stage, key=lambda stage: order.index(stage) if stage in order else len(order))
    best = [best_of_stage[stage] for stage in stages]
    places = list(range(len(stages)))
    bars = {
        "type": "bar",
        "orientation": "h",
        "name": "new" if page.comparing else "of peak",
        "x": [_hundredfold(_fraction(line)) for line in best],
        "y": places,
        "text": [f"{_hundredfold(_fraction(line)):.1f} %" for line in best],
        "textposition": "auto",
        "insidetextanchor": "start",  # the end of the bar is where the mark of base stands
        "hovertext": [_hover(line) for line in best],
        "hoverinfo": "text",
        "marker": {"color": COLOURS[0]},
    }
    marks = [
        _marks("measured roof", [_roof_percent(line) for line in best], places, "line-ns-open", COLOURS[-1]),
        _marks("base", [_base_percent(line) for line in best], places, "diamond-open", COLOURS[1])
        if page.comparing
        else None,
    ]
    layout = {
        "xaxis": {"title": {"text": "% of the peak that binds"}, "rangemode": "tozero"},
        "yaxis": {
            "tickvals": places,
            "ticktext": [label(stage) for stage in stages],
            "range": [len(stages) - 0.5, -0.5],
            "automargin": True,
        },
        "legend": {"orientation": "h", "y": 1, "yanchor": "bottom"},
        "bargap": 0.25,
        "height": LADDER_HEIGHT_PX + STAGE_HEIGHT_PX * len(stages),
    }
    text = "Each stage by the case of it that comes nearest its peak."
    data = [bars, *(trace for trace in marks if trace)]
    return Chart(f"ladder-{page.families.index(family)}", _cut(family), text, {"data": data, "layout": layout})


def label(text: str, longest: int = LONGEST_LABEL) -> str:
    """Text from a file as plotly.js shows it unchanged, in one line, cut where it is too long."""
    return html.escape(_cut(text, longest))


def _cut(text: str, longest: int = LONGEST_LABEL) -> str:
    plain = phrases.one_line(text)
    return plain if len(plain) <= longest else f"{plain[: longest - 1]}…"


def _points(family: str, lines: Sequence[tuple[int, CaseLine]], order: int) -> Figure:
    points = []
    first, last = NO_ARITHMETIC
    for place, (_, line) in enumerate(lines):
        result = line.now
        assert result is not None
        assert result.gbs
        intensity = 1e3 * (result.tflops or 0.0) / result.gbs
        if intensity <= 0:
            intensity = first * (last / first) ** ((place + 0.5) / len(lines))
        points.append((intensity, result.gbs * intensity / 1e3))
    return {
        "type": "scatter",
        "mode": "markers",
        "name": label(family),
        "x": [float(f"{x:.5g}") for x, _ in points],
        "y": [float(f"{y:.5g}") for _, y in points],
        "customdata": [index for index, _ in lines],
        "hovertext": [_hover(line) for _, line in lines],
        "hoverinfo": "text",
        "marker": {
            "color": COLOURS[order % len(COLOURS)],
            "symbol": SYMBOLS[order % len(SYMBOLS)],
            "size": 8,
            "opacity": 0.8,
        },
    }


def _roof(name: str, gbs: float, tflops: float, dash: str) -> Figure:
    ridge = 1e3 * tflops / gbs
    xs = [NO_ARITHMETIC[0], ridge, max(WIDEST_INTENSITY, 2 * ridge)]
    return {
        "type": "scatter",
        "mode": "lines",
        "name": f"{name}: {gbs:,.0f} GB/s, {tflops:.1f} TFLOP/s",
        "x": xs,
        "y": [min(tflops, gbs * x / 1e3) for x in xs],
        "hoverinfo": "skip",
        "line": {"dash": dash, "width": 1.5, "color": COLOURS[-1]},
    }


def _measured_roofs(roofs: Mapping[str, float | None]) -> tuple[float, float] | None:
    """The fastest measured memory roof in GB/s and the arithmetic one in TFLOP/s."""
    tflops = roofs.get("fma")
    memory = [rate for name, rate in roofs.items() if name != "fma" and rate]
    return (max(memory), tflops) if memory and tflops else None


def _marks(name: str, xs: Sequence[float | None], ys: Sequence[int], symbol: str, colour: str) -> Figure | None:
    if all(x is None for x in xs):
        return None
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": list(xs),
        "y": list(ys),
        "hovertemplate": f"{name} %{{x:.1f}} %<extra></extra>",
        "marker": {
            "symbol": symbol,
            "color": colour,
            "size": 14 if symbol.startswith("line") else 9,
            "line": {"width": 2},
        },
    }


def _hover(line: CaseLine) -> str:
    text = [label(line.case, LONGEST_HOVER)]
    if line.now:
        text += [f"{line.now.time_us:.4g} µs", _rates(line)]
        if line.now.peak_fraction is not None:
            text.append(f"{100 * line.now.peak_fraction:.1f} % of peak ({label(line.now.bound or 'unknown')})")
    text.append(" ".join(part for part in (line.verdict or "", str(line.shift) if line.shift else "") if part))
    return "<br>".join(part for part in text if part)


def _rates(line: CaseLine) -> str:
    result = line.now
    rates = ((result.gbs, "GB/s"), (result.tflops, "TFLOP/s")) if result else ()
    return ", ".join(f"{rate:.4g} {unit}" for rate, unit in rates if rate)


def _fraction(line: CaseLine) -> float | None:
    return line.now.peak_fraction if line.now else None


def _hundredfold(fraction: float | None) -> float | None:
    return None if fraction is None else round(100 * fraction, 2)


def _base_percent(line: CaseLine) -> float | None:
    return _hundredfold(line.before.peak_fraction) if line.before else None


def _roof_percent(line: CaseLine) -> float | None:
    """The measured roof of the case in percent of its peak."""
    if line.now is None or not line.now.roof_fraction or line.now.peak_fraction is None:
        return None
    return _hundredfold(line.now.peak_fraction / line.now.roof_fraction)
