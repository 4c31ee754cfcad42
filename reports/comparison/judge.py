"""Judge NEW against BASE, case by case and as a whole; pure, from runs to verdicts.

Two rules decide whether a case's time changed:

- Where sessions were repeated, on a side or in other saved runs of the same code on the same GPU: the difference of the
  mean log times against the spread between sessions, moderated across cases (empirical Bayes), Holm-adjusted at 1 %,
  and more than 0.5 %. With less than 4 degrees of freedom per case, or more than one GPU, the second rule has to agree.
- One run against one: beyond 3 % (more for kernels under 20 µs or noisy samples). Below that is SAME *within what the
  pair can resolve*, which the reason states.

Where the runs are not all known to be of one and the same GPU, the difference between GPUs of one model is added to
either rule: no shift that the GPUs alone could cause is flagged, and the smallest detectable change includes it.

A case whose smallest detectable change exceeds 15 % is INCONCLUSIVE where the spread between its sessions is unknown,
or where it moved further than it does by itself once in a hundred times; a case known to scatter that stays within its
scatter is SAME, and the reason states its smallest detectable change. The suite-wide shift is judged on its own and
never subtracted from the cases: when everything slows down, every case is slower.

A case has one verdict, the worst that holds: WRONG, then SLOWER, then BELOW_FLOOR as NEW's own run recorded it, then
the outcome of the comparison. The first three fail the gate; SLOWER outranks BELOW_FLOOR because it is what comparing
adds, and its reason names the floor too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from peakgate.common.errors import PeakgateError
from peakgate.reports.comparison import noise
from peakgate.reports.comparison.evidence import (
    CaseEvidence,
    below_floor,
    changed_terms,
    gather,
    in_scope,
    moved,
    repeated_sessions,
    several_gpus,
    unmoved,
)
from peakgate.reports.comparison.noise import Floats
from peakgate.reports.result import WORST_FIRST, ComparedCase, Comparison, Shift, SuiteShift
from peakgate.reports.runs.facts import differences, machine_code
from peakgate.reports.runs.find import RunSide
from peakgate.reports.runs.runfile import FEWEST_SAMPLES, MEDIAN_ERROR_IN_SDS, Run
from peakgate.reports.runs.sessions import SavedSession
from peakgate.verdict import Judgement, Verdict

if TYPE_CHECKING:
    import pandas as pd

SESSIONS_ALPHA = 0.01
SMALLEST_SHIFT = math.log1p(0.005)
"""No smaller shift is flagged, however certain: half of the 1 % that is worth a look."""

WIDEST_RESOLVABLE = math.log1p(0.15)
FEWEST_DF_ALONE = 4
"""With fewer degrees of freedom a case, the spread between sessions alone gave false positives too often:
in 8-15 % of simulated gates with 1 degree, in up to 7 % with 2."""

SUITE_SINGLE_RUN = math.log1p(0.01)
FEWEST_CASES_FOR_SUITE = 10


@dataclass(frozen=True, slots=True)
class Rules:
    """What holds for all cases of one comparison.

    ``refusal`` says why times are not compared; None when they are. ``same_gpu`` is True where all runs of both sides
    are known to be of one GPU, ``several_gpus`` where they are not, and of one model.
    """

    refusal: str | None
    other_model: bool
    same_gpu: bool
    several_gpus: bool


def compare(
    base: RunSide,
    new: RunSide,
    history: Sequence[Run | SavedSession] = (),
    *,
    across_gpus: bool = False,
    remarks: Sequence[str] = (),
) -> Comparison:
    """NEW against BASE.

    ``history`` are other sessions, of which those on the same GPU, driver and code give the spread between sessions.
    Sides of two GPU models are INCOMPARABLE unless ``across_gpus``; emulated times always are. ``remarks`` are notes to
    add, as of a selftest of this runner.
    """
    rules = _rules(base, new, across_gpus=across_gpus)
    evidence, scope = in_scope(gather(base.runs, new.runs), base, new)
    settled = {case.case: judgement for case in evidence if (judgement := _settled(case, base, new, rules))}
    timed = [case for case in evidence if case.case not in settled]
    residuals, df = repeated_sessions(timed, base.runs, new.runs, history)
    spread = noise.session_noise(
        residuals, df, np.array([(case.base.log_time + case.new.log_time) / 2 for case in timed])
    )
    shifts = _shifts(timed, df, spread, rules)
    noisy = [too_noisy(shift) for shift in shifts]
    if rules.several_gpus:
        shifts = [_between_gpus(shift) for shift in shifts]
    rows = [_row(case, settled[case.case]) for case in evidence if case.case in settled]
    for case, shift, open_ in zip(timed, shifts, noisy, strict=True):
        rows.append(_row(case, _judge(case, shift, noisy=open_), shift))
    return Comparison(
        base=base,
        new=new,
        rows=tuple(sorted(rows, key=badness)),
        suite=_suite(shifts, spread, rules, len(base.runs), len(new.runs)),
        differences=differences(base.runs, new.runs),
        notes=(*_notes(base, new, rules, residuals, df), *scope, *remarks),
    )


def compare_frames(
    base: pd.DataFrame, new: pd.DataFrame, history: pd.DataFrame | None, *, across_gpus: bool
) -> pd.DataFrame:
    """``compare`` from frames of runs (``FRAME_COLUMNS``) to a frame of results (``ROW_COLUMNS``).

    ``history`` holds other saved runs. The frame's ``attrs`` have the ``verdict`` of the whole comparison, its
    ``exit_code``, and the ``suite_wide`` verdict with its reason. A PeakgateError names a frame without a row.
    """
    from peakgate.reports.runs.frame import to_runs  # noqa: PLC0415  # pandas, half of the command's time

    others = to_runs(history) if history is not None else ()
    sides = []
    for label, frame in (("base", base), ("new", new)):
        runs = sorted(to_runs(frame), key=lambda run: run.taken)
        if not runs:
            raise PeakgateError(
                f"{label}: an empty frame, expected the rows of one run or more; see peakgate.reports.load"
            )
        sides.append(RunSide(label, tuple(runs)))
    found = compare(sides[0], sides[1], others, across_gpus=across_gpus)
    suite = found.suite.judgement if found.suite else None
    rows = found.frame.copy()
    rows.attrs = {
        "verdict": str(found.verdict()),
        "exit_code": int(found.exit_code()),
        "suite_wide": f"{suite.verdict}: {suite.reason}" if suite else None,
    }
    return rows


def _rules(base: RunSide, new: RunSide, *, across_gpus: bool) -> Rules:
    slugs = base.runs[0].slug, new.runs[0].slug
    other_model = slugs[0] != slugs[1]
    refusal = None
    if other_model and not across_gpus:
        refusal = f"{slugs[1]} against {slugs[0]}: times of two GPU models are not compared unless asked"
    elif any(run.emulated for run in (*base.runs, *new.runs)):
        refusal = "emulated times are not judged"
    uuids = {run.uuid for run in (*base.runs, *new.runs)}
    same_gpu = len(uuids) == 1 and None not in uuids
    return Rules(refusal, other_model and not across_gpus, same_gpu, several_gpus=not (same_gpu or other_model))


def _settled(case: CaseEvidence, base: RunSide, new: RunSide, rules: Rules) -> Judgement | None:
    """The verdict of a case that needs no comparison of times; None where times decide."""
    return _not_timed(case, base, new, rules) or _not_comparable(case, base, rules)


def _not_timed(case: CaseEvidence, base: RunSide, new: RunSide, rules: Rules) -> Judgement | None:
    """A verdict for a case that NEW has no time of, or that only one of two GPU models has."""
    if case.new.wrong is not None:
        return Judgement(case.new.wrong_as, case.new.wrong)
    if rules.other_model and rules.refusal and not (case.base.known and case.new.known):
        return Judgement(Verdict.INCOMPARABLE, f"only in {'base' if case.base.known else 'new'}; {rules.refusal}")
    if not case.new.known and not any(run.whole for run in new.runs):
        return Judgement(Verdict.INCONCLUSIVE, "in base, not measured in new, which ran a selection of cases")
    if not case.new.known:
        return Judgement(Verdict.MISSING, "in base, not in new" + _tiers(base, new))
    if not case.new.results:
        return Judgement(Verdict.INCONCLUSIVE, f"new: {case.new.open}")
    return None


def _not_comparable(case: CaseEvidence, base: RunSide, rules: Rules) -> Judgement | None:  # noqa: PLR0911
    """A verdict for a case that NEW timed and that cannot be compared with BASE."""
    comparable = bool(case.base.results) and rules.refusal is None
    if case.new.below_floor and not comparable:
        return Judgement(Verdict.BELOW_FLOOR, below_floor(case))
    if case.base.open is not None and not case.base.results:
        return Judgement(Verdict.INCONCLUSIVE, f"base: {case.base.open}")
    if not case.base.known and not any(run.whole for run in base.runs):
        return Judgement(Verdict.INCONCLUSIVE, "not measured in base, which ran a selection of cases")
    if not case.base.results:
        wrong = case.base.wrong
        return Judgement(Verdict.NEW, "not in base" if wrong is None else f"wrong in base ({wrong}), timed in new")
    if rules.refusal:
        return Judgement(Verdict.INCOMPARABLE, rules.refusal)
    few = [name for name, side in (("base", case.base), ("new", case.new)) if side.sampling_error is None]
    if few:
        reason = f"{' and '.join(few)}: fewer than {FEWEST_SAMPLES} samples, their noise is unknown"
        return Judgement(Verdict.INCONCLUSIVE, reason)
    return None


def _tiers(base: RunSide, new: RunSide) -> str:
    tiers = [{run.tier for run in side.runs} for side in (base, new)]
    if tiers[0] == tiers[1]:
        return ""
    ran = [" and ".join(sorted(str(tier) for tier in side)) for side in tiers]
    return f"; base ran tier {ran[0]}, new {ran[1]}: compare runs of one tier"


def _shifts(timed: Sequence[CaseEvidence], df: Floats, spread: noise.SessionNoise | None, rules: Rules) -> list[Shift]:
    """The shift of each case and the smallest that would have been flagged, by the rule its evidence allows."""
    shifts = []
    for case in timed:
        log_ratio, resolvable = case.new.log_time - case.base.log_time, _fixed_resolvable(case)
        shifts.append(Shift(log_ratio, resolvable, flagged=abs(log_ratio) > resolvable))
    if spread is None:
        return shifts
    tested = [index for index in range(len(timed)) if df[index] > 0]
    errors = {index: _standard_error(index, timed[index], spread) for index in tested}
    freedom = {index: spread.degrees_of_freedom(index) for index in tested}
    p_values = [noise.upper_tail(abs(shifts[index].log_ratio) / errors[index], freedom[index]) for index in tested]
    for index, p_alone, p_value in zip(tested, p_values, noise.holm(np.array(p_values)), strict=True):
        alone = rules.same_gpu and df[index] >= FEWEST_DF_ALONE
        least = SMALLEST_SHIFT if alone else shifts[index].resolvable
        shifts[index] = Shift(
            log_ratio=shifts[index].log_ratio,
            resolvable=max(least, errors[index] * noise.upper_quantile(SESSIONS_ALPHA / len(tested), freedom[index])),
            flagged=bool(p_value < SESSIONS_ALPHA) and abs(shifts[index].log_ratio) > least,
            p_value=float(p_value),
            p_alone=float(p_alone),
        )
    return shifts


def _between_gpus(shift: Shift) -> Shift:
    """The same shift where the two sides' GPUs may contribute to it."""
    resolvable = noise.between_gpus(shift.resolvable)
    return replace(shift, resolvable=resolvable, flagged=shift.flagged and abs(shift.log_ratio) > resolvable)


