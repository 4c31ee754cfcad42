"""The report as one HTML page that opens anywhere: no request leaves it, whatever the names in it are; `peakgate show`.

Charts are drawn by plotly.js, which carries zooming, hovering and its upkeep, and comes pinned in plotly's wheel; its
Python side, slow to import, is not used. It is 4.8 MB, so the page holds it compressed (about 2 MB) and unpacks it when
a chart comes into view: table, filter and sorting never wait for it. What repeats in hundreds of rows (changes,
histories) is plain SVG of our own. Without scripts the table, the figures in it and the small pictures are all there.

Every text from a file passes the template's escaping. Besides, the page's policy lets no script run but its own,
identified by their hashes, and nothing be loaded from anywhere.
"""

from __future__ import annotations

import base64
import gzip
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from markupsafe import Markup
from peakgate.common.errors import PeakgateError
from peakgate.common.files import write_whole
from peakgate.common.output import say
from peakgate.reports.options import add_out, add_runs, verb_parser
from peakgate.reports.render import figures, template
from peakgate.reports.render.page import Page, Point, of_comparison, of_run
from peakgate.reports.result import Comparison, Shift
from peakgate.reports.runs.find import FORMS, Archive, find_history, find_side
from peakgate.reports.runs.runfile import CaseResult, Run
from peakgate.verdict import ExitCode
from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]  # plotly ships no type information

COMPRESSION = 4
"""gzip's level: 6 takes nearly twice as long and saves 4 % of plotly.js."""

FOREST_WIDTH, FOREST_HEIGHT = 120, 16
NARROWEST_SCALE, WIDEST_SCALE = math.log(1.05), math.log(1.12)
SPARK_WIDTH, SPARK_HEIGHT = 84, 20
LEAST_SPARK_SPAN = 0.02
"""A history that moved less than this share of its median is drawn as the nearly straight line it is."""


def comparison_page(comparison: Comparison, history: Iterable[Run] = (), *, strict: bool = False) -> str:
    """The page of NEW against BASE; ``history`` are other runs of the GPU, for the sparklines."""
    return render(of_comparison(comparison, history, strict=strict))


def render(page: Page) -> str:
    """The whole page as text."""
    library_hash, library = _library()
    script = template.asset("page.js")
    roofline, ladders = figures.roofline(page), figures.ladders(page)
    charts = [*([roofline] if roofline else []), *ladders]
    template.environment().filters |= {"figure": figure, "percent": hundredfold, "spark": sparkline}
    scale = forest_scale([line.shift for line in page.lines if line.shift])
    return template.fill(
        "page.html",
        **about(page),
        page=page,
        roofline=roofline,
        ladders=ladders,
        figures={chart.name: chart.figure for chart in charts},
        matrices=matrices(page.run),
        forest=lambda line: forest(line.shift, scale, line.tone),
        scale_percent=(100 * math.expm1(-scale), 100 * math.expm1(scale)),
        script=script,
        library=library if charts else "",
        scripts=f"{template.policy(script)} 'sha256-{library_hash}'",
    )


def about(page: Page) -> dict[str, Any]:
    """What the shared pieces of a page show: title, verdict, sentences, notes, filters."""
    shown = ("title", "verdict", "tone", "counts", "sentences", "notes", "families")
    return {name: getattr(page, name) for name in shown} | {"heading": "Peakgate", "cases": len(page.lines)}


def figure(value: float | None, digits: int = 4) -> str:
    """A number to so many significant digits, zeros at its end too, without an exponent; empty where there is none."""
    if value is None:
        return ""
    short = f"{value:#.{digits}g}"
    return f"{value:.0f}" if "e+" in short else short.rstrip(".")


def hundredfold(fraction: float | None) -> str:
    """``72.5``; empty where there is none."""
    return "" if fraction is None else f"{100 * fraction:.1f}"


@cache
def _library() -> tuple[str, str]:
    """plotly.js: the hash the page's policy knows it by, and its text, compressed."""
    text = str(get_plotlyjs())
    return template.digest(text), base64.b64encode(gzip.compress(text.encode(), COMPRESSION, mtime=0)).decode()


@dataclass(frozen=True, slots=True)
class TflopsMatrix:
    """``rows`` are (stage, TFLOP/s of its best case by size); None where the run has none. ``best`` is by size."""

    family: str
    sizes: tuple[str, ...]
    rows: tuple[tuple[str, tuple[float | None, ...]], ...]
    best: tuple[float | None, ...]


def matrices(run: Run) -> tuple[TflopsMatrix, ...]:
    """One for each family with cases bound by arithmetic at two sizes or more, stages in the order of the run."""
    families: dict[str, list[CaseResult]] = {}
    for result in run.cases.values():
        if result.bound == "compute" and result.family and result.stage and result.tflops:
            families.setdefault(result.family, []).append(result)
    found = (_matrix(family, results) for family, results in families.items())
    return tuple(matrix for matrix in found if len(matrix.sizes) > 1)


