"""The notebook of reports/, run cell by cell as a reader would, on the committed runs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from synthetic_runs import LADDER, document, save, slower

import peakgate.reports
from peakgate.base.errors import Code, PeakgateError
from peakgate.compare.history.judged import CHANGE_COLUMNS
from peakgate.runfile.find import load
from peakgate.runfile.frame import records

NOTEBOOK = Path(__file__).parents[2] / "reports" / "notebook.ipynb"
PAD = "transpose.smem_pad-8192-32x8"
CHANGED = """
schema = 1

[[regression]]
case = "transpose.smem_pad-8192-32x8"
percent = 6.0
date = 2026-11-20
reason = "wider rows"
"""


def code() -> list[str]:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert not any(cell.get("outputs") for cell in cells), "outputs grow stale"
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def test_the_notebook_runs_cell_by_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(NOTEBOOK.parent)
    names: dict[str, Any] = {}
    with mpl.rc_context({"backend": "svg"}):
        for cell in code():
            exec(cell, names)  # the code that a reader runs
        over_time, roofline = (plt.figure(number).axes[0] for number in plt.get_fignums())
        plt.close("all")
    assert len(names["times"]) == names["times"].notna().all(axis=1).sum() == 444  # cases of both plain files
    assert names["by_block"].loc[("smem_pad", "")].idxmax() == "32x8"
    assert names["base"]["run"].nunique() == names["new"]["run"].nunique() == 1
    assert len(over_time.lines) == names["runs"]["gpu_uuid"].nunique() == 3
    roof = np.asarray(roofline.lines[0].get_ydata())
    assert names["full"]["tflops"].max() < roof.max() == names["full"]["gpu_peak_tflops"].max()


def test_change_points_are_a_frame_with_the_open_regressions(tmp_path: Path) -> None:
    for day in range(1, 25):
        save(tmp_path / "runs", f"r{day:02d}", document(slower(PAD, 1.05) if day > 12 else LADDER, day=day))
    runs = peakgate.reports.load(tmp_path / "runs")
    found = peakgate.reports.change_points(runs)
    assert {name: str(dtype) for name, dtype in found.dtypes.items()} == dict(CHANGE_COLUMNS)
    (row,) = records(found[found["open_percent"].notna()])
    assert (row.case, row.sessions_since) == (PAD, 12)
    assert row.low_percent < 5.0 < row.high_percent
    assert found["accepted"].isna().all()
    assert found.attrs["verdict"] == peakgate.reports.trend(runs).attrs["verdict"] == "SLOWER"
    accepted = tmp_path / "baselines" / "nvidia-h200" / "acknowledged.toml"
    accepted.parent.mkdir(parents=True)
    accepted.write_text(CHANGED, encoding="utf-8")
    again = peakgate.reports.change_points(runs, baselines=tmp_path / "baselines")
    assert again["accepted"].tolist() == ["wider rows"]


def test_notes_of_runs_and_of_a_history_are_in_attrs(tmp_path: Path) -> None:
    for day in range(1, 13):
        save(tmp_path / "runs", f"r{day:02d}", document(day=day, driver="580" if day < 5 else "590"))
    save(tmp_path / "runs", "copy", document(day=12, driver="590"))
    runs = load(tmp_path / "runs")
    assert len(runs.attrs["notes"]) == 1
    for found in (peakgate.reports.trend(runs), peakgate.reports.change_points(runs)):
        assert any(re.findall(r"\b5[89]0\b", note) == ["590", "580"] for note in found.attrs["notes"])


def test_a_frame_that_is_none_of_runs_is_refused_in_one_line(tmp_path: Path) -> None:
    runs = load(save(tmp_path, "run", document()))
    foreign = [None, {"case": 1}, runs[["case", "run"]], runs.assign(time_us="40 µs"), runs.assign(taken="today")]
    for frame in foreign:
        calls = (
            lambda frame=frame: peakgate.reports.compare(frame, runs),
            lambda frame=frame: peakgate.reports.compare(runs, frame),
            lambda frame=frame: peakgate.reports.trend(frame),
            lambda frame=frame: peakgate.reports.change_points(frame),
        )
        for call in calls:
            with pytest.raises(PeakgateError) as refused:
                call()
            assert refused.value.code is Code.NO_RUN
            assert "\n" not in str(refused.value)


def test_runs_of_a_side_do_not_count_again_as_other_runs(tmp_path: Path) -> None:
    for day in range(1, 8):
        save(
            tmp_path / "runs",
            f"r{day}",
            document({case: us * (1 + 0.001 * day) for case, us in LADDER.items()}, day=day),
        )
    runs = load(tmp_path / "runs")
    base, new = (runs[runs["run"] == name] for name in runs["run"].unique()[-2:])
    others = runs[~runs["run"].isin([base["run"].iloc[0], new["run"].iloc[0]])]
    whole, apart = (peakgate.reports.compare(base, new, history) for history in (runs, others))
    assert whole.equals(apart)
