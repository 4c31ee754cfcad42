"""What in documents and pictures does not show the run, told or written.

Without ``write`` nothing is changed, only told: a document that differs, a picture that shows other data.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from peakgate.common.files import write_whole
from peakgate.project.catalogue import families
from peakgate.reports.ladder import draw, drawings
from peakgate.reports.ladder.blocks import block
from peakgate.reports.ladder.documents import BENCH, bench_run, ladder_run, read_documents
from peakgate.reports.ladder.named_run import find_run
from peakgate.reports.ladder.rungs import show
from peakgate.reports.locate import Archive
from peakgate.reports.markers import difference, fill


@dataclass(frozen=True, slots=True)
class Change:
    """A file that does not show the run, and how, for people to read."""

    path: Path
    difference: str


def changes(wanted: str | None, archive: Archive, *, write: bool, bench: str | None = None) -> tuple[Change, ...]:
    """What in the current folder's documents and pictures does not show the run; with ``write`` it does afterwards.

    ``wanted`` names one session as ``reports.locate`` finds it; None takes the run that the documents name. ``bench``
    names the session whose terminal output the block ``bench`` shows, which need not be a run of all sizes; None takes
    the one that block names, or the ladder's. A PeakgateError tells of a run that cannot stand for the ladder and of
    wrong or missing markers; nothing is written.
    """
    listed = families()
    documents = read_documents([family.name for family in listed])
    shown = show(ladder_run(documents) if wanted is None else find_run(wanted, archive), listed)
    output = find_run(bench, archive) if bench is not None else bench_run(documents) or shown.run
    texts: dict[Path, str] = {}
    found = []
    for path, old in documents.items():
        texts[path] = fill(
            old, path, partial(block, shown, path.parent, output=output), (*shown.rungs, *drawings.tables(), BENCH)
        )
        if texts[path] != old:
            found.append(Change(path, difference(old, texts[path], path)))
    for path, picture in drawings.pictures(shown).items():
        old = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
        texts[path] = draw.svg(picture) if write else old
        if texts[path] != old or not draw.shows(old, picture):
            found.append(Change(path, f"{path}: {'differs' if old else 'missing'}\n"))
    if write:
        for change in found:
            write_whole(change.path, texts[change.path])
    return tuple(found)
