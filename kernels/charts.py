"""The kinds of picture as plain data, which is compared with older data without drawing, and how each is drawn.

The same data give the same bytes. Each picture has its own background, and a dark one where the reader prefers dark
pages; the colours (Okabe and Ito's; viridis for what has an order) stay apart for colour-blind readers.
"""

from __future__ import annotations

import hashlib
import io
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


Points = tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Curve:
    """Points by x. A predicted curve is dashed, in the colour of the measured one of the same ``colour``."""

    label: str
    points: Points
    colour: int
    predicted: bool = False


@dataclass(frozen=True, slots=True)
class Curves:
    """Measured and predicted curves; ``doubling`` axes are logarithmic, ticks of fractions read as percentages.

    ``steps`` is for what has no values in between: predicted curves are drawn as steps, measured ones as points.
    """

    title: str
    note: str
    x_label: str
    y_label: str
    curves: tuple[Curve, ...]
    x_ticks: tuple[float, ...]
    steps: bool = False
    y_limits: tuple[float | None, float | None] = (None, None)
    doubling: bool = False
    x_fractions: bool = False
    y_fractions: bool = True
    roof: tuple[str, float] | None = None


@dataclass(frozen=True, slots=True)
class Bar:
    """A stage's figure and, where another of its shapes beats it, the best one's label and figure."""

    label: str
    value: float
    better: tuple[str, float] | None = None


@dataclass(frozen=True, slots=True)
class Bars:
    """A bar per stage, from the first to the last of the ladder, against a roof or a library.

    ``narrow`` is for a column as wide as a phone; ``label`` says what the bars are.
    """

    title: str
    note: str
    x_label: str
    bars: tuple[Bar, ...]
    roof: tuple[str, float] | None
    narrow: bool = field(default=False, repr=False)
    label: str = field(default="usual shape", repr=False)


@dataclass(frozen=True, slots=True)
class Groups:
    """One group per size, one bar per stage, the reference implementation as a line; None where there is no figure."""

    title: str
    note: str
    y_label: str
    sizes: tuple[str, ...]
    stages: tuple[tuple[str, tuple[float | None, ...]], ...]
    reference: tuple[str, tuple[float | None, ...]]


@dataclass(frozen=True, slots=True)
class Blocks:
    """A heat map of rates in ``unit`` at one size, by stage and block shape; None where there is no figure."""

    title: str
    unit: str
    size: str
    shapes: tuple[str, ...]
    stages: tuple[tuple[str, tuple[float | None, ...]], ...]


Chart = Curves | Bars | Groups | Blocks


def is_empty(picture: Chart) -> bool:
    """Whether the run has nothing to show in it."""
    if isinstance(picture, Blocks):
        return len(picture.shapes) < 2 or not picture.stages
    if isinstance(picture, Curves):
        return not any(curve.points for curve in picture.curves if not curve.predicted)
    return not (picture.bars if isinstance(picture, Bars) else picture.sizes)


def digest(picture: Chart) -> str:
    """Identifies the data of a picture; its SVG has this text, whatever its style and version."""
    return f"data {hashlib.sha256(repr(picture).encode()).hexdigest()[:16]}"


BACKGROUND, INK, GRID = "#fcfcfa", "#1a1a1a", "#d8d8d4"
DARK = {BACKGROUND: "#14171a", INK: "#e6e8ea", GRID: "#3a4047"}
"""What each of these colours is on a dark page."""

COLOURS, POINT_SHAPES = ("#0072b2", "#d55e00"), ("o", "s")
REFERENCE = "#d55e00"
LOOK_OF_PREDICTED: dict[str, Any] = {"linestyle": "--", "alpha": 0.8, "linewidth": 1.2}
STYLE = {
    "svg.hashsalt": "peakgate",
    "svg.fonttype": "path",
    "text.parse_math": False,
    "axes.edgecolor": INK,
    "axes.facecolor": BACKGROUND,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": GRID,
    "savefig.facecolor": BACKGROUND,
    "text.color": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
}
GROUPS_A_ROW = 5
LEAST_ROOM = 0.15
"""The share of the longest bar from which a bar has room for its figure."""


