"""The tables of the kernels' pages in Markdown, and what ``peakgate bench`` prints, from a saved run.

Which measured case represents a stage, beside the stage's other cases of its size; the documents that hold the ladder
in blocks (``markers``), and how a block names the run it shows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from kernels.ladder.markers import inside, link, read_document
from peakgate.base import config
from peakgate.base.errors import Code, PeakgateError
from peakgate.base.formatting import counted, one_line, percent
from peakgate.base.options import compute_capability
from peakgate.base.report import Row, Table
from peakgate.base.verdict import Verdict, counts
from peakgate.render import families
from peakgate.render.cases import measured_cells, measured_columns
from peakgate.render.files import escape, folded, table_line
from peakgate.run import display
from peakgate.runfile.find import Archive, find_side
from peakgate.runfile.frame import to_frame
from peakgate.runfile.saved import CaseResult, Run, commit_label, load_run
from peakgate.spec.case import Case, Family, Scale, Stage, Tier

if TYPE_CHECKING:  # of a run
    from peakgate.session.outcome import Entry

TimedCase = tuple[Case, CaseResult]


@dataclass(frozen=True, slots=True)
class StageEntry:
    """A stage, the case that represents it, and the stage's timed cases of the same size and type, itself among them.

    Where the run has no time of it, ``headline`` is None and ``note`` says why.
    """

    stage: Stage
    headline: TimedCase | None = None
    fellows: tuple[TimedCase, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Shown:
    """A run beside the families that are there now, each by its name."""

    run: Run
    timed: Mapping[str, tuple[TimedCase, ...]]
    entries: Mapping[str, tuple[StageEntry, ...]]


def show(run: Run, listed: Sequence[Family]) -> Shown:
    """The run's cases and entries by family; a PeakgateError for emulated times and for a family it has no case of."""
    if run.emulated:
        raise PeakgateError(f"{run.path}: emulated times are no figures; name a run of a GPU", Code.EMULATED)
    timed, entries = {}, {}
    for family in listed:
        cases = [case for case in family.cases(Scale.BENCH) if isinstance(case, Case)]
        timed[family.name] = tuple((case, run.cases[case.id]) for case in cases if case.id in run.cases)
        entries[family.name] = tuple(_entry(stage, family, cases, run) for stage in family.stages)
    absent = [name for name, found in timed.items() if not found]
    if absent:
        raise PeakgateError(f"{run.path}: no case of {', '.join(absent)}; name a run of every family", Code.PAGE)
    return Shown(run, timed, entries)


def rate(timed: TimedCase) -> float:
    """TFLOP/s of a case whose roof is one of arithmetic, GB/s of any other."""
    case, result = timed
    return (result.tflops if case.arithmetic_roof else result.gbs) or 0.0


def shape(case: Case) -> str:
    """Label that distinguishes a case from the others of its stage and size."""
    return "-".join(part for part in (case.block, case.variant) if part) or case.size


def _entry(stage: Stage, family: Family, cases: Sequence[Case], run: Run) -> StageEntry:
    """The family's headline represents the stage, or else its first gate case of the largest problem there is."""
    own = [case for case in cases if case.stage == stage and (case.id in run.cases or case.id in run.unmeasured)]
    if not own:
        capability = run.gpu.get("compute_capability")
        lacking = capability and not stage.runs_on(compute_capability(capability))
        return StageEntry(stage, note=f"not timed: no GPU of {stage.needs} here" if lacking else "not in this run")
    candidates = [case for case in own if case.tier is Tier.GATE] or own
    largest = max(candidates, key=lambda case: (case.work.flops, case.work.bytes))
    wanted = f"{family.name}.{stage.name}-{family.headlines.get(stage.name)}"
    headline = next((case for case in own if case.id == wanted), largest)
    if headline.id not in run.cases:
        return StageEntry(stage, note=f"{headline.id}: {run.unmeasured[headline.id].verdict}")
    alike = [case for case in own if (case.size, case.dtype) == (headline.size, headline.dtype)]
    fellows = tuple((case, run.cases[case.id]) for case in alike if case.id in run.cases)
    return StageEntry(stage, (headline, run.cases[headline.id]), fellows)


STAGE_HEADINGS = (
    *("stage", "what it changes", "case", "rate", "of peak", "of roof", "occupancy"),
    "slowest to fastest of its size",
)


