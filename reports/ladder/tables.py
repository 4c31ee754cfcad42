"""The tables of the ladder in Markdown, and what ``peakgate bench`` prints, from a saved run.

And which measured case stands for a stage, beside the stage's other cases of its size.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec import structs
from peakgate.case import Case, Family, Scale, Stage, Tier
from peakgate.common.errors import PeakgateError
from peakgate.common.text import counted
from peakgate.project import config
from peakgate.reports.ladder.markers import link
from peakgate.reports.render.markdown import table_line
from peakgate.reports.runs.runfile import CaseResult, Run
from peakgate.run import table
from peakgate.verdict import Verdict, counts

Timed = tuple[Case, CaseResult]


@dataclass(frozen=True, slots=True)
class Entry:
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
    entries: Mapping[str, tuple[Entry, ...]]


def show(run: Run, listed: Sequence[Family]) -> Shown:
    """The run's cases and entries by family; a PeakgateError for emulated times and for a family it has no case of."""
    if run.emulated:
        raise PeakgateError(f"{run.path}: emulated times are no figures; name a run of a GPU")
    timed, entries = {}, {}
    for family in listed:
        cases = [case for case in family.cases(Scale.BENCH) if isinstance(case, Case)]
        timed[family.name] = tuple((case, run.cases[case.id]) for case in cases if case.id in run.cases)
        entries[family.name] = tuple(_entry(stage, family, cases, run) for stage in family.stages)
    absent = [name for name, found in timed.items() if not found]
    if absent:
        raise PeakgateError(f"{run.path}: no case of {', '.join(absent)}; name a run of every family")
    return Shown(run, timed, entries)


def rate(timed: Timed) -> float:
    """TFLOP/s of a case that is held against arithmetic, GB/s of any other."""
    case, result = timed
    return (result.tflops if case.roof == "fma" else result.gbs) or 0.0


def shape(case: Case) -> str:
    """What distinguishes a case from the others of its stage and size."""
    return "-".join(part for part in (case.block, case.variant) if part) or case.size


def _entry(stage: Stage, family: Family, cases: Sequence[Case], run: Run) -> Entry:
    """The family's headline stands for the stage, or else its first gate case of the largest problem there is."""
    own = [case for case in cases if case.stage == stage and (case.id in run.cases or case.id in run.unmeasured)]
    if not own:
        return Entry(stage, note="not in this run")
    candidates = [case for case in own if case.tier is Tier.GATE] or own
    largest = max(candidates, key=lambda case: (case.work.flops, case.work.bytes))
    wanted = f"{family.name}.{stage.name}-{family.headlines.get(stage.name)}"
    headline = next((case for case in own if case.id == wanted), largest)
    if headline.id not in run.cases:
        return Entry(stage, note=f"{headline.id}: {run.unmeasured[headline.id].verdict}")
    alike = [case for case in own if (case.size, case.dtype) == (headline.size, headline.dtype)]
    fellows = tuple((case, run.cases[case.id]) for case in alike if case.id in run.cases)
    return Entry(stage, (headline, run.cases[headline.id]), fellows)


HEADINGS = ("stage", "what it changes", "case", "rate", "of peak", "of roof", "slowest to fastest of its size")


def stages(entries: Iterable[Entry], folder: Path) -> Iterator[str]:
    """A family's stages: lesson, the case that stands for each and its figures; files linked as from that folder."""
    yield table_line(HEADINGS)
    yield table_line(("---", "---", "---", "--:", "--:", "--:", "---"))
    for entry in entries:
        stage = entry.stage
        name = stage.name
        if stage.source:
            name = f"[{name}]({link(config.near(stage.source), folder)})"
        if entry.headline is None:
            yield table_line((name, _prose(stage.lesson), entry.note, "", "", "", ""))
            continue
        case, result = entry.headline
        measured = f"{figure(rate(entry.headline))} {'TFLOP/s' if case.roof == 'fma' else 'GB/s'}"
        fractions = _percent(result.peak_fraction), _percent(result.roof_fraction)
        yield table_line((name, _prose(stage.lesson), f"`{case.id}`", measured, *fractions, _range(entry.fellows)))


def _range(fellows: Sequence[Timed]) -> str:
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


def _percent(fraction: float | None) -> str:
    return "–" if fraction is None else f"{100 * fraction:.1f} %"


def _prose(text: str) -> str:
    """A lesson in a cell: names of stages in code type, nothing that Markdown or HTML would read as more than text."""
    plain = re.sub(r"[&<>|*`\[\]\\]", lambda found: f"&#{ord(found[0])};", text)
    return re.sub(r"\b[A-Za-z0-9]+_\w+", r"`\g<0>`", plain)


FAMILY, SIZE = "transpose", "8192"
WIDTH = 80


def terminal(run: Run) -> list[str]:
    """Lines of Markdown: one family on one size as the terminal shows it, and the run's closing line."""
    chosen = [each for each in run.cases.values() if (each.family, each.size) == (FAMILY, SIZE)]
    shown = [structs.asdict(each) | {"verdict": str(each.verdict or Verdict.NO_FLOOR)} for each in chosen]
    verdicts = [result.verdict for result in run.cases.values() if result.verdict]
    closing = ["…", f"{counted(len(run.cases), 'case')} on {run.slug}: {counts(verdicts)}"]
    text = table.render(_first_of_each_stage(shown), closing, width=WIDTH, colour=False)
    return ["```text", *text.splitlines(), "```"]


def _first_of_each_stage(rows: Sequence[table.Entry]) -> list[table.Entry]:
    """The listed best block comes first."""
    found: dict[str, table.Entry] = {}
    for each in rows:
        found.setdefault(each["case"].split("-")[0], each)
    return list(found.values())
