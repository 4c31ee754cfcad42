"""Judges NEW against BASE, case by case and as a whole: frames of runs in, verdicts out; pure.

Two rules decide whether a case's time changed:

- With repeated sessions, of a side or of the same code on the same GPU in other saved runs: the difference of the mean
  log times, less what one outlying session may cause, is tested against the spread between sessions, moderated across
  cases (empirical Bayes), Holm-adjusted at 1 %, and must exceed 0.5 %. With fewer than 4 degrees of freedom per case (7
  if a side is a single session), or several GPUs, the second rule has to agree.
- One run against one: a change beyond 3.5 % (more for kernels under 35 µs or noisy samples). A smaller one is SAME, and
  the reason states the smallest detectable change. With repeated sessions this rule still applies beside the first:
  saved sessions never lower the power of a comparison, unless they show that the case itself varies by as much.

Unless all runs are known to be of the same GPU, both rules allow for the variation between GPUs of one model
(``gpus``): no shift that GPUs alone could cause is flagged, and the smallest detectable change includes it.

A case whose smallest detectable change exceeds 15 % is INCONCLUSIVE if the spread between its sessions is unknown, if
GPUs may differ by as much, or if it moved more than its own spread explains (p < 1 %); if it stays within its known
spread it is SAME. A transfer over the link to the host that moved is INCONCLUSIVE if a side is a single session,
because that link is shared. The suite-wide shift is judged separately and never subtracted from the cases: when
everything slows down, every case is slower.

Times of the host are judged by themselves, with a noise and a family of tests of their own: one run against one
resolves 15 % of them. They are no part of the suite-wide shift.

A case gets the worst verdict that applies: WRONG, then SLOWER, then BELOW_FLOOR as NEW's own run recorded it, then the
rest. These three fail the gate; the reason of SLOWER names the floor too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from peakgate.base.verdict import Verdict
from peakgate.compare import evidence, gpus, noise, spread
from peakgate.compare.noise import Floats
from peakgate.compare.result import (
    SpreadFinding,
    SuiteShift,
    change_text,
    direction,
    in_percent,
    shift_percent,
    side_by_side,
)
from peakgate.runfile.frame import FRAME_COLUMNS, records, require
from peakgate.runfile.saved import FEWEST_SAMPLES, MEDIAN_ERROR_IN_SDS
from peakgate.spec.recorded import EMULATOR_SLUG

# Family-wise error rate in each direction: at most this share of comparisons of unchanged code flags any case.
SESSIONS_ALPHA = 0.01

# No smaller shift is flagged, however significant: half of the 1 % that is of interest.
SMALLEST_SHIFT = math.log1p(0.005)

# A case with a larger smallest detectable change is not SAME: a policy, not a statistic. Single sessions of the host's
# times resolve a half: they show a call that takes twice as long, which is what another release of a library brings.
WIDEST_RESOLVABLE, WIDEST_OF_HOST = math.log1p(0.15), math.log1p(0.6)

# With fewer degrees of freedom per case, the first rule alone gave too many false positives: in 8-15 % of simulated
# gates with 1 degree and up to 7 % with 2; if a side is a single session, which has no spread of its own, in 2 % with 4
# or 5.
FEWEST_DF_ALONE = 4
FEWEST_DF_OF_ONE = 7

# Smallest shift of the suite that one run against one detects: about three SDs of the difference between two starts of
# a machine (``noise.COMMON_SD_PRIOR``).
SUITE_SINGLE_RUN = math.log1p(0.01)

FEWEST_CASES_FOR_SUITE = 10  # as many as ``noise.FEWEST_CASES_FOR_COMMON``, for the same reason


# (mask of the cases it applies to, verdict, reason), each a series by case or one value for all.
CaseRuling = tuple[Any, Any, Any]


@dataclass(frozen=True, slots=True)
class Rules:
    """Conditions common to all cases of one comparison.

    ``refusal`` says why times are not compared, None if they are. ``same_gpu`` is True if all runs of both sides are
    known to be of one GPU.
    """

    refusal: str | None
    other_model: bool
    same_gpu: bool


def compare(
    base: pd.DataFrame, new: pd.DataFrame, history: pd.DataFrame | None = None, *, across_gpus: bool = False
) -> pd.DataFrame:
    """Compare frames of runs (``frame.FRAME_COLUMNS``); return one row per case (``result.ROW_COLUMNS``).

    ``history`` holds other runs: those with equal GPU, driver and code give the spread between sessions, those with
    equal code on several GPUs the spread between GPUs; runs of a side are ignored in it. Sides of two GPU models are
    INCOMPARABLE unless ``across_gpus``; emulated times always are. The frame's ``attrs`` describe the whole comparison
    (``result.side_by_side``). Raises PeakgateError for a side without rows.
    """
    base, new = evidence.in_order("base", base), evidence.in_order("new", new)
    if history is not None:
        require(history, FRAME_COLUMNS, "history")
        history = history[~history["run"].isin({*base["run"], *new["run"]})]
    rules = _rules(base, new, across_gpus=across_gpus)
    ids = pd.Index(pd.concat([base["case"], new["case"]]).unique(), name="case")
    before, after = evidence.summarize(base, ids), evidence.summarize(new, ids)
    in_scope, scope = evidence.in_scope(before, after, gate_alone=bool(new["run_tier"].isin(["gate"]).all()))
    before, after = before[in_scope], after[in_scope]
    settled = _first(_settling(before, after, base, new, rules), before.index)
    unsettled = settled["verdict"].isna().to_numpy()
    host = (before["of_host"] | after["of_host"]).to_numpy()
    on_gpu, on_host = unsettled & ~host, unsettled & host
    gpu_times = _weighed((before[on_gpu], after[on_gpu]), base, new, history, rules, of_host=False)
    weighed = [gpu_times] if on_gpu.any() or not on_host.any() else []
    if on_host.any():
        weighed.append(_weighed((before[on_host], after[on_host]), base, new, history, rules, of_host=True))
    judged = pd.concat([settled[~unsettled], *(each.rows for each in weighed)])
    judged = judged.join(pd.concat([each.figures for each in weighed])).reindex(before.index)
    saved, df = max(each.saved for each in weighed), np.concatenate([each.df for each in weighed])
    per_session = 1 / base["run"].nunique() + 1 / new["run"].nunique()
    grown: list[SpreadFinding] = []
    own_link = before.index[on_gpu & ~(before["link"] | after["link"]).to_numpy(bool)]  # others share theirs
    if rules.same_gpu and not own_link.empty:
        grown = spread.grown(own_link.to_list(), spread.of_rows(base, own_link), spread.of_rows(new, own_link))
    return side_by_side(
        before.assign(time_us=before["mean_us"]),
        after.assign(time_us=after["mean_us"]),
        judged,
        suite=_suite(gpu_times.log_ratios, gpu_times.noise, rules, per_session),
        differences=evidence.differences(base, new),
        notes=[*_notes(base, new, rules, saved, df), *(note for each in weighed for note in each.notes), *scope],
        spread=grown,
    )


@dataclass(frozen=True, slots=True)
class _Weighed:
    """Cases whose times were compared: ``rows`` with verdict and reason, ``figures``, and what the notes need.

    ``df`` are the cases' degrees of freedom, 0 without repeated sessions; ``saved`` is the number of other saved
    sessions that give the ``noise``.
    """

    rows: pd.DataFrame
    figures: pd.DataFrame
    log_ratios: Floats
    noise: noise.SessionNoise | None
    df: Floats
    saved: int
    notes: list[str]


def _weighed(
    sides: tuple[pd.DataFrame, pd.DataFrame],
    base: pd.DataFrame,
    new: pd.DataFrame,
    history: pd.DataFrame | None,
    rules: Rules,
    *,
    of_host: bool,
) -> _Weighed:
    """Compare the times of the cases of ``sides``, all of the GPU or all of the host."""
    before, after = sides
    repeats = evidence.repeated_sessions(before.index, base, new, history)
    sessions_noise, df = _spread(before, after, repeats)
    between, notes = gpus.between(base, new, history, before.index, _shorter_us(before, after), of_host=of_host)
    alone = _shifts(before, after, sessions_noise, df, rules, of_host=of_host)
    shifts = _across_gpus(alone, between, of_host=of_host)
    # If the interval excludes 0, the change would have been flagged on its own.
    change, resolvable = shifts["log_ratio"], shifts["resolvable"]
    figures = in_percent(shifts.assign(low=change - resolvable, high=change + resolvable))
    rows = _first(_judging(before, after, shifts, figures), shifts.index)
    saved = repeats.loc[repeats["side"] == "history", "session"].nunique()
    return _Weighed(rows, figures, shifts["log_ratio"].to_numpy(), sessions_noise, df, saved, notes)


def _rules(base: pd.DataFrame, new: pd.DataFrame, *, across_gpus: bool) -> Rules:
    slugs = base["gpu_slug"].iloc[0], new["gpu_slug"].iloc[0]
    other_model = slugs[0] != slugs[1]
    refusal = None
    if other_model and not across_gpus:
        refusal = f"{slugs[1]} against {slugs[0]}: times of two GPU models are compared only with --across-gpus"
    elif any(rows["gpu_slug"].eq(EMULATOR_SLUG).any() for rows in (base, new)):
        refusal = "emulated times are not judged"
    uuids = pd.concat([base["gpu_uuid"], new["gpu_uuid"]])
    same_gpu = bool(uuids.notna().all()) and uuids.nunique() == 1
    return Rules(refusal, other_model and not across_gpus, same_gpu)


def _first(rulings: Sequence[CaseRuling], cases: pd.Index[str]) -> pd.DataFrame:
    """``verdict`` and ``reason`` of the first ruling that applies to each case; missing if none does."""
    found, left = np.full((len(cases), 2), None, dtype=object), np.ones(len(cases), bool)
    for holds, *words in rulings:
        where = left & np.asarray(holds)
        left &= ~where
        for column, word in enumerate(words):
            found[where, column] = np.broadcast_to(np.asarray(word, dtype=object), len(cases))[where]
    return pd.DataFrame(found, cases, ["verdict", "reason"], dtype="string")


def _settling(
    before: pd.DataFrame, after: pd.DataFrame, base: pd.DataFrame, new: pd.DataFrame, rules: Rules
) -> list[CaseRuling]:
    """Verdicts that need no comparison of times, in order of precedence."""
    in_base, in_new = (side["known"].to_numpy() for side in (before, after))
    untimed, not_now = ((side["sessions"] == 0).to_numpy() for side in (before, after))
    few_in_base, few_in_new = (side["sampling_error"].isna().to_numpy() for side in (before, after))
    wrong, below, open_ = (column.notna().to_numpy() for column in (after["wrong"], after["below"], before["open"]))
    refused, alone = rules.refusal is not None, rules.other_model
    not_in_new, not_in_base = not new["whole"].any(), not base["whole"].any()
    incomplete = "which ran only some of the cases"
    too_few = f"fewer than {FEWEST_SAMPLES} samples, their noise is unknown"
    return [
        (wrong, after["wrong_as"], after["wrong"]),
        (alone & ~in_new, Verdict.INCOMPARABLE, f"only in base; {rules.refusal}"),
        (alone & ~in_base, Verdict.INCOMPARABLE, f"only in new; {rules.refusal}"),
        (not_in_new & ~in_new, Verdict.INCONCLUSIVE, f"in base, not measured in new, {incomplete}"),
        (~in_new, Verdict.MISSING, "in base, not in new" + _tiers(base, new)),
        (not_now, Verdict.INCONCLUSIVE, "new: " + after["open"]),
        (below & (refused | untimed), Verdict.BELOW_FLOOR, after["below"]),
        (untimed & open_, Verdict.INCONCLUSIVE, "base: " + before["open"]),
        (not_in_base & ~in_base, Verdict.INCONCLUSIVE, f"not measured in base, {incomplete}"),
        (untimed & before["wrong"].notna(), Verdict.NEW, "wrong in base (" + before["wrong"] + "), timed in new"),
        (untimed, Verdict.NEW, "not in base"),
        (refused, Verdict.INCOMPARABLE, rules.refusal),
        (few_in_base & few_in_new, Verdict.INCONCLUSIVE, f"base and new: {too_few}"),
        (few_in_base, Verdict.INCONCLUSIVE, f"base: {too_few}"),
        (few_in_new, Verdict.INCONCLUSIVE, f"new: {too_few}"),
    ]


def _tiers(base: pd.DataFrame, new: pd.DataFrame) -> str:
    ran = [sorted(rows["run_tier"].fillna("None").unique()) for rows in (base, new)]
    if ran[0] == ran[1]:
        return ""
    return f"; base ran tier {' and '.join(ran[0])}, new {' and '.join(ran[1])}: compare runs of one tier"


def _shifts(
    before: pd.DataFrame,
    after: pd.DataFrame,
    spread: noise.SessionNoise | None,
    df: Floats,
    rules: Rules,
    *,
    of_host: bool = False,
) -> pd.DataFrame:
    """The shift of each case, tested by the rules that apply to it.

    ``log_ratio`` is ln(new / base); ``resolvable`` the smallest absolute shift that would have been flagged;
    ``flagged`` whether it counts as a change; ``p_value`` is Holm-adjusted, ``p_alone`` is not, both missing without
    repeated sessions; ``noisy``: too noisy for SAME.
    """
    log_ratio, sessions = after["log_time"] - before["log_time"], 1 / before["sessions"] + 1 / after["sessions"]
    moved, time_us = log_ratio.abs().to_numpy(), _shorter_us(before, after)
    sampling = np.hypot(before["sampling_error"].to_numpy(), after["sampling_error"].to_numpy())
    library = (before["library"].astype(bool) | after["library"].astype(bool)).to_numpy()
    resolvable = noise.fixed_resolvable(time_us, sampling, sessions.to_numpy(), library, of_host=of_host)
    flagged, p_value, p_alone = moved > resolvable, np.full(len(moved), np.nan), np.full(len(moved), np.nan)
    if spread is not None:
        tested = df > 0
        errors = spread.standard_error(sessions.to_numpy(), _sampling_variance(before, after))
        fewest = np.minimum(before["sessions"].to_numpy(), after["sessions"].to_numpy())
        odd = noise.odd_session(time_us, fewest, of_host=of_host)
        beyond = np.sqrt(np.maximum(moved**2 - odd**2, 0.0))
        p_alone[tested] = noise.upper_tail(beyond / errors, spread.df)[tested]
        p_value[tested] = noise.holm(p_alone[tested])
        known_well = rules.same_gpu & (df >= np.where(fewest == 1, FEWEST_DF_OF_ONE, FEWEST_DF_ALONE))
        least = np.where(known_well, SMALLEST_SHIFT, resolvable)
        share = SESSIONS_ALPHA / np.count_nonzero(tested)
        detected = np.maximum(least, np.hypot(odd, errors * noise.upper_quantile(share, spread.df)))
        # Repeated sessions must not lower the power, so the single-run rule applies too, except for cases that are
        # known to vary by as much.
        single = noise.fixed_resolvable(time_us, sampling, noise.ONE_AGAINST_ONE, library, of_host=of_host)
        moves = noise.surely(errors, spread.df) * noise.upper_quantile(share, math.inf)
        single = np.where(moves <= single, single, math.inf)
        resolvable = np.where(tested, np.minimum(detected, single), resolvable)
        by_repeats = (p_value < SESSIONS_ALPHA) & (moved > least)
        flagged = np.where(tested, by_repeats | (moved > single), flagged)
        p_value[flagged & tested & ~by_repeats] = np.nan
    noisy = _too_wide(resolvable, of_host=of_host) & ~(p_alone >= SESSIONS_ALPHA)  # not within its known spread
    figures = {"resolvable": resolvable, "flagged": flagged, "p_value": p_value, "p_alone": p_alone, "noisy": noisy}
    return pd.DataFrame({"log_ratio": log_ratio, **figures}, index=before.index)


def _shorter_us(before: pd.DataFrame, after: pd.DataFrame) -> Floats:
    """The shorter of both sides' times, by case."""
    found: Floats = np.minimum(before["mean_us"].to_numpy(), after["mean_us"].to_numpy())
    return found


