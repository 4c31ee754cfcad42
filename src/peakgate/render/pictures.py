"""Pictures of cases, drawn by matplotlib: the roofline, a ladder per family, the changes.

Text stays text, in the colour of the page around it.
"""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from peakgate.base.report import Picture
from peakgate.base.safe_text import one_line
from peakgate.render.cases import family
from peakgate.runfile.saved import CaseResult
from peakgate.spec.recorded import ARITHMETIC_ROOFS, TENSOR_MATH

COLOURS = ("#3d85c6", "#d9730d", "#2f9e77", "#b565b0", "#b8960c", "#cc4f5c", "#5b7db1", "#808890")
BAR_COLOUR = "#2f6fae"
"""Behind white figures."""

SYMBOLS = "osD^P*HX"
TEXT_COLOUR = "#010203"
"""Becomes the colour of the page's text, which differs between themes."""

STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "peakgate",
    "text.parse_math": False,
    "font.size": 9,
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), TEXT_COLOUR),
    **dict.fromkeys(("figure.facecolor", "axes.facecolor", "legend.facecolor"), "none"),
    **dict.fromkeys(("axes.spines.top", "axes.spines.right", "legend.frameon"), False),
    "grid.color": "#80808055",
}
ROOFLINE_INCHES, LEGEND_COLUMNS = 5.0, 2
WIDTH_INCHES = 9.0
"""Of a picture."""

LONGEST_LABEL = 36
MOST_CHANGES, MOST_STAGES = 40, 100

NO_ARITHMETIC = (1 / 128, 1 / 32)
"""Where cases without arithmetic are drawn, in flop/byte: their distance to the memory roof is right at any."""

WIDEST_INTENSITY = 8192.0
"""Flop/byte up to which roofs are drawn at least."""


class Move(NamedTuple):
    """The change of a case's time, and the smallest one that is not taken for none; in percent."""

    case: str
    change_percent: float
    resolvable_percent: float


def pictures(
    cases: Sequence[CaseResult],
    gpu: Mapping[str, Any],
    *,
    moves: Sequence[Move] = (),
    before: Mapping[str, float] = MappingProxyType({}),
) -> tuple[Picture, ...]:
    """Those that there is something to draw for, of cases in the order of the lessons; ``gpu`` are facts of the run.

    ``before`` has by case the fraction of peak in the base.
    """
    with mpl.rc_context(STYLE):
        found = (changes(moves), roofline(cases, gpu), ladders(cases, before))
    return tuple(picture for picture in found if picture)


def changes(moves: Sequence[Move]) -> Picture | None:
    """The first of these changes, each with what cannot be separated from no change as a band."""
    shown = moves[:MOST_CHANGES]
    if not shown:
        return None
    figure, axes = _plot(0.9 + 0.2 * len(shown), [label(each.case) for each in shown])
    places = range(len(shown))
    _, change, resolvable = zip(*shown, strict=True)
    axes.barh(places, [2 * each for each in resolvable], left=[-each for each in resolvable], color="#80808066")
    beyond = [abs(one) > other for one, other in zip(change, resolvable, strict=True)]
    colours = [
        (COLOURS[5] if each > 0 else COLOURS[2]) if far else COLOURS[-1]
        for each, far in zip(change, beyond, strict=True)
    ]
    axes.scatter(change, places, c=colours, s=22, zorder=3)
    axes.axvline(0, color=TEXT_COLOUR, linewidth=0.8)
    axes.set_xlabel("change of the time (%)")
    axes.grid(axis="x")
    more = f" The first {len(shown)} of {len(moves)} cases." if len(moves) > len(shown) else ""
    text = f"A dot is a case's change, its band what these runs cannot separate from no change.{more}"
    return Picture("Changes", text, svg(figure))


