"""The ladder: what each stage changes and what a saved run measured of it, in the tables and pictures of kernels/.

Documents hold the tables in blocks (``reports.markers``), each of which names the run it shows. Without ``write``
nothing is changed, only told: a document that differs, a picture that shows other data.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from reports import charts
from reports.locate import Archive, find_side
from reports.markers import difference, fill, inside, link, read_document
from reports.render.markdown import escape
from reports.render.words import one_line
from reports.runfile import CaseResult, Run, load_run
from reports.showcase import terminal
from suite.case import Case, Family, Scale, Stage, Tier
from suite.catalogue import OWN_FAMILIES, families
from suite.errors import PeakgateError
from suite.families.paths import KERNELS as SOURCES
from suite.files import write_whole

KERNELS = Path("kernels")
OVERVIEW = KERNELS / "README.md"
PICTURES = KERNELS / "pictures"
BASELINES = Path("baselines")

ACCESS, OCCUPANCY, SGEMM, TRANSPOSE = "access", "occupancy", "sgemm", "transpose"
SGEMM_SIZES, BENCH = "sgemm-sizes", "bench"
YARDSTICK = "cublas"
HEADLINES = {
    "access.offset": "access.offset-f32-o1",
    "access.stride": "access.stride-f32-s8",
    "occupancy.multiply": "occupancy.multiply-256MiB-256",
    "occupancy.multiply_float4": "occupancy.multiply_float4-256MiB-256",
    "occupancy.registers": "occupancy.registers-256MiB-256-m8",
    "occupancy.shared_limited": "occupancy.shared_limited-256MiB-256-s64K",
    "occupancy.shared_limited_float4": "occupancy.shared_limited_float4-256MiB-256-s64K",
    "sgemm.naive": "sgemm.naive-4096",
}
"""Stages whose first case is not what their lesson is about, or not comparable with the other stages', and which is."""

WORTH_A_MARK = 1.02
"""In the picture of the transpose, another shape is marked where it is faster than the headline by this factor."""

NAMED_RUN = re.compile(r"run file \[`([^`]+)`\]")
PLAIN_PATH = re.compile(r"[A-Za-z0-9_.+/-]+")
HEADINGS = ("stage", "what it changes", "case", "rate", "of peak", "of roof", "slowest to fastest of its size")

Timed = tuple[Case, CaseResult]