def _across_gpus(shifts: pd.DataFrame, between: Floats, *, of_host: bool) -> pd.DataFrame:
    """Allow for the shift ``between`` GPUs in each case; 0 if the sides' GPUs are the same.

    Variation between GPUs and between sessions is independent, so it adds in quadrature.
    """
    apart, resolvable = between > 0, np.hypot(shifts["resolvable"], between)
    flagged = shifts["flagged"] & (~apart | (shifts["log_ratio"].abs() > resolvable))
    noisy = shifts["noisy"] | (apart & _too_wide(resolvable, of_host=of_host))
    return shifts.assign(resolvable=resolvable, flagged=flagged, noisy=noisy)


def _too_wide(resolvable: Any, *, of_host: bool) -> Any:
    """Whether a smallest detectable change is too large for SAME."""
    return resolvable > (WIDEST_OF_HOST if of_host else WIDEST_RESOLVABLE)


def _spread(
    before: pd.DataFrame, after: pd.DataFrame, repeats: pd.DataFrame
) -> tuple[noise.SessionNoise | None, Floats]:
    """The noise between sessions, None without repeated ones, and each case's degrees of freedom."""
    case, session = repeats["case"].to_numpy(), pd.factorize(repeats["session"])[0]
    residuals = np.full((len(before), repeats["session"].nunique()), np.nan)
    residuals[case, session] = repeats["residual"]
    groups = np.bincount(case[~repeats["group"].duplicated()], minlength=len(before))
    df = (np.bincount(case, minlength=len(before)) - groups).astype(np.float64)
    log_time = (before["log_time"] + after["log_time"]).to_numpy() / 2
    return noise.session_noise(residuals, df, log_time), df