def _fixed_resolvable(case: CaseEvidence) -> float:
    return noise.fixed_resolvable(
        time_us=min(case.base.time_us, case.new.time_us),
        sampling_error=math.hypot(case.base.sampling_error or 0.0, case.new.sampling_error or 0.0),
        base_sessions=len(case.base.results),
        new_sessions=len(case.new.results),
        library=any(result.library for result in (*case.base.results, *case.new.results)),
    )


def _standard_error(index: int, case: CaseEvidence, spread: noise.SessionNoise) -> float:
    errors = [result.sampling_error or 0.0 for result in (*case.base.results, *case.new.results)]
    variance = sum(error**2 for error in errors) / len(errors)
    return spread.standard_error(index, len(case.base.results), len(case.new.results), variance)


def too_noisy(shift: Shift) -> bool:
    """Whether not even a change of WIDEST_RESOLVABLE is detectable on one GPU.

    Not of a case that is known to scatter and stays within that.
    """
    return shift.resolvable > WIDEST_RESOLVABLE and (shift.p_alone is None or shift.p_alone < SESSIONS_ALPHA)


def _judge(case: CaseEvidence, shift: Shift, *, noisy: bool) -> Judgement:
    if shift.flagged and shift.log_ratio > 0:
        return Judgement(Verdict.SLOWER, moved(case, shift))
    if case.new.below_floor:
        return Judgement(Verdict.BELOW_FLOOR, f"{below_floor(case)}; against base {unmoved(shift)}")
    if shift.flagged:
        return Judgement(Verdict.FASTER, moved(case, shift))
    if noisy:
        return Judgement(Verdict.INCONCLUSIVE, f"{unmoved(shift)}: too noisy, measure both sides again")
    return Judgement(Verdict.SAME, unmoved(shift))


