"""The documents that hold the ladder in blocks (``reports.markers``), and the runs that the blocks name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from peakgate.common.errors import PeakgateError
from peakgate.reports.ladder.named_run import names_in
from peakgate.reports.markers import inside, read_document
from peakgate.reports.runfile import Run, load_run

KERNELS = Path("kernels")
OVERVIEW = KERNELS / "README.md"
BENCH = "bench"
"""The block that shows a run's terminal output."""


def read_documents(required: Iterable[str]) -> dict[Path, str]:
    """The documents that may hold ladders; a PeakgateError unless OVERVIEW holds one of each family required."""
    texts = {OVERVIEW: read_document(OVERVIEW)}
    present = inside(texts[OVERVIEW], OVERVIEW)
    for name in required:
        if name not in present:
            markers = f"<!-- ladder:{name} --> and <!-- /ladder:{name} -->"
            raise PeakgateError(f"{OVERVIEW}: no block for {name}; put {markers} on lines of their own")
    others = [*sorted(KERNELS.glob("*/README.md")), Path("README.md")]
    return texts | {path: read_document(path) for path in others if path.is_file()}


def ladder_run(documents: Mapping[Path, str]) -> Run:
    """The one run that the documents' blocks name; a PeakgateError where they name none or several."""
    blocks = [held for path, text in documents.items() for name, held in inside(text, path).items() if name != BENCH]
    named = sorted({name for held in blocks for name in names_in(held)})
    if len(named) != 1:
        found = f"the ladders show {len(named)} runs ({', '.join(named)})" if named else "no ladder names a run yet"
        raise PeakgateError(f"{OVERVIEW}: {found}; give one: python -m reports ladder RUN --write")
    return load_run(Path(named[0]))


def bench_run(documents: Mapping[Path, str]) -> Run | None:
    """The run that the block ``bench`` names; None when no document has one or it is empty."""
    blocks = [inside(text, path).get(BENCH, "") for path, text in documents.items()]
    named = [name for held in blocks for name in names_in(held)]
    return load_run(Path(named[0])) if named else None