def stages(entries: Iterable[StageEntry], folder: Path) -> Iterator[str]:
    """A row per stage: what it changes, the case that represents it, its figures; links are relative to that folder.

    Its occupancy is theoretical: warps that its registers and shared memory let an SM hold, of those it could hold.
    """
    yield table_line(STAGE_HEADINGS)
    yield table_line(("---", "---", "---", "--:", "--:", "--:", "--:", "---"))
    for entry in entries:
        stage = entry.stage
        name = stage.name
        if stage.source:
            name = f"[{name}]({link(config.near(stage.source), folder)})"
        if entry.headline is None:
            yield table_line((name, _prose(stage.lesson), entry.note, "", "", "", "", ""))
            continue
        case, result = entry.headline
        measured = f"{figure(rate(entry.headline))} {'TFLOP/s' if case.arithmetic_roof else 'GB/s'}"
        fractions = _share(result.peak_fraction), _share(result.roof_fraction), _share(result.occupancy)
        yield table_line((name, _prose(stage.lesson), f"`{case.id}`", measured, *fractions, _range(entry.fellows)))


def _range(fellows: Sequence[TimedCase]) -> str:
    """Slowest and fastest, each with what distinguishes it from the other cases of its size; empty for a case alone."""
    if len(fellows) < 2:
        return ""
    ends = (min(fellows, key=rate), max(fellows, key=rate))
    return " to ".join(f"{figure(rate(end))} ({shape(end[0])})" for end in ends)


def figure(value: float | None) -> str:
    """Three significant digits, and all before the point."""
    if value is None:
        return "–"
    return f"{value:.0f}" if value >= 99.95 else f"{value:#.3g}"


def _share(fraction: float | None) -> str:
    return percent(None if fraction is None else 100 * fraction, ".1f", "–")


def _prose(text: str) -> str:
    """A sentence as a cell: names of stages in code type, special characters of Markdown and HTML escaped."""
    plain = re.sub(r"[&<>|*`\[\]\\]", lambda found: f"&#{ord(found[0])};", text)
    return re.sub(r"\b[A-Za-z0-9]+_\w+", r"`\g<0>`", plain)


OF_THE_RATE = frozenset({"gbs", "tflops", "peak_fraction", "bound", "roof_fraction", "floor"})


def further(shown: Shown, family: str) -> Iterator[str]:
    """Further tables of a family, each folded, and the command that makes them.

    Times, resources and predictions of the case that stands for each stage; then the family by stage and block, and by
    stage and size.
    """
    headlines = [entry.headline for entry in shown.entries[family] if entry.headline]
    rows = [Row(case.id, cells=measured_cells(result)) for case, result in headlines]
    columns = [column for column in measured_columns(rows) if column.name not in OF_THE_RATE]
    cells = [[row.name, *(column.text(row) for column in columns)] for row in rows]
    resources = Table("Times and resources", ("case", *(column.heading for column in columns)), cells)
    found = [resources]
    for rated in families.rated(to_frame([shown.run]), family):
        found += families.pivot_tables(rated)
    for each in found:
        yield from folded(each)
    yield families.command(family)


FAMILY, SIZE = "transpose", "8192"
ROWS, WIDTH = 5, 86


def terminal(run: Run) -> list[str]:
    """Lines of Markdown: the first case that did not pass as the terminal shows it, among neighbours of its size."""
    chosen = [each for each in run.cases.values() if (each.family, each.size) == (FAMILY, SIZE)]
    shown = [structs.asdict(each) | {"verdict": str(each.verdict or Verdict.NO_FLOOR)} for each in chosen]
    verdicts = [result.verdict for result in run.cases.values() if result.verdict]
    closing = ["…", f"{counted(len(run.cases), 'case')} on {run.slug}: {counts(verdicts)}"]
    text = display.render(_around_the_first_failure(_first_of_each_stage(shown)), closing, width=WIDTH, colour=False)
    return ["```text", *text.splitlines(), "```"]


def _first_of_each_stage(rows: Sequence[Entry]) -> list[Entry]:
    """The listed best block comes first."""
    found: dict[str, Entry] = {}
    for each in rows:
        found.setdefault(each["case"].split("-")[0], each)
    return list(found.values())


