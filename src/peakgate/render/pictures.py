"""Pictures of cases, drawn by matplotlib: changes, the roofline, families, and of one family its stages and blocks.

Text stays text, in the colour of the page around it.
"""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from peakgate.base.formatting import one_line
from peakgate.base.report import Picture, Tone
from peakgate.base.verdict import OVER_PEAK
from peakgate.render.cases import family
from peakgate.runfile.saved import CaseResult
from peakgate.spec.recorded import TENSOR_MATH

COLOURS = ("#3d85c6", "#d9730d", "#2f9e77", "#b565b0", "#b8960c", "#cc4f5c", "#5b7db1", "#808890")
TONES = {Tone.SAME: COLOURS[7], Tone.OPEN: COLOURS[4], Tone.GOOD: COLOURS[2], Tone.BAD: COLOURS[5]}
"""Colours of changes, the least important first: what is drawn later covers what is drawn before it."""

BAR_COLOUR, ABOVE_COLOUR = "#4a8fd0", "#d9730d"
"""Of what is below its roof, and above it."""

HEAT = ("#dbe9f6", "#b3d0ea", "#82b1dc", "#3576b8", "#245f9e", "#174a86")
"""Of a sixth of the fastest each; figures are dark on the first half and white on the second."""

SYMBOLS = "osD^P*HX"
TEXT_COLOUR = "#010203"
"""Becomes the colour of the page's text, which differs between themes."""

STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.size": 9,
    "font.family": ["DejaVu Sans"],  # the page puts its own in place; a list of ten would stand at every text
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), TEXT_COLOUR),
    **dict.fromkeys(("figure.facecolor", "axes.facecolor", "legend.facecolor"), "none"),
    **dict.fromkeys(("axes.spines.top", "axes.spines.right", "legend.frameon"), False),
    "grid.color": "#80808055",
}
ROOFLINE_INCHES, LEGEND_COLUMNS = 5.0, 2
WIDTH_INCHES = 9.0
"""Of a picture."""

LONGEST_LABEL, LONGEST_STAGE, LONGEST_NAME = 36, 20, 50
"""Letters of a label beside a picture, of the name of the best stage in one, and of that of a case."""

MOST_ROWS, MOST_BLOCKS = 40, 20
"""Of a picture: named changes, families or stages, and blocks."""

FEWEST_NAMED = 6
"""Of the changes, however small they are."""

NAMED_INCHES, UNNAMED_INCHES, MOST_UNNAMED_INCHES = 0.3, 0.04, 4.0
"""Height of a change that is named, of one that is not, and of all that are not."""

LINEAR_PERCENT = 1.0
"""Changes up to this are drawn on a linear scale, larger ones on a logarithmic one: 0.1 % and 100 % in one picture."""

NARROW_INCHES = 4.2
"""Width of a picture that fits a column of a phone, unless its labels need more."""

MOST_PERCENT = 110.0
"""Of its roof, up to which a case is drawn: what is above is marked, and its figure stands beside it."""

NO_ARITHMETIC = (1 / 128, 1 / 32)
"""Where cases without arithmetic are drawn, in flop/byte: their distance to the memory roof is right at any."""

WIDEST_INTENSITY = 8192.0
"""Flop/byte up to which roofs are drawn at least."""


AGAINST = (
    "100 % is the measured roof of memory or of arithmetic, whichever limits the case, or the theoretical peak where "
    "the run measured no roof. Orange is above it, usually because the data fit in the L2, and drawn up to "
    f"{MOST_PERCENT:.0f} %."
)
"""What the shares of a picture are of."""


class Move(NamedTuple):
    """The change of a case's time with its interval, in percent, and the tone of the verdict on it."""

    case: str
    change_percent: float
    low_percent: float
    high_percent: float
    tone: Tone


class StageShare(NamedTuple):
    """The best case of a stage: its fraction of the measured roof that binds, of the theoretical peak without one.

    ``before`` is the same of the base of a comparison.
    """

    stage: str
    share: float
    before: float | None = None


