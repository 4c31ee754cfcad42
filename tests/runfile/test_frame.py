"""Saved runs as pandas frames, and the two lines of a notebook."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest
from comparing import KEPT, Saved
from synthetic_runs import LADDER, document, save, slower

import peakgate.reports
from peakgate.compare import judge, result
from peakgate.compare.history import trend
from peakgate.compare.history.judged import CHANGE_COLUMNS
from peakgate.compare.history.series import history
from peakgate.compare.history.trend import find_trend
from peakgate.help import page
from peakgate.runfile import frame
from peakgate.runfile.find import Archive
from peakgate.runfile.frame import to_frame
from peakgate.runfile.saved import load_run

PAD = "transpose.smem_pad-8192-32x8"
ROOT = Path(__file__).parents[2]


def test_a_frame_of_runs_has_the_documented_columns_and_dtypes() -> None:
    found = to_frame([load_run(path) for path in sorted(KEPT.glob("*.json.gz"))[:3]])
    dtypes = {str(name): str(dtype) for name, dtype in found.dtypes.items()}
    predicted = {name: dtypes.pop(name) for name in list(dtypes) if name.startswith(frame.PREDICTED)}
    assert dtypes == dict(frame.FRAME_COLUMNS)
    assert set(predicted.values()) == {"float64"}
    assert {"predicted_useful_fraction", "predicted_shared_read_turns"} <= predicted.keys()
    assert found.groupby(["run", "case"]).size().max() == 1


def test_a_case_without_a_time_has_a_row_with_its_verdict(tmp_path: Path) -> None:
    wrong = {"case": "sgemm.naive-128", "verdict": "WRONG", "reason": "element 0 is NaN"}
    found = to_frame([load_run(save(tmp_path, "run", document(not_measured=[wrong])))])
    row = found[found["case"] == "sgemm.naive-128"]
    assert (row["verdict"].item(), row["reason"].item()) == ("WRONG", wrong["reason"])
    assert row["time_us"].isna().all()


def test_a_time_does_not_count_of_a_case_that_was_not_measured(tmp_path: Path) -> None:
    left = {"case": PAD, "verdict": "NO_FLOOR", "reason": "was not measured"}
    rows = to_frame([load_run(save(tmp_path, "run", document(not_measured=[left])))]).set_index("case")
    assert (rows.loc[PAD, "verdict"], rows["time_us"].isna().sum()) == ("NO_FLOOR", 1)


def test_the_command_compares_by_the_function_of_a_notebook(saved: Saved) -> None:
    base, new = saved.side(LADDER, LADDER), saved.side(slower(PAD, 1.2), slower(PAD, 1.21))
    assert judge.compare is peakgate.reports.compare
    found = peakgate.reports.compare(base.frame, new.frame, to_frame(saved.sessions(4, 0.004, seed=1)))
    assert found.attrs["verdict"] == "SLOWER"
    assert found.attrs["exit_code"] == 1
    assert {name: str(dtype) for name, dtype in found.dtypes.items()} == dict(result.ROW_COLUMNS)


def test_a_folder_loads_each_of_its_sessions_once(saved: Saved) -> None:
    saved.sessions(2, 0.01, seed=1)
    found = peakgate.reports.load(saved.folder)
    assert found["run"].nunique() == 2
    assert found["taken"].is_monotonic_increasing


def test_the_trend_of_a_frame_is_that_of_the_saved_files(saved: Saved) -> None:
    for day in range(1, 21):
        saved.run(slower(PAD, 1.05) if day > 15 else LADDER, day=day)
    archive = Archive([saved.folder])
    expected = find_trend(history(archive.cases)).frame
    found = peakgate.reports.trend(peakgate.reports.load(saved.folder))
    pd.testing.assert_frame_equal(found, expected)
    assert found.loc[0, "case"] == PAD
    assert found.loc[0, "verdict"] == "SLOWER"
    assert {name: str(dtype) for name, dtype in found.dtypes.items()} == dict(trend.TREND_COLUMNS)


def test_the_examples_of_the_page_run_on_the_committed_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    names: dict[str, pd.DataFrame] = {}
    of_runs, of_a_family = re.findall(r"```python\n(.*?)```", page("reports"), re.DOTALL)
    exec(of_a_family, names)  # the code that a reader would copy
    assert names["best_block"]["smem_pad", ""] == "32x8"
    assert names["by_size"]["tflops"].loc["naive"].max() < names["by_size"]["tflops"].loc["cublas"].max()
    exec(of_runs, names)
    assert set(names["rows"]["verdict"]) == {"SAME"}
    assert names["slowest"].index[0] == names["runs"].groupby("case")["time_us"].median().idxmax()


def test_the_page_has_the_columns_of_the_schema() -> None:
    rows = [f"| `{name}` | {column.dtype} | {column.meaning} |" for name, column in frame.COLUMNS.items()]
    assert "\n".join(rows) in page("reports")


def test_the_page_names_every_column_of_a_comparison() -> None:
    text = page("reports")
    for name in (*trend.TREND_COLUMNS, *CHANGE_COLUMNS):
        assert f"`{name}`" in text, name
    sides = {
        name for name in result.ROW_COLUMNS if name.removeprefix("base_").removeprefix("new_") in result.BOTH_SIDES
    }
    for name in result.ROW_COLUMNS.keys() - sides:
        assert f"`{name}`" in text, name
    for name in result.BOTH_SIDES:
        assert f"`{name}`" in text
