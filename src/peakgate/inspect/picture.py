"""Draws a race: the elements of the shared array over time, and the threads that read and wrote each of them.

``peakgate check --html FILE`` writes a page of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from peakgate.base.emulated import LaunchNotEnded
from peakgate.base.files import write_whole
from peakgate.device.cpu import CpuLaunchable
from peakgate.device.interface import KernelFault
from peakgate.inspect.problems import builds
from peakgate.inspect.workers import TaskProgress
from peakgate.measure.patterns import redrawn
from peakgate_emulator import DefectKind, EmulatorDefect, KernelDefect
from peakgate_emulator.defects import SharedAccess, Trace, Triple

PICTURE_COLUMNS = 32  # elements around the race
PHASES_BESIDE = 1
MOST_PICTURE_ROWS = 24
_SHARED_RACES = (DefectKind.SHARED_RACE, DefectKind.SAME_VALUE_RACE)
KINDS = tuple(kind.words for kind in _SHARED_RACES)  # kinds of findings that can be drawn

Drawing = dict[str, Any]  # the input of templates/check.html


@dataclass(slots=True)
class Cell:
    """Accesses of one row to one element."""

    threads: list[int] = field(default_factory=list)
    marked: list[int] = field(default_factory=list)
    """Threads whose accesses race."""


@dataclass(slots=True)
class PictureRow:
    """Accesses of one source line between two barriers: ``how`` is read, write, atomic or copy."""

    phase: int
    line: str
    how: str
    cells: dict[int, Cell] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RacePicture:
    """One race: ``columns`` are the elements shown, of ``element_bytes`` each, of the shared array ``array``.

    ``rows`` are in program order. The barrier is missing before row ``missing_before``, None if both accesses are in
    one row; ``left_out`` is the number of omitted rows.
    """

    case: str
    defect: str
    kind: str
    where: str
    block: Triple
    array: str
    element_bytes: int
    columns: range
    rows: tuple[PictureRow, ...]
    missing_before: int | None
    left_out: int


def pictures(text: str, family_file: Path | None, case_id: str, order: int, report: TaskProgress) -> list[RacePicture]:
    """A picture of each shared-memory race in a launch of a case of ``builds`` with this order of threads.

    A task for a worker.
    """
    report(case_id)
    case = next(each for cases in builds(text, family_file).values() for each in cases if each.id == case_id)
    launchable = CpuLaunchable(case)
    if (others := redrawn(np, case, order)) is not None:
        launchable.give(others)
    drawn: dict[tuple[DefectKind, str | None], RacePicture] = {}
    for defect in _defects(launchable, order):
        place = (defect.kind, defect.location)
        if defect.kind not in _SHARED_RACES or defect.other_block != defect.block or place in drawn:
            continue
        launchable.trace = Trace(defect.block)
        _defects(launchable, order)
        picture = picture_of(case.id, defect, launchable.trace.accesses(), launchable.trace.threads)
        if picture is not None:
            drawn[place] = picture
    return list(drawn.values())


def _defects(launchable: CpuLaunchable, order: int) -> tuple[EmulatorDefect, ...]:
    try:
        launchable.run(order)
    except KernelFault as fault:
        if isinstance(fault.__cause__, KernelDefect):
            return fault.__cause__.defects
        raise
    except LaunchNotEnded:
        pass
    return ()


def picture_of(
    case_id: str, defect: EmulatorDefect, accesses: Sequence[SharedAccess], threads: Triple
) -> RacePicture | None:
    """The picture of a race; None if the two accesses are not in the trace."""
    pair = _pair(defect, accesses, threads)
    if pair is None:
        return None
    earlier, later = pair
    size = later.size
    element = max(earlier.offset, later.offset) // size
    of_array = [each for each in accesses if each.array == later.array]
    most = max((each.offset + each.size - 1) // size for each in of_array)
    first = max(0, min(element - PICTURE_COLUMNS // 2, most + 1 - PICTURE_COLUMNS))
    columns = range(first, min(most + 1, first + PICTURE_COLUMNS))
    rows: dict[tuple[int, str, str], PictureRow] = {}
    for each in of_array:
        if abs(each.phase - later.phase) > PHASES_BESIDE:
            continue
        row = rows.setdefault(_key(each), PictureRow(*_key(each)))
        for at in range(each.offset // size, (each.offset + each.size - 1) // size + 1):
            if at in columns:
                cell = row.cells.setdefault(at, Cell())
                if each.thread not in cell.threads:
                    cell.threads.append(each.thread)
                if each in pair and at == element:
                    cell.marked.append(each.thread)
    shown, left_out = _shown([row for row in rows.values() if row.cells], pair)
    places = sorted((shown.index(rows[_key(earlier)]), shown.index(rows[_key(later)])))
    return RacePicture(
        case_id,
        str(defect),
        defect.kind.words,
        defect.location or "",
        defect.block,
        later.array,
        size,
        columns,
        tuple(shown),
        places[1] if places[0] < places[1] else None,
        left_out,
    )


def _pair(
    defect: EmulatorDefect, accesses: Sequence[SharedAccess], threads: Triple
) -> tuple[SharedAccess, SharedAccess] | None:
    """The two accesses of the defect: the first such pair to one word between two barriers, in either order."""
    assert defect.other_thread is not None
    sides = (
        (_linear(defect.thread, threads), defect.location),
        (_linear(defect.other_thread, threads), defect.other_location),
    )
    by_word: dict[tuple[int, int, str, int], list[SharedAccess]] = {}
    for each in accesses:
        if (each.thread, each.line) not in sides:
            continue
        side = sides.index((each.thread, each.line))
        for word in range(each.offset // 4, (each.offset + each.size - 1) // 4 + 1):
            for earlier in by_word.get((1 - side, each.phase, each.array, word), ()):
                if earlier.writes or each.writes:
                    return earlier, each
            by_word.setdefault((side, each.phase, each.array, word), []).append(each)
    return None


def _linear(index: Triple, threads: Triple) -> int:
    return index[0] + threads[0] * (index[1] + threads[1] * index[2])


def _key(access: SharedAccess) -> tuple[int, str, str]:
    how = "write" if access.writes else "read"
    return access.phase, access.line, "copy" if access.asynchronous else "atomic" if access.atomic else how


def _shown(rows: Sequence[PictureRow], pair: Sequence[SharedAccess]) -> tuple[list[PictureRow], int]:
    """The rows in order of time, cut to those around the two accesses, and the number of omitted rows."""
    ordered = sorted(rows, key=lambda row: row.phase)  # stable: program order within a phase
    if len(ordered) <= MOST_PICTURE_ROWS:
        return ordered, 0
    at = [[(row.phase, row.line, row.how) for row in ordered].index(_key(each)) for each in pair]
    middle = sum(at) // 2
    chosen = set(at) | {*sorted(range(len(ordered)), key=lambda place: abs(place - middle))[: MOST_PICTURE_ROWS - 2]}
    return [row for place, row in enumerate(ordered) if place in chosen], len(ordered) - len(chosen)


def write_page(path: Path, verdict: str, when: str, drawings: Sequence[Drawing], lines: Sequence[str]) -> None:
    """Write the page atomically."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415  (of the extra `reports`)

    templates = Environment(
        loader=FileSystemLoader(Path(__file__).with_name("templates")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    page = templates.get_template("check.html")
    write_whole(path, page.render(verdict=verdict, when=when, drawings=drawings, lines=lines))


def drawing(kernel: str, picture: RacePicture, text_at: Callable[[str, str], str]) -> Drawing:
    """The input of the template; ``text_at(kernel, "file.cu:12")`` returns the text of a line.

    A cell has its kind, the thread or the number of threads, and a title that lists them.
    """
    marked = (row.line for row in picture.rows if any(cell.marked for cell in row.cells.values()))
    missing = f"a barrier is missing here, between {' and '.join(dict.fromkeys(marked))}"
    rows, phase = [], picture.rows[0].phase
    for number, row in enumerate(picture.rows):
        above = [("barrier", "barrier" if row.phase == phase + 1 else "barriers")] if row.phase != phase else []
        above += [("missing", missing)] if number == picture.missing_before else []
        cells = []
        for at in picture.columns:
            cell = row.cells.get(at)
            if cell is None:
                cells.append({"kind": "empty", "text": "", "title": ""})
                continue
            shown = [*cell.marked, *(thread for thread in cell.threads if thread not in cell.marked)]
            several = f"{shown[0]}+" if cell.marked else f"×{len(shown)}"
            some = ", ".join(map(str, cell.threads[:12])) + (", …" if len(cell.threads) > 12 else "")
            cells.append(
                {
                    "kind": f"{row.how} marked" if cell.marked else row.how,
                    "text": several if len(shown) > 1 else str(shown[0]),
                    "title": f"element {at}: {row.how} by thread {some}, {row.line}",
                }
            )
        rows.append(
            {"line": row.line, "how": row.how, "above": above, "cells": cells, "source": text_at(kernel, row.line)}
        )
        phase = row.phase
    return {"kernel": kernel, "picture": picture, "rows": rows}
