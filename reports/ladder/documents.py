"""The documents that hold the ladder in blocks (``ladder.markers``), and how a block names the run it shows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from peakgate.common.errors import PeakgateError
from peakgate.reports.ladder.markers import inside, link, read_document
from peakgate.reports.render.markdown import escape
from peakgate.reports.render.phrases import one_line
from peakgate.reports.runs.find import Archive, find_side
from peakgate.reports.runs.runfile import Run, load_run

KERNELS = Path("kernels")
OVERVIEW = KERNELS / "README.md"
BENCH = "bench"
"""The block that shows a run's terminal output."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture that a project draws: its title, a text that its SVG has while it shows these data, and the SVG."""

    title: str
    digest: str
    svg: Callable[[], str]


def read_documents(required: Iterable[str]) -> dict[Path, str]:
    """The documents that may hold ladders; a PeakgateError unless OVERVIEW holds one of each family required."""
    there = OVERVIEW.exists()
    texts = {OVERVIEW: read_document(OVERVIEW) if there else ""}
    missing = [name for name in required if name not in inside(texts[OVERVIEW], OVERVIEW)]
    if missing or not there:
        name = missing[0] if missing else "FAMILY"
        markers = f"<!-- ladder:{name} --> and <!-- /ladder:{name} --> on lines of their own"
        what = (
            f"no block for {name}; put {markers}"
            if there
            else f"no such file; write one with {markers} for each family"
        )
        raise PeakgateError(f"{OVERVIEW}: {what}")
    others = [*sorted(KERNELS.glob("*/README.md")), Path("README.md")]
    return texts | {path: read_document(path) for path in others if path.is_file()}


def ladder_run(documents: Mapping[Path, str]) -> Run:
    """The one run that the documents' blocks name; a PeakgateError where they name none or several."""
    blocks = [held for path, text in documents.items() for name, held in inside(text, path).items() if name != BENCH]
    named = sorted({name for held in blocks for name in names_in(held)})
    if len(named) != 1:
        found = f"the ladders show {len(named)} runs ({', '.join(named)})" if named else "no ladder names a run yet"
        raise PeakgateError(f"{OVERVIEW}: {found}; give one: peakgate ladder RUN --write")
    return load_run(Path(named[0]))


def bench_run(documents: Mapping[Path, str]) -> Run | None:
    """The run that the block ``bench`` names; None when no document has one or it is empty."""
    blocks = [inside(text, path).get(BENCH, "") for path, text in documents.items()]
    named = [name for held in blocks for name in names_in(held)]
    return load_run(Path(named[0])) if named else None


BASELINES = Path("baselines")
NAMED_RUN = re.compile(r"run file \[`([^`]+)`\]")
PLAIN_PATH = re.compile(r"[A-Za-z0-9_.+/-]+")


def find_run(wanted: str, archive: Archive) -> Run:
    """The one session of that name; a PeakgateError where there are several or a document cannot name it."""
    runs = find_side(wanted, archive).runs
    if len(runs) > 1:
        raise PeakgateError(f"{wanted}: {len(runs)} sessions, the ladder shows one; name its file")
    _in_repository(runs[0])
    return runs[0]


def naming(run: Run, folder: Path) -> str:
    """The line of Markdown that names the run in a document of that folder; ``names_in`` reads the file from it."""
    facts = [*machine(run), f"NVRTC {run.gpu.get('nvrtc') or 'unknown'}", f"tier {run.tier or 'unknown'}"]
    facts.append(f"commit {run.commit_label}")
    text = ", ".join(escape(fact) for fact in facts)
    path = _in_repository(run)
    return f"{text}; run file [`{path.as_posix()}`]({link(path, folder)})."


def names_in(text: str) -> list[str]:
    """The files of the runs that a text names, in order."""
    return NAMED_RUN.findall(text)


def machine(run: Run) -> tuple[str, str, str]:
    """GPU, driver and day of the run, for one line of text."""
    name = one_line(str(run.gpu.get("name") or run.slug))
    return name, f"driver {run.driver or 'unknown'}", f"{run.taken:%Y-%m-%d}"


def _in_repository(run: Run) -> Path:
    """The run's path from the current folder; a PeakgateError unless it is where saved runs are kept."""
    path = run.path.resolve()
    if not path.is_relative_to(BASELINES.resolve()):
        kept = BASELINES / run.slug / "runs"
        raise PeakgateError(f"{run.path}: not below {BASELINES}, and the ladder names its run; copy it to {kept} first")
    path = path.relative_to(Path.cwd())
    if not PLAIN_PATH.fullmatch(path.as_posix()):
        raise PeakgateError(f"{path}: only letters, digits, '_', '.', '+' and '-' in a run the ladder names; rename it")
    return path
