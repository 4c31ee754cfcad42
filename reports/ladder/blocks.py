"""What a block of a document holds: the run, a table, the family's pictures."""

from __future__ import annotations

from pathlib import Path

from peakgate.reports.ladder import drawings, tables
from peakgate.reports.ladder.documents import BENCH
from peakgate.reports.ladder.named_run import naming
from peakgate.reports.ladder.rungs import Shown
from peakgate.reports.markers import link
from peakgate.reports.runfile import Run
from peakgate.reports.showcase import terminal


def block(shown: Shown, folder: Path, name: str, *, output: Run | None = None) -> str:
    """What the block of that name holds in a document of that folder: the run, a table, the family's pictures.

    ``output`` is the run whose terminal output is shown where that is asked for; None takes the shown one.
    """
    if name == BENCH:
        run = output or shown.run
        return "\n".join([*terminal(run), "", naming(run, folder)])
    by_size = drawings.tables().get(name)
    table = tables.sizes(by_size(shown)) if by_size else tables.stages(shown.rungs[name], folder)
    lines = [naming(shown.run, folder), "", *table]
    for path, picture in drawings.pictures(shown).items():
        if path.stem.partition("_")[0] == name:
            lines += ["", f"![{picture.title}]({link(path, folder)})"]
    return "\n".join(lines)