def _suite(
    shifts: Sequence[Shift], spread: noise.SessionNoise | None, rules: Rules, base_sessions: int, new_sessions: int
) -> SuiteShift | None:
    """Judge the median shift: its error is what moves a whole session, and the scatter of the cases about it."""
    if len(shifts) < FEWEST_CASES_FOR_SUITE:
        return None
    ratios = np.array([shift.log_ratio for shift in shifts])
    median = float(np.median(ratios))
    scatter = MEDIAN_ERROR_IN_SDS * noise.MAD_TO_SD * float(np.median(np.abs(ratios - median)))
    session, session_df = noise.COMMON_SD_PRIOR**2, noise.COMMON_DF_PRIOR
    if spread is not None and spread.common > 0:
        session, session_df = spread.common, spread.common_df
    error = math.hypot(math.sqrt(session * (1 / base_sessions + 1 / new_sessions)), scatter / math.sqrt(len(ratios)))
    least = SMALLEST_SHIFT if session_df >= noise.COMMON_DF_PRIOR + FEWEST_DF_ALONE else SUITE_SINGLE_RUN
    if not rules.same_gpu:
        least = noise.SINGLE_RUN_RESOLVABLE
    resolvable = max(least, error * noise.upper_quantile(SESSIONS_ALPHA, session_df))
    shift = Shift(median, resolvable, flagged=abs(median) > resolvable)
    verdict = Verdict.SAME
    if shift.flagged:
        verdict = Verdict.SLOWER if median > 0 else Verdict.FASTER
    text = f"{shift} in the median of {len(ratios)} cases" if shift.flagged else unmoved(shift)
    return SuiteShift(Judgement(verdict, text), shift, len(ratios))