def roofline(cases: Sequence[CaseResult], gpu: Mapping[str, Any]) -> Picture | None:
    """Every timed case by arithmetic intensity and TFLOP/s, under the GPU's roofs; None where no peak is claimed.

    A type of the tensor cores has its roofs where a case computes in it.
    """
    peak_gbs, peak_tflops = number(gpu.get("peak_gbs")), number(gpu.get("peak_tflops"))
    timed = [each for each in cases if each.gbs]
    if peak_gbs is None or peak_tflops is None or not timed:
        return None
    figure, axes = _plot(ROOFLINE_INCHES)
    measured, tensor_peaks = gpu.get("roofs") or {}, gpu.get("peak_tensor_tflops") or {}
    memory_gbs = max((rate for name, rate in measured.items() if rate and name not in ARITHMETIC_ROOFS), default=None)
    widest = max(WIDEST_INTENSITY, *(_point(each, 0.0)[0] for each in timed))
    types = sorted({each.math for each in timed if each.math in TENSOR_MATH and each.math is not None})
    for name, peak, roof in [
        ("", peak_tflops, measured.get("fma")),
        *((f" {each}", number(tensor_peaks.get(each)), measured.get(each)) for each in types),
    ]:
        if peak:
            _roof(axes, f"theoretical roof{name}", (peak_gbs, peak), "-", widest)
        if memory_gbs and roof:
            _roof(axes, f"measured roof{name}", (memory_gbs, roof), "--", widest)
    for order, name in enumerate(dict.fromkeys(map(family, cases))):
        if own := [each for each in timed if family(each) == name]:
            points = [_point(each, (place + 0.5) / len(own)) for place, each in enumerate(own)]
            axes.scatter(
                [x for x, _ in points],
                [y for _, y in points],
                label=label(name),
                color=COLOURS[order % len(COLOURS)],
                marker=SYMBOLS[order % len(SYMBOLS)],
                s=22,
                alpha=0.8,
            )
    axes.axvspan(NO_ARITHMETIC[0] / 1.2, NO_ARITHMETIC[1] * 1.2, color="#80808020", linewidth=0)
    axes.loglog()
    ticks = [4.0**power for power in range(-3, 7)]
    axes.set_xticks(ticks, [f"{tick:g}" if tick >= 1 else f"1/{1 / tick:g}" for tick in ticks])
    axes.yaxis.set_major_formatter("{x:g}")
    axes.minorticks_off()
    axes.set_xlabel("flop per byte of device memory")
    axes.set_ylabel("TFLOP/s")
    axes.grid()
    # Under the axes: points are everywhere in them.
    below = 0.25 * math.ceil(len(axes.get_legend_handles_labels()[1]) / LEGEND_COLUMNS)
    height = ROOFLINE_INCHES + below
    figure.set_size_inches(WIDTH_INCHES, height)
    figure.subplots_adjust(bottom=(0.5 + below) / height, top=1 - 0.3 / height)
    axes.legend(loc="upper left", bbox_to_anchor=(0.0, -0.5 / ROOFLINE_INCHES), ncols=LEGEND_COLUMNS)
    text = (
        f"{len(timed)} timed cases under the theoretical roofs of {peak_gbs:,.0f} GB/s and {peak_tflops:.1f} TFLOP/s. "
        "Cases without arithmetic stand in the grey strip, as far below the memory roof as their bandwidth is."
    )
    return Picture("Roofline", text, svg(figure))