@mpl.rc_context(STYLE)
def changes(moves: Sequence[Move]) -> Picture | None:
    """Every change with its interval, the largest slowdown first; those that are no SAME have their names.

    Where these are few the largest of the others are named too; of very many the first ones.
    """
    if not moves:
        return None
    shown = sorted(moves, key=lambda each: (-each.change_percent, each.case))
    by_interest = sorted(moves, key=lambda each: (each.tone is Tone.SAME, -abs(each.change_percent)))
    changed = sum(each.tone is not Tone.SAME for each in moves)
    named = set(by_interest[: min(max(changed, FEWEST_NAMED), MOST_ROWS)])
    thin = min(UNNAMED_INCHES, MOST_UNNAMED_INCHES / len(shown))
    ends = np.cumsum([NAMED_INCHES if each in named else thin for each in shown])  # in inches from the top
    places = {each: end - (0.06 if each in named else thin / 2) for each, end in zip(shown, ends.tolist(), strict=True)}

    figure, axes = _plot(0.55 + ends[-1], width=NARROW_INCHES, left=0.1, bottom=0.05, top=0.5)
    axes.set_ylim(ends[-1], 0)
    bounds = [bound for each in shown for bound in (each.low_percent, each.high_percent, each.change_percent)]
    axes.set_xscale("symlog", linthresh=LINEAR_PERCENT)
    axes.set_xlim(1.3 * min(-LINEAR_PERCENT, *bounds), 1.3 * max(LINEAR_PERCENT, *bounds))
    for tone, colour in TONES.items():
        for large in (False, True):
            own = [each for each in shown if each.tone is tone and (each in named) is large]
            ends_of_lines = np.ravel([(each.low_percent, each.high_percent, math.nan) for each in own])
            ys = [places[each] for each in own]
            axes.plot(ends_of_lines, np.repeat(ys, 3), color=colour, linewidth=1.8 if large else 0.4, alpha=0.6)
            axes.plot([each.change_percent for each in own], ys, "o", color=colour, markersize=5 if large else 1.5)
    for each in shown:
        if each in named:
            name, change = label(each.case, LONGEST_NAME), f"{each.change_percent:+.3g} %"
            for at, side, text in ((0.01, "left", name), (0.99, "right", change)):
                axes.text(at, places[each] - 0.08, text, ha=side, fontsize=8, transform=axes.get_yaxis_transform())
    axes.axvline(0, color=TEXT_COLOUR, linewidth=0.8)
    ticks = [sign * 10.0**power for sign in (-1, 1) for power in range(4)]
    low, high = axes.get_xlim()
    axes.set_xticks([each for each in sorted([*ticks, 0.0]) if low <= each <= high])
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:+g} %" if x else "0 %")
    axes.minorticks_off()
    axes.xaxis.tick_top()
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.set_yticks([])
    axes.grid(axis="x")
    text = "A dot is the change of a case's time, slower to the right, its line the interval. "
    text += f"Red is slower, green faster, yellow undecided. Beyond {LINEAR_PERCENT:.0f} % the axis is logarithmic."
    if len(named) < changed:
        text += f" {len(named)} of {changed} that changed are named."
    return Picture(f"All changes ({len(shown)})", text, svg(figure, "Changes"), narrow=True)


@mpl.rc_context(STYLE)
def roofline(cases: Sequence[CaseResult], gpu: Mapping[str, Any], memory_gbs: float | None = None) -> Picture | None:
    """Every timed case by arithmetic intensity and TFLOP/s, under the GPU's roofs; None where no peak is claimed.

    A type of the tensor cores has its roofs where a case computes in it. ``memory_gbs`` is the measured roof of memory.
    """
    peak_gbs, peak_tflops = number(gpu.get("peak_gbs")), number(gpu.get("peak_tflops"))
    timed = [each for each in cases if each.gbs]
    if peak_gbs is None or peak_tflops is None or not timed:
        return None
    figure, axes = _plot(ROOFLINE_INCHES)
    measured, tensor_peaks = gpu.get("roofs") or {}, gpu.get("peak_tensor_tflops") or {}
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
    axes.set_title("TFLOP/s", loc="left", fontsize=9)
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
    return Picture("Roofline", text, svg(figure, "Roofline"))


