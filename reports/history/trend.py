"""What a history says: one finding per case, worst first, the suite as a whole, and the exit code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from peakgate.reports.history.changes import ChangePoint, OpenRegression, find_changes, open_regressions
from peakgate.reports.history.detect import MOST_OLDER, NEWEST_SESSIONS, CaseFinding, detect, detect_together
from peakgate.reports.history.series import History, history
from peakgate.reports.protect.acknowledged import Accepted
from peakgate.reports.result import WORST_FIRST
from peakgate.reports.runs.sessions import of_frame
from peakgate.verdict import REGRESSIONS, UNDECIDED, ExitCode, Judgement, Verdict, exit_code

if TYPE_CHECKING:
    import pandas as pd

MOST_COMMANDS = 3

TREND_COLUMNS: Mapping[str, str] = {
    **dict.fromkeys(("case", "verdict", "reason", "where"), "string"),
    **dict.fromkeys(("older_time_us", "newest_time_us"), "float64"),
    **dict.fromkeys(("change_percent", "smallest_detectable_change_percent", "p_value"), "float64"),
    **dict.fromkeys(("good", "bad"), "Int64"),
    "command": "string",
    "recent_us": "object",
}
"""The columns of a history's frame, in order, with their dtypes; reports/README.md explains them."""


@dataclass(frozen=True)
class Trend:
    """A history and what was found in it, worst first; ``together`` is None where too few cases could be judged."""

    history: History
    findings: tuple[CaseFinding, ...]
    together: CaseFinding | None
    notes: tuple[str, ...] = ()
    untimed: Mapping[Verdict, tuple[str, ...]] = field(default_factory=dict)
    """Cases of the newest session without a time, by verdict."""
    changes: tuple[ChangePoint, ...] = ()
    """Every change point of every GPU, newest first."""
    regressions: tuple[OpenRegression, ...] = ()
    """Those that are still open, the accepted ones last."""
    fail_on_open: bool = False

    @property
    def open(self) -> tuple[OpenRegression, ...]:
        """The open regressions that nobody has accepted."""
        return tuple(each for each in self.regressions if each.accepted is None)

    @cached_property
    def frame(self) -> pd.DataFrame:
        """One row per case, worst first; columns are ``TREND_COLUMNS``."""
        from peakgate.reports.runs.frame import tidy  # noqa: PLC0415  # pandas, a third of the command's time

        numbers = {id(session): number for number, session in enumerate(self.history.sessions)}
        rows = []
        for each in self.findings:
            where = each.step.place if each.step else None
            row = each.record | {"case": each.case, "verdict": each.verdict.value, "where": where}
            rows.append(row | {name: row[name] and numbers[id(row[name])] for name in ("good", "bad")})
        return tidy(rows, TREND_COLUMNS)

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

    @property
    def commands(self) -> list[str]:
        """The commands that would settle what got slower, each once, worst first, at most ``MOST_COMMANDS``."""
        findings = [*self.findings, *([self.together] if self.together else [])]
        slower = [each.step for each in findings if each.step and each.verdict is Verdict.SLOWER]
        return list(dict.fromkeys(step.command for step in slower if step.command))[:MOST_COMMANDS]

    def _verdicts(self) -> set[Verdict]:
        verdicts = set(self.counts) | set(self.untimed) | ({self.together.verdict} if self.together else set())
        return verdicts | ({Verdict.SLOWER} if self.fail_on_open and self.open else set())


def find_trend(
    found: History,
    notes: tuple[str, ...] = (),
    untimed: Mapping[Verdict, tuple[str, ...]] | None = None,
    accepted: Sequence[Accepted] = (),
    *,
    fail_on_open: bool = False,
) -> Trend:
    """Judge every case of the history, and all of them together; ``accepted`` are regressions that may stay."""
    changes = find_changes(found)
    findings = [_confirmed(finding, changes) for finding in detect(found)]
    return Trend(
        found,
        tuple(sorted(findings, key=lambda each: WORST_FIRST.index(each.verdict))),
        detect_together(found),
        notes,
        untimed or {},
        changes,
        open_regressions(changes, accepted),
        fail_on_open,
    )


def _confirmed(finding: CaseFinding, changes: Sequence[ChangePoint]) -> CaseFinding:
    """A shift of the newest sessions counts where the whole history has a step to match it: SAME without one."""
    if finding.verdict not in {Verdict.SLOWER, Verdict.FASTER}:
        return finding
    slower = finding.verdict is Verdict.SLOWER
    recent = [each for each in changes if each.case == finding.case and each.since <= NEWEST_SESSIONS + MOST_OLDER]
    if any((each.log_ratio > 0) == slower for each in recent):
        return finding
    reason = f"{finding.reason}; no change point of the whole history confirms it"
    return replace(finding, judgement=Judgement(Verdict.SAME, reason), step=None)


def trend_of_frame(runs: pd.DataFrame, slug: str | None = None) -> pd.DataFrame:
    """From a frame of runs (``FRAME_COLUMNS``) to one row per case (``TREND_COLUMNS``); ``slug`` chooses a GPU model.

    ``good`` and ``bad`` count the runs in the order taken. A PeakgateError says why there is no history of them.
    """
    return find_trend(history(of_frame(runs), slug)).frame