def _sampling_variance(before: pd.DataFrame, after: pd.DataFrame) -> Floats:
    """The mean variance of a session's median from its own samples, over the sessions of both sides."""
    sides = [(side["sampling_error"] * side["sessions"]) ** 2 for side in (before, after)]
    mean: Floats = (sum(sides) / (before["sessions"] + after["sessions"])).to_numpy()
    return mean


def _judging(
    before: pd.DataFrame, after: pd.DataFrame, shifts: pd.DataFrame, figures: pd.DataFrame
) -> list[CaseRuling]:
    """Rules for a case that both sides timed, the worst verdict first."""
    flagged = shifts["flagged"].to_numpy()
    changes = (figures[name] for name in ("change_percent", "smallest_detectable_change_percent"))
    within = pd.Series(list(map(evidence.unmoved, *changes)), shifts.index, dtype="string")
    words = np.full(len(shifts), None, dtype=object)  # pandas 3.0 does not accept a list at a mask
    described = list(map(evidence.moved, *(records(table[flagged]) for table in (before, after, figures))))
    words[flagged] = described
    beyond = pd.Series(words, shifts.index, dtype="string")
    alone = (before["link"] | after["link"]) & (np.minimum(before["sessions"], after["sessions"]) == 1)
    return [
        (flagged & alone, Verdict.INCONCLUSIVE, "the link to the host may have been busy, measure again; " + beyond),
        (flagged & (shifts["log_ratio"] > 0), Verdict.SLOWER, beyond),
        (after["below"].notna(), Verdict.BELOW_FLOOR, after["below"] + "; against base " + within),
        (flagged, Verdict.FASTER, beyond),
        (shifts["noisy"], Verdict.INCONCLUSIVE, within + ": too noisy, measure both sides again"),
        (True, Verdict.SAME, within),
    ]


