from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import pytest
from report_record import HOSTILE

from peakgate.base.verdict import Verdict
from peakgate.render.pictures import MOST_CHANGES, Move, changes, ladders, number, pictures, roofline
from peakgate.runfile.saved import CaseResult

GPU: dict[str, Any] = {
    "peak_gbs": 4814.0,
    "peak_tflops": 67.0,
    "roofs": {"copy_1GiB": 4250.0, "read_1GiB": 4350.0, "fma": 65.8},
}


def case(family: str, stage: str, gbs: float | None = None, tflops: float = 0.0, **more: Any) -> CaseResult:
    figures: dict[str, Any] = {"gbs": gbs, "tflops": tflops, **more}
    return CaseResult(
        case=f"{family}.{stage}-8",
        family=family,
        stage=stage,
        verdict=Verdict.PASS,
        time_us=1.0,
        samples=40,
        sampling_error=0.001,
        **figures,
    )


NAIVE = case("sgemm", "naive", 80.0, 5.0, peak_fraction=5 / 67)
TILED = case("sgemm", "tiled", 80.0, 30.0, peak_fraction=30 / 67, roof_fraction=0.5)
CASES = (NAIVE, TILED, case("copy", "plain", 4000.0, peak_fraction=0.83))
MOVES = (Move(TILED.case, 22.0, 3.0), Move(NAIVE.case, -0.1, 3.0))


def texts(svg: str) -> list[str]:
    return [each.text or "" for each in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def test_each_picture_is_an_svg_in_the_colour_of_its_page() -> None:
    found = pictures(CASES, GPU, moves=MOVES, before={TILED.case: 0.4})
    assert [each.title for each in found] == ["Changes", "Roofline", "Ladders"]
    for each in found:
        ElementTree.fromstring(each.svg)
        assert "currentColor" in each.svg
        assert "script" not in each.svg


def test_names_are_shown_as_they_are_in_a_picture() -> None:
    cases = [case(name, name, 1.0, 1.0, peak_fraction=0.5) for name in (*HOSTILE, "$\\frac$")]
    for each in pictures(cases, GPU, moves=[Move(name, 1.0, 2.0) for name in HOSTILE]):
        assert any(HOSTILE[0] in text for text in texts(each.svg))
        assert max(map(len, texts(each.svg))) < 80


@pytest.mark.parametrize("gpu", [{}, GPU | {"peak_gbs": None}, GPU | {"peak_tflops": True}])
def test_a_gpu_without_peaks_has_no_roofline(gpu: dict[str, object]) -> None:
    assert roofline(CASES, gpu) is None


def test_a_roofline_has_the_roofs_of_the_types_that_its_cases_compute_in() -> None:
    tensor = {"peak_tensor_tflops": {"bf16": 1070.0, "fp8": 2141.0}, "roofs": {**GPU["roofs"], "bf16": 790.0}}
    found = roofline([*CASES, case("hgemm", "wgmma", 800.0, 780.0, math="bf16")], GPU | tensor)
    assert found
    shown = [text for text in texts(found.svg) if "roof" in text]
    assert [re.findall(r"bf16|\d[\d,.]*(?= )", text) for text in shown] == [
        ["4,814", "67.0"],  # theoretical
        ["4,350", "65.8"],  # measured
        ["bf16", "4,814", "1070.0"],
        ["bf16", "4,350", "790.0"],
    ]
    without = roofline(CASES, GPU | tensor)
    assert without
    assert not [text for text in texts(without.svg) if "bf16" in text]


@pytest.mark.parametrize("value", [None, True, "4814", -1.0, 0, float("inf"), [1]])
def test_what_is_no_peak_is_not_drawn(value: object) -> None:
    assert number(value) is None


def test_a_ladder_has_the_stages_in_the_order_of_the_lessons_each_with_its_share() -> None:
    found = ladders(CASES, {})
    assert found
    shown = texts(found.svg)
    assert shown.index("sgemm.naive") < shown.index("sgemm.tiled") < shown.index("copy.plain")
    assert {"7.5 %", "44.8 %", "83.0 %"} <= set(shown)


def test_a_ladder_of_very_many_stages_has_the_first_and_counts_them() -> None:
    found = ladders([case("a", f"s{at}", peak_fraction=0.5) for at in range(120)], {})
    assert found
    assert re.findall(r"\d+", found.text)[-2:] == ["100", "120"]
    assert {"a.s0", "a.s99"} <= set(texts(found.svg))
    assert "a.s100" not in texts(found.svg)


def test_only_the_first_changes_are_drawn_and_the_others_counted() -> None:
    found = changes([Move(f"a.b-{n}", 1.0, 2.0) for n in range(90)])
    assert found
    assert f"The first {MOST_CHANGES} of 90 cases." in found.text
    assert changes([]) is None
