"""Other GPUs, other GPUs, and what else differs."""

from __future__ import annotations

from comparing import PAD, Saved, row, verdicts
from peakgate.reports.comparison.judge import compare
from peakgate.reports.runs.find import Side
from peakgate.verdict import ExitCode, Verdict
from synthetic_runs import LADDER, slower


def test_another_gpu_model_is_incomparable_unless_asked(saved: Saved) -> None:
    base, new = saved.side(), saved.side({**LADDER, "a.only_here": 10.0}, slug="nvidia-l4")
    result = compare(base, new)
    assert verdicts(result) == {Verdict.INCOMPARABLE}
    assert result.exit_code() == ExitCode.UNDECIDED
    assert "nvidia-l4 against nvidia-h200" in row(result).reason
    assert verdicts(compare(base, new, across_gpus=True)) == {Verdict.SAME, Verdict.NEW}


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
