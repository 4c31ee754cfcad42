"""A family by stage and block, and by stage and size, as pandas pivots."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from synthetic_runs import document, save

from peakgate.base.errors import Code, PeakgateError
from peakgate.reports import by_block, by_size, load

TIMES = {
    "transpose.naive-2048-8x8": 90.0,
    "transpose.naive-8192-8x8": 400.0,
    "transpose.naive-8192-32x8": 300.0,
    "transpose.pad-8192-32x8": 160.0,
    "transpose.pad-8192-16x16": 200.0,
    "sgemm.naive-128": 10.0,
}


def loaded(folder: Path, extra: dict[str, dict[str, Any]] | None = None, **more: Any) -> pd.DataFrame:
    return load(save(folder, "run", document(TIMES, extra=extra or {}, **more)))


def cells(pivot: pd.DataFrame) -> dict[Any, dict[Any, float]]:
    """Its cells that have a figure, by row and column."""
    return {stage: dict(row.dropna()) for stage, row in pivot.iterrows()}


def test_a_pivot_by_block_is_of_the_size_with_most_blocks(tmp_path: Path) -> None:
    found = by_block(loaded(tmp_path), "transpose")
    assert found.attrs["size"] == "8192"
    assert list(found.columns) == ["8x8", "16x16", "32x8"]  # by threads
    assert list(found.index) == ["naive", "pad"]
    assert cells(found) == {
        "naive": {"8x8": pytest.approx(400.0), "32x8": pytest.approx(300.0)},
        "pad": {"16x16": pytest.approx(200.0), "32x8": pytest.approx(160.0)},
    }
    assert by_block(loaded(tmp_path), "transpose", size="2048").to_numpy().tolist() == [[pytest.approx(90.0)]]


def test_a_pivot_by_size_has_each_in_its_fastest_block(tmp_path: Path) -> None:
    work = {case: {"bytes": 8 * int(case.split("-")[1]) ** 2, "gbs": None, "peak_fraction": None} for case in TIMES}
    found = by_size(loaded(tmp_path, work), "transpose")
    assert list(found.columns) == ["2048", "8192"]
    assert cells(found)["naive"] == {"2048": pytest.approx(90.0), "8192": pytest.approx(300.0)}


def test_variants_are_rows_of_their_own(tmp_path: Path) -> None:
    runs = loaded(tmp_path, {"transpose.pad-8192-16x16": {"variant": "pad2"}})
    assert list(by_block(runs, "transpose").index) == [("naive", ""), ("pad", ""), ("pad", "pad2")]


def test_several_figures_have_their_columns_under_their_names(tmp_path: Path) -> None:
    runs = loaded(tmp_path)
    both = by_block(runs, "transpose", ["time_us", "max_us"])
    for figure in ("time_us", "max_us"):
        one = both[[figure]].droplevel(0, axis=1)
        pd.testing.assert_frame_equal(one, by_block(runs, "transpose", figure))


def test_a_case_bound_by_memory_has_the_roof_of_memory(tmp_path: Path) -> None:
    small = {"sgemm.naive-128": {"roof": "bf16", "roof_fraction": 0.02, "gbs": 2000.0, "tflops": 16.0}}
    runs = loaded(tmp_path, small, roofs={"bf16": 800.0, "copy_1GiB": 4000.0, "read_1GiB": 4100.0})
    assert by_size(runs, "sgemm", "roof_fraction").to_numpy().tolist() == [[pytest.approx(2000 / 4100)]]


def test_a_case_that_was_wrong_has_no_cell(tmp_path: Path) -> None:
    runs = loaded(tmp_path, {"transpose.pad-8192-32x8": {"verdict": "WRONG"}})
    assert cells(by_block(runs, "transpose"))["pad"].keys() == {"16x16"}


def test_what_is_no_family_size_or_figure_is_refused(tmp_path: Path) -> None:
    runs = loaded(tmp_path)
    for call in (
        lambda: by_block(runs, "transpos"),
        lambda: by_size(runs, "transpose", "gibs"),
        lambda: by_block(runs, "transpose", size="8193"),
        lambda: by_size(runs[["case"]], "transpose"),
    ):
        with pytest.raises(PeakgateError) as refused:
            call()
        assert refused.value.code is Code.NO_RUN
        assert "\n" not in str(refused.value)
