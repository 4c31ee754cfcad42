from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reports.compare import compare
from reports.locate import Side
from reports.result import Comparison, Row, Shift
from reports.runfile import Run, load_run
from reports.tests.synthetic import LADDER, document, save, slower
from suite.verdict import ExitCode, Verdict

PAD = "transpose.smem_pad-8192-32x8"
MIRROR = {Verdict.SLOWER: Verdict.FASTER, Verdict.FASTER: Verdict.SLOWER}


class Saved:
    """Runs written to and read back from a folder, numbered as they come."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.count = 0

    def run(self, times_us: Mapping[str, float] = LADDER, **content: Any) -> Run:
        self.count += 1
        return load_run(save(self.folder, f"run{self.count}", document(times_us, **({"day": 1} | content))))

    def side(self, *times_us: Mapping[str, float], **content: Any) -> Side:
        runs = tuple(self.run(times, **content) for times in times_us or (LADDER,))
        return Side("side", runs)

    def sessions(self, count: int, sd: float, seed: int, factor: Mapping[str, float] | None = None) -> tuple[Run, ...]:
        """Sessions of the ladder whose medians scatter by ``sd``; some cases slower by a factor."""
        rng = np.random.default_rng(seed)
        factors = factor or {}
        return tuple(
            self.run(
                {case: us * factors.get(case, 1) * math.exp(sd * rng.standard_normal()) for case, us in LADDER.items()},
                day=1 + number,
            )
            for number in range(count)
        )


@pytest.fixture
def saved(tmp_path: Path) -> Saved:
    return Saved(tmp_path)


def row(comparison: Comparison, case: str = PAD) -> Row:
    return next(row for row in comparison.rows if row.case == case)


def shift(comparison: Comparison, case: str = PAD) -> Shift:
    found = row(comparison, case).shift
    assert found is not None
    return found


def verdicts(comparison: Comparison) -> set[Verdict]:
    return {row.verdict for row in comparison.rows}


# Single runs


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


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(factors=st.lists(st.floats(0.5, 2.0), min_size=len(LADDER), max_size=len(LADDER)))
def test_swapping_the_sides_flips_every_verdict(tmp_path: Path, factors: Sequence[float]) -> None:
    saved = Saved(tmp_path)
    moved = {case: us * factor for (case, us), factor in zip(LADDER.items(), factors, strict=True)}
    base, new = saved.side(), saved.side(moved)
    there, back = compare(base, new), compare(new, base)
    for case in LADDER:
        assert row(back, case).verdict is MIRROR.get(row(there, case).verdict, row(there, case).verdict)
    assert there.suite is not None
    assert back.suite is not None
    assert there.suite.shift.log_ratio == pytest.approx(-back.suite.shift.log_ratio, abs=1e-12)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(scale=st.floats(1.0, 1000.0), seed=st.integers(0, 1000))
def test_scaling_all_times_changes_neither_shifts_nor_what_is_resolved(tmp_path: Path, scale: float, seed: int) -> None:
    saved = Saved(tmp_path)
    runs = saved.sessions(5, 0.004, seed)
    scaled = [saved.run({case: r.time_us * scale for case, r in run.cases.items()}) for run in runs]
    plain = compare(Side("a", runs[:3]), Side("b", runs[3:]))
    larger = compare(Side("a", tuple(scaled[:3])), Side("b", tuple(scaled[3:])))
    for case in LADDER:
        assert row(plain, case).verdict is row(larger, case).verdict
        assert shift(larger, case).log_ratio == pytest.approx(shift(plain, case).log_ratio, abs=1e-9)
        assert shift(larger, case).resolvable == pytest.approx(shift(plain, case).resolvable, rel=1e-6)


# Repeated sessions


def test_repeated_sessions_resolve_a_shift_that_single_runs_cannot(saved: Saved) -> None:
    base = Side("base", saved.sessions(6, 0.001, seed=1))
    new = Side("new", saved.sessions(4, 0.001, seed=2, factor={PAD: 1.02}))
    result = compare(base, new)
    assert row(result).verdict is Verdict.SLOWER
    assert "6 and 4 sessions, p = " in row(result).reason
    assert result.counts[Verdict.SAME] == len(LADDER) - 1
    assert shift(result, "transpose.smem-8192-32x8").resolvable_percent < 1


def test_no_shift_under_half_a_percent_is_called_however_sure(saved: Saved) -> None:
    base = Side("base", saved.sessions(12, 0.0001, seed=1))
    new = Side("new", saved.sessions(12, 0.0001, seed=2, factor=dict.fromkeys([PAD], 1.004)))
    assert row(compare(base, new)).verdict is Verdict.SAME


def test_unchanged_code_almost_never_fails_the_gate(saved: Saved) -> None:
    """30 gates of 15 cases, with session noise of 0.5 %, and none is called."""
    called = 0
    for gate in range(30):
        runs = saved.sessions(6, 0.005, seed=100 + gate)
        called += Verdict.SLOWER in verdicts(compare(Side("a", runs[:3]), Side("b", runs[3:])))
    assert called <= 1


def test_few_sessions_have_to_satisfy_the_single_run_rule_too(saved: Saved) -> None:
    base = Side("base", saved.sessions(2, 0.0001, seed=1))
    new = Side("new", saved.sessions(1, 0.0001, seed=2, factor={PAD: 1.02}))
    assert row(compare(base, new)).verdict is Verdict.SAME


def test_history_of_the_same_code_lets_single_runs_see_less(saved: Saved) -> None:
    history = saved.sessions(8, 0.001, seed=3)
    base, new = saved.side(), saved.side(slower(PAD, 1.02))
    assert row(compare(base, new)).verdict is Verdict.SAME
    result = compare(base, new, history)
    assert row(result).verdict is Verdict.SLOWER
    assert any("8 other saved sessions" in note for note in result.notes)


@pytest.mark.parametrize("gpu", [{"uuid": "GPU-0002"}, {"driver": "1"}])
def test_history_is_grouped_by_chip_and_driver(saved: Saved, gpu: dict[str, Any]) -> None:
    """Two sessions here and two there are no three repeats anywhere, with the same binary and at the same commit."""
    for fingerprint in ("ab", None):
        content: dict[str, Any] = {"extra": {PAD: {"fingerprint": fingerprint}}}
        history = [saved.run(**content, **where) for where in ({}, {}, gpu, gpu)]
        assert shift(compare(saved.side(), saved.side(), history)).p_value is None
        assert shift(compare(saved.side(), saved.side(), history[:2] * 2)).p_value is not None


def test_history_of_other_code_is_left_out(saved: Saved) -> None:
    """Without a fingerprint a commit stands for its code, and uncommitted changes for nothing."""
    history = [saved.run(slower(PAD, 1 + 0.1 * n), commit=f"{n:040x}") for n in range(5)]
    history += [saved.run(slower(PAD, 1 + 0.1 * n), dirty=True) for n in range(5)]
    assert shift(compare(saved.side(), saved.side(), history)).p_value is None


def test_a_case_without_repeats_keeps_the_single_run_rule_beside_those_with(saved: Saved) -> None:
    history = saved.sessions(6, 0.001, seed=3)
    both = {**LADDER, "sgemm.fresh-4096": 3000.0}
    result = compare(saved.side(both), saved.side(both), history)
    assert shift(result, "sgemm.fresh-4096").resolvable_percent == pytest.approx(3)
    assert shift(result).resolvable_percent < 2
    assert any("1 of 16 cases were never repeated" in note for note in result.notes)


# The suite as a whole


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
def test_the_suite_resolves_more_with_sessions_and_less_across_chips(
    saved: Saved, sessions: int, uuid: str, percent: float
) -> None:
    base, new = (Side("side", saved.sessions(sessions, 0.0005, seed)) for seed in (1, 2))
    result = compare(base, Side("new", (*new.runs, saved.run(uuid=uuid, day=28))))
    assert result.suite is not None
    assert result.suite.shift.resolvable_percent == pytest.approx(percent, abs=0.2)


def test_a_handful_of_cases_is_no_suite(saved: Saved) -> None:
    few = dict(list(LADDER.items())[:9])
    assert compare(saved.side(few), saved.side(few)).suite is None


# What is there on one side only, or was not timed


def test_a_missing_case_is_a_regression_and_a_new_one_is_not(saved: Saved) -> None:
    without = {case: us for case, us in LADDER.items() if case != PAD}
    gone, come = compare(saved.side(), saved.side(without)), compare(saved.side(without), saved.side())
    assert row(gone).verdict is Verdict.MISSING
    assert gone.exit_code() == ExitCode.REGRESSION
    assert row(come).verdict is Verdict.NEW
    assert come.exit_code() == ExitCode.OK


def test_cases_a_partial_run_was_not_asked_for_are_left_out_and_counted(saved: Saved) -> None:
    result = compare(saved.side(), saved.side({"transpose.smem-4096-32x8": 76.0}, whole=False))
    assert [found.verdict for found in result.rows] == [Verdict.SAME]
    assert "14 cases of base are left out: new ran a selection of cases" in result.notes


def test_cases_beyond_the_gate_are_not_missing_from_a_run_of_the_gate(saved: Saved) -> None:
    base = saved.side({"a.gate": 50.0, "a.full": 50.0}, extra={"a.gate": {"tier": "gate"}, "a.full": {"tier": "full"}})
    result = compare(base, saved.side({"a.gate": 50.0}, tier="gate"))
    assert [found.case for found in result.rows] == ["a.gate"]
    assert "1 cases of base are left out: new ran the gate tier" in result.notes


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


# Floors


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


# Other GPUs, other circumstances


def test_another_gpu_model_is_incomparable_unless_asked(saved: Saved) -> None:
    base, new = saved.side(), saved.side({**LADDER, "a.only_here": 10.0}, slug="nvidia-l4")
    result = compare(base, new)
    assert verdicts(result) == {Verdict.INCOMPARABLE}
    assert result.exit_code() == ExitCode.UNDECIDED
    assert "nvidia-l4 against nvidia-h200" in row(result).reason
    assert verdicts(compare(base, new, across_gpus=True)) == {Verdict.SAME, Verdict.NEW}


def test_another_chip_of_the_model_is_compared_said_and_held_to_the_single_run_rule(saved: Saved) -> None:
    history = saved.sessions(8, 0.0005, seed=3)
    result = compare(saved.side(), saved.side(slower(PAD, 1.02), uuid="GPU-0002"), history)
    assert row(result).verdict is Verdict.SAME
    assert "GPU uuid" in {difference.name for difference in result.differences}
    assert any("not one and the same GPU" in note for note in result.notes)


def test_emulated_times_are_not_judged_but_cases_are_counted(saved: Saved) -> None:
    base = saved.side({"a.b": 10.0, "a.gone": 10.0}, slug="cpu-emulator")
    result = compare(base, saved.side({"a.b": 90.0, "a.new": 1.0}, slug="cpu-emulator"), across_gpus=True)
    found = {row.case: row.verdict for row in result.rows}
    assert found == {"a.b": Verdict.INCOMPARABLE, "a.gone": Verdict.MISSING, "a.new": Verdict.NEW}
    assert row(result, "a.b").reason == "emulated times are not judged"


def test_the_reason_names_what_else_changed_in_a_case(saved: Saved) -> None:
    base = saved.side(extra={PAD: {"fingerprint": "ab", "sm_clock_mhz": 1980, "registers": 32}})
    same_code = {PAD: {"fingerprint": "ab", "sm_clock_mhz": 1755, "registers": 32}}
    other_code = {PAD: {"fingerprint": "cd", "sm_clock_mhz": 1980, "registers": 64, "spill_bytes": 16}}
    environment = row(compare(base, saved.side(slower(PAD, 1.1), extra=same_code))).reason
    code = row(compare(base, saved.side(slower(PAD, 1.1), extra=other_code))).reason
    assert environment.endswith("same code: environment; SM clock 1980 to 1755 MHz, -2.5 % in cycles")
    assert code.endswith("registers 32 to 64; spilled bytes 0 to 16")


def test_what_differs_between_the_sides_is_listed_once_each(saved: Saved) -> None:
    new = saved.side(driver="590.1", power_limit_w=600, ecc=None, commit="b" * 40, dirty=True, tier="gate")
    found = {
        difference.name: (difference.base, difference.new) for difference in compare(saved.side(), new).differences
    }
    assert found == {
        "commit": ("a1b2c3d4e5f6", "bbbbbbbbbbbb with uncommitted changes"),
        "tier": ("full", "gate"),
        "driver": ("580.159.04", "590.1"),
        "power limit (W)": ("700", "600"),
        "ECC": ("on", "unknown"),
    }


def test_a_side_of_several_drivers_is_said_to_be_so(saved: Saved) -> None:
    base = Side("base", (saved.run(driver="1"), saved.run(driver="2", day=2)))
    result = compare(base, saved.side(driver="2"))
    assert [(each.base, each.new) for each in result.differences] == [("1, 2", "2")]


def test_one_run_on_both_sides_is_noted(saved: Saved) -> None:
    side = saved.side()
    assert any("on both sides" in note for note in compare(side, side).notes)