def svg(picture: Chart) -> str:
    """The picture as SVG, the same bytes for the same data."""
    if isinstance(picture, Blocks):
        drawn = _drawn_blocks(picture)
    else:
        metadata = {"Date": None, "Creator": "Peakgate", "Description": digest(picture)}
        drawn = rendered(picture, "svg", metadata=metadata).decode()
    rules = "".join(
        f'[style*="{part}: {light}"]{{{part}: {dark} !important}}'
        for light, dark in DARK.items()
        for part in ("fill", "stroke")
    )
    drawn = drawn.replace("</style>", f"@media (prefers-color-scheme: dark) {{{rules}}}</style>", 1)
    return "\n".join(line.rstrip() for line in drawn.splitlines()) + "\n"


def _drawn_blocks(picture: Blocks) -> str:
    """As ``peakgate show`` draws it, but with a background, a font and an ink of its own instead of the page's."""
    import pandas as pd  # noqa: PLC0415  # takes a second that only drawing needs

    from peakgate.render import pictures  # noqa: PLC0415

    names, rates = zip(*picture.stages, strict=True)
    drawn = pictures.blocks(picture.title, pd.DataFrame(rates, names, picture.shapes, float))
    assert drawn is not None
    text = drawn.svg.replace("currentColor", INK)
    text = text.replace("</style>", "text{font-family: system-ui, sans-serif !important}</style>", 1)
    back = f'<!-- {digest(picture)} --><rect width="100%" height="100%" style="fill: {BACKGROUND}"/>'
    return re.sub(r"<svg[^>]*>", lambda root: f"{root[0]}\n{back}", text, count=1)


def rendered(picture: Curves | Bars | Groups, form: str, **options: Any) -> bytes:
    """The picture in a form that matplotlib writes, ``options`` being those of its ``savefig``."""
    from matplotlib import style  # noqa: PLC0415  # takes a second that only drawing needs
    from matplotlib.figure import Figure  # noqa: PLC0415

    buffer = io.BytesIO()
    with style.context(["default", STYLE]):
        figure = Figure(layout="constrained")
        if isinstance(picture, Curves):
            _draw_curves(figure, picture)
        elif isinstance(picture, Bars):
            _draw_bars(figure, picture)
        else:
            _draw_groups(figure, picture)
        figure.suptitle(picture.title, x=0.01, ha="left", weight="bold")
        figure.axes[0].set_title(picture.note, loc="left", fontsize=9)
        figure.savefig(buffer, format=form, **options)
    return buffer.getvalue()


def _draw_curves(figure: Figure, picture: Curves) -> None:
    figure.set_size_inches(8, 5)
    axes = figure.add_subplot()
    for curve in picture.curves:
        look = LOOK_OF_PREDICTED if curve.predicted else {"marker": POINT_SHAPES[curve.colour], "zorder": 3}
        if picture.steps and not curve.predicted:
            look["linestyle"] = "none"
        drawstyle = "steps-mid" if curve.predicted and picture.steps else "default"
        x = [point[0] for point in curve.points]
        y = [point[1] for point in curve.points]
        axes.plot(x, y, color=COLOURS[curve.colour], label=curve.label, drawstyle=drawstyle, **look)
    axes.set(xlabel=picture.x_label, ylabel=picture.y_label)
    if picture.doubling:
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
    axes.set_xticks(picture.x_ticks, [_tick(value, picture.x_fractions) for value in picture.x_ticks])
    axes.minorticks_off()
    axes.yaxis.set_major_formatter(lambda value, _: _tick(value, picture.y_fractions))
    axes.set_ylim(*picture.y_limits)
    if picture.roof:
        axes.axhline(picture.roof[1], color=INK, linestyle=":", label=picture.roof[0])
    figure.legend(loc="outside lower center", ncols=2)


