"""What the HTML page shows, of a comparison or of a single run, as plain records: nothing here is HTML yet."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from peakgate.reports.render import phrases
from peakgate.reports.result import WORST_FIRST, Comparison, Shift
from peakgate.reports.runs.facts import Difference, facts
from peakgate.reports.runs.find import RunSide
from peakgate.reports.runs.frame import run_rows
from peakgate.reports.runs.runfile import UNUSABLE, CaseResult, Run
from peakgate.verdict import REGRESSIONS, UNDECIDED, Verdict

FEWEST_RUNS_FOR_HISTORY = 3

Point = tuple[datetime, float]
"""When a session was, and the median of the case in microseconds."""


@dataclass(frozen=True, slots=True)
class CaseLine:
    """One case: ``now`` is its measurement in the run that the page is about, ``before`` the one it is held against.

    ``time_us`` and ``base_time_us`` are over all sessions of a side; ``history`` is empty with fewer than three runs.
    """

    case: str
    verdict: Verdict | None
    reason: str
    now: CaseResult | None = None
    before: CaseResult | None = None
    time_us: float | None = None
    base_time_us: float | None = None
    shift: Shift | None = None
    history: tuple[Point, ...] = ()

    @property
    def family(self) -> str:
        known = self.now or self.before
        return (known.family if known else None) or self.case.partition(".")[0]

    @property
    def tone(self) -> str:
        """``bad``, ``open``, ``good`` or ``same``: how loudly the verdict is shown."""
        return tone(self.verdict)

    @property
    def rank(self) -> int:
        """Position of the verdict, worst first; a case that nobody judged comes last."""
        return len(WORST_FIRST) if self.verdict is None else WORST_FIRST.index(self.verdict)


@dataclass(frozen=True, slots=True)
class Page:
    """A page: ``sentences`` stand under its verdict, ``facts`` are (name, value) of ``run``.

    ``run`` is NEW's fullest and, among those, latest: its GPU's peaks and the order of its cases hold for the page.
    ``comparing`` is False for a single run, whose lines have no shift.
    """

    title: str
    verdict: Verdict
    comparing: bool
    sentences: tuple[str, ...]
    counts: Mapping[Verdict, int]
    run: Run
    facts: tuple[tuple[str, str], ...]
    differences: tuple[Difference, ...]
    notes: tuple[str, ...]
    lines: tuple[CaseLine, ...]

    @property
    def tone(self) -> str:
        return tone(self.verdict)

    @property
    def families(self) -> tuple[str, ...]:
        """In the order of the run, which is that of the lessons; then those that the run lacks."""
        own = (result.family or case.partition(".")[0] for case, result in self.run.cases.items())
        return tuple(dict.fromkeys((*own, *(line.family for line in self.lines))))


def of_comparison(comparison: Comparison, history: Iterable[Run] = (), *, strict: bool = False) -> Page:
    """NEW against BASE, worst first; ``history`` are other runs of the GPU."""
    points = _history((*history, *comparison.base.runs), comparison.new.runs)
    sentences = [f"Base: {phrases.side(comparison.base)}.", f"New: {phrases.side(comparison.new)}."]
    if suite := comparison.suite:
        sentences.append(f"Suite-wide: {suite.judgement.verdict}, {suite.judgement.reason}.")
    more = (phrases.detectable(comparison), phrases.floors(comparison), phrases.rerun(comparison))
    sentences += [f"{sentence[0].upper()}{sentence[1:]}." for sentence in more if sentence]
    verdict = comparison.verdict(strict=strict)
    run = max(comparison.new.runs, key=lambda run: (len(run.cases), run.taken))
    return Page(
        title=f"Peakgate: {verdict}, {comparison.new.label} against {comparison.base.label}",
        verdict=verdict,
        comparing=True,
        sentences=tuple(sentences),
        counts=comparison.counts,
        run=run,
        facts=_facts(run),
        differences=comparison.differences,
        notes=comparison.notes,
        lines=tuple(
            CaseLine(
                case=row.case,
                verdict=Verdict(row.verdict),
                reason=row.reason,
                now=_latest(comparison.new, row.case),
                before=_latest(comparison.base, row.case),
                time_us=row.new_time_us,
                base_time_us=row.base_time_us,
                shift=_shift(row),
                history=points.get(row.case, ()),
            )
            for row in comparison.records
        ),
    )


def of_run(run: Run, history: Iterable[Run] = ()) -> Page:
    """One run as it was judged when it was taken, worst first, within a verdict in the order it was measured."""
    points = _history((*history, run))
    lines = [CaseLine(each.case, each.verdict, each.reason) for each in run.unmeasured.values()]
    lines += [
        CaseLine(case, result.verdict, result.reason, now=result, time_us=result.time_us, history=points.get(case, ()))
        for case, result in run.cases.items()
        if case not in run.unmeasured
    ]
    found = Counter(line.verdict for line in lines)
    verdict = next((each for each in WORST_FIRST if found[each] and each in REGRESSIONS | UNDECIDED), Verdict.PASS)
    return Page(
        title=f"Peakgate: {verdict}, {run.gpu.get('name') or run.slug}, {run.taken:%Y-%m-%d %H:%M}",
        verdict=verdict,
        comparing=False,
        sentences=(f"Run: {phrases.side(RunSide(str(run.path), (run,)))}.",),
        counts={each: found[each] for each in WORST_FIRST if found[each]},
        run=run,
        facts=_facts(run),
        differences=(),
        notes=run.notes,
        lines=tuple(sorted(lines, key=lambda line: line.rank)),
    )


def tone(verdict: Verdict | None) -> str:
    """``bad``, ``open``, ``good`` or ``same``."""
    if verdict in REGRESSIONS:
        return "bad"
    if verdict in UNDECIDED:
        return "open"
    return "same" if verdict in {None, Verdict.NO_FLOOR, *phrases.UNCHANGED} else "good"


def number(value: object) -> float | None:
    """A positive finite number of the run file's machine record; None for whatever else stands there."""
    usable = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0
    return float(value) if usable and isinstance(value, int | float) else None


