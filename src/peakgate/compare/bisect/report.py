"""Report of a bisect, in lines and as a JSON document; pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from peakgate.base.report import Report, Table
from peakgate.base.text import counted
from peakgate.base.verdict import ExitCode
from peakgate.compare.ab.decide import interval
from peakgate.compare.ab.explain import Explained
from peakgate.compare.ab.judge import reported
from peakgate.compare.bisect.commits import short
from peakgate.compare.bisect.search import BuiltCommit, End, Group, SearchOutcome

EXIT_CODES = {End.FOUND: ExitCode.REGRESSION, End.SAME: ExitCode.OK, End.UNDECIDED: ExitCode.UNDECIDED}


@dataclass(frozen=True, slots=True)
class BisectAnswer:
    """A finished bisect of one case: its history and groups, what the search found (None: the ends' code is equal)."""

    case: str
    tier: str
    history: Sequence[BuiltCommit]
    groups: Sequence[Group]
    outcome: SearchOutcome | None
    measured: int = 0
    pairs: int = 0
    package: str = ""
    """Whose versions the history has, in place of commits."""
    device: str = "gpu:0"

    @property
    def noun(self) -> str:
        """A point of the history."""
        return "version" if self.package else "commit"

    @property
    def end(self) -> End:
        return End.SAME if self.outcome is None else self.outcome.end

    @property
    def suspects(self) -> list[BuiltCommit]:
        """The commits that may be the one: those of the border that was found, or of the borders that are left."""
        if self.outcome is None or self.outcome.end is End.SAME:
            return []
        if self.outcome.group is not None:
            return self._border(self.outcome.before, self.outcome.group)
        left = sorted(group for group, probability in self.outcome.candidates if probability > 0.01)
        return [commit for group in left for commit in self._border(None, group)]

    def _border(self, before: int | None, group: int) -> list[BuiltCommit]:
        """The commits after ``before``, or after the group in front, up to the first of a group."""
        found = self.groups[group]
        since = found.since if before is None or before == group - 1 else self.groups[before].places[-1] + 1
        return list(self.history[since : found.first + 1])

    @property
    def command(self) -> str | None:
        """Command that reproduces the change."""
        if self.package or self.outcome is None or self.outcome.group is None or self.outcome.before is None:
            return None
        base = self.history[self.groups[self.outcome.before].places[-1]].commit
        head = self.history[self.groups[self.outcome.group].first].commit
        tier = "" if self.tier == "gate" else f" --tier {self.tier}"
        device = "" if self.device == "gpu:0" else f" --device {self.device}"
        return f"peakgate ab {short(base)} {short(head)} -k {self.case}{tier}{device} --explain"


def plan_lines(history: Sequence[BuiltCommit], case: str, found: Sequence[Group], kept: Sequence[Group]) -> list[str]:
    """The groups of a case, one line each, with the commits in none."""
    groups, borders = counted(len(found), "group"), counted(len(kept) - 1, "border")
    lines = [f"{case}: {counted(len(history), 'commit')}, {groups} of equal code, {borders} to search"]
    for group in found:
        first, last = history[group.first], history[group.places[-1]]
        span = short(first.commit) if first is last else f"{short(first.commit)}..{short(last.commit)}"
        mark = "" if group in kept else ", not searched: its code is that of an end"
        code = group.identity.code or group.identity.operation
        lines.append(f"  {span}: {counted(len(group.places), 'commit')}, code {code}: {first.subject[:60]}{mark}")
    skipped = [(short(commit.commit), commit.problem_of(case)) for commit in history]
    return [*lines, *(f"  {commit}: skipped, {problem}" for commit, problem in skipped if problem is not None)]


def report(answer: BisectAnswer, why: Explained | None = None) -> Report:
    """The answer, the most important line first, and ``why`` the case changed with the commit that is named."""
    opcodes = [(line,) for each in (why.cases if why else ()) for line in each.diff]
    again = [f"again: `{answer.command}`"] if why else []
    return Report(
        command="bisect",
        exit_code=EXIT_CODES[answer.end],
        sentences=[*_lines(answer), *again, *(why.notes if why else ())],
        tables=[*([why.table()] if why else []), *([Table("Opcodes", ("difference",), opcodes)] if opcodes else [])],
        fields=_fields(answer) | ({"explained": why.document()} if why else {}),
    )


def _lines(report: BisectAnswer) -> list[str]:
    outcome = report.outcome
    if outcome is None:
        why = "machine code and launch are equal at both ends; what else is part of its time are driver, GPU, clocks"
        return [f"{report.case}: no {report.noun} is the cause: {why} and libraries: see `peakgate compare`"]
    found = {End.FOUND: _found, End.SAME: _same, End.UNDECIDED: _undecided}[outcome.end](report, outcome)
    spent = f"{report.measured} of {len(report.history)} {report.noun}s measured, {counted(report.pairs, 'pair')}"
    skipped = [f"{short(report.history[report.groups[at].first].commit)}: {why}" for at, why in outcome.unusable]
    return [*found, spent, *(f"skipped {each}" for each in skipped)]


def _fields(report: BisectAnswer) -> dict[str, Any]:
    outcome = report.outcome
    return {
        "case": report.case,
        "end": report.end,
        "reason": outcome.reason if outcome else "machine code and launch are equal at both ends",
        "commits": [{"commit": commit.commit, "subject": commit.subject} for commit in report.suspects],
        "change": _numbers(outcome.border) if outcome else None,
        "ends": _numbers(outcome.ends) if outcome else None,
        "groups": len(report.groups),
        "history": len(report.history),
        "measured": report.measured,
        "pairs": report.pairs,
        "again": report.command,
    }


def _found(report: BisectAnswer, outcome: SearchOutcome) -> list[str]:
    assert outcome.border is not None
    word = "slower" if outcome.border.direction > 0 else "faster"
    *others, named = report.suspects
    lines = [
        f"{short(named.commit)} made {report.case} {word}: {named.subject}",
        f"{reported(outcome.border)}; from GOOD to BAD {reported(outcome.ends)}",
    ]
    if others:
        listed = ", ".join(short(commit.commit) for commit in others)
        lines.append(f"or one of {listed}, directly before it, with nothing to measure")
    low, high = interval(outcome.border)
    partial = outcome.between or not low <= outcome.ends.log_ratio <= high
    if partial and not report.package:
        good, bad, found = (short(each.commit) for each in (report.history[0], report.history[-1], named))
        parts = f"`peakgate bisect {good} {found}^` and `peakgate bisect {found} {bad}`"
        lines.append(f"that is not the whole change; {parts} look for the rest")
    return lines


def _same(report: BisectAnswer, outcome: SearchOutcome) -> list[str]:
    ends = reported(outcome.ends)
    least = f"from {100 * math.expm1(outcome.ends.resolvable):.2g} % on a change would have been flagged"
    why = f"measured alternately on this GPU, GOOD and BAD do not differ: {ends}; {least}"
    others = "driver, GPU or clocks may have changed between the runs that differed"
    return [f"{report.case}: no {report.noun} is the cause: {why}; {others}"]


def _undecided(report: BisectAnswer, outcome: SearchOutcome) -> list[str]:
    suspects = report.suspects
    lines = [f"{report.case}: not decided: {outcome.reason}; from GOOD to BAD {reported(outcome.ends)}"]
    if suspects:
        listed = ", ".join(short(commit.commit) for commit in suspects[:8])
        lines.append(f"{counted(len(suspects), report.noun)} left: {listed}")
    lines.append("raise --most or --confirm-pairs, and go on with --resume")
    return lines


def _numbers(decision: SimpleNamespace | None) -> Mapping[str, float] | None:
    if decision is None:
        return None
    low, high = interval(decision)
    return {
        "percent": 100 * math.expm1(decision.log_ratio),
        "low_percent": 100 * math.expm1(low),
        "high_percent": 100 * math.expm1(high),
        "pairs": decision.pairs,
    }