def _suite(ratios: Floats, spread: noise.SessionNoise | None, rules: Rules, per_session: float) -> SuiteShift | None:
    """Judge the median of the cases' log ratios; None with too few cases.

    Its error combines the common shift of a session with the spread of the cases. ``per_session`` is the sum of 1 /
    sessions over the sides.
    """
    if len(ratios) < FEWEST_CASES_FOR_SUITE:
        return None
    median = float(np.median(ratios))
    scatter = MEDIAN_ERROR_IN_SDS * noise.MAD_TO_SD * float(np.median(np.abs(ratios - median)))
    session, session_df = noise.COMMON_SD_PRIOR**2, noise.COMMON_DF_PRIOR
    if spread is not None and spread.common > 0:
        session, session_df = spread.common, spread.common_df
    error = math.hypot(math.sqrt(session * per_session), scatter / math.sqrt(len(ratios)))
    least = SMALLEST_SHIFT if session_df >= noise.COMMON_DF_PRIOR + FEWEST_DF_ALONE else SUITE_SINGLE_RUN
    if not rules.same_gpu:
        least = noise.SINGLE_RUN_RESOLVABLE
    resolvable = max(least, error * float(noise.upper_quantile(SESSIONS_ALPHA, session_df)))
    change_percent, resolvable_percent = shift_percent(median), shift_percent(resolvable)
    verdict, reason = Verdict.SAME, evidence.unmoved(change_percent, resolvable_percent)
    if abs(median) > resolvable:
        verdict = direction(median)
        reason = f"{change_text(change_percent)} in the median of {len(ratios)} cases"
    return SuiteShift(verdict, reason, len(ratios), change_percent, resolvable_percent)


def _notes(base: pd.DataFrame, new: pd.DataFrame, rules: Rules, saved: int, df: Floats) -> list[str]:
    notes = evidence.changed_terms(base, new)
    code = evidence.machine_code(base, new)
    if code is not None:
        notes.append(code)
    if set.intersection(*({Path(run).resolve() for run in rows["run"].unique()} for rows in (base, new))):
        notes.append("a run is on both sides, where it cannot differ from itself")
    if base["gpu_slug"].iloc[0] != new["gpu_slug"].iloc[0] and not rules.refusal:
        notes.append("the sides are of two GPU models, which differ by more than sessions of one do")
    if saved:
        notes.append(f"{saved} other saved sessions give the spread between sessions")
    if (df > 0).any() and not (df > 0).all():
        never = np.count_nonzero(df == 0)
        verb = "was" if never == 1 else "were"
        notes.append(f"{never} of {len(df)} cases {verb} not repeated: the single-run rule applies")
    return notes
