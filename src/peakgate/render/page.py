"""A report as one HTML page that opens anywhere: no request leaves it, whatever the names in it are.

Every text from a file is escaped. Besides, the page's policy lets no script run but its own, identified by its hash,
and nothing be loaded from anywhere. Without scripts everything is there but filter, sorting and the choice of a theme.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence, Set
from functools import cache, lru_cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from peakgate.base.formatting import BARS, counted, one_line
from peakgate.base.report import CellLink, Report, Tone, tone
from peakgate.base.verdict import Verdict

TEMPLATES = Path(__file__).with_name("templates")

MOST_FIRST = 3
"""So many sentences stand in the header; the others follow the rows."""

UNJUDGED: Mapping[str, str] = {Verdict.NO_FLOOR: "without a floor", Verdict.NEW: "that are new"}
"""Verdicts that say nothing of a row's speed, and what its row is in words."""

MOST_UNJUDGED = 20
"""More rows of such a verdict are folded below the others."""

VERDICT_CLASSES: Mapping[str, str] = {
    **dict.fromkeys((Verdict.PASS, "OK"), Tone.GOOD),
    Verdict.NO_FLOOR: Tone.OPEN,
    Verdict.NEW: "new",
}
"""Classes of the style sheet for verdicts whose colour is not that of their tone."""

FEWEST_FILTERED = 6
"""Fewer rows are seen at once: they have no filter."""

SHORT = 24
"""A text of so many letters is not broken into lines."""

PageLink = tuple[str, str]
"""The name of a page and its address, relative to the page that leads to it."""


def page(report: Report, trail: Sequence[PageLink] = (), title: str = "") -> str:
    """The whole page as text; ``trail`` are the pages above it, of a site, and ``title`` its own name there."""
    styles, script = _asset("page.css"), _asset("page.js")
    numeric = {name for row in report.rows for name, cell in row.cells.items() if number(cell)}
    rows = list(zip(_rows(report, numeric), (row.verdict for row in report.rows), strict=True))
    folded = [each for each in UNJUDGED if report.counts.get(each, 0) > MOST_UNJUDGED]
    heading = title or f"Peakgate {report.command}"
    # what stands below the pictures, in order, each with its anchor
    tables, closed = ([each.title for each in report.tables if each.folded is state] for state in (False, True))
    return _template().render(
        report=report,
        heading=heading,
        full_title=f"{heading}{': ' if report.headline else ''}{report.headline}",
        trail=trail,
        first=MOST_FIRST,
        few=FEWEST_FILTERED,
        parts=[
            *([(rows_title(report), "cases-title")] if report.rows else []),
            *([("Further findings", "findings")] if len(report.sentences) > MOST_FIRST else []),
            *((title, f"table-{at}") for at, title in enumerate(tables, 1)),
            *((each.title, f"section-{at}") for at, each in enumerate(report.sections, 1)),
            *((title, f"folded-{at}") for at, title in enumerate(closed, 1)),
        ],
        rows_title=rows_title(report),
        groups=list(dict.fromkeys(row.group for row in report.rows if row.group)),
        rows=Markup("\n").join(row for row, verdict in rows if verdict not in folded),
        folded=[
            (
                f"{counted(report.counts[each], report.unit)} {UNJUDGED[each]}",
                Markup("\n").join(row for row, verdict in rows if verdict == each),
            )
            for each in folded
        ],
        numeric=numeric,
        changes=any(row.change for row in report.rows),
        drawn=any(row.picture for row in report.rows),
        style=styles,
        script=script,
        policy=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def rows_title(report: Report) -> str:
    """``Cases``, ``GPUs``, ``Families``."""
    plural = f"{report.unit[:-1]}ies" if report.unit.endswith("y") else f"{report.unit}s"
    return plural[0].upper() + plural[1:]


def number(value: object) -> bool:
    """Whether a cell is aligned as a number."""
    return isinstance(value, int | float)


def colour(verdict: str) -> str:
    """The class that gives a verdict its colour: a pass is green, an unchanged case grey, a new one blue."""
    return VERDICT_CLASSES.get(verdict, tone(verdict))


@cache
def _template() -> Template:
    found = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {"line": one_line, "prose": prose, "colour": colour}
    found.tests |= {"number": number, "linked": lambda cell: isinstance(cell, CellLink)}
    return found.get_template("page.html")


@cache
def _asset(name: str) -> Markup:
    return Markup((TEMPLATES / name).read_text(encoding="utf-8"))  # noqa: S704  # a file of our own


def prose(text: str) -> Markup:
    """A sentence, what stands in it between backticks as code, each of its lines by itself."""
    lines = []
    for each in text.splitlines():
        parts = one_line(each).split("`")
        marked = (Markup("<code>{}</code>").format(part) if at % 2 else escape(part) for at, part in enumerate(parts))
        lines.append(Markup().join(marked) if len(parts) % 2 else escape(one_line(each)))
    return Markup("<br>").join(lines)


def _rows(report: Report, numeric: Set[str]) -> list[Markup]:
    """The rows as HTML, made here: a template takes four times as long, and a site has hundreds of thousands."""
    order = {verdict: rank for rank, verdict in enumerate(report.counts)}
    changes = any(row.change for row in report.rows)
    found = []
    for number, row in enumerate(report.rows):
        words = [each for each in (row.reason, *row.details) if each and not (row.picture and set(each) <= set(BARS))]
        parts = [_verdict(row.verdict, order.get(row.verdict, len(order)))] if order else []
        name = f"<code>{escape(one_line(row.name))}</code>"
        name = f'<a href="{escape(row.address)}">{name}</a>' if row.address else name
        parts += [f"<th scope=row class=case>{name}", row.picture, _small(tuple(words))]
        if changes:
            value = row.cells.get("change_percent")
            parts.append(f"<td class=short data-value={'' if value is None else f'{value:.6g}'}>{escape(row.change)}")
        for column in report.columns:
            cell, text = row.cells.get(column.name), column.text(row)
            shown = _text(text)
            if isinstance(cell, CellLink):
                shown = f'<a href="{escape(cell.address)}">{shown}</a>'
            kind = " class=number" if column.name in numeric else " class=short" if 0 < len(text) <= SHORT else ""
            parts.append(f"<td{kind}>{shown}")
        about = f'<tr id=row-{number} data-group="{escape(one_line(row.group))}" data-verdict="{escape(row.verdict)}">'
        found.append(Markup(about + "".join(parts)))  # noqa: S704  # all escaped
    return found


@lru_cache(maxsize=10_000)
def _small(lines: tuple[str, ...]) -> str:
    return "".join(f"<small>{escape(one_line(each))}</small>" for each in lines)


@lru_cache(maxsize=100)
def _verdict(verdict: str, rank: int) -> str:
    shown = escape(verdict or "not judged")
    return f'<td data-value={rank}><span class="verdict {colour(verdict)}">{shown}</span>'


@lru_cache(maxsize=10_000)
def _text(text: str) -> str:
    return str(escape(one_line(text)))
