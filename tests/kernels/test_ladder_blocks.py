"""What stands in the blocks of a document: which case stands for a stage, the tables, the run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from ladder_repository import RUNS, TRANSPOSE_NOTE, cases, lay_out, shown, whole_run
from synthetic_runs import document, save

from kernels.ladder import __main__ as ladder
from kernels.ladder.tables import OVERVIEW, Shown, terminal
from peakgate.runfile.saved import load_run
from peakgate.spec.case import Tier
from peakgate.spec.catalogue import families, module_at


@pytest.fixture(autouse=True)
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return lay_out(tmp_path, monkeypatch)


def block(run: Shown, folder: Path, name: str) -> str:
    return ladder.block(run, ladder.pictures(run), folder, name)


def drawn(run: Shown) -> Any:
    return module_at(Path("kernels/pictures.py")).drawn(run)


def row(text: str, stage: str) -> list[str]:
    line = next(line for line in text.splitlines() if line.startswith((f"| [{stage}]", f"| {stage} |")))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_a_row_tells_lesson_case_rate_fractions_and_range(repository: Path) -> None:
    reported = {
        "transpose.smem_pad-16384-32x8": {"gbs": 3516.2, "roof_fraction": 0.8275},
        "transpose.smem_pad-16384-16x16": {"gbs": 2060.4},
    }
    table = block(shown(whole_run(reported), repository), OVERVIEW.parent, "transpose")
    assert row(table, "smem_pad") == [
        "[smem_pad](transpose/10_smem_pad.cu)",
        "A padded tile: no bank conflicts.",
        "`transpose.smem_pad-16384-32x8`",
        "3516 GB/s",
        "73.0 %",
        "82.8 %",
        "50.0 %",
        "2000 (32x8-pad2) to 3516 (32x8)",
    ]


def test_arithmetic_is_told_in_tflops_and_a_reference_implementation_has_no_file(repository: Path) -> None:
    table = block(shown(whole_run({"sgemm.cublas-4096": {"tflops": 51.42}}), repository), OVERVIEW.parent, "sgemm")
    assert row(table, "cublas")[3] == "51.4 TFLOP/s"
    assert "(pictures/sgemm.svg)" in table


def test_a_stage_for_another_gpu_is_not_timed_whatever_the_run(repository: Path) -> None:
    table = block(shown(whole_run(without="tcgen05|fp8", tier=Tier.FULL), repository), OVERVIEW.parent, "hgemm")
    assert row(table, "tcgen05")[2:] == ["not timed: no GPU of 10.0a here", "", "", "", "", ""]
    assert row(table, "fp8")[2] == "not in this run"


def test_the_lessons_of_stride_and_naive_stand_for_them_where_the_run_has_them(repository: Path) -> None:
    gate = shown(whole_run(), repository)
    assert row(block(gate, OVERVIEW.parent, "access"), "stride")[2] == "`access.stride-f32-s8`"
    assert row(block(gate, OVERVIEW.parent, "sgemm"), "naive")[2] == "`sgemm.naive-1024`"
    full = shown(whole_run(tier=Tier.FULL), repository)
    assert row(block(full, OVERVIEW.parent, "sgemm"), "naive")[2] == "`sgemm.naive-4096`"


def test_a_familys_further_tables_are_folded_and_end_with_their_command(repository: Path) -> None:
    fastest = {"transpose.smem_pad-16384-32x8": {"gbs": 3516.2, "roof_fraction": 0.8275}}
    text = block(shown(whole_run(fastest, tier=Tier.FULL), repository), TRANSPOSE_NOTE.parent, "transpose-tables")
    titles = re.findall(r"<summary>(.*?)</summary>", text)
    assert titles[:2] == ["Times and resources", "GB/s by stage and block, size 16384"]
    assert titles[-1] == "% of the roof that binds by stage and size"
    times, rates = text.split("<details>")[1:3]
    assert "| transpose.smem&#95;pad-16384-32x8 | 99.00 | 100.0 | 100.0 | 105.0 | 50.0 % | 32 | 0 | 4224 |" in times
    assert "predicted" not in times
    (line,) = (line for line in rates.splitlines() if line.startswith("| smem&#95;pad |"))
    assert line.split(" | ").count("3516") == 1
    assert text.splitlines()[-1].startswith("`peakgate bench --tier full -k transpose.`")


def test_bank_conflicts_and_useful_fractions_are_columns_where_they_are_predicted(repository: Path) -> None:
    tile: dict[str, Any] = {"access.shared_tile_row_col-f32-32x32-pad0": {"predicted": {"shared_read_turns": 32.0}}}
    text = block(shown(whole_run(tile), repository), OVERVIEW.parent, "access-tables")
    headings, _, *rows = text.split("<details>")[1].splitlines()[2:]
    assert headings.endswith("| shared read turns (predicted) |")
    assert [row for row in rows if row.endswith("| 32.00 |")]


def test_a_headline_names_a_case_that_exists() -> None:
    known = {case.id: case for case in cases(Tier.FULL)}
    named = [(family.name, stage, label) for family in families() for stage, label in family.headlines.items()]
    assert named
    for family, stage, label in named:
        assert known[f"{family}.{stage}-{label}"].stage.name == stage


def test_a_wrong_stage_and_one_that_was_not_run_have_no_figures(repository: Path) -> None:
    content = whole_run(without=r"^transpose\.(smem|hinted)-")
    wrong = {"verdict": "WRONG", "reason": "off"}
    content["peakgate"]["not_measured"] = [wrong | {"case": "transpose.smem-16384-32x8"}]
    table = block(shown(content, repository), OVERVIEW.parent, "transpose")
    assert row(table, "smem")[2:] == ["transpose.smem-16384-32x8: WRONG", "", "", "", "", ""]
    assert row(table, "hinted")[3:] == ["", "", "", "", ""]


def test_the_best_of_a_size_is_bold_and_ours_are_held_against_cublas(repository: Path) -> None:
    reported = {
        "sgemm.split_k-256": {"tflops": 54.32},
        "sgemm.cublas-256": {"tflops": 27.16},
        "sgemm.cublas-4096": {"tflops": 51.42},
        "sgemm.warp_tiled-4096": {"tflops": 45.69},
    }
    content = whole_run(reported, without=r"^sgemm\.cublas-1024$")
    table = block(shown(content, repository), OVERVIEW.parent, "sgemm-sizes")
    assert row(table, "stage (TFLOP/s)") == ["stage (TFLOP/s)", "256", "1024", "4096"]
    assert row(table, "split_k") == ["split_k", "**54.3**", "**10.0**", "–"]
    assert row(table, "warp_tiled") == ["warp_tiled", "10.0", "**10.0**", "45.7"]
    assert row(table, "cuBLAS") == ["cuBLAS", "27.2", "–", "**51.4**"]
    assert row(table, "best of ours / cuBLAS")[1:] == ["2.00", "–", "0.89"]


def test_a_block_names_run_file_gpu_driver_and_date(repository: Path) -> None:
    first = block(shown(whole_run(), repository), TRANSPOSE_NOTE.parent, "transpose").splitlines()[0]
    facts = ["NVIDIA H200", "driver 580.159.04", "2026-11-01", "NVRTC 13.0", "tier full", "commit a1b2c3d4e5f6"]
    assert first.partition(";")[0].split(", ") == facts
    assert first.endswith(f"run file [`{RUNS}/shown.json`](../../{RUNS}/shown.json).")


def test_the_strided_picture_sets_each_type_beside_its_sector_model(repository: Path) -> None:
    reported = {"access.stride-f32-s8": {"roof_fraction": 0.12}, "access.stride-f64-s8": {"roof_fraction": 0.24}}
    picture = drawn(shown(whole_run(reported), repository))["access_stride"]
    points = {curve.label: dict(curve.points) for curve in picture.curves}
    assert [at[8] for at in points.values()] == [0.12, 0.125, 0.24, 0.25]  # measured, predicted


def test_offsets_are_held_against_offset_0_of_the_same_type(repository: Path) -> None:
    reported = {"access.offset-f32-o0": {"gbs": 2500.0}, "access.offset-f32-o1": {"gbs": 2250.0}}
    picture = drawn(shown(whole_run(reported), repository))["access_offset"]
    assert dict(picture.curves[0].points) == {0: 1.0, 1: 0.9, 16: 0.8}


def test_block_shapes_are_a_heat_map_above_the_familys_further_tables(repository: Path) -> None:
    reported = {"transpose.smem_pad-16384-32x8": {"gbs": 3516.2}, "transpose.smem_pad-16384-16x16": {"gbs": 2060.4}}
    run = shown(whole_run(reported, tier=Tier.FULL), repository)
    picture = drawn(run)["transpose_blocks"]
    rates = dict(zip(picture.shapes, dict(picture.stages)["smem_pad"], strict=True))
    assert (picture.unit, picture.size, rates["32x8"], rates["256x1"]) == ("GB/s", "16384", 3516.2, None)
    text = block(run, TRANSPOSE_NOTE.parent, "transpose-tables")
    assert 0 < text.index("(../pictures/transpose_blocks.svg)") < text.index("<details>")
    assert "transpose_blocks" not in block(run, TRANSPOSE_NOTE.parent, "transpose")


def test_of_many_stages_a_heat_map_has_those_of_several_blocks(repository: Path) -> None:
    picture = drawn(shown(whole_run(tier=Tier.FULL), repository))["access_blocks"]
    assert all(sum(rate is not None for rate in rates) > 1 for _, rates in picture.stages)
    assert "sgemm_blocks" not in drawn(shown(whole_run(), repository))


TIMES = {
    "transpose.smem_pad-8192-32x8": 153.0,
    "transpose.smem_pad-8192-16x16": 261.0,
    "transpose.smem_pad-16384-32x8": 610.0,
    "roof.memcpy-1GiB": 508.0,
}


def test_of_many_stages_five_are_shown_whole_with_the_one_that_failed_among_them(tmp_path: Path) -> None:
    names = [f"transpose.{stage}_of_a_long_name-8192-32x8" for stage in "abcdefghij"]
    failed = {"verdict": "BELOW_FLOOR", "floor": 0.9}
    for at, first in ((0, 0), (3, 1), (9, 5)):
        content = document(dict.fromkeys(names, 150.0), extra={names[at]: failed})
        shown = [line.split()[0] for line in terminal(load_run(save(tmp_path, "run", content))) if "GB/s" in line]
        assert shown == [name.removeprefix("transpose.") for name in names[first : first + 5]]


def test_the_first_case_of_each_stage_is_shown_and_all_cases_are_counted(tmp_path: Path) -> None:
    lines = terminal(load_run(save(tmp_path, "run", document(TIMES))))
    assert lines[0] == "```text"
    assert lines[-2].endswith(": 4 PASS")
    shown = [line for line in lines if "GB/s" in line]
    assert len(shown) == 1
    assert shown[0].split()[:2] == ["smem_pad-8192-32x8", "153.0"]
    assert all(len(line) <= 80 for line in lines)
