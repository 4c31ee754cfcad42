"""What a block of a document holds: the run, a table, the family's pictures."""

from __future__ import annotations

from pathlib import Path

from reports.ladder import tables
from reports.ladder.documents import BENCH, SGEMM_SIZES
from reports.ladder.named_run import naming
from reports.ladder.pictures import pictures, sgemm_by_size
from reports.ladder.rungs import Shown
from reports.markers import link
from reports.runfile import Run
from reports.showcase import terminal


def block(shown: Shown, folder: Path, name: str, *, output: Run | None = None) -> str:
    """What the block of that name holds in a document of that folder: the run, a table, the family's pictures.

    ``output`` is the run whose terminal output is shown where that is asked for; None takes the shown one.
    """
    if name == BENCH:
        run = output or shown.run
        return "\n".join([*terminal(run), "", naming(run, folder)])
    table = tables.sizes(sgemm_by_size(shown)) if name == SGEMM_SIZES else tables.stages(shown.rungs[name], folder)
    lines = [naming(shown.run, folder), "", *table]
    for path, picture in pictures(shown).items():
        if path.stem.partition("_")[0] == name:
            lines += ["", f"![{picture.title}]({link(path, folder)})"]
    return "\n".join(lines)
