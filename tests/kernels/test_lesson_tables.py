"""The tables that published lessons ask for: what is computed in them, and which figures of a run they show."""

from __future__ import annotations

from pathlib import Path

import pytest
from family_modules import sgemm
from ladder_repository import lay_out, shown, whole_run
from sgemm_builds import BUILDS, macros

from kernels.ladder.__main__ import own_tables
from peakgate.case import Case, Tier


@pytest.fixture(autouse=True)
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return lay_out(tmp_path, monkeypatch)


def table(name: str, repository: Path, figures: dict[str, dict[str, float]], without: str = "^$") -> list[list[str]]:
    """Cells of the rows below the headings, for a run with these figures."""
    run = shown(whole_run(figures, tier=Tier.FULL, without=without), repository)
    lines = list(own_tables()[name](run))
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_a_stride_is_shown_by_its_distance_with_whole_sectors(repository: Path) -> None:
    figures = {"access.stride-f32-s4": {"gbs": 1000.0}, "access.stride-f64-s8": {"gbs": 500.0}}
    rows = {row[0]: row[1:] for row in table("access-strides", repository, figures)}
    assert rows["16"][:2] == ["1000", "4000"]
    assert rows["64"][2:] == ["500", "2000"]
    assert rows["4"][2:] == ["–", "–"]
    assert [int(distance) for distance in rows] == sorted(map(int, rows))


def test_diagonals_are_shown_against_the_usual_order_rows_first(repository: Path) -> None:
    figures = {"transpose.diagonal_row-2048-16x16": {"gbs": 2200.0}, "transpose.naive_col-2048-16x16": {"gbs": 2500.0}}
    rows = {row[0]: row[1:] for row in table("transpose-diagonals", repository, figures, "naive_row-4096")}
    assert rows["16x16"][:2] == ["+10.0 % / -20.0 %", "– / +0.0 %"]


def test_the_right_padding_depends_on_the_tile_and_the_block(repository: Path) -> None:
    figures = {
        "transpose.smem-16384-16x16": {"gbs": 1900.0},
        "transpose.smem_pad-16384-16x16-pad2": {"gbs": 2100.0},
        "transpose.smem_rectangular-16384-32x16-pad1": {"gbs": 2300.0},
    }
    rows = {tuple(row[:2]): row[2:] for row in table("transpose-paddings", repository, figures)}
    assert rows["16x16", "16 x 16"] == ["1 + 8", "2 + 2", "2 + 1", "2 + 2", "1900", "2000", "2100", "–"]
    assert rows["32x8", "32 x 32"][:3] == ["1 + 32", "1 + 1", "1 + 2"]
    assert rows["32x16", "32 x 16"] == ["1 + 16", "1 + 2", "1 + 1", "1 + 2", "2000", "2300", "2000", "2000"]
    assert rows["32x8", "32 x 8"][:4] == ["1 + 8", "1 + 4", "1 + 2", "1 + 1"]


@pytest.mark.parametrize("case", BUILDS)
def test_a_tiling_has_the_tile_and_the_sums_of_its_kernel(case: Case) -> None:
    defined = macros(case)
    (tiling,) = (
        tiling
        for tiling in sgemm.TILINGS[case.stage.name]
        if {name: str(value) for name, value in tiling.defines.items()} == dict(case.defines)
    )
    if case.stage.name == "naive":
        assert tiling.thread == (1, 1)
        return
    assert (tiling.rows, tiling.cols) == (defined["TILE_ROWS"], defined["TILE_COLS"])
    assert tiling.thread == (defined.get("THREAD_ROWS", 8), defined.get("THREAD_COLS", 8))


def test_a_larger_tile_loads_less_for_each_multiply_add(repository: Path) -> None:
    rows = table("sgemm-loads", repository, {"sgemm.split_k-1024": {"tflops": 30.0}})
    loads = {(row[0], row[1]): row[3:] for row in rows}
    assert loads["naive", "32 x 32"][:2] == ["1 / 16", "2"]
    assert loads["tiled", "128 x 128"][:2] == ["1 / 64", "1 / 4"]
    assert loads["warp_tiled", "128 x 256"][:2] == ["1 / 85.3", "1 / 5.33"]
    assert loads["split_k", "48 x 96"] == ["1 / 32", "1 / 6", "768 to 1024", "30.0"]


def test_the_lessons_gflops_are_converted_before_they_are_compared(repository: Path) -> None:
    rows = {row[0]: row[1:] for row in table("sgemm-lesson", repository, {"sgemm.naive-1024": {"tflops": 6.1}})}
    assert rows["naive"][:2] == ["2156", "6100"]
    assert float(rows["naive"][0]) == pytest.approx(2 * 1024**3 / 0.9961e-3 / 1e9, rel=1e-4)