def _row(case: CaseEvidence, judgement: Judgement, shift: Shift | None = None) -> ComparedCase:
    base, new = case.base.results, case.new.results
    return ComparedCase(
        case=case.case,
        judgement=judgement,
        base=base[-1] if base else None,
        new=new[-1] if new else None,
        base_time_us=case.base.time_us if base else None,
        new_time_us=case.new.time_us if new else None,
        base_sessions=len(base),
        new_sessions=len(new),
        shift=shift,
    )


def badness(row: Any) -> tuple[float, float, str]:
    """Worst verdict first; within it the shift that is surest to be large; for a Row or a Finding."""
    lower_bound = row.shift.log_ratio - row.shift.resolvable if row.shift else 0.0
    return WORST_FIRST.index(row.verdict), -lower_bound, row.case


def _notes(base: RunSide, new: RunSide, rules: Rules, residuals: Floats, df: Floats) -> tuple[str, ...]:
    notes = [*base.notes, *new.notes, *changed_terms(base.runs, new.runs)]
    code = machine_code(base.runs, new.runs)
    if code is not None:
        notes.append(code)
    if {run.path.resolve() for run in base.runs} & {run.path.resolve() for run in new.runs}:
        notes.append("a run is on both sides: it cannot differ from itself")
    if rules.several_gpus and not rules.refusal:
        notes.append(several_gpus((*base.runs, *new.runs)))
    elif not rules.same_gpu and not rules.refusal:
        notes.append("the sides are of two GPU models: they differ by more than the sessions of one")
    from_history = np.isfinite(residuals[:, len(base.runs) + len(new.runs) :]).any(axis=0)
    if from_history.any():
        notes.append(f"{np.count_nonzero(from_history)} other saved sessions give the spread between sessions")
    if (df > 0).any() and not (df > 0).all():
        never = np.count_nonzero(df == 0)
        verb = "was" if never == 1 else "were"
        notes.append(f"{never} of {len(df)} cases {verb} never repeated: the single-run rule applies")
    return tuple(dict.fromkeys(notes))