def _latest(side: RunSide, case: str) -> CaseResult | None:
    """The side's latest measurement that its run trusts."""
    timed = (run.cases[case] for run in reversed(side.runs) if case in run.cases and case not in run.unmeasured)
    return next((result for result in timed if result.verdict not in UNUSABLE), None)


def _shift(row: Any) -> Shift | None:
    if row.change_percent is None:
        return None
    change, resolvable = math.log1p(row.change_percent / 100), math.log1p(row.smallest_detectable_change_percent / 100)
    return Shift(change, resolvable, flagged=False)


def _facts(run: Run) -> tuple[tuple[str, str], ...]:
    known = facts(run_rows([run]))[0]
    named = [("GPU name", run.gpu.get("name")), *known.items()]
    named += [("peaks", run.gpu.get("peak_derivation")), ("taken", f"{run.taken:%Y-%m-%d %H:%M %Z}")]
    named.append(("run file", run.path.name))
    return tuple((name, str(value)) for name, value in named if value not in {None, ""})


def _history(runs: Sequence[Run], new: Sequence[Run] = ()) -> Mapping[str, tuple[Point, ...]]:
    """Each case's medians, oldest first and those of ``new`` last, of the cases that enough runs have timed.

    The sides of an A/B were measured in turns: in the order taken the line would go up and down between them.
    """
    last = {run.taken for run in new}
    points: dict[str, dict[datetime, float]] = {}
    for run in (*_by_time(run for run in runs if run.taken not in last), *_by_time(new)):
        for case, result in run.cases.items():
            points.setdefault(case, {})[run.taken] = result.time_us
    return {case: tuple(found.items()) for case, found in points.items() if len(found) >= FEWEST_RUNS_FOR_HISTORY}


def _by_time(runs: Iterable[Run]) -> list[Run]:
    return sorted(runs, key=lambda run: run.taken)
