"""What is there on one side only, was not timed, or is below its floor."""

from __future__ import annotations

import pytest
from comparing import PAD, Saved, row
from peakgate.reports.comparison.judge import compare
from peakgate.reports.runs.find import Side
from peakgate.verdict import ExitCode, Verdict
from synthetic_runs import LADDER, slower


def test_a_missing_case_is_a_regression_and_a_new_one_is_not(saved: Saved) -> None:
    without = {case: us for case, us in LADDER.items() if case != PAD}
    gone, come = compare(saved.side(), saved.side(without)), compare(saved.side(without), saved.side())
    assert row(gone).verdict is Verdict.MISSING
    assert gone.exit_code() == ExitCode.REGRESSION
    assert row(come).verdict is Verdict.NEW
    assert come.exit_code() == ExitCode.OK


def test_cases_that_a_partial_run_on_either_side_did_not_measure_are_undecided(saved: Saved) -> None:
    whole, part = saved.side(), saved.side({"transpose.smem-4096-32x8": 76.0}, whole=False)
    for result in (compare(whole, part), compare(part, whole)):
        found = [found.verdict for found in result.rows]
        assert (found.count(Verdict.SAME), found.count(Verdict.INCONCLUSIVE)) == (1, 14)
        assert result.exit_code() == ExitCode.UNDECIDED
    assert compare(part, part).exit_code() == ExitCode.OK


def test_one_sides_word_that_a_case_is_the_hosts_or_beyond_the_gate_hides_nothing(saved: Saved) -> None:
    host = {PAD: {"host_bound": True}}
    for before, after in (({}, host), (host, {})):
        assert (
            row(compare(saved.side(extra=before), saved.side(slower(PAD, 1.5), extra=after))).verdict is Verdict.SLOWER
        )
    without = {case: us for case, us in LADDER.items() if case != PAD}
    in_the_gate = saved.side(tier="gate", extra={PAD: {"tier": "full"}})
    assert row(compare(in_the_gate, saved.side(without, tier="gate"))).verdict is Verdict.MISSING


def test_changed_work_sampling_and_timer_are_reported(saved: Saved) -> None:
    reported = {PAD: {"bytes": 2 * 536_870_912, "sampling": "once", "tolerance": 1e9, "timer": "host clock"}}
    notes = compare(saved.side(), saved.side(extra=reported)).notes
    assert f"bytes differ in 1 case ({PAD} first: 536870912 to 1073741824)" in notes
    assert f"sampling differ in 1 case ({PAD} first: flush, hold, event to once)" in notes
    assert not any(note.startswith("tolerance") for note in notes)  # base does not say


def test_cases_beyond_the_gate_are_not_missing_from_a_run_of_the_gate(saved: Saved) -> None:
    base = saved.side({"a.gate": 50.0, "a.full": 50.0}, extra={"a.gate": {"tier": "gate"}, "a.full": {"tier": "full"}})
    result = compare(base, saved.side({"a.gate": 50.0}, tier="gate"))
    assert [found.case for found in result.rows] == ["a.gate"]
    assert "left out of base, 1 case: new ran the gate tier" in result.notes


def test_a_case_that_is_a_matter_of_the_host_is_not_judged_unless_it_is_wrong(saved: Saved) -> None:
    reported = {PAD: {"host_bound": True}}
    result = compare(saved.side(extra=reported), saved.side(slower(PAD, 1.5), extra=reported))
    assert PAD not in {found.case for found in result.rows}
    assert result.exit_code() == ExitCode.OK
    assert "not judged, 1 case: the time depends on the host as much as on the GPU" in result.notes
    without = {case: us for case, us in LADDER.items() if case != PAD}
    wrong = [{"case": PAD, "verdict": "WRONG", "reason": "output 0 [0] is 1"}]
    assert row(compare(saved.side(extra=reported), saved.side(without, not_measured=wrong))).verdict is Verdict.WRONG


def test_a_missing_case_says_when_the_tiers_differ(saved: Saved) -> None:
    result = compare(saved.side(), saved.side({"a.b": 10.0}, tier="gate"))
    assert "base ran tier full, new gate" in row(result).reason


def test_a_wrong_case_is_wrong_whatever_base_says(saved: Saved) -> None:
    wrong = [{"case": PAD, "verdict": "WRONG", "reason": "max error 0.3"}]
    without = {case: us for case, us in LADDER.items() if case != PAD}
    new = saved.side(without, not_measured=wrong)
    for base in (saved.side(), saved.side(without), saved.side(without, not_measured=wrong)):
        result = compare(base, new)
        assert (row(result).verdict, row(result).reason) == (Verdict.WRONG, "max error 0.3")
        assert result.exit_code() == ExitCode.REGRESSION


