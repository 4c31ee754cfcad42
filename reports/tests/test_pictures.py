from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import pytest
from peakgate.reports.write.pictures import MOST_CHANGES, DrawnCase, changes, ladders, number, pictures, roofline
from report_record import HOSTILE

GPU: dict[str, Any] = {
    "peak_gbs": 4814.0,
    "peak_tflops": 67.0,
    "roofs": {"copy_1GiB": 4250.0, "read_1GiB": 4350.0, "fma": 65.8},
}
CASES = (
    DrawnCase("sgemm.tiled-8", "sgemm", "tiled", 1, 80.0, 30.0, 30 / 67, 0.5, 0.4, 22.0, 3.0),
    DrawnCase("sgemm.naive-8", "sgemm", "naive", 0, 80.0, 5.0, 5 / 67, None, None, -0.1, 3.0),
    DrawnCase("copy.plain-8", "copy", "plain", 2, 4000.0, 0.0, 0.83),
)


def texts(svg: str) -> list[str]:
    return [each.text or "" for each in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def test_each_picture_is_an_svg_in_the_colour_of_its_page() -> None:
    found = pictures(CASES, ["sgemm", "copy"], GPU)
    assert [each.title for each in found] == ["Changes", "Roofline", "Ladders"]
    for each in found:
        ElementTree.fromstring(each.svg)
        assert "currentColor" in each.svg
        assert "script" not in each.svg


def test_names_are_shown_as_they_are_in_a_picture() -> None:
    cases = [
        DrawnCase(name, name, name, 0, 1.0, 1.0, 0.5, change_percent=1.0, resolvable_percent=2.0) for name in HOSTILE
    ]
    for each in pictures([*cases, DrawnCase("a.$\\frac$", "$\\frac$", "$x$", 1, 1.0, 1.0, 0.5)], HOSTILE, GPU):
        assert any(HOSTILE[0] in text for text in texts(each.svg))
        assert max(map(len, texts(each.svg))) < 80


@pytest.mark.parametrize("gpu", [{}, GPU | {"peak_gbs": None}, GPU | {"peak_tflops": True}])
def test_a_gpu_without_peaks_has_no_roofline(gpu: dict[str, object]) -> None:
    assert roofline(CASES, ["sgemm"], gpu) is None


def test_a_roofline_has_the_roofs_of_the_types_that_its_cases_compute_in() -> None:
    tensor = {"peak_tensor_tflops": {"bf16": 1070.0, "fp8": 2141.0}, "roofs": {**GPU["roofs"], "bf16": 790.0}}
    cases = [*CASES, DrawnCase("hgemm.wgmma-8", "hgemm", "wgmma", 3, 800.0, 780.0, 0.73, math="bf16")]
    found = roofline(cases, ["sgemm", "copy", "hgemm"], GPU | tensor)
    assert found
    shown = [text for text in texts(found.svg) if "roof" in text]
    assert shown == [
        "theoretical roof: 4,814 GB/s, 67.0 TFLOP/s",
        "measured roof: 4,350 GB/s, 65.8 TFLOP/s",
        "theoretical roof bf16: 4,814 GB/s, 1070.0 TFLOP/s",
        "measured roof bf16: 4,350 GB/s, 790.0 TFLOP/s",
    ]
    without = roofline(CASES, ["sgemm", "copy"], GPU | tensor)
    assert without
    assert not [text for text in texts(without.svg) if "bf16" in text]


@pytest.mark.parametrize("value", [None, True, "4814", -1.0, 0, float("inf"), [1]])
def test_what_is_no_peak_is_not_drawn(value: object) -> None:
    assert number(value) is None


def test_a_ladder_has_the_stages_in_the_order_of_the_lessons_each_with_its_share() -> None:
    found = ladders(CASES, ["sgemm", "copy"])
    assert found
    shown = texts(found.svg)
    assert shown.index("sgemm.naive") < shown.index("sgemm.tiled") < shown.index("copy.plain")
    assert {"7.5 %", "44.8 %", "83.0 %"} <= set(shown)


def test_a_ladder_of_very_many_stages_has_the_first_and_counts_them() -> None:
    found = ladders([DrawnCase(f"a.s{at}", "a", f"s{at}", at, peak_fraction=0.5) for at in range(120)], ["a"])
    assert found
    assert re.findall(r"\d+", found.text)[-2:] == ["100", "120"]
    assert {"a.s0", "a.s99"} <= set(texts(found.svg))
    assert "a.s100" not in texts(found.svg)


def test_only_the_first_changes_are_drawn_and_the_others_counted() -> None:
    found = changes([DrawnCase(f"a.b-{n}", "a", "b", change_percent=1.0, resolvable_percent=2.0) for n in range(90)])
    assert found
    assert f"The first {MOST_CHANGES} of 90 cases." in found.text
    assert changes([DrawnCase("a.b", "a", "b")]) is None