def ladders(cases: Sequence[CaseResult], before: Mapping[str, float]) -> Picture | None:
    """A bar per stage, family by family: the best case's share of the peak that binds it."""
    stages = [each for name in dict.fromkeys(map(family, cases)) for each in _best_of_stages(cases, name)]
    best = stages[:MOST_STAGES]
    if not best:
        return None
    names = [label(f"{family(each)}.{each.stage or each.case}") for each in best]
    figure, axes = _plot(0.9 + 0.2 * len(best), names)
    places = range(len(best))
    bars = axes.barh(places, [100 * (each.peak_fraction or 0.0) for each in best], color=BAR_COLOUR)
    axes.bar_label(bars, fmt="%.1f %%", label_type="center", color="white")
    for name, marker, values in (
        ("measured roof", "|", [_share(each.peak_fraction, each.roof_fraction) for each in best]),
        ("base", "D", [_share(before.get(each.case), 1.0) for each in best]),
    ):
        if any(value is not None for value in values):
            xs = [math.nan if value is None else value for value in values]
            axes.plot(xs, places, marker, label=name, color=COLOURS[1], markerfacecolor="none", markeredgewidth=1.5)
            axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2)
    axes.set_xlabel("% of the peak that binds")
    axes.grid(axis="x")
    more = f" The first {len(best)} of {len(stages)} stages." if len(stages) > len(best) else ""
    return Picture("Ladders", f"Each stage by the case of it that comes nearest its peak.{more}", svg(figure))


def svg(figure: Figure) -> str:
    """A figure as an SVG to be put into a page."""
    stream = io.StringIO()
    with mpl.rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # text stays text: the browser has the fonts
        metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        FigureCanvasSVG(figure).print_svg(stream, metadata=metadata)  # type: ignore[no-untyped-call]
    text = stream.getvalue()
    return re.sub(TEXT_COLOUR, "currentColor", text[text.index("<svg") :])


def label(text: str) -> str:
    """Text from a file in one line, cut where it is too long."""
    plain = one_line(text)
    return plain if len(plain) <= LONGEST_LABEL else f"{plain[: LONGEST_LABEL - 1]}…"


def number(value: object) -> float | None:
    """A positive finite number of the run file's machine record; None for whatever else stands there."""
    usable = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0
    return float(value) if usable and isinstance(value, int | float) else None


def _plot(height: float, rows: Sequence[str] = ()) -> tuple[Figure, Axes]:
    """A figure of this height in inches with its axes, one row of it per name, from the top.

    Its margins are given: to lay it out by its texts would take longer than to draw it.
    """
    figure = Figure(figsize=(WIDTH_INCHES, height))
    left = 0.7 + 0.07 * max(map(len, rows), default=0)
    figure.subplots_adjust(
        left=left / WIDTH_INCHES, right=1 - 0.2 / WIDTH_INCHES, bottom=0.5 / height, top=1 - 0.3 / height
    )
    axes = figure.subplots()
    if rows:
        axes.set_yticks(range(len(rows)), rows)
        axes.set_ylim(len(rows) - 0.5, -0.5)
    return figure, axes


def _roof(axes: Axes, name: str, rates: tuple[float, float], dash: str, widest: float) -> None:
    """A roof of GB/s and TFLOP/s, drawn up to ``widest`` flop/byte and past its ridge."""
    gbs, tflops = rates
    ridge = 1e3 * tflops / gbs
    xs = [NO_ARITHMETIC[0], ridge, max(widest, 2 * ridge)]
    ys = [min(tflops, gbs * x / 1e3) for x in xs]
    axes.plot(xs, ys, dash, color=COLOURS[-1], label=f"{name}: {gbs:,.0f} GB/s, {tflops:.1f} TFLOP/s")


def _point(case: CaseResult, place: float) -> tuple[float, float]:
    """Intensity in flop/byte and TFLOP/s; ``place`` from 0 to 1 spreads cases without arithmetic over their strip."""
    gbs = case.gbs or math.nan
    first, last = NO_ARITHMETIC
    intensity = 1e3 * (case.tflops or 0.0) / gbs or first * (last / first) ** place
    return intensity, gbs * intensity / 1e3


def _best_of_stages(cases: Sequence[CaseResult], of: str) -> list[CaseResult]:
    best: dict[str, CaseResult] = {}
    for each in cases:
        if family(each) == of and each.peak_fraction is not None:
            known = best.setdefault(each.stage or each.case, each)
            best[each.stage or each.case] = max(known, each, key=lambda case: case.peak_fraction or 0.0)
    return list(best.values())


def _share(fraction: float | None, of: float | None) -> float | None:
    return None if fraction is None or not of else 100 * fraction / of
