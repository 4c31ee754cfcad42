from __future__ import annotations

import math
import re
from typing import Any
from xml.etree import ElementTree

import pandas as pd
import pytest
from report_record import HOSTILE

from peakgate.base.report import Picture, Tone
from peakgate.base.verdict import Verdict
from peakgate.render.pictures import (
    ABOVE_COLOUR,
    BAR_COLOUR,
    FEWEST_NAMED,
    LONGEST_LABEL,
    MOST_ROWS,
    Move,
    StageShare,
    blocks,
    changes,
    families,
    label,
    number,
    roofline,
    stages,
)
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


def texts(svg: str) -> list[str]:
    return [each.text or "" for each in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def all_pictures(name: str = "sgemm") -> list[Picture]:
    shares = [StageShare(name, 0.5, 0.4), StageShare("tiled", 0.9)]
    rates = pd.DataFrame({"32x8": [100.0, math.nan], "16x16": [200.0, 300.0]}, index=[name, "tiled"])
    found = (
        changes([Move(name, 22.0, 19.0, 25.0, Tone.BAD)]),
        roofline([case(name, name, 1.0, 1.0)], GPU),
        families({name: shares, "other": shares}),
        stages(name, shares),
        blocks(f"{name}: GB/s by block", rates),
    )
    return [each for each in found if each]


def test_each_picture_is_an_svg_in_the_colour_of_its_page() -> None:
    found = all_pictures()
    assert [each.title.rpartition(": ")[2] for each in found] == [
        *("All changes (1)", "Roofline", "Families", "stages", "GB/s by block")
    ]
    for each in found:
        ElementTree.fromstring(each.svg)
        assert "currentColor" in each.svg
        assert "script" not in each.svg


@pytest.mark.parametrize("name", [*HOSTILE, "$\\frac$"])
def test_names_are_shown_as_they_are_in_a_picture(name: str) -> None:
    for each in all_pictures(name):
        assert any(text.startswith(label(name)[:6]) for text in texts(each.svg))
        assert max(map(len, texts(each.svg))) < 80


@pytest.mark.parametrize("gpu", [{}, GPU | {"peak_gbs": None}, GPU | {"peak_tflops": True}])
def test_a_gpu_without_peaks_has_no_roofline(gpu: dict[str, object]) -> None:
    assert roofline(CASES, gpu) is None


def test_a_roofline_has_the_roofs_of_the_types_that_its_cases_compute_in() -> None:
    tensor = {"peak_tensor_tflops": {"bf16": 1070.0, "fp8": 2141.0}, "roofs": {**GPU["roofs"], "bf16": 790.0}}
    found = roofline([*CASES, case("hgemm", "wgmma", 800.0, 780.0, math="bf16")], GPU | tensor, 4350.0)
    assert found
    shown = [text for text in texts(found.svg) if "roof" in text]
    assert [re.findall(r"bf16|\d[\d,.]*(?= )", text) for text in shown] == [
        ["4,814", "67.0"],  # theoretical
        ["4,350", "65.8"],  # measured
        ["bf16", "4,814", "1070.0"],
        ["bf16", "4,350", "790.0"],
    ]
    without = roofline(CASES, GPU | tensor, 4350.0)
    assert without
    assert not [text for text in texts(without.svg) if "bf16" in text]


@pytest.mark.parametrize("value", [None, True, "4814", -1.0, 0, float("inf"), [1]])
def test_what_is_no_peak_is_not_drawn(value: object) -> None:
    assert number(value) is None


def test_pictures_of_one_shape_do_not_refer_to_each_other() -> None:
    one, other = (stages(name, [StageShare("a", 0.5)]) for name in ("one", "other"))
    assert one
    assert other
    assert not set(re.findall(r"url\(#(\w+)\)", one.svg)) & set(re.findall(r"url\(#(\w+)\)", other.svg))


def bars(svg: str) -> list[tuple[str, float]]:
    """Colour and width of each bar, in the order drawn."""
    found = re.findall(r'd="M ([\d.]+) [\d.]+ \nL ([\d.]+) [^"]*" clip-path="[^"]*" style="fill: (#\w+)', svg)
    return [(colour, float(right) - float(left)) for left, right, colour in found if colour != "none"]


def test_stages_are_bars_in_the_order_of_the_lesson() -> None:
    found = stages("sgemm", [StageShare("naive", 0.075), StageShare("tiled", 0.448), StageShare("fast", 0.83)])
    assert found
    assert [text for text in texts(found.svg) if "%" in text and "roof" not in text] == ["7.5 %", "44.8 %", "83.0 %"]
    assert [text for text in texts(found.svg) if text in {"naive", "tiled", "fast"}] == ["naive", "tiled", "fast"]
    (_, least), (_, middle), (colour, most) = bars(found.svg)
    assert (middle / least, most / least) == pytest.approx((0.448 / 0.075, 0.83 / 0.075), rel=1e-3)
    assert colour == BAR_COLOUR


def test_a_bar_above_its_roof_is_marked_and_does_not_stretch_the_axis() -> None:
    usual = stages("hgemm", [StageShare("naive", 0.5)])
    found = stages("hgemm", [StageShare("naive", 0.5), StageShare("tiny", 11.0), StageShare("noisy", 1.01)])
    assert usual
    assert found
    (half,), (same, above, at_roof) = bars(usual.svg), bars(found.svg)
    assert same == half
    assert (above[0], at_roof[0]) == (ABOVE_COLOUR, BAR_COLOUR)
    assert above[1] < 3 * half[1]
    assert "1100.0 %" in texts(found.svg)


def test_the_first_of_very_many_stages_are_drawn_and_all_counted() -> None:
    found = stages("a", [StageShare(f"s{at}", 0.5) for at in range(120)])
    assert found
    assert re.findall(r"\d+", found.text)[:2] == ["40", "120"]
    assert "s39" in texts(found.svg)
    assert "s40" not in texts(found.svg)


def test_all_families_are_in_one_picture_with_their_best_stage() -> None:
    found = families(
        {"access": [StageShare("a", 0.3), StageShare("b", 0.9)], "gone": [], "sgemm": [StageShare("c", 0.7)]}
    )
    assert found
    assert {"access", "90.0 % b", "sgemm", "70.0 % c"} <= set(texts(found.svg))
    assert "gone" not in texts(found.svg)


def test_the_fastest_block_is_the_darkest_and_gaps_are_empty() -> None:
    rates = pd.DataFrame({"8x8": [100.0, math.nan], "32x8": [3000.0, 3694.0]}, index=["naive", "pad"])
    found = blocks("transpose", rates)
    assert found
    shown = texts(found.svg)
    assert [text for text in shown if text in {"8x8", "32x8"}] == ["8x8", "32x8"]
    assert [text for text in shown if text in {"100", "3000", "3694", "nan"}] == ["100", "3000", "3694"]
    assert blocks("transpose", rates[["8x8"]]) is None


def moves(count: int, tone: Tone) -> list[Move]:
    return [Move(f"{tone}.{at}-8", 3.0 + at, 2.0 + at, 5.0 + at, tone) for at in range(count)]


def test_all_changes_are_drawn_and_those_that_count_are_named() -> None:
    found = changes([*moves(200, Tone.SAME), *moves(8, Tone.BAD), Move("good.a-8", -5.0, -6.0, -4.0, Tone.GOOD)])
    assert found
    assert found.title == "All changes (209)"
    assert found.svg.count("<use ") > 209  # a dot each
    names = [text for text in texts(found.svg) if "." in text and "-8" in text]
    assert names == [f"bad.{at}-8" for at in reversed(range(8))] + ["good.a-8"]  # the largest slowdown first
    assert changes([]) is None


def test_where_nothing_changed_the_largest_are_named() -> None:
    found = changes(moves(90, Tone.SAME))
    assert found
    assert sum(text.startswith("same.") for text in texts(found.svg)) == FEWEST_NAMED


def test_the_first_of_very_many_that_changed_are_named() -> None:
    found = changes(moves(90, Tone.BAD))
    assert found
    assert f"{MOST_ROWS} of 90" in found.text
    assert sum(text.startswith("bad.") for text in texts(found.svg)) == MOST_ROWS


def test_a_long_name_keeps_both_its_ends() -> None:
    cut = label("occupancy.shared_limited_float4-256MiB-256-s227K")
    assert len(cut) <= LONGEST_LABEL
    assert (cut[:10], cut[-5:]) == ("occupancy.", "s227K")