@dataclass(frozen=True, slots=True)
class Rung:
    """A stage, the case that stands for it, and the stage's timed cases of the same size and type, itself among them.

    Where the run has no time of it, ``headline`` is None and ``note`` says why.
    """

    stage: Stage
    headline: Timed | None = None
    fellows: tuple[Timed, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Shown:
    """A run beside the families that are there now, each by its name."""

    run: Run
    timed: Mapping[str, tuple[Timed, ...]]
    rungs: Mapping[str, tuple[Rung, ...]]


@dataclass(frozen=True, slots=True)
class Change:
    """A file that does not show the run, and how, for people to read."""

    path: Path
    difference: str


def ladder(wanted: str | None, archive: Archive, *, write: bool, bench: str | None = None) -> tuple[Change, ...]:
    """What in the current folder's documents and pictures does not show the run; with ``write`` it does afterwards.

    ``wanted`` names one session as ``reports.locate`` finds it; None takes the run that the documents name. ``bench``
    names the session whose terminal output the block ``bench`` shows, which need not be a run of all sizes; None takes
    the one that block names, or the ladder's. A PeakgateError tells of a run that cannot stand for the ladder and of
    wrong or missing markers; nothing is written.
    """
    listed = families([OWN_FAMILIES])
    documents = _documents([family.name for family in listed])
    shown = show(_named(documents) if wanted is None else _found(wanted, archive), listed)
    output = _found(bench, archive) if bench is not None else _bench_run(documents) or shown.run
    texts: dict[Path, str] = {}
    changes = []
    for path, old in documents.items():
        texts[path] = fill(
            old, path, partial(block, shown, path.parent, output=output), (*shown.rungs, SGEMM_SIZES, BENCH)
        )
        if texts[path] != old:
            changes.append(Change(path, difference(old, texts[path], path)))
    for path, picture in pictures(shown).items():
        old = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
        texts[path] = charts.svg(picture) if write else old
        if texts[path] != old or not charts.shows(old, picture):
            changes.append(Change(path, f"{path}: {'differs' if old else 'missing'}\n"))
    if write:
        for change in changes:
            write_whole(change.path, texts[change.path])
    return tuple(changes)


def show(run: Run, listed: Sequence[Family]) -> Shown:
    """The run's cases and rungs by family; a PeakgateError for emulated times and for a family it has no case of."""
    if run.emulated:
        raise PeakgateError(f"{run.path}: emulated times are no figures; name a run of a GPU")
    timed, rungs = {}, {}
    for family in listed:
        cases = list(family.cases(Scale.BENCH))
        timed[family.name] = tuple((case, run.cases[case.id]) for case in cases if case.id in run.cases)
        rungs[family.name] = tuple(_rung(stage, cases, run) for stage in family.stages)
    absent = [name for name, found in timed.items() if not found]
    if absent:
        raise PeakgateError(f"{run.path}: no case of {', '.join(absent)}; name a run of every family")
    return Shown(run, timed, rungs)


def block(shown: Shown, folder: Path, name: str, *, output: Run | None = None) -> str:
    """What the block of that name holds in a document of that folder: the run, a table, the family's pictures.

    ``output`` is the run whose terminal output is shown where that is asked for; None takes the shown one.
    """
    if name == BENCH:
        run = output or shown.run
        return "\n".join([*terminal(run), "", _provenance(run, folder)])
    table = _sizes(_groups(shown)) if name == SGEMM_SIZES else _stages(shown.rungs[name], folder)
    lines = [_provenance(shown.run, folder), "", *table]
    for path, picture in pictures(shown).items():
        if path.stem.partition("_")[0] == name:
            lines += ["", f"![{picture.title}]({link(path, folder)})"]
    return "\n".join(lines)


def pictures(shown: Shown) -> dict[Path, charts.Picture]:
    """Every picture by its path, whose name begins with its family's; a PeakgateError names one the run cannot fill."""
    note = ", ".join(_machine(shown.run))
    drawn: dict[str, charts.Picture] = {
        "access_stride": charts.access_stride(shown.timed[ACCESS], note),
        "access_offset": charts.access_offset(shown.timed[ACCESS], note),
        "occupancy": charts.occupancy(shown.timed[OCCUPANCY], note, _roof(shown.run, "copy_256MiB")),
        "sgemm": _groups(shown),
        "transpose": _bars(shown),
    }
    for name, picture in drawn.items():
        if charts.is_empty(picture):
            raise PeakgateError(f"{shown.run.path}: nothing for the picture {name}; name a whole run")
    return {PICTURES / f"{name}.svg": picture for name, picture in drawn.items()}


def _rung(stage: Stage, cases: Sequence[Case], run: Run) -> Rung:
    """The stage's own in HEADLINES stands for it, or else its first gate case of the largest problem there is."""
    own = [case for case in cases if case.stage == stage and (case.id in run.cases or case.id in run.unmeasured)]
    if not own:
        return Rung(stage, note="not in this run")
    candidates = [case for case in own if case.tier is Tier.GATE] or own
    largest = max(candidates, key=lambda case: (case.work.flops, case.work.bytes))
    wanted = HEADLINES.get(f"{largest.family}.{stage.name}")
    headline = next((case for case in own if case.id == wanted), largest)
    if headline.id not in run.cases:
        return Rung(stage, note=f"{headline.id}: {run.unmeasured[headline.id].verdict}")
    alike = [case for case in own if (case.size, case.dtype) == (headline.size, headline.dtype)]
    fellows = tuple((case, run.cases[case.id]) for case in alike if case.id in run.cases)
    return Rung(stage, (headline, run.cases[headline.id]), fellows)


def _stages(rungs: Iterable[Rung], folder: Path) -> Iterator[str]:
    yield _line(HEADINGS)
    yield _line(("---", "---", "---", "--:", "--:", "--:", "---"))
    for rung in rungs:
        stage = rung.stage
        name = stage.name
        if stage.source:
            name = f"[{name}]({link(KERNELS / stage.source.relative_to(SOURCES), folder)})"
        if rung.headline is None:
            yield _line((name, _prose(stage.lesson), rung.note, "", "", "", ""))
            continue
        case, result = rung.headline
        rate = f"{_figure(_rate(case, result))} {'TFLOP/s' if case.roof == 'fma' else 'GB/s'}"
        fractions = _percent(result.peak_fraction), _percent(result.roof_fraction)
        yield _line((name, _prose(stage.lesson), f"`{case.id}`", rate, *fractions, _range(rung.fellows)))


def _range(fellows: Sequence[Timed]) -> str:
    """Slowest and fastest, each with what tells it from the other cases of its size; empty for a case alone."""
    if len(fellows) < 2:
        return ""
    ends = (min(fellows, key=_rate_of), max(fellows, key=_rate_of))
    return " to ".join(f"{_figure(_rate_of(end))} ({_shape(end[0])})" for end in ends)


def _sizes(groups: charts.Groups) -> Iterator[str]:
    """TFLOP/s of each stage on each size, the best of a size in bold, and the best of ours against the yardstick."""
    name, yardstick = groups.yardstick
    ours = [_best(column) for column in zip(*(figures for _, figures in groups.stages), strict=True)]
    best = [_best(pair) for pair in zip(ours, yardstick, strict=True)]
    yield _line(("stage", *groups.sizes))
    yield _line(("---", *["--:"] * len(groups.sizes)))
    for stage, figures in (*groups.stages, groups.yardstick):
        cells = (_figure(figure) for figure in figures)
        marked = (
            f"**{cell}**" if figure and figure == top else cell
            for cell, figure, top in zip(cells, figures, best, strict=True)
        )
        yield _line((stage, *marked))
    ratios = (f"{our / their:.2f}" if our and their else "–" for our, their in zip(ours, yardstick, strict=True))
    yield _line((f"best of ours / {name}", *ratios))


def _best(figures: Iterable[float | None]) -> float | None:
    return max((figure for figure in figures if figure is not None), default=None)


def _groups(shown: Shown) -> charts.Groups:
    timed = sorted(shown.timed[SGEMM], key=lambda pair: pair[0].work.flops)
    sizes = tuple(dict.fromkeys(case.size for case, _ in timed))
    tflops = {(case.stage.name, case.size): result.tflops for case, result in timed}
    names = (rung.stage.name for rung in shown.rungs[SGEMM])
    rows = {name: tuple(tflops.get((name, size)) for size in sizes) for name in names}
    yardstick = rows.pop(YARDSTICK)
    return charts.Groups(
        title="SGEMM: the stages on each size",
        note=", ".join(_machine(shown.run)),
        y_label="TFLOP/s",
        sizes=sizes,
        stages=tuple(rows.items()),
        yardstick=("cuBLAS", yardstick),
    )


def _bars(shown: Shown) -> charts.Bars:
    """The headlines of the transpose, all of the largest size, against the best copy of that size."""
    found = [(rung.headline, rung.fellows) for rung in shown.rungs[TRANSPOSE] if rung.headline]
    size = max((case.work.bytes, case.size) for (case, _), _ in found)[1] if found else ""
    alike = [(headline, fellows) for headline, fellows in found if headline[0].size == size]
    return charts.Bars(
        title=f"Transpose of a float matrix of side {size}: stages against the best copy",
        note=", ".join(_machine(shown.run)),
        x_label="bandwidth (GB/s)",
        bars=tuple(_bar(headline, fellows) for headline, fellows in alike),
        roof=next((_roof(shown.run, result.roof) for (_, result), _ in alike if result.roof), None),
    )


def _bar(headline: Timed, fellows: Sequence[Timed]) -> charts.Bar:
    fastest = max(fellows, key=_rate_of)
    better = (_shape(fastest[0]), _rate_of(fastest)) if _rate_of(fastest) > WORTH_A_MARK * _rate_of(headline) else None
    return charts.Bar(headline[0].stage.name, _rate_of(headline), better)


def _rate(case: Case, result: CaseResult) -> float:
    """TFLOP/s of a case that is held against arithmetic, GB/s of any other."""
    return (result.tflops if case.roof == "fma" else result.gbs) or 0.0


def _rate_of(timed: Timed) -> float:
    return _rate(*timed)


def _shape(case: Case) -> str:
    return "-".join(part for part in (case.block, case.variant) if part) or case.size


def _roof(run: Run, name: str | None) -> tuple[str, float] | None:
    """A roof of the run with its label in a picture."""
    roofs = run.gpu.get("roofs")
    rate = roofs.get(name) if isinstance(roofs, dict) else None
    return (f"best copy of the same size ({rate:,.0f} GB/s)", rate) if isinstance(rate, int | float) else None


def _machine(run: Run) -> tuple[str, str, str]:
    name = one_line(str(run.gpu.get("name") or run.slug))
    return name, f"driver {run.driver or 'unknown'}", f"{run.taken:%Y-%m-%d}"


def _provenance(run: Run, folder: Path) -> str:
    facts = [*_machine(run), f"NVRTC {run.gpu.get('nvrtc') or 'unknown'}", f"tier {run.tier or 'unknown'}"]
    facts.append(f"commit {run.commit_label}")
    told = ", ".join(escape(fact) for fact in facts)
    path = _in_repository(run)
    return f"{told}; run file [`{path.as_posix()}`]({link(path, folder)})."


def _figure(value: float | None) -> str:
    """Three significant digits, and all before the point."""
    if value is None:
        return "–"
    return f"{value:.0f}" if value >= 99.95 else f"{value:#.3g}"


def _percent(fraction: float | None) -> str:
    return "–" if fraction is None else f"{100 * fraction:.1f} %"


def _prose(text: str) -> str:
    """A lesson in a cell: names of stages in code type, nothing that Markdown or HTML would read as more than text."""
    plain = re.sub(r"[&<>|*`\[\]\\]", lambda found: f"&#{ord(found[0])};", text)
    return re.sub(r"\b[A-Za-z0-9]+_\w+", r"`\g<0>`", plain)


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _documents(required: Iterable[str]) -> dict[Path, str]:
    """The documents that may hold ladders; OVERVIEW holds one of each family."""
    texts = {OVERVIEW: read_document(OVERVIEW)}
    present = inside(texts[OVERVIEW], OVERVIEW)
    for name in required:
        if name not in present:
            markers = f"<!-- ladder:{name} --> and <!-- /ladder:{name} -->"
            raise PeakgateError(f"{OVERVIEW}: no block for {name}; put {markers} on lines of their own")
    others = [*sorted(KERNELS.glob("*/README.md")), Path("README.md")]
    return texts | {path: read_document(path) for path in others if path.is_file()}


def _named(documents: Mapping[Path, str]) -> Run:
    """The one run that the documents' blocks name."""
    blocks = [held for path, text in documents.items() for name, held in inside(text, path).items() if name != BENCH]
    named = sorted({name for held in blocks for name in NAMED_RUN.findall(held)})
    if len(named) != 1:
        found = f"the ladders show {len(named)} runs ({', '.join(named)})" if named else "no ladder names a run yet"
        raise PeakgateError(f"{OVERVIEW}: {found}; give one: python -m reports ladder RUN --write")
    return load_run(Path(named[0]))


def _bench_run(documents: Mapping[Path, str]) -> Run | None:
    """The run that the block ``bench`` names; None when no document has one or it is empty."""
    blocks = [inside(text, path).get(BENCH, "") for path, text in documents.items()]
    named = [name for held in blocks for name in NAMED_RUN.findall(held)]
    return load_run(Path(named[0])) if named else None


def _found(wanted: str, archive: Archive) -> Run:
    runs = find_side(wanted, archive).runs
    if len(runs) > 1:
        raise PeakgateError(f"{wanted}: {len(runs)} sessions, the ladder shows one; name its file")
    _in_repository(runs[0])
    return runs[0]


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