@pytest.mark.parametrize("verdict", ["CRASHED", "TIMEOUT"])
def test_a_case_that_cost_its_process_keeps_its_verdict_and_fails_the_gate(saved: Saved, verdict: str) -> None:
    without = {case: time_us for case, time_us in LADDER.items() if case != PAD}
    lost = [{"case": PAD, "verdict": verdict, "reason": "during a launch"}]
    result = compare(saved.side(), saved.side(without, not_measured=lost))
    assert (row(result).verdict, row(result).reason) == (Verdict(verdict), "during a launch")
    assert result.exit_code() == ExitCode.REGRESSION


def test_an_impossible_reading_is_no_time_to_compare_with(saved: Saved) -> None:
    above = {PAD: {"verdict": "IMPOSSIBLE", "reason": "1.7 of peak"}}
    assert row(compare(saved.side(), saved.side(extra=above))).verdict is Verdict.IMPOSSIBLE


def test_a_case_that_was_wrong_in_base_is_new_when_it_is_timed(saved: Saved) -> None:
    wrong = [{"case": PAD, "verdict": "WRONG", "reason": "max error 0.3"}]
    without = {case: us for case, us in LADDER.items() if case != PAD}
    result = compare(saved.side(without, not_measured=wrong), saved.side())
    assert row(result).verdict is Verdict.NEW
    assert "max error 0.3" in row(result).reason


@pytest.mark.parametrize("side", ["base", "new"])
def test_a_case_that_either_run_left_open_is_inconclusive(saved: Saved, side: str) -> None:
    left_open = saved.side(extra={PAD: {"verdict": "INCONCLUSIVE", "reason": "throttled"}})
    sides = (left_open, saved.side()) if side == "base" else (saved.side(), left_open)
    result = compare(*sides)
    assert (row(result).verdict, row(result).reason) == (Verdict.INCONCLUSIVE, f"{side}: throttled")
    assert result.exit_code() == ExitCode.UNDECIDED


def test_a_session_that_left_a_case_open_does_not_hide_those_that_timed_it(saved: Saved) -> None:
    left_open = saved.run(extra={PAD: {"verdict": "INCONCLUSIVE", "reason": "throttled"}})
    new = Side("new", (*saved.sessions(3, 0.001, seed=1), left_open))
    assert row(compare(saved.side(), new)).new_sessions == 3
    assert row(compare(saved.side(), new)).verdict is Verdict.SAME


BELOW = {PAD: {"verdict": "BELOW_FLOOR", "peak_fraction": 0.61, "floor": 0.70}}


def test_a_case_below_its_floor_stays_below_when_nothing_moved(saved: Saved) -> None:
    result = compare(saved.side(), saved.side(extra=BELOW))
    assert row(result).verdict is Verdict.BELOW_FLOOR
    assert row(result).reason.startswith("0.610 of peak, floor 0.700; against base +0.00 %")


def test_slower_outranks_below_floor_and_names_it(saved: Saved) -> None:
    result = compare(saved.side(), saved.side(slower(PAD, 1.1), extra=BELOW))
    assert row(result).verdict is Verdict.SLOWER
    assert "below its floor too" in row(result).reason


def test_a_new_case_below_its_floor_is_below_its_floor(saved: Saved) -> None:
    without = {case: us for case, us in LADDER.items() if case != PAD}
    assert row(compare(saved.side(without), saved.side(extra=BELOW))).verdict is Verdict.BELOW_FLOOR


def test_most_sessions_decide_whether_a_case_is_below_its_floor(saved: Saved) -> None:
    new = Side("new", (saved.run(extra=BELOW), saved.run(day=2), saved.run(day=3)))
    assert row(compare(saved.side(), new)).verdict is Verdict.SAME


def test_a_missing_floor_is_undecided_only_when_strict(saved: Saved) -> None:
    result = compare(saved.side(), saved.side(extra={PAD: {"verdict": "NO_FLOOR"}}))
    assert result.without_floor == 1
    assert (result.exit_code(), result.exit_code(strict=True)) == (ExitCode.OK, ExitCode.UNDECIDED)
    assert result.verdict(strict=True) is Verdict.NO_FLOOR
