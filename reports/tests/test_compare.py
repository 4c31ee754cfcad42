"""One run against one run, and the suite as a whole."""

from __future__ import annotations

import pytest
from comparing import PAD, Saved, row, verdicts
from peakgate.reports.comparison.judge import compare
from peakgate.reports.runs.find import Side
from peakgate.verdict import ExitCode, Verdict
from synthetic_runs import LADDER, slower


def test_identical_runs_are_the_same_and_say_what_they_could_resolve(saved: Saved) -> None:
    result = compare(saved.side(), saved.side())
    assert verdicts(result) == {Verdict.SAME}
    assert result.exit_code() == ExitCode.OK
    assert result.verdict() == Verdict.PASS
    assert "within the 3 %" in row(result).reason
    assert result.detectable_percent == pytest.approx((3.0, 3.0))


def test_five_percent_slower_is_slower_and_listed_first(saved: Saved) -> None:
    result = compare(saved.side(), saved.side(slower(PAD, 1.05)))
    assert result.rows[0].case == PAD
    assert result.rows[0].verdict is Verdict.SLOWER
    assert "1.05x slower" in result.rows[0].reason
    assert result.counts == {Verdict.SLOWER: 1, Verdict.SAME: len(LADDER) - 1}
    assert result.exit_code() == ExitCode.REGRESSION


@pytest.mark.parametrize(
    ("time_us", "factor", "verdict"),
    [
        (100.0, 1.029, Verdict.SAME),
        (100.0, 1.031, Verdict.SLOWER),
        (100.0, 1 / 1.031, Verdict.FASTER),
        (6.0, 1.05, Verdict.SAME),
        (6.0, 1.09, Verdict.SLOWER),
        (4.0, 1.10, Verdict.SAME),
        (4.0, 1.20, Verdict.SLOWER),
    ],
)
def test_a_single_pair_claims_only_what_it_can_resolve(
    saved: Saved, time_us: float, factor: float, verdict: Verdict
) -> None:
    result = compare(saved.side({"a.b": time_us}), saved.side({"a.b": time_us * factor}))
    assert row(result, "a.b").verdict is verdict


def test_noisy_samples_make_a_pair_inconclusive_but_not_blind(saved: Saved) -> None:
    """0.2 of interquartile range over 6 samples cannot resolve 15 %; a doubled time it still sees."""
    noisy = {"a.b": {"samples": 6, "iqr": 0.2}}
    base = saved.side({"a.b": 100.0}, extra=noisy)
    assert row(compare(base, saved.side({"a.b": 104.0}, extra=noisy)), "a.b").verdict is Verdict.INCONCLUSIVE
    assert row(compare(base, saved.side({"a.b": 200.0}, extra=noisy)), "a.b").verdict is Verdict.SLOWER


def test_two_samples_are_inconclusive(saved: Saved) -> None:
    result = compare(saved.side({"a.b": 10.0}), saved.side({"a.b": 90.0}, extra={"a.b": {"samples": 2}}))
    assert row(result, "a.b").verdict is Verdict.INCONCLUSIVE
    assert row(result, "a.b").reason == "new: fewer than 3 samples, their noise is unknown"


def test_a_shift_of_everything_is_its_own_line_and_fails_the_gate(saved: Saved) -> None:
    result = compare(saved.side(), saved.side({case: us * 1.02 for case, us in LADDER.items()}))
    assert result.suite is not None
    assert result.suite.judgement.verdict is Verdict.SLOWER
    assert verdicts(result) == {Verdict.SAME}
    assert result.exit_code() == ExitCode.REGRESSION


def test_a_suite_wide_shift_is_never_taken_off_the_cases(saved: Saved) -> None:
    result = compare(saved.side(), saved.side({case: us * 1.05 for case, us in LADDER.items()}))
    assert verdicts(result) == {Verdict.SLOWER}


@pytest.mark.parametrize(("sessions", "uuid", "percent"), [(1, "GPU-0001", 1.0), (8, "GPU-0001", 0.5), (8, "B", 3.0)])
def test_the_suite_resolves_more_with_sessions_and_less_across_gpus(
    saved: Saved, sessions: int, uuid: str, percent: float
) -> None:
    base, new = (Side("side", saved.sessions(sessions, 0.0005, seed)) for seed in (1, 2))
    result = compare(base, Side("new", (*new.runs, saved.run(uuid=uuid, day=28))))
    assert result.suite is not None
    assert result.suite.shift.resolvable_percent == pytest.approx(percent, abs=0.2)


def test_a_handful_of_cases_is_no_suite(saved: Saved) -> None:
    few = dict(list(LADDER.items())[:9])
    assert compare(saved.side(few), saved.side(few)).suite is None
