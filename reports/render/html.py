"""The report as one HTML page that opens anywhere: no request leaves it, whatever the names in it are.

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
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

from peakgate.reports.render import figures, marks, template
from peakgate.reports.render.page import Page, of_comparison
from peakgate.reports.result import Comparison
from peakgate.reports.runs.runfile import CaseResult, Run
from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]  # plotly ships no type information

COMPRESSION = 4
"""gzip's level: 6 takes nearly twice as long and saves 4 % of plotly.js."""


def comparison_page(comparison: Comparison, history: Iterable[Run] = (), *, strict: bool = False) -> str:
    """The page of NEW against BASE; ``history`` are other runs of the GPU, for the sparklines."""
    return render(of_comparison(comparison, history, strict=strict))


def render(page: Page) -> str:
    """The whole page as text."""
    library_hash, library = _library()
    script = template.asset("page.js")
    roofline, ladders = figures.roofline(page), figures.ladders(page)
    charts = [*([roofline] if roofline else []), *ladders]
    template.environment().filters |= {"figure": figure, "percent": percent, "spark": marks.sparkline}
    scale = marks.forest_scale([line.shift for line in page.lines if line.shift])
    return template.fill(
        "page.html",
        **about(page),
        page=page,
        roofline=roofline,
        ladders=ladders,
        figures={chart.name: chart.figure for chart in charts},
        matrices=matrices(page.run),
        forest=lambda line: marks.forest(line.shift, scale, line.tone),
        scale_percent=(100 * math.expm1(-scale), 100 * math.expm1(scale)),
        script=script,
        library=library if charts else "",
        scripts=f"{template.policy(script)} 'sha256-{library_hash}'",
    )


def about(page: Page) -> dict[str, Any]:
    """What the shared pieces of a page show: title, verdict, sentences, notes, filters."""
    return {
        "title": page.title,
        "heading": "Peakgate",
        "verdict": page.verdict,
        "tone": page.tone,
        "counts": page.counts,
        "sentences": page.sentences,
        "notes": page.notes,
        "families": page.families,
        "cases": len(page.lines),
    }


def figure(value: float | None, digits: int = 4) -> str:
    """A number to so many significant digits, zeros at its end too, without an exponent; empty where there is none."""
    if value is None:
        return ""
    short = f"{value:#.{digits}g}"
    return f"{value:.0f}" if "e+" in short else short.rstrip(".")


def percent(fraction: float | None) -> str:
    """``72.5``; empty where there is none."""
    return "" if fraction is None else f"{100 * fraction:.1f}"


@cache
def _library() -> tuple[str, str]:
    """plotly.js: the hash the page's policy knows it by, and its text, compressed."""
    text = str(get_plotlyjs())
    return template.digest(text), base64.b64encode(gzip.compress(text.encode(), COMPRESSION, mtime=0)).decode()


@dataclass(frozen=True, slots=True)
class Matrix:
    """``rows`` are (stage, TFLOP/s of its best case by size); None where the run has none. ``best`` is by size."""

    family: str
    sizes: tuple[str, ...]
    rows: tuple[tuple[str, tuple[float | None, ...]], ...]
    best: tuple[float | None, ...]


def matrices(run: Run) -> tuple[Matrix, ...]:
    """One for each family with cases bound by arithmetic at two sizes or more, stages in the order of the run."""
    families: dict[str, list[CaseResult]] = {}
    for result in run.cases.values():
        if result.bound == "compute" and result.family and result.stage and result.tflops:
            families.setdefault(result.family, []).append(result)
    found = (_matrix(family, results) for family, results in families.items())
    return tuple(matrix for matrix in found if len(matrix.sizes) > 1)


def _matrix(family: str, results: Iterable[CaseResult]) -> Matrix:
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
    return Matrix(family, sizes, rows, best)


def _volume(size: str) -> tuple[float, str]:
    """``4096`` is a cube, ``1000x200x300`` is what it says; labels without figures come first."""
    sides = [int(side) for side in re.findall(r"\d{1,9}", size)]
    return (sides[0] ** 3 if len(sides) == 1 else math.prod(sides) if sides else 0), size
