"""One run against one run, and the suite as a whole."""

from __future__ import annotations

from typing import Any

import pytest
from comparing import PAD, Saved, compare, row, shift, verdicts
from synthetic_runs import BYTES, LADDER, slower

from peakgate.base.verdict import ExitCode, Verdict, exit_code
from peakgate.runfile.find import RunSide


def test_identical_runs_are_the_same_and_say_what_they_could_resolve(saved: Saved) -> None:
    result = compare(saved.side(), saved.side())
    assert verdicts(result) == {Verdict.SAME}
    assert result.exit_code() == ExitCode.OK
    assert result.verdict() == Verdict.PASS
    assert result.detectable_percent == pytest.approx((3.5, 3.5))


def test_five_percent_slower_is_slower_and_listed_first(saved: Saved) -> None:
    result = compare(saved.side(), saved.side(slower(PAD, 1.05)))
    assert result.records[0].case == PAD
    assert result.records[0].verdict == Verdict.SLOWER
    assert "1.05x slower" in result.records[0].reason
    assert result.counts == {Verdict.SLOWER: 1, Verdict.SAME: len(LADDER) - 1}
    assert result.exit_code() == ExitCode.REGRESSION


@pytest.mark.parametrize(
    ("time_us", "factor", "verdict"),
    [
        (100.0, 1.029, Verdict.SAME),
        (100.0, 1.036, Verdict.SLOWER),
        (100.0, 1 / 1.036, Verdict.FASTER),
        (6.0, 1.05, Verdict.SAME),
        (6.0, 1.15, Verdict.SLOWER),
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


def test_a_shift_of_everything_is_its_own_line_and_fails_the_gate(saved: Saved) -> None:
    result = compare(saved.side(), saved.side({case: us * 1.02 for case, us in LADDER.items()}))
    assert result.suite is not None
    assert result.suite.verdict is Verdict.SLOWER
    assert verdicts(result) == {Verdict.SAME}
    assert result.exit_code() == ExitCode.REGRESSION


def test_a_suite_that_did_not_move_says_by_how_much_and_a_note_that_the_code_is_the_same(saved: Saved) -> None:
    extra = {PAD: {"fingerprint": "aa"}}
    slower = {case: us * 1.004 for case, us in LADDER.items()}
    result = compare(saved.side(extra=extra), saved.side(slower, extra=extra))
    assert result.suite is not None
    assert result.suite.reason.startswith("+0.40 %, within")
    assert any(note.startswith("machine code: the same") for note in result.notes)


def test_a_suite_wide_shift_is_never_taken_off_the_cases(saved: Saved) -> None:
    result = compare(saved.side(), saved.side({case: us * 1.05 for case, us in LADDER.items()}))
    assert verdicts(result) == {Verdict.SLOWER}


@pytest.mark.parametrize(("sessions", "uuid", "percent"), [(1, "GPU-0001", 1.0), (8, "GPU-0001", 0.5), (8, "B", 3.5)])
def test_the_suite_resolves_more_with_sessions_and_less_across_gpus(
    saved: Saved, sessions: int, uuid: str, percent: float
) -> None:
    base, new = (RunSide("side", saved.sessions(sessions, 0.0005, seed)) for seed in (1, 2))
    result = compare(base, RunSide("new", (*new.runs, saved.run(uuid=uuid, day=28))))
    assert result.suite is not None
    assert result.suite.smallest_detectable_change_percent == pytest.approx(percent, abs=0.2)


def test_a_handful_of_cases_is_no_suite(saved: Saved) -> None:
    few = dict(list(LADDER.items())[:9])
    assert compare(saved.side(few), saved.side(few)).suite is None


def test_repeated_sessions_resolve_a_shift_that_single_runs_cannot(saved: Saved) -> None:
    base = RunSide("base", saved.sessions(6, 0.001, seed=1))
    new = RunSide("new", saved.sessions(4, 0.001, seed=2, factor={PAD: 1.02}))
    result = compare(base, new)
    assert row(result).verdict is Verdict.SLOWER
    assert (row(result).base_sessions, row(result).new_sessions) == (6, 4)
    assert result.counts[Verdict.SAME] == len(LADDER) - 1
    assert row(result, "transpose.smem-8192-32x8").smallest_detectable_change_percent < 1


def test_unchanged_code_almost_never_fails_the_gate(saved: Saved) -> None:
    """Ten gates of 15 cases, with session noise of 0.5 %, and none is flagged."""
    for gate in range(10):
        runs = saved.sessions(6, 0.005, seed=100 + gate)
        assert Verdict.SLOWER not in verdicts(compare(RunSide("a", runs[:3]), RunSide("b", runs[3:])))


def test_history_of_the_same_code_lets_single_runs_see_less(saved: Saved) -> None:
    history = saved.sessions(8, 0.001, seed=3)
    base, new = saved.side(), saved.side(slower(PAD, 1.02))
    assert row(compare(base, new)).verdict is Verdict.SAME
    result = compare(base, new, history)
    assert row(result).verdict is Verdict.SLOWER
    assert any("8 other" in note for note in result.notes)


def test_history_of_other_code_is_left_out(saved: Saved) -> None:
    """Without a fingerprint a commit stands for its code, and uncommitted changes for nothing."""
    history = [saved.run(slower(PAD, 1 + 0.1 * n), commit=f"{n:040x}") for n in range(5)]
    history += [saved.run(slower(PAD, 1 + 0.1 * n), dirty=True) for n in range(5)]
    assert shift(compare(saved.side(), saved.side(), history)).p_value is None


def test_a_case_without_repeats_keeps_the_single_run_rule_beside_those_with(saved: Saved) -> None:
    history = saved.sessions(8, 0.001, seed=3)
    both = {**LADDER, "sgemm.fresh-4096": 3000.0}
    result = compare(saved.side(both), saved.side(both), history)
    assert row(result, "sgemm.fresh-4096").smallest_detectable_change_percent == pytest.approx(3.5)
    assert row(result).smallest_detectable_change_percent < 2
    assert any("1 of 16" in note for note in result.notes)


WITHOUT = {case: us for case, us in LADDER.items() if case != PAD}
LOST = [{"case": PAD, "verdict": "WRONG", "reason": "max error 0.3"}]
BELOW = {PAD: {"verdict": "BELOW_FLOOR", "peak_fraction": 0.61, "floor": 0.70}}
ABOVE = {PAD: {"verdict": "IMPOSSIBLE", "reason": "1.7 of peak"}}
TIMEOUT = [LOST[0] | {"verdict": "TIMEOUT", "reason": "during a launch"}]


@pytest.mark.parametrize(
    ("base", "new", "verdict", "reason"),
    [
        ({}, {"times_us": WITHOUT, "not_measured": LOST}, Verdict.WRONG, "max error 0.3"),
        ({"times_us": WITHOUT, "not_measured": LOST}, {}, Verdict.NEW, "wrong in base (max error 0.3), timed in new"),
        ({}, {"times_us": WITHOUT, "not_measured": TIMEOUT}, Verdict.TIMEOUT, "during a launch"),
        ({}, {"extra": ABOVE}, Verdict.IMPOSSIBLE, "1.7 of peak"),
        ({"times_us": WITHOUT}, {"extra": BELOW}, Verdict.BELOW_FLOOR, "0.610 of peak, floor 0.700"),
    ],
)
def test_what_a_run_file_says_of_a_case_that_is_wrong_or_below_its_floor_is_its_verdict_and_reason(
    saved: Saved, base: dict[str, Any], new: dict[str, Any], verdict: Verdict, reason: str
) -> None:
    result = compare(RunSide("base", (saved.run(**base),)), RunSide("new", (saved.run(**new),)))
    assert (row(result).verdict, row(result).reason) == (verdict, reason)
    assert result.exit_code() == exit_code({verdict})


def test_one_sides_word_that_a_case_is_the_hosts_or_beyond_the_gate_hides_nothing(saved: Saved) -> None:
    host = {PAD: {"host_bound": True}}
    for before, after in (({}, host), (host, {})):
        assert (
            row(compare(saved.side(extra=before), saved.side(slower(PAD, 1.5), extra=after))).verdict is Verdict.SLOWER
        )
    in_the_gate = saved.side(tier="gate", extra={PAD: {"tier": "full"}})
    assert row(compare(in_the_gate, saved.side(WITHOUT, tier="gate"))).verdict is Verdict.MISSING


def test_changed_work_and_sampling_are_reported(saved: Saved) -> None:
    reported = {PAD: {"bytes": 2 * BYTES, "sampling": "once", "tolerance": 1e9}}
    notes = compare(saved.side(), saved.side(extra=reported)).notes
    assert any(f"{BYTES} to {2 * BYTES}" in note for note in notes)
    assert any(note.startswith("sampling changed") for note in notes)
    assert not any(note.startswith("tolerance") for note in notes)  # base does not say


def test_cases_beyond_the_gate_are_not_missing_from_a_run_of_the_gate(saved: Saved) -> None:
    base = saved.side({"a.gate": 50.0, "a.full": 50.0}, extra={"a.gate": {"tier": "gate"}, "a.full": {"tier": "full"}})
    result = compare(base, saved.side({"a.gate": 50.0}, tier="gate"))
    assert [found.case for found in result.records] == ["a.gate"]


def test_a_case_that_is_a_matter_of_the_host_is_not_judged_unless_it_is_wrong(saved: Saved) -> None:
    reported = {PAD: {"host_bound": True}}
    result = compare(saved.side(extra=reported), saved.side(slower(PAD, 1.5), extra=reported))
    assert PAD not in {found.case for found in result.records}
    assert result.exit_code() == ExitCode.OK
    wrong = [{"case": PAD, "verdict": "WRONG", "reason": "output 0 [0] is 1"}]
    assert row(compare(saved.side(extra=reported), saved.side(WITHOUT, not_measured=wrong))).verdict is Verdict.WRONG


def test_what_differs_between_the_sides_is_listed_once_each(saved: Saved) -> None:
    new = saved.side(driver="590.1", power_limit_w=600, ecc=None, commit="b" * 40, dirty=True, tier="gate")
    found = {
        difference.name: (difference.base, difference.new) for difference in compare(saved.side(), new).differences
    }
    dirty = found["commit"][1]
    assert dirty.startswith("bbbbbbbbbbbb with uncommitted")
    assert found == {
        "commit": ("a1b2c3d4e5f6", dirty),
        "tier": ("full", "gate"),
        "driver": ("580.159.04", "590.1"),
        "power limit (W)": ("700", "600"),
        "ECC": ("on", "unknown"),
    }


def test_a_side_of_several_drivers_is_said_to_be_so(saved: Saved) -> None:
    base = RunSide("base", (saved.run(driver="1"), saved.run(driver="2", day=2)))
    result = compare(base, saved.side(driver="2"))
    assert [(each.base, each.new) for each in result.differences] == [("1, 2", "2")]


def test_saved_sessions_never_lower_what_one_run_against_one_detects(saved: Saved) -> None:
    for time_us, percent in ((6.0, 15), (24.0, 6), (50.0, 4), (150.0, 4)):
        times = {f"a.{number}": time_us for number in range(12)}
        steps = (0.997, 1.004, 0.999, 1.002, 1.0, 0.996, 1.003, 1.001, 0.998, 1.0)  # an SD of 0.26 %
        others = [saved.run({case: us * step for case, us in times.items()}) for step in steps]
        moved = {**times, "a.0": time_us * (1 + percent / 100)}
        for history in ((), others):
            result = compare(saved.side(times), saved.side(moved), history)
            assert row(result, "a.0").verdict is Verdict.SLOWER
            assert result.counts[Verdict.SAME] == 11


def test_a_case_that_saved_sessions_show_to_move_so_far_by_itself_is_not_flagged(saved: Saved) -> None:
    times = {f"a.{number}": 150.0 for number in range(12)}
    wide = (0.96, 1.03, 1.0, 1.05, 0.97, 1.02, 0.95, 1.04, 0.99, 1.01)
    others = [saved.run({**times, "a.0": 150.0 * step}) for step in wide]
    result = compare(saved.side(times), saved.side({**times, "a.0": 156.0}), others)
    assert row(result, "a.0").verdict is not Verdict.SLOWER