def _draw_bars(figure: Figure, picture: Bars) -> None:
    figure.set_size_inches(5.2 if picture.narrow else 8, 1.6 + 0.28 * len(picture.bars))
    axes = figure.add_subplot()
    rows = range(len(picture.bars))
    axes.barh(rows, [bar.value for bar in picture.bars], color=COLOURS[0], height=0.7, label=picture.label)
    better = [(bar.better[1], row) for row, bar in enumerate(picture.bars) if bar.better]
    if better:
        axes.scatter(
            [value for value, _ in better],
            [row for _, row in better],
            color=COLOURS[1],
            marker="D",
            s=22,
            zorder=3,
            label="best of its other shapes",
        )
    longest = max((bar.value for bar in picture.bars), default=0.0)
    for row, bar in enumerate(picture.bars):
        figures = [f"{bar.value:,.0f}"]
        outside = bar.value < LEAST_ROOM * longest
        if not (outside and bar.better):
            axes.annotate(
                figures.pop(),
                (bar.value, row),
                (5 if outside else -5, 0),
                textcoords="offset points",
                ha="left" if outside else "right",
                va="center",
                color=INK if outside else "white",
                fontsize=9,
            )
        if bar.better:
            figures.append(f"{bar.better[0]}: {bar.better[1]:,.0f}")
            axes.annotate(
                "; ".join(figures),
                (bar.better[1], row),
                (8, 0),
                textcoords="offset points",
                va="center",
                fontsize=9,
                bbox={"color": BACKGROUND, "pad": 1},
            )
    if picture.roof:
        axes.axvline(
            picture.roof[1], color=INK, linestyle=":", label=picture.roof[0], zorder=3 if picture.narrow else 0
        )
    axes.set(xlabel=picture.x_label)
    axes.set_yticks(rows, [bar.label for bar in picture.bars])
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.margins(y=0.01)
    axes.xaxis.set_major_formatter(lambda value, _: _tick(value, fractions=False))
    figure.legend(loc="outside lower center", ncols=3, reverse=True)


def _draw_groups(figure: Figure, picture: Groups) -> None:
    starts = range(0, len(picture.sizes), GROUPS_A_ROW)
    figure.set_size_inches(10, 1.4 + 2.6 * len(starts))
    for axes, start in zip(figure.subplots(len(starts), squeeze=False)[:, 0], starts, strict=True):
        _draw_group_row(axes, picture, range(start, min(start + GROUPS_A_ROW, len(picture.sizes))))
    # A stage without a bar in one row has its colour from another.
    entries = {
        label: handle
        for axes in figure.axes
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
        if getattr(handle, "patches", True)
    }
    labels = [label for label in (*dict(picture.stages), picture.reference[0]) if label in entries]
    handles = [entries[label] for label in labels]
    figure.legend(handles, labels, loc="outside lower center", ncols=6, fontsize=9)


def _draw_group_row(axes: Axes, picture: Groups, shown: range) -> None:
    from matplotlib import colormaps  # noqa: PLC0415  # as in rendered

    width = 0.86 / len(picture.stages)
    ramp = colormaps["viridis"]
    for position, (stage, values) in enumerate(picture.stages):
        left = (position - (len(picture.stages) - 1) / 2) * width
        bars = [(group + left, value) for group, index in enumerate(shown) if (value := values[index]) is not None]
        colour = ramp(position / max(1, len(picture.stages) - 1))
        axes.bar(
            [x for x, _ in bars], [y for _, y in bars], width, color=colour, edgecolor=INK, linewidth=0.3, label=stage
        )
    name, values = picture.reference
    lines = [(group, value) for group, index in enumerate(shown) if (value := values[index]) is not None]
    ends = [group for group, _ in lines]
    axes.hlines(
        [y for _, y in lines], [x - 0.46 for x in ends], [x + 0.46 for x in ends], color=REFERENCE, lw=2, label=name
    )
    axes.set_xticks(range(len(shown)), [_group_label(picture, index) for index in shown])
    axes.set_xlim(-0.55, GROUPS_A_ROW - 0.45 if len(picture.sizes) > GROUPS_A_ROW else len(shown) - 0.45)
    axes.set_ylabel(picture.y_label)
    axes.grid(visible=False, axis="x")


def _group_label(picture: Groups, index: int) -> str:
    """The size and, below, the best stage and its ratio to the reference implementation."""
    name, values = picture.reference
    reference = values[index]
    best, stage = max((figures[index] or 0.0, stage) for stage, figures in picture.stages)
    compared = f"\n{stage}\n{best / reference:.2f} x {name}" if reference and best else ""
    return f"{picture.sizes[index]}{compared}"


def _tick(value: float, fractions: bool) -> str:
    return f"{100 * value:.3g} %" if fractions else f"{value:,.0f}"
