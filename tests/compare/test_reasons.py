from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from msgspec import structs
from synthetic_runs import document, save

from peakgate.base.verdict import FAULTY, REGRESSIONS, Verdict
from peakgate.compare.evidence import causes, moved
from peakgate.compare.result import WORST_FIRST, probability
from peakgate.runfile.saved import CaseResult, load_run
from peakgate.spec.recorded import kernels_in_text

PAD = "transpose.smem_pad-8192-32x8"


@pytest.fixture
def result(tmp_path: Path) -> CaseResult:
    return structs.replace(load_run(save(tmp_path, "run", document())).cases[PAD], fingerprint="aa")


def test_nothing_known_to_have_changed_gives_no_cause(result: CaseResult) -> None:
    assert causes(structs.replace(result, fingerprint=None), structs.replace(result, fingerprint=None)) == []


def test_equal_machine_code_points_at_the_environment(result: CaseResult) -> None:
    assert causes(result, structs.replace(result, time_us=2 * result.time_us)) == ["same code: environment"]


def test_equal_machine_code_of_a_callable_leaves_the_cause_open(result: CaseResult) -> None:
    callable_ = structs.replace(result, kernels={"add": "1a"})
    assert "environment" not in "".join(causes(callable_, structs.replace(callable_, time_us=2 * result.time_us)))


def test_what_the_compiler_allots_is_told_with_occupancy_and_its_limit(result: CaseResult) -> None:
    facts = {"fingerprint": "bb", "registers": 64, "spill_bytes": 16, "occupancy": 0.5}
    new = structs.replace(result, **facts, occupancy_limiter="registers")
    found = causes(result, new)
    figures = [["registers", "32", "64"], ["spilled", "0", "16"], ["occupancy", "100", "50"]]
    assert [re.findall(r"^\w+|\d+", each) for each in found] == figures
    assert found[-1].endswith("registers")


def test_other_code_with_the_same_resources_is_told(result: CaseResult) -> None:
    reported = ["other machine code, same registers, shared memory and occupancy"]
    assert causes(result, structs.replace(result, fingerprint="bb")) == reported


@pytest.mark.parametrize(
    ("base", "new", "expected"),
    [
        ({"add": "1a", "mul": "2b"}, {"add": "1a", "mul": "9f"}, ["other machine code of mul"]),
        ({"add": "1a"}, {"add": "1a"}, ["the same machine code, other launches"]),
        ({"add": "1a"}, {"add": "1a", "mul": "2b"}, ["launches mul too"]),
        ({"add": "1a", "mul": None}, {"add": "9f"}, ["other machine code of add", "no longer launches mul"]),
        (dict.fromkeys("abcde", "1"), dict.fromkeys("abcde", "2"), ["other machine code of a, b, c and 2 more"]),
        ({"add": None}, {"add": "1a"}, []),
        (None, {"add": "1a"}, []),
    ],
)
@pytest.mark.parametrize("column", [dict, kernels_in_text])
def test_the_kernels_of_a_callable_that_changed_are_named(result: CaseResult, base, new, expected, column) -> None:
    sides = (
        SimpleNamespace(**structs.asdict(result) | {"fingerprint": None, "kernels": kernels and column(kernels)})
        for kernels in (base, new)
    )
    assert causes(*sides) == expected


@pytest.mark.parametrize(
    ("base_mhz", "new_mhz", "times", "figures"),
    [
        (1980, 1800, 1.1, ["1980", "1800 MHz", "+0.0 %"]),
        (1980, 1800, 3.3, ["1980", "1800 MHz", "+200.0 %"]),
        (1000, 1011, 1.0, ["1000", "1011 MHz", "+1.1 %"]),
        (1000, 1009, 1.0, None),
        (1000, 991, 1.0, None),
        (None, 1800, 1.0, None),
        (1980, None, 1.0, None),
        (None, None, 1.0, None),
    ],
)
def test_another_clock_leaves_the_cycles_to_compare_and_one_within_a_percent_is_not_worth_a_word(
    result: CaseResult, base_mhz: float | None, new_mhz: float | None, times: float, figures: list[str] | None
) -> None:
    new = structs.replace(result, time_us=result.time_us * times, sm_clock_mhz=new_mhz)
    code, *clock = causes(structs.replace(result, sm_clock_mhz=base_mhz), new)
    assert code == "same code: environment"
    found = [re.findall(r"[+\d][\d.]*(?: MHz| %|)", each) for each in clock]
    assert found == ([figures] if figures else [])


@pytest.mark.parametrize(
    ("peak_fraction", "floor", "figures"),
    [
        (0.7, 0.8, ["0.700", "0.800"]),
        (0.8, 0.8, []),
        (0.9, 0.8, []),
        (None, 0.8, []),
        (0.7, None, []),
        (None, None, []),
    ],
)
def test_a_case_below_its_floor_says_so(
    result: CaseResult, peak_fraction: float | None, floor: float | None, figures: list[str]
) -> None:
    found = causes(result, structs.replace(result, floor=floor, peak_fraction=peak_fraction))[1:]
    assert [each for cause in found for each in re.findall(r"\d[\d.]*", cause)] == figures


@pytest.mark.parametrize("field", ["registers", "spill_bytes", "shared_bytes", "occupancy", "fingerprint"])
def test_what_one_side_does_not_know_has_not_changed(result: CaseResult, field: str) -> None:
    unknown, known = (structs.replace(result, **{"fingerprint": code, field: None}) for code in ("aa", "bb"))
    other = ["other machine code, same registers, shared memory and occupancy"]
    for sides in ((unknown, structs.replace(result, fingerprint="bb")), (result, known)):
        assert causes(*sides) == ([] if field == "fingerprint" else other)


@pytest.mark.parametrize("p_value", [None, 0.0034])
def test_a_flagged_shift_says_how_sure_it_is_where_sessions_were_repeated_and_what_else_changed(
    p_value: float | None,
) -> None:
    unknown = ("kernels", "spill_bytes", "shared_bytes", "occupancy", "sm_clock_mhz", "floor", "peak_fraction")
    base, new = (
        SimpleNamespace(sessions=3, fingerprint=code, registers=registers, **dict.fromkeys(unknown))
        for code, registers in (("aa", 32), ("bb", 64))
    )
    shift = SimpleNamespace(change_percent=5.0, smallest_detectable_change_percent=3.5, p_value=p_value)
    text, cause = moved(base, new, shift).split("; ")
    assert ("p = 0.003" in text, "3.5 %" in text) == (p_value is not None, p_value is None)
    assert re.findall(r"^\w+|\d+", cause) == ["registers", "32", "64"]


@pytest.mark.parametrize(
    ("p_value", "reported"),
    [(0.0034, "p = 0.003"), (2e-6, "p = 2e-06"), (1e-6, "p = 1e-06"), (9.9e-7, "p < 1e-06"), (0.0, "p < 1e-06")],
)
def test_a_tail_too_far_out_to_be_known_is_given_as_a_bound(p_value: float, reported: str) -> None:
    assert probability(p_value) == reported


def test_every_verdict_has_its_place_in_a_report_and_a_case_at_fault_comes_first() -> None:
    assert sorted(WORST_FIRST) == sorted(Verdict)
    assert set(WORST_FIRST[: len(FAULTY)]) == FAULTY
    assert set(WORST_FIRST[: len(REGRESSIONS)]) == REGRESSIONS
