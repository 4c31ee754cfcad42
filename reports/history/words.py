"""Sentences and cells that all faces of a history share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from peakgate.reports.history.detect import Finding
from peakgate.reports.history.series import History, Mark
from peakgate.reports.history.session import Session, shortly
from peakgate.reports.history.steps import Step
from peakgate.reports.render.words import one_line
from peakgate.reports.result import WORST_FIRST
from peakgate.verdict import REGRESSIONS, UNDECIDED, ExitCode, Verdict, exit_code

MOST_COMMANDS = 3
BARS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True)
class Told:
    """A history and what was found in it, worst first; ``together`` is None where too few cases could tell."""

    history: History
    findings: tuple[Finding, ...]
    together: Finding | None
    notes: tuple[str, ...] = ()
    untimed: Mapping[Verdict, tuple[str, ...]] = field(default_factory=dict)
    """Cases of the newest session without a time, by verdict (``newest.untimed``)."""

    @property
    def counts(self) -> dict[Verdict, int]:
        """Cases by verdict, worst first."""
        found = Counter(finding.verdict for finding in self.findings)
        return {verdict: found[verdict] for verdict in WORST_FIRST if found[verdict]}

    @property
    def exit_code(self) -> ExitCode:
        return exit_code(self._verdicts())

    @property
    def verdict(self) -> Verdict:
        """The history in one word: its worst finding, PASS when none is a regression or undecided."""
        counted = self._verdicts() & (REGRESSIONS | UNDECIDED)
        return next((verdict for verdict in WORST_FIRST if verdict in counted), Verdict.PASS)

    def _verdicts(self) -> set[Verdict]:
        return set(self.counts) | set(self.untimed) | ({self.together.verdict} if self.together else set())


def header(history: History) -> str:
    """``nvidia-h200: 36 sessions from 2026-10-01 to 2026-11-20, 180 cases``."""
    first, last = history.sessions[0], history.sessions[-1]
    sessions = "1 session" if len(history.sessions) == 1 else f"{len(history.sessions)} sessions"
    span = f"from {first.taken:%Y-%m-%d} to {last.taken:%Y-%m-%d}"
    return f"{one_line(history.slug)}: {sessions} {span}, {len(history.cases)} cases"


def mark(mark: Mark, history: History) -> str:
    """A change of driver or chip: when, at which session, from what to what."""
    session = history.sessions[mark.index]
    where = f"{session.taken:%Y-%m-%d %H:%M}, session {mark.index + 1} of {len(history.sessions)}"
    return one_line(f"{mark.what} {shortly(mark.before)} to {shortly(mark.after)} ({where}, {name(session)})")


def chips(history: History) -> str:
    """Whose sessions judge a case, where they are of several chips; empty where they are of one."""
    if history.chips == 1:
        return ""
    return f"{history.chips} chips: a case is judged by the sessions of the chip that measured it last"


def counts(told: Told) -> str:
    """``1 SLOWER, 179 SAME``."""
    return ", ".join(f"{count} {verdict}" for verdict, count in told.counts.items())


def step(step: Step) -> str:
    """The sessions a step lies between."""
    between = f", {step.between} sessions of which it cannot be told" if step.between else ""
    return f"after {name(step.before)} and not after {name(step.after)}{between}"


def name(session: Session) -> str:
    """A session by its commit and day."""
    dirty = " with uncommitted changes" if session.dirty else ""
    return one_line(f"{session.commit[:12]}{dirty} ({session.taken:%Y-%m-%d})")


def times(finding: Finding) -> str:
    """``153 to 161``, in microseconds."""
    if finding.older_us is None or finding.newest_us is None:
        return ""
    return f"{finding.older_us:.4g} to {finding.newest_us:.4g}"


def commands(told: Told) -> list[str]:
    """The commands that would settle what got slower, each once, worst first, at most ``MOST_COMMANDS``."""
    findings = [*told.findings, told.together] if told.together else told.findings
    steps = [finding.step for finding in findings if finding.step and finding.verdict is Verdict.SLOWER]
    return list(dict.fromkeys(step.command for step in steps if step.command))[:MOST_COMMANDS]


def sparkline(values: Sequence[float]) -> str:
    """The values as bars from the least to the most of them; level where they are all but equal."""
    least, most = min(values), max(values)
    if most - least < 1e-3 * most:
        return BARS[3] * len(values)
    return "".join(BARS[round((value - least) / (most - least) * (len(BARS) - 1))] for value in values)
