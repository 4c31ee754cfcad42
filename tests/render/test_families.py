"""A page of a run, family by family: shares of the roof that binds, sections with tables and command, columns."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from synthetic_runs import document, save

from peakgate.base.report import Row
from peakgate.pages import show
from peakgate.render import cases, families
from peakgate.render.page import page
from peakgate.runfile.frame import to_frame
from peakgate.runfile.saved import Run, load_run
from peakgate.spec.recorded import EMULATOR_SLUG

MEASURED: dict[str, dict[str, Any]] = {
    "transpose.naive-8192-8x8": {"gbs": 600.0, "roof": "copy_1GiB", "roof_fraction": 0.15},
    "transpose.naive-8192-32x8": {"gbs": 900.0, "roof": "copy_1GiB", "roof_fraction": 0.225},
    "transpose.pad-8192-32x8": {"gbs": 3600.0, "roof": "copy_1GiB", "roof_fraction": 0.9},
    "hgemm.tma-256": {"gbs": 150.0, "tflops": 40.0, "roof": "bf16", "roof_fraction": 0.05, "math": "bf16"},
    "hgemm.tma-8192": {
        "bound": "compute",
        "gbs": 200.0,
        "tflops": 700.0,
        "peak_fraction": 700 / 990,
        "roof": "bf16",
        "roof_fraction": 700 / 800,
        "math": "bf16",
    },
    "alone.only-1": {"gbs": 100.0},
}
ROOFS = {"bf16": 800.0, "copy_1GiB": 4000.0, "read_1GiB": 4100.0}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    gpu: dict[str, Any] = {"roofs": ROOFS, "peak_tensor_tflops": {"bf16": 990.0}}
    return load_run(save(tmp_path, "run", document(dict.fromkeys(MEASURED, 100.0), extra=MEASURED, **gpu)))


def test_a_stage_is_held_against_the_roof_that_binds_its_best_case(run: Run) -> None:
    frame = to_frame([run])
    assert [(each.stage, each.share) for each in families.shares(frame, "transpose", {})] == [
        ("naive", 0.225),
        ("pad", 0.9),
    ]
    (tma,) = families.shares(frame, "hgemm", {})
    assert tma.share == 700 / 800  # of its largest size
    (alone,) = families.shares(frame, "alone", {})
    assert alone.share == pytest.approx(100 / 4814)  # of peak: no roof


def test_the_base_of_a_comparison_has_its_share_of_the_same_roof(run: Run) -> None:
    half = {"transpose.pad-8192-32x8": 0.5 * 3600 / 4814}
    naive, pad = families.shares(to_frame([run]), "transpose", half)
    assert naive.before is None
    assert pad.before == pytest.approx(0.45)


def test_each_family_with_something_to_compare_has_a_section(run: Run) -> None:
    _, found = families.sections(run)
    assert [each.title for each in found] == ["transpose", "hgemm"]
    transpose, hgemm = found
    assert [each.title for each in transpose.pictures] == [
        *("transpose: stages", "transpose: GB/s by stage and block, size 8192")
    ]
    assert [each.title for each in transpose.tables] == [
        "GB/s by stage and block, size 8192",
        "Median time (µs) by stage and block, size 8192",
        "% of the roof that binds by stage and block, size 8192",
    ]
    assert transpose.tables[0].rows == [["naive", 600.0, 900.0], ["pad", None, 3600]]
    rates, _, fractions = hgemm.tables
    assert rates.title == "TFLOP/s by stage and size"
    assert dict(zip(fractions.headings, fractions.rows[0], strict=True)) == {"stage": "tma", "256": 3.659, "8192": 87.5}


@pytest.mark.parametrize(
    ("every", "titles"),
    [
        ({"verdict": "WRONG"}, []),
        ({"gbs": None, "peak_fraction": None}, ["Median time (µs) by stage and block, size 8"]),
        ({"family": None}, ["GB/s by stage and block, size 8", "Median time (µs) by stage and block, size 8"]),
        ({"stage": None, "size": None, "block": None, "variant": None}, []),
    ],
)
def test_a_section_has_the_tables_that_the_run_has_figures_for(
    tmp_path: Path, every: dict[str, Any], titles: list[str]
) -> None:
    times = {"a.x-8-8x8": 10.0, "a.x-8-16x16": 12.0}
    run = load_run(save(tmp_path, "run", document(times, extra=dict.fromkeys(times, every))))
    _, found = families.sections(run)
    assert [table.title for section in found for table in section.tables] == titles


def test_an_emulated_run_has_no_sections(tmp_path: Path) -> None:
    emulated = load_run(save(tmp_path, "run", document(slug=EMULATOR_SLUG)))
    assert families.sections(emulated) == ({}, ())


def test_an_emulated_run_is_shown_without_a_speed(tmp_path: Path) -> None:
    times = {"a.x-8": 10.0}
    extra = {"a.x-8": {"verdict": "NO_FLOOR", "floor": None, "relative_error": 0.0}}
    found = show.report(load_run(save(tmp_path, "run", document(times, slug=EMULATOR_SLUG, extra=extra))))
    assert {row.verdict for row in found.rows} == {"RIGHT"}
    assert not {"gbs", "tflops"} & {column.name for column in found.columns}


def test_a_size_that_is_no_number_is_not_called_a_size(tmp_path: Path) -> None:
    times = {"a.x-f32-8x8": 10.0, "a.x-f32-16x16": 12.0}
    _, (section,) = families.sections(load_run(save(tmp_path, "run", document(times))))
    assert [each.title for each in section.tables] == [
        *("GB/s by stage and block, f32", "Median time (µs) by stage and block, f32")
    ]


def test_a_page_has_its_pictures_first_and_explains_them_once(run: Run) -> None:
    text = page(show.report(run))
    assert text.index("Families</h2>") < text.index("transpose: stages</h2>") < text.index("Cases</h2>")
    assert text.count("the measured roof") == 1


def test_a_page_has_its_sections_folded_and_a_single_one_open(run: Run) -> None:
    found = show.report(run)
    assert '<details id="section-1">' in page(found)
    assert '<details id="section-1" open>' in page(replace(found, sections=found.sections[:1]))


def test_columns_of_counters_and_predictions_are_there_where_a_run_has_them(run: Run) -> None:
    result = run.cases["transpose.pad-8192-32x8"]
    plain = [Row(result.case, cells=cases.measured_cells(result))]
    names = {column.name for column in cases.measured_columns(plain)}
    assert {"min_us", "mean_us", "max_us", "occupancy", "registers", "shared_bytes"} <= names
    assert not {"achieved_occupancy", "load_sectors_per_request", "floor"} & names
