"""``peakgate check --html FILE``: what was found as one page, each race for shared memory as a picture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from peakgate.check.picture import Cell, Picture, Row
from peakgate.common.files import write_whole

LEFT, CELL, HEIGHT, BARRIER, TOP = 440, 26, 24, 26, 24
"""In pixels: the labels' width, a cell's, a row's height, a barrier's and that of the numbers above."""

Drawing = dict[str, Any]
"""What ``templates/check.html`` draws."""


def write(path: Path, verdict: str, when: str, drawings: Sequence[Drawing], lines: Sequence[str]) -> None:
    """Write the page, whole or not at all."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415  (of the extra `reports`)

    templates = Environment(
        loader=FileSystemLoader(Path(__file__).with_name("templates")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    page = templates.get_template("check.html")
    write_whole(path, page.render(verdict=verdict, when=when, drawings=drawings, lines=lines))


def drawing(kernel: str, picture: Picture, text_at: Callable[[str, str], str]) -> Drawing:
    """The places of all parts, in pixels; ``text_at(kernel, "file.cu:12")`` is the text of a line."""
    y, rows, barriers, missing = TOP, [], [], None
    for number, row in enumerate(picture.rows):
        before = picture.rows[number - 1].phase if number else None
        if before is not None and row.phase != before:
            y += BARRIER
            barriers.append({"y": y - 5, "text": "barrier" if row.phase == before + 1 else "barriers"})
        if number == picture.missing_before:
            y += BARRIER
            marked = (each.line for each in picture.rows if any(cell.marked for cell in each.cells.values()))
            places = " and ".join(dict.fromkeys(marked))
            missing = {"y": y - 5, "text": f"a barrier is missing here, between {places}"}
        rows.append({**_described(row, picture), "y": y, "source": text_at(kernel, row.line)})
        y += HEIGHT
    marks = [
        {"x": _x(picture, at), "y": drawn["y"], "width": CELL - 2, "title": _title(cell, row, at)}
        for row, drawn in zip(picture.rows, rows, strict=True)
        for at, cell in row.cells.items()
        if cell.marked
    ]
    return {
        "kernel": kernel,
        "picture": picture,
        "left": LEFT,
        "width": LEFT + CELL * len(picture.columns) + 40,
        "height": y + 4,
        "columns": [{"x": _x(picture, at) + CELL // 2 - 1, "element": at} for at in picture.columns],
        "barriers": barriers,
        "rows": rows,
        "marks": marks,
        "missing": missing,
        "between": _between(marks),
    }


def _described(row: Row, picture: Picture) -> dict[str, Any]:
    cells = []
    for at in picture.columns:
        cell = row.cells.get(at)
        place = {"x": _x(picture, at), "width": CELL - 2}
        if cell is None:
            cells.append({**place, "kind": "empty", "text": "", "title": ""})
            continue
        shown = [*cell.marked, *(thread for thread in cell.threads if thread not in cell.marked)]
        text = str(shown[0]) if len(shown) == 1 else f"×{len(shown)}"
        if cell.marked and len(shown) > 1:
            text = f"{shown[0]}+"
        cells.append({**place, "kind": row.how, "text": text, "title": _title(cell, row, at)})
    return {"line": row.line, "how": row.how, "cells": cells}


def _title(cell: Cell, row: Row, at: int) -> str:
    some = ", ".join(map(str, cell.threads[:12])) + (", …" if len(cell.threads) > 12 else "")
    return f"element {at}: {row.how} by thread {some}, {row.line}"


def _x(picture: Picture, at: int) -> int:
    return LEFT + CELL * (at - picture.columns.start)


def _between(marks: Sequence[dict[str, Any]]) -> str:
    """A bow from one access to the other, beside their cells."""
    if len(marks) < 2:
        return ""
    (first, last), half = (marks[0], marks[-1]), 10
    x = first["x"] + first["width"]
    return (
        f"M {x} {first['y'] + half} C {x + 20} {first['y'] + half}, {x + 20} {last['y'] + half}, {x} {last['y'] + half}"
    )
