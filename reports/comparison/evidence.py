"""What the sessions of two sides say of each case, joined on its id, and the words in which a verdict gives it.

What sessions of unchanged code say about noise is gathered here too.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from peakgate.common.text import counted
from peakgate.reports.comparison import noise
from peakgate.reports.comparison.noise import Floats
from peakgate.reports.result import Shift, percent, probability
from peakgate.reports.runs.find import RunSide
from peakgate.reports.runs.runfile import UNUSABLE, CaseResult, Run, Unmeasured
from peakgate.reports.runs.sessions import SavedSession, in_short
from peakgate.terms import TERMS, Contract, summary
from peakgate.verdict import FAULTY, Verdict

FEWEST_HISTORY_SESSIONS = 3

NO_COMMIT = frozenset({"unknown", "unversioned"})
"""What pytest-benchmark writes where there is no repository."""

NOTABLE_CLOCK_CHANGE = 0.01
SAME_CODE = "same code: environment"
RECORDED = tuple(term for term in TERMS if term in CaseResult.__struct_fields__)
"""The terms of a contract that a run file has of a case by their names; ``facts`` compares its machine code."""

CODE_FACTS = (("registers", "registers"), ("spill_bytes", "spilled bytes"), ("shared_bytes", "shared bytes"))


@dataclass(frozen=True, slots=True)
class Measured:
    """One case on one side: what its sessions timed, oldest first, and what they could not.

    ``open`` and ``wrong`` are the latest reasons for having no time; None when no session gave one.
    """

    results: tuple[CaseResult, ...] = ()
    open: str | None = None
    wrong: str | None = None
    wrong_as: Verdict = Verdict.WRONG
    """The verdict of the latest session in which the case was at fault: WRONG, CRASHED, TIMEOUT or IMPOSSIBLE."""

    @property
    def known(self) -> bool:
        """Whether any session of the side mentions the case."""
        return bool(self.results or self.open or self.wrong)

    @property
    def log_time(self) -> float:
        """Mean of the log medians in microseconds."""
        return float(np.mean([math.log(result.time_us) for result in self.results]))

    @property
    def time_us(self) -> float:
        """Geometric mean of the medians."""
        return self.results[0].time_us if len(self.results) == 1 else math.exp(self.log_time)

    @property
    def below_floor(self) -> bool:
        """Whether at least half of the sessions found the case below its floor."""
        below = sum(result.below_floor for result in self.results)
        return below > 0 and 2 * below >= len(self.results)

    @property
    def sampling_error(self) -> float | None:
        """Standard error of ``log_time`` from the samples alone; None when a session has none."""
        errors = [result.sampling_error for result in self.results]
        known = [error for error in errors if error is not None]
        return math.sqrt(sum(error**2 for error in known)) / len(known) if known and len(known) == len(errors) else None


@dataclass(frozen=True, slots=True)
class CaseEvidence:
    """One case on both sides."""

    case: str
    base: Measured
    new: Measured


def gather(base: Sequence[Run], new: Sequence[Run]) -> list[CaseEvidence]:
    """The outer join on the case id: base's order, then what only new has."""
    ids = dict.fromkeys(case for run in (*base, *new) for case in (*run.cases, *run.unmeasured))
    return [CaseEvidence(case, _measured(case, base), _measured(case, new)) for case in ids]


def in_scope(
    gathered: Sequence[CaseEvidence], base: RunSide, new: RunSide
) -> tuple[list[CaseEvidence], tuple[str, ...]]:
    """The cases to judge, and a note on each kind of the others: not asked of NEW, or depending on the host."""
    asked = [case for case in gathered if not _not_asked(case, base, new)]
    judged = [case for case in asked if not _host_bound(case)]
    notes = []
    if len(asked) < len(gathered):
        notes.append(f"left out of base, {counted(len(gathered) - len(asked), 'case')}: new ran the gate tier")
    if len(judged) < len(asked):
        left = counted(len(asked) - len(judged), "case")
        notes.append(f"not judged, {left}: the time depends on the host as much as on the GPU")
    return judged, tuple(notes)