def _around_the_first_failure(rows: list[Entry]) -> list[Entry]:
    failed = next((at for at, each in enumerate(rows) if each["verdict"] != Verdict.PASS), 0)
    start = max(0, min(failed - ROWS // 2, len(rows) - ROWS))
    return rows[start : start + ROWS]


KERNELS_FOLDER = Path("kernels")
OVERVIEW = KERNELS_FOLDER / "README.md"
FURTHER = "-tables"
"""Ends the name of a family's second block, of ``further``."""

BENCH_BLOCK = "bench"
"""The block that shows a run's terminal output."""


@dataclass(frozen=True, slots=True)
class LadderPicture:
    """A picture that a project draws: its title, a text that its SVG has while it shows these data, and the SVG.

    ``block`` names the block of a document that shows it.
    """

    title: str
    digest: str
    svg: Callable[[], str]
    block: str


def read_documents() -> dict[Path, str]:
    """The documents that may hold ladders; a PeakgateError where OVERVIEW is not there."""
    if not OVERVIEW.exists():
        what = f"no such file; write one with {_markers('FAMILY')} for each family"
        raise PeakgateError(f"{OVERVIEW}: {what}", Code.PAGE)
    paths = [OVERVIEW, *sorted(KERNELS_FOLDER.glob("*/README.md")), Path("README.md")]
    return {path: read_document(path) for path in paths if path.is_file()}


def on_the_page(family: str, run: Run, documents: Mapping[Path, str]) -> bool:
    """Whether a family is to be shown: it has a block, or the run has cases of it. A new one has neither yet."""
    has_cases = any(case_id.startswith(f"{family}.") for case_id in (*run.cases, *run.unmeasured))
    return has_cases or family in inside(documents[OVERVIEW], OVERVIEW)


def require_blocks(documents: Mapping[Path, str], required: Iterable[str]) -> None:
    """Raise a PeakgateError unless OVERVIEW holds a block of each family required."""
    missing = [name for name in required if name not in inside(documents[OVERVIEW], OVERVIEW)]
    if missing:
        raise PeakgateError(f"{OVERVIEW}: no block for {missing[0]}; put {_markers(missing[0])}", Code.PAGE)


def _markers(name: str) -> str:
    return f"<!-- ladder:{name} --> and <!-- /ladder:{name} --> on lines of their own"


def ladder_run(documents: Mapping[Path, str]) -> Run:
    """The one run that the documents' blocks name; a PeakgateError where they name none or several."""
    blocks = [
        held for path, text in documents.items() for name, held in inside(text, path).items() if name != BENCH_BLOCK
    ]
    named = sorted({name for held in blocks for name in names_in(held)})
    if len(named) != 1:
        found = f"the ladders show {len(named)} runs ({', '.join(named)})" if named else "no ladder names a run yet"
        raise PeakgateError(f"{OVERVIEW}: {found}; give one: nox -s ladder -- RUN --write", Code.PAGE)
    return load_run(Path(named[0]))


def bench_run(documents: Mapping[Path, str]) -> Run | None:
    """The run that the block ``bench`` names; None when no document has one or it is empty."""
    blocks = [inside(text, path).get(BENCH_BLOCK, "") for path, text in documents.items()]
    named = [name for held in blocks for name in names_in(held)]
    return load_run(Path(named[0])) if named else None


BASELINES = Path("baselines")
NAMED_RUN = re.compile(r"run file \[`([^`]+)`\]")
PLAIN_PATH = re.compile(r"[A-Za-z0-9_.+/-]+")


def find_run(wanted: str, archive: Archive) -> Run:
    """The one session of that name; a PeakgateError where there are several or a document cannot name it."""
    runs = find_side(wanted, archive).runs
    if len(runs) > 1:
        raise PeakgateError(f"{wanted}: {len(runs)} sessions, the ladder shows one; name its file", Code.WHICH_RUN)
    _in_repository(runs[0])
    return runs[0]


def naming(run: Run, folder: Path) -> str:
    """The line of Markdown that names the run in a document of that folder; ``names_in`` reads the file from it."""
    facts = [*machine(run), f"NVRTC {run.gpu.get('nvrtc') or 'unknown'}", f"tier {run.tier or 'unknown'}"]
    facts.append(f"commit {commit_label(run.commit, run.dirty)}")
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
        raise PeakgateError(
            f"{run.path}: not below {BASELINES}, and the ladder names its run; copy it to {kept} first", Code.PAGE
        )
    path = path.relative_to(Path.cwd())
    if not PLAIN_PATH.fullmatch(path.as_posix()):
        raise PeakgateError(
            f"{path}: only letters, digits, '_', '.', '+' and '-' in a run the ladder names; rename it", Code.PAGE
        )
    return path
