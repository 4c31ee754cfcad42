"""Peaks, metrics and the gate: pure figures."""

from typing import Any

import pytest
from synthetic_cases import make_case, make_samples

from peakgate.base.verdict import Verdict, exit_code
from peakgate.judge.metrics import (
    Metrics,
    Peaks,
    matching_roof,
    metrics,
    pcie_gbs,
    theoretical_peaks,
)
from peakgate.spec.case import Buffer, Role, Work

H200: dict[str, Any] = {
    "name": "NVIDIA H200",
    "memory_clock_mhz": 3201,
    "bus_width_bits": 6016,
    "sm_count": 132,
    "sm_clock_mhz": 1980,
    "capability": (9, 0),
}
PEAKS = Peaks(memory_gbs=4000, fp32_tflops=60, derivation="synthetic", link_gbs=64)


def test_an_h200_has_the_peaks_its_attributes_give():
    peaks = theoretical_peaks(**H200, link_gbs=63.0)
    assert peaks is not None
    assert peaks.memory_gbs == pytest.approx(3201e6 * 2 * 6016 / 8 / 1e9, rel=1e-12)
    assert peaks.fp32_tflops == pytest.approx(132 * 128 * 2 * 1980e6 / 1e12, rel=1e-12)
    assert peaks.link_gbs == 63.0
    assert "= 4814 GB/s" in peaks.derivation
    assert "= 66.9 TFLOP/s" in peaks.derivation


def test_an_unknown_architecture_has_no_peaks():
    unknown = theoretical_peaks(**H200 | {"capability": (42, 0)})
    assert unknown is None


@pytest.mark.parametrize(
    ("generation", "gbs"), [(1, 4.0), (2, 8.0), (3, 15.754), (4, 31.508), (5, 63.015), (6, 121.0), (99, None)]
)
def test_a_link_of_16_lanes_has_the_rate_of_its_generation(generation, gbs):
    assert pcie_gbs(generation, 16) == (gbs and pytest.approx(gbs, abs=1e-3))


def test_nvlinks_together_are_a_peak_of_their_own():
    attributes = {name: value for name, value in H200.items() if name != "capability"}
    linked = theoretical_peaks(**attributes, capability=(9, 0), nvlinks_mbs=[25_000] * 18)
    alone = theoretical_peaks(**attributes, capability=(9, 0))
    assert (linked.nvlink_gbs, alone.nvlink_gbs) == (450.0, None)
    assert linked.derivation.startswith(alone.derivation)
    assert least(Work(900_000), roof="nvlink", peaks=linked) == (pytest.approx(2.0), "nvlink")
    assert least(Work(900_000), roof="nvlink", peaks=alone) is None


def least(work, *, peaks=PEAKS, **more):
    return peaks.least_time_us(make_case(work=work, **more))


def test_the_slower_of_memory_and_arithmetic_binds():
    assert least(Work(4_000_000, 60_000_000)) == (pytest.approx(1.0), "memory")
    assert least(Work(4_000, 600_000_000), roof="fma") == (pytest.approx(10.0), "compute")
    assert least(Work(64_000), roof="link") == (pytest.approx(1.0), "link")


def test_a_link_case_claims_nothing_where_the_link_is_unknown():
    assert least(Work(64_000), roof="link", peaks=Peaks(4000, 60, "synthetic")) is None


def test_figures_come_from_the_median_sample():
    figures = metrics(make_case(), make_samples(2.0, 1.0, 100.0), PEAKS, {"copy_1MiB": 1000.0})
    assert figures.time_us == 2.0
    assert figures.gbs == pytest.approx(500)
    assert figures.peak_fraction == pytest.approx(0.125)
    assert figures.bound == "memory"
    assert figures.roof_fraction == pytest.approx(0.5)


def test_arithmetic_is_compared_with_its_own_peak_and_roof():
    case = make_case(roof="fma", work=Work(bytes=4_000, flops=60_000_000))
    figures = metrics(case, make_samples(4.0), PEAKS, {"copy_1MiB": 1.0, "fma": 30.0})
    assert figures == Metrics(4.0, pytest.approx(1.0), pytest.approx(15.0), pytest.approx(0.25), "compute", 0.5, "fma")


def test_a_transfer_is_compared_with_the_link_and_with_no_roof():
    case = make_case(roof="link", work=Work(64_000))
    figures = metrics(case, make_samples(2.0), PEAKS, {"copy_1MiB": 1000.0})
    assert figures == Metrics(2.0, 32.0, 0.0, pytest.approx(0.5), "link", None, None)