def repeated_sessions(
    cases: Sequence[CaseEvidence], base: Sequence[Run], new: Sequence[Run], history: Sequence[Run | SavedSession]
) -> tuple[Floats, Floats]:
    """Residuals (case, session) of repeated sessions about the mean of their group, and degrees of freedom per case.

    Each side is a group: several runs named as one side are repeats. In ``history``, a group is the
    same code (by cubin fingerprint, of a library by the versions that came with it, else by clean commit) on the same
    GPU under the same driver, three times or more.
    """
    sides = [(in_short(run), "base") for run in base] + [(in_short(run), "new") for run in new]
    sessions: list[tuple[SavedSession, str | None]] = [*sides, *((in_short(each), None) for each in history)]
    times_us = [session.timed_us for session, _ in sessions]
    residuals = np.full((len(cases), len(sessions)), np.nan)
    df = np.zeros(len(cases))
    for row, case in enumerate(cases):
        groups: dict[Hashable, list[tuple[int, float]]] = defaultdict(list)
        for column, (session, side) in enumerate(sessions):
            time_us = times_us[column].get(case.case)
            group = side or _repeat_key(session, case.case)
            if time_us is not None and group is not None:
                groups[group].append((column, math.log(time_us)))
        for group, members in groups.items():
            if len(members) < (2 if group in {"base", "new"} else FEWEST_HISTORY_SESSIONS):
                continue
            mean = sum(value for _, value in members) / len(members)
            for column, value in members:
                residuals[row, column] = value - mean
            df[row] += len(members) - 1
    return residuals, df


def _measured(case: str, runs: Sequence[Run]) -> Measured:
    unusable = [_why_unusable(run, case) for run in runs]
    results = tuple(run.cases[case] for run, why in zip(runs, unusable, strict=True) if not why and case in run.cases)
    found = [why for why in unusable if why]
    reasons = {each.verdict: each.reason or each.verdict.lower() for each in found}
    faulty = [verdict for verdict in reasons if verdict in FAULTY]
    wrong_as = faulty[-1] if faulty else Verdict.WRONG
    wrong = reasons.get(wrong_as)
    undecided = [reason for verdict, reason in reasons.items() if verdict not in FAULTY]
    return Measured(results, undecided[-1] if undecided else None, wrong, wrong_as)


def _why_unusable(run: Run, case: str) -> Unmeasured | None:
    """Why this run has no usable time of the case, if it says."""
    if case in run.unmeasured:
        return run.unmeasured[case]
    result = run.cases.get(case)
    if result and result.verdict in UNUSABLE:
        return Unmeasured(case, result.verdict, result.reason)
    return None


def _repeat_key(session: SavedSession, case: str) -> Hashable | None:
    """What makes two sessions repeats of each other; None when that cannot be known."""
    if fingerprint := session.fingerprints.get(case):
        return session.uuid, session.driver, fingerprint
    if case in session.libraries:
        return session.uuid, session.driver, *map(session.environment.get, ("cublas", "cupy", "nvrtc"))
    known = not session.dirty and session.commit not in NO_COMMIT
    return (session.uuid, session.driver, session.commit) if known else None


def _not_asked(case: CaseEvidence, base: RunSide, new: RunSide) -> bool:
    """Whether NEW ran the gate tier and the case is not in it, for which a mark in one run file is not enough."""
    if case.new.known or not case.base.results:
        return False
    in_the_gate = any(run.tier == "gate" and case.case in run.cases for run in base.runs)
    beyond_the_gate = case.base.results[-1].tier == "full" and not in_the_gate
    return beyond_the_gate and all(run.tier == "gate" for run in new.runs)


def _host_bound(case: CaseEvidence) -> bool:
    """Whether every run that timed the case says so: one side alone must not hide a slower case. Wrong ones count."""
    timed = (*case.base.results, *case.new.results)
    return bool(timed) and all(result.host_bound for result in timed) and case.new.wrong is None