@mpl.rc_context(STYLE)
def families(found: Mapping[str, Sequence[StageShare]], title: str = "Families") -> Picture | None:
    """A row per family, in it a dot per stage: the share that its best case reaches; beside it the best stage.

    None of a single family, whose stages have a picture of their own.
    """
    shown = dict([(name, stages) for name, stages in found.items() if stages][:MOST_ROWS])
    if len(shown) < 2:
        return None
    figure, axes = _shares([label(name) for name in shown], 0.07 * LONGEST_STAGE)
    for place, stages in enumerate(shown.values()):
        percents = [100 * each.share for each in stages]
        best, name = max((100 * each.share, each.stage) for each in stages)
        axes.plot([0, min(best, MOST_PERCENT)], [place, place], color="#80808066", linewidth=6, solid_capstyle="butt")
        for colour in (BAR_COLOUR, ABOVE_COLOUR):
            drawn = [min(each, MOST_PERCENT) for each in percents if _colour(each) == colour]
            axes.plot(drawn, [place] * len(drawn), "o", color=colour, markersize=4.5, alpha=0.8)
        axes.text(MOST_PERCENT + 3, place, f"{best:.1f} % {label(name, LONGEST_STAGE)}", va="center")
    text = "A dot is the best case of a stage at its largest size; the figure is that of the best stage. " + AGAINST
    return Picture(title, text, svg(figure, title), narrow=True)


@mpl.rc_context(STYLE)
def stages(name: str, shares: Sequence[StageShare], *, explained: bool = True) -> Picture | None:
    """A bar per stage of a family, in the order of the lesson: the share that its best case reaches.

    ``explained``: its text says what the shares are of, as that of all families does.
    """
    if not shares:
        return None
    shown = shares[:MOST_ROWS]
    figure, axes = _shares([label(each.stage or name) for each in shown])
    for place, each in enumerate(shown):
        percent = 100 * each.share
        axes.barh(place, min(percent, MOST_PERCENT), color=_colour(percent))
        axes.text(MOST_PERCENT + 3, place, f"{percent:.1f} %", va="center")
    if before := [(100 * each.before, place) for place, each in enumerate(shown) if each.before is not None]:
        xs = [min(percent, MOST_PERCENT) for percent, _ in before]
        axes.plot(
            xs, [place for _, place in before], "D", label="base", color=COLOURS[5], markerfacecolor="none", zorder=3
        )
        axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0))
    more = f"The first {len(shown)} of {len(shares)} stages." if len(shares) > len(shown) else ""
    title, text = f"{name}: stages", " ".join(filter(None, [more, AGAINST if explained else ""]))
    return Picture(title, text, svg(figure, title), narrow=True)