def test_a_repeated_launch_has_no_roof_of_memory():
    roofs, work = {"copy_1MiB": 1000.0, "fma": 30.0}, Work(bytes=4_000, flops=60_000_000)
    assert metrics(make_case(state="warm"), make_samples(2.0), PEAKS, roofs).roof is None
    assert metrics(make_case(state="warm", roof="fma", work=work), make_samples(4.0), PEAKS, roofs).roof == "fma"


def test_a_case_that_claims_no_work_has_times_alone():
    case = make_case(work=Work(0, 0))
    figures = metrics(case, make_samples(2.0), PEAKS, {"copy_1MiB": 1000.0})
    assert figures == Metrics(2.0, 0.0, 0.0, None, None, None, None)


def test_work_may_name_the_peak_of_its_own_operations():
    assert least(Work(4, 10**12, peak_tflops=500.0)) == (pytest.approx(2000, rel=1e-9), "compute")
    assert least(Work(4, 10**12, peak_tflops=500.0, math="bf16")) == (pytest.approx(2000, rel=1e-9), "compute")
    assert least(Work(4, 6 * 10**10)) == (pytest.approx(1000, rel=1e-9), "compute")


TENSOR_PEAKS = Peaks(4000, 60, "synthetic", tensor_tflops={"bf16": 1000.0, "tf32": 500.0})


def inputs(*dtypes):
    return (Buffer(Role.OUT, (8, 4)), *(Buffer(Role.IN, (8, 4), dtype) for dtype in dtypes))


def test_an_h200_has_the_tensor_peaks_of_its_highest_clock():
    peaks = theoretical_peaks(**H200)
    assert peaks is not None
    assert peaks.tensor_tflops["bf16"] == pytest.approx(989.4 * 1980 / 1830, rel=1e-3)
    assert peaks.tensor_tflops["fp8"] == 2 * peaks.tensor_tflops["fp16"] == 4 * peaks.tensor_tflops["tf32"]
    assert "1070.5" in peaks.derivation


@pytest.mark.parametrize(
    ("capability", "math", "tera", "product"),
    [
        ((7, 5), "int8", 130, (40, 1590, "Tesla T4")),
        ((8, 0), "bf16", 312, (108, 1410, "NVIDIA A100-SXM4-80GB")),
        ((8, 0), "tf32", 156, (108, 1410, "NVIDIA A100-SXM4-80GB")),
        ((8, 0), "int8", 624, (108, 1410, "NVIDIA A100-SXM4-80GB")),
        ((8, 6), "int8", 284, (82, 1695, "NVIDIA GeForce RTX 3090")),
        ((8, 9), "int8", 660.6, (128, 2520, "NVIDIA GeForce RTX 4090")),
        ((9, 0), "fp16", 989.4, (132, 1830, "NVIDIA H100 80GB HBM3")),
        ((9, 0), "fp8", 1978.9, (132, 1830, "NVIDIA H100 80GB HBM3")),
        ((10, 3), "fp8", 5000, (160, 1907, "NVIDIA GB300")),
        ((10, 3), "fp4", 15000, (160, 1907, "NVIDIA GB300")),
        ((10, 3), "int8", 24000 / 144, (160, 1907, "NVIDIA GB300")),
        ((12, 0), "int8", 838, (170, 2407, "NVIDIA GeForce RTX 5090")),
        ((12, 0), "bf16", 209.5, (170, 2407, "NVIDIA GeForce RTX 5090")),
        ((12, 0), "fp4", 1676, (170, 2407, "NVIDIA GeForce RTX 5090")),
        ((12, 0), "bf16", 503.8, (188, 2617, "NVIDIA RTX PRO 6000 Blackwell Workstation Edition")),
        ((12, 0), "tf32", 251.9, (188, 2617, "NVIDIA RTX PRO 6000 Blackwell Workstation Edition")),
        ((12, 0), "fp8", 1007.6, (188, 2617, "NVIDIA RTX PRO 6000 Blackwell Workstation Edition")),
    ],
)
def test_operations_per_clock_give_the_rates_of_nvidias_tables(capability, math, tera, product):
    described = dict(zip(("sm_count", "sm_clock_mhz", "name"), product, strict=True))
    peaks = theoretical_peaks(**H200 | described | {"capability": capability})
    assert peaks is not None
    assert peaks.tensor_tflops[math] == pytest.approx(tera, rel=4e-3)


def test_tensor_memory_doubles_the_rates_of_hopper_and_fp4_those_of_fp8():
    peaks = theoretical_peaks(**H200 | {"name": "NVIDIA B200", "capability": (10, 0)})
    hopper = theoretical_peaks(**H200)
    assert peaks is not None
    assert hopper is not None
    assert all(peaks.tensor_tflops[math] == 2 * rate for math, rate in hopper.tensor_tflops.items())
    assert peaks.tensor_tflops["fp4"] == 2 * peaks.tensor_tflops["fp8"]