def _matrix(family: str, results: Iterable[CaseResult]) -> TflopsMatrix:
    rates: dict[tuple[str, str], float] = {}
    for result in results:
        key = (str(result.stage), result.size or "")
        rates[key] = max(rates.get(key, 0.0), result.tflops or 0.0)
    stages = tuple(dict.fromkeys(stage for stage, _ in rates))
    sizes = tuple(sorted(dict.fromkeys(size for _, size in rates), key=_volume))
    rows = tuple((stage, tuple(rates.get((stage, size)) for size in sizes)) for stage in stages)
    best = tuple(
        max((rate for rate in column if rate), default=None) for column in zip(*(r for _, r in rows), strict=True)
    )
    return TflopsMatrix(family, sizes, rows, best)


def _volume(size: str) -> tuple[float, str]:
    """``4096`` is a cube, ``1000x200x300`` is what it says; labels without figures come first."""
    sides = [int(side) for side in re.findall(r"\d{1,9}", size)]
    return (sides[0] ** 3 if len(sides) == 1 else math.prod(sides) if sides else 0), size


def forest_scale(shifts: Iterable[Shift]) -> float:
    """Half the width of the axis that all rows share, as a log ratio: wide enough for all, 12 % at most."""
    widest = max((max(abs(shift.log_ratio), shift.resolvable) for shift in shifts), default=0.0)
    return min(max(widest, NARROWEST_SCALE), WIDEST_SCALE)


def forest(shift: Shift, scale: float, tone: str) -> Markup:
    """A row of the forest plot: what cannot be text from no change as a band, the change as a dot.

    A change off the axis is an arrow at its end.
    """
    middle, centre = FOREST_WIDTH / 2, FOREST_HEIGHT / 2

    def x(log_ratio: float) -> float:
        return middle + (middle - 6) * max(-1.0, min(1.0, log_ratio / scale))

    left, right = x(-shift.resolvable), x(shift.resolvable)
    at = x(shift.log_ratio)
    if abs(shift.log_ratio) > scale:
        tip, back = at + math.copysign(5, shift.log_ratio), at - math.copysign(4, shift.log_ratio)
        mark = f'<path d="M{tip:.1f} {centre}L{back:.1f} {centre - 5}V{centre + 5}Z"/>'
    else:
        mark = f'<circle cx="{at:.1f}" cy="{centre}" r="3.5"/>'
    return Markup(  # noqa: S704  # numbers and one of our own class names
        f'<svg class="forest {tone}" width="{FOREST_WIDTH}" height="{FOREST_HEIGHT}" aria-hidden="true">'
        f'<rect x="{left:.1f}" y="{centre - 3}" width="{right - left:.1f}" height="6"/>'
        f'<line x1="{middle}" x2="{middle}" y2="{FOREST_HEIGHT}"/>{mark}</svg>'
    )


def sparkline(history: Sequence[Point]) -> Markup:
    """The medians of a case, one step per run, the latest as a dot; in words for screen readers."""
    times = [time for _, time in history]
    low, high = min(times), max(times)
    span = max(high - low, LEAST_SPARK_SPAN * sorted(times)[len(times) // 2])
    bottom = (low + high - span) / 2
    step = (SPARK_WIDTH - 6) / (len(times) - 1)
    points = [
        (3 + step * index, SPARK_HEIGHT - 3 - (SPARK_HEIGHT - 6) * (time - bottom) / span)
        for index, time in enumerate(times)
    ]
    path = " ".join(f"{x:.0f},{y:.1f}" for x, y in points)
    since = min(taken for taken, _ in history)
    text = f"{len(times)} runs since {since:%Y-%m-%d}, {low:.4g} to {high:.4g} µs, latest {times[-1]:.4g} µs"
    return Markup(  # noqa: S704  # numbers and dates
        f'<svg class="spark" width="{SPARK_WIDTH}" height="{SPARK_HEIGHT}" role="img" aria-label="{text}">'
        f'<title>{text}</title><polyline points="{path}"/>'
        f'<circle cx="{points[-1][0]:.0f}" cy="{points[-1][1]:.1f}" r="2.5"/></svg>'
    )


def main(verb: str, arguments: Sequence[str]) -> int:
    """Write the page and return the exit code."""
    parser = verb_parser(
        verb, f"Write a page of RUN: {FORMS}. It does not judge.", "exit codes: 0 written, 2 bad input"
    )
    parser.add_argument("wanted", metavar="RUN")
    add_runs(parser)
    add_out(parser)
    options = parser.parse_args(arguments)

    archive = Archive(options.runs)
    side = find_side(options.wanted, archive)
    if len(side.runs) > 1:
        raise PeakgateError(f"{options.wanted}: {len(side.runs)} sessions, expected one; name its file")
    page = of_run(side.runs[0], find_history(archive, [side]))
    write_whole(options.out / "show.html", render(page))
    counts = ", ".join(f"{count} {verdict}" for verdict, count in page.counts.items())
    say(f"{counts}: {page.verdict}; {options.out / 'show.html'}")
    return ExitCode.OK