def moved(case: CaseEvidence, shift: Shift) -> str:
    """A shift that is flagged: by how much, against what could be resolved, and what else changed."""
    base, new = case.base.results[-1], case.new.results[-1]
    text = f"{shift}, beyond the {percent(shift.resolvable_percent)} these runs can resolve"
    if shift.p_value is not None:
        sessions = f"{len(case.base.results)} and {counted(len(case.new.results), 'session')}"
        text = f"{shift} over {sessions}, {probability(shift.p_value)}"
    return "; ".join([text, *causes(base, new)])


def unmoved(shift: Shift) -> str:
    """A shift that is not flagged."""
    return f"{shift.percent:+.2f} %, within the {percent(shift.resolvable_percent)} these runs can resolve"


def below_floor(case: CaseEvidence) -> str:
    """How far below, from the latest session that found it so."""
    result = next(result for result in reversed(case.new.results) if result.below_floor)
    if result.peak_fraction is None or result.floor is None:
        return result.reason or "below its floor"
    return f"{result.peak_fraction:.3f} of peak, floor {result.floor:.3f}"


def several_gpus(runs: Sequence[Run]) -> str:
    """What it means for the reader that the runs of both sides are not known to be of one GPU."""
    known = "known to be " if any(run.uuid is None for run in runs) else ""
    apart = percent(100 * math.expm1(noise.BETWEEN_GPUS))
    return (
        f"the runs are not {known}of one and the same GPU: GPUs of one model may differ by {apart} in a case, so no"
        " smaller change of a case is flagged; to detect one, measure both sides on one GPU (`peakgate ab`)"
    )


def causes(base: CaseResult, new: CaseResult) -> list[str]:
    """Each a few words: code, what the compiler allots, occupancy, clock, floor; empty where nothing known changed."""
    found = [*_code(base, new), *_clock(base, new)]
    if new.floor is not None and new.peak_fraction is not None and new.peak_fraction < new.floor:
        found.append(f"below its floor too: {new.peak_fraction:.3f} of peak, floor {new.floor:.3f}")
    return found


def _code(base: CaseResult, new: CaseResult) -> list[str]:
    if base.fingerprint and base.fingerprint == new.fingerprint:
        return [SAME_CODE]
    found = []
    for field, name in CODE_FACTS:
        before, after = getattr(base, field), getattr(new, field)
        if before is not None and after is not None and before != after:
            found.append(f"{name} {before:g} to {after:g}")
    if base.occupancy is not None and new.occupancy is not None and base.occupancy != new.occupancy:
        limits = f", limited by {new.occupancy_limiter}" if new.occupancy_limiter else ""
        found.append(f"occupancy {100 * base.occupancy:.0f} % to {100 * new.occupancy:.0f} %{limits}")
    if not found and base.fingerprint and new.fingerprint:
        found.append("other machine code, same registers, shared memory and occupancy")
    return found


def _clock(base: CaseResult, new: CaseResult) -> list[str]:
    """A clock that changed explains time, not cycles: what is left in cycles is the kernel's own."""
    if not base.sm_clock_mhz or not new.sm_clock_mhz:
        return []
    ratio = new.sm_clock_mhz / base.sm_clock_mhz
    if abs(ratio - 1) <= NOTABLE_CLOCK_CHANGE:
        return []
    cycles = 100 * math.expm1(math.log(new.time_us / base.time_us * ratio))
    return [f"SM clock {base.sm_clock_mhz:.0f} to {new.sm_clock_mhz:.0f} MHz, {cycles:+.1f} % in cycles"]


def changed_terms(base: Sequence[Run], new: Sequence[Run]) -> list[str]:
    """One line per term that differs in a case of both sides, with how many cases and the first of them."""
    before, after = ({case: result for run in runs for case, result in run.cases.items()} for runs in (base, new))
    return summary({case: _contracts(before[case], after[case]) for case in before if case in after})


def _contracts(before: CaseResult, after: CaseResult) -> tuple[Contract, Contract]:
    """The terms that both results record with one meaning: a tolerance is of an element's bound since 0.3."""
    known = [term for term in RECORDED if None not in (getattr(before, term), getattr(after, term))]
    if "tolerance" in known and (before.error_over_bound is None) != (after.error_over_bound is None):
        known.remove("tolerance")
    old, now = (Contract(**{term: getattr(result, term) for term in known}) for result in (before, after))
    return old, now