def test_the_type_of_the_operations_chooses_the_peak():
    assert least(Work(4, 10**12, math="bf16"), peaks=TENSOR_PEAKS) == (pytest.approx(1000), "compute")
    assert least(Work(4, 10**12, math="tf32"), peaks=TENSOR_PEAKS) == (pytest.approx(2000), "compute")
    assert least(Work(4, 6 * 10**10, math="fp32"), peaks=TENSOR_PEAKS) == (pytest.approx(1000), "compute")


def test_without_a_types_peak_the_roof_alone_is_claimed():
    assert least(Work(4, 10**12, math="fp8"), peaks=TENSOR_PEAKS) is None
    case = make_case(work=Work(4, 10**9, math="fp8"), roof="fp8")
    figures = metrics(case, make_samples(1.0), TENSOR_PEAKS, {"copy_1MiB": 1.0, "fp8": 2000.0})
    assert (figures.peak_fraction, figures.bound, figures.roof) == (None, None, "fp8")
    assert figures.roof_fraction == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("case", "math"),
    [
        (make_case(work=Work(4, 8), arguments=inputs("bfloat16", "bfloat16")), "bf16"),
        (make_case(work=Work(4, 8), arguments=inputs("float8_e4m3fn", "float8_e5m2")), "fp8"),
        (make_case(work=Work(4, 8), arguments=inputs("float16", "float32")), "fp32"),
        (make_case(work=Work(4, 8), arguments=inputs("float16", "int8")), "fp32"),
        (make_case(work=Work(4, 8), arguments=inputs("int8")), "fp32"),
        (make_case(work=Work(4, 8), arguments=inputs("float16"), roof="fma"), "fp32"),
        (make_case(work=Work(4), arguments=inputs("float16")), "fp32"),
        (make_case(work=Work(4, 8, math="fp32"), arguments=inputs("float16")), "fp32"),
        (make_case(work=Work(4, 8, math="int8"), arguments=inputs("int8")), "int8"),
    ],
)
def test_a_cases_math_is_what_it_says_or_its_inputs_suggest(case, math):
    assert case.math == math


def test_a_suggested_type_without_a_peak_leaves_that_of_fp32():
    case = make_case(work=Work(4, 6 * 10**10), arguments=inputs("float16", "float16"))
    assert TENSOR_PEAKS.least_time_us(case) == (pytest.approx(1000), "compute")


def test_work_in_an_unknown_type_is_refused():
    with pytest.raises(ValueError, match="fp16, fp8"):
        Work(4, 8, math="half")


def test_no_fraction_of_peak_is_claimed_without_peaks():
    figures = metrics(make_case(), make_samples(2.0), None, {})
    assert figures.peak_fraction is None
    assert figures.roof_fraction is None


def test_the_roof_of_the_nearest_size_is_the_one_compared_with():
    roofs = {"copy_64MiB": 1.0, "copy_256MiB": 2.0, "copy_1GiB": 3.0, "read_256MiB": 4.0, "fma": 5.0}
    case = make_case(arguments=(Buffer(Role.OUT, (8192, 8192)), Buffer(Role.IN, (8192, 8192))))
    assert matching_roof(case, roofs) == "copy_256MiB"
    assert matching_roof(make_case(roof="fma"), roofs) == "fma"
    large = make_case(arguments=(Buffer(Role.OUT, (16384, 16384)),))
    assert matching_roof(large, {"copy_512KiB": 1.0, "copy_1GiB": 2.0}) == "copy_1GiB"
    assert matching_roof(make_case(arguments=()), {"copy_1KiB": 1.0, "copy_2KiB": 1.0}) == "copy_1KiB"
    assert matching_roof(make_case(roof="link"), roofs) is None


@pytest.mark.parametrize("verdict", Verdict)
def test_each_verdict_leads_to_the_promised_exit_code(verdict):
    passes = {"PASS", "SAME", "FASTER", "NEW", "NO_FLOOR", "UNCONFIRMED"}
    open_ones = {"INCONCLUSIVE", "INCOMPARABLE"}
    assert exit_code([verdict]) == (0 if verdict in passes else 3 if verdict in open_ones else 1)


@pytest.mark.parametrize(("unit", "factor"), [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)])
def test_the_nearest_roof_is_by_the_largest_array(unit: str, factor: int) -> None:
    for count, nearest in ((1, 2), (3, 2), (5, 2), (7, 8), (12, 8)):
        elements = count * factor // 4
        arrays = (Buffer(Role.OUT, (elements,), "float32"), Buffer(Role.IN, (4,), "float32"))
        roofs = {f"copy_{size}{unit}": 1.0 for size in (2, 8, 900)}
        assert matching_roof(make_case(arguments=arrays), roofs) == f"copy_{nearest}{unit}"