@mpl.rc_context(STYLE)
def blocks(title: str, rates: pd.DataFrame) -> Picture | None:
    """A heat map of rates, a row per stage and a column per block, the darker the faster; NaN stays empty.

    None where it would have a single column, or no row.
    """
    rates = rates.iloc[:MOST_ROWS, :MOST_BLOCKS]
    if len(rates.columns) < 2 or not rates.notna().any(axis=None):
        return None
    rows, cells = [label(each) for each in rates.index], rates.to_numpy(float)
    left, height = 0.2 + 0.067 * max(map(len, rows)), 0.5 + 0.2 * len(rows)
    figure, axes = _plot(
        height, rows, width=max(NARROW_INCHES, left + 0.42 * len(rates.columns)), left=left, bottom=0.1
    )
    best = np.nanmax(cells)
    axes.pcolormesh(
        np.arange(len(rates.columns) + 1) - 0.5,
        np.arange(len(rows) + 1) - 0.5,
        np.ma.masked_invalid(cells),
        cmap=ListedColormap(HEAT),
        vmin=0.0,
        vmax=best,
    )
    for (place, at), rate in np.ndenumerate(cells):
        if not math.isnan(rate):
            ink = "white" if rate > best / 2 else "#101820"
            axes.text(
                at,
                place,
                f"{rate:.0f}" if rate >= 1000 else f"{rate:.4g}",
                ha="center",
                va="center",
                color=ink,
                fontsize=7.5,
            )
    axes.set_xticks(range(len(rates.columns)), [label(each) or "–" for each in rates.columns])
    axes.xaxis.tick_top()
    axes.tick_params(length=0, labelsize=8)
    for spine in axes.spines.values():
        spine.set_visible(False)
    return Picture(title, "", svg(figure, title), narrow=True)


def svg(figure: Figure, title: str) -> str:
    """A figure as an SVG to be put into a page, in which no other picture has this title.

    What it refers to by an id stands in it: pictures of one shape would take it from the first, which may be folded.
    """
    stream = io.StringIO()
    with mpl.rc_context(STYLE | {"svg.hashsalt": title}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # text stays text: the browser has the fonts
        metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        FigureCanvasSVG(figure).print_svg(stream, metadata=metadata)  # type: ignore[no-untyped-call]
    text = stream.getvalue()
    text = re.sub(r"\n +", "\n", text[text.index("<svg") :])
    text = re.sub(r' transform="rotate\(-0 [\d. -]+\)"', "", text)
    return text.replace(TEXT_COLOUR, "currentColor")


def label(text: str, most: int = LONGEST_LABEL) -> str:
    """Text from a file in one line, of a longer one both ends: the ids of a family's cases differ at their end."""
    plain = one_line(text)
    return plain if len(plain) <= most else f"{plain[: most // 3]}…{plain[most // 3 + 1 - most :]}"


def number(value: object) -> float | None:
    """A positive finite number of the run file's machine record; None for whatever else stands there."""
    usable = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0
    return float(value) if usable and isinstance(value, int | float) else None


def _plot(
    height: float,
    rows: Sequence[str] = (),
    *,
    width: float = WIDTH_INCHES,
    left: float | None = None,
    right: float = 0.2,
    bottom: float = 0.5,
    top: float = 0.3,
) -> tuple[Figure, Axes]:
    """A figure of this height and width in inches with its axes, one row of it per name, from the top.

    Its margins are given: to lay it out by its texts would take longer than to draw it.
    """
    figure = Figure(figsize=(width, height))
    left = 0.7 + 0.07 * max(map(len, rows), default=0) if left is None else left
    figure.subplots_adjust(left=left / width, right=1 - right / width, bottom=bottom / height, top=1 - top / height)
    axes = figure.subplots()
    if rows:
        axes.set_yticks(range(len(rows)), rows)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.tick_params(axis="y", left=False)
    return figure, axes


def _colour(percent: float) -> str:
    return ABOVE_COLOUR if percent > 100 * OVER_PEAK else BAR_COLOUR


def _shares(rows: Sequence[str], right: float = 0.2) -> tuple[Figure, Axes]:
    """A narrow figure of shares in percent, with a line at the roof and so many inches beside the figures."""
    left = 0.2 + 0.075 * max(map(len, rows))
    figure, axes = _plot(
        0.9 + 0.2 * len(rows), rows, width=max(NARROW_INCHES, left + 2.2 + right), left=left, right=right
    )
    axes.axvline(100, color=TEXT_COLOUR, linewidth=0.8, linestyle="--")
    axes.set_xlim(0, MOST_PERCENT + 30)
    axes.set_xticks(range(0, 101, 25))
    axes.set_xlabel("% of the roof that binds")
    axes.grid(axis="x")
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
