from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from peakgate.common.errors import PeakgateError
from peakgate.reports.ab.schedule import Stage, Which
from peakgate.reports.planted import processes
from peakgate.reports.planted.about import About, Cell, Gate, Origin, cell_of, read_about, write_about
from peakgate.reports.planted.processes import Experiment, Process, from_runs, read, write
from synthetic_runs import document

PAD, SMEM = "transpose.smem_pad-8192-32x8", "transpose.smem-8192-32x8"


def run(pad_us: float = 150.0, samples: int = 12, verdict: str = "PASS") -> dict[str, Any]:
    """A run of two cases with its samples; ``verdict`` is that of the first."""
    content = document({PAD: pad_us, SMEM: 300.0}, extra={PAD: {"verdict": verdict}})
    rng = np.random.default_rng(int(pad_us))
    for benchmark in content["benchmarks"]:
        median_s = benchmark["stats"]["median"]
        benchmark["stats"] |= {"data": list(median_s * rng.normal(1, 0.003, samples)), "rounds": samples}
    return content


def pairs(count: int) -> list[Process]:
    return [Process(pair, side, run(150.0 + pair)) for pair in range(count) for side in Which]


def test_what_is_written_is_read_back_to_the_last_digit_that_counts(tmp_path: Path) -> None:
    measured = from_runs(pairs(3))
    write(tmp_path, Experiment.SAME, measured)
    again = read(tmp_path, Experiment.SAME)
    pd.testing.assert_frame_equal(again.summary, measured.summary, rtol=1e-6)
    assert again.samples.drop(columns="samples_ns").equals(measured.samples.drop(columns="samples_ns"))
    for before, after in zip(measured.samples["samples_ns"], again.samples["samples_ns"], strict=True):
        assert before.tolist() == after.tolist()
        assert after.dtype == np.int64


def test_statistics_are_in_microseconds_and_samples_in_whole_nanoseconds() -> None:
    measured = from_runs([Process(0, Which.HEAD, run(150.0), Stage.CONFIRM)])
    row = measured.summary.iloc[0]
    assert (row["stage"], row["pair"], row["side"], row["case"]) == ("confirm", 0, "head", PAD)
    assert row["median_us"] == pytest.approx(150.0)
    assert row["min_us"] == pytest.approx(148.5)
    assert row["rounds"] == 12
    assert measured.samples["samples_ns"][0] == pytest.approx(150_000, rel=0.02)


def test_samples_are_kept_of_the_first_pairs_and_no_more_than_asked_for() -> None:
    measured = from_runs(pairs(3), sample_pairs=2, most_samples=5)
    assert len(measured.summary) == 3 * 2 * 2
    assert set(measured.samples["pair"]) == {0, 1}
    assert {len(row) for row in measured.samples["samples_ns"]} == {5}


def test_a_case_that_its_process_distrusts_is_left_out() -> None:
    measured = from_runs([Process(0, Which.BASE, run(verdict="INCONCLUSIVE"))])
    assert measured.summary["case"].tolist() == [SMEM]
    assert measured.samples["case"].tolist() == [SMEM]


def test_the_same_processes_make_the_same_bytes(tmp_path: Path) -> None:
    first = [path.read_bytes() for path in write(tmp_path / "a", Experiment.STEPS, from_runs(pairs(2)))]
    second = [path.read_bytes() for path in write(tmp_path / "b", Experiment.STEPS, from_runs(pairs(2)))]
    assert first == second


def test_a_file_too_large_for_a_repository_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "LARGEST_BYTES", 100)
    with pytest.raises(PeakgateError, match=r"same\.csv\.gz: \d+ bytes, over 100; keep fewer pairs or samples"):
        write(tmp_path, Experiment.SAME, from_runs(pairs(2)))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ({}, "no benchmarks in it"),
        ({"benchmarks": [{"extra_info": {}}]}, "without extra_info.case or stats"),
        ({"benchmarks": [{"extra_info": {"case": PAD}, "stats": {"median": 1e-4}}]}, f"stats of {PAD} have no 'mean'"),
        (document({PAD: 150.0}), f"stats of {PAD} have no 'data'"),
    ],
)
def test_a_run_that_lacks_what_is_needed_is_named(broken: dict[str, Any], said: str) -> None:
    with pytest.raises(PeakgateError, match=f"the run of screen pair 3, base: .*{said}"):
        from_runs([Process(3, Which.BASE, broken)])


def test_files_that_are_missing_cut_or_of_another_form_are_named(tmp_path: Path) -> None:
    with pytest.raises(PeakgateError, match=r"same\.csv\.gz: cannot be read"):
        read(tmp_path, Experiment.SAME)
    summary, samples = write(tmp_path, Experiment.SAME, from_runs(pairs(1)))
    whole = summary.read_bytes()
    summary.write_bytes(whole[:-20])
    with pytest.raises(PeakgateError, match=r"same\.csv\.gz: cannot be read"):
        read(tmp_path, Experiment.SAME)
    summary.write_bytes(whole[:30] + b"\xff" * 20 + whole[50:])
    with pytest.raises(PeakgateError, match=r"same\.csv\.gz: cannot be read"):
        read(tmp_path, Experiment.SAME)
    summary.write_bytes(whole)
    samples.write_bytes(gzip.compress(b"stage,pair,side,case,samples_ns\nscreen,0,base,a,12 x\n"))
    with pytest.raises(PeakgateError, match=r"same-samples\.csv\.gz: cannot be read .*'x'"):
        read(tmp_path, Experiment.SAME)
    samples.write_bytes(gzip.compress(b"pair,case\n0,a\n"))
    with pytest.raises(PeakgateError, match=r"same-samples\.csv\.gz: columns pair, case; expected stage, pair"):
        read(tmp_path, Experiment.SAME)


ABOUT = About(
    gpu="NVIDIA H200",
    driver="580.159.04",
    origins={Experiment.SAME: Origin("a1b2c3d4e5f6", "2026-11-21T10:00:00+00:00")},
    planted={Cell(150, 10): 0.0099, Cell(5, 50): 0.048},
    gates=(Gate(Experiment.SAME, 1, 186, 10, 20, 190.5, {PAD: "SLOWER", SMEM: "INCONCLUSIVE"}),),
)


def test_what_a_campaign_says_of_itself_is_read_back(tmp_path: Path) -> None:
    write_about(tmp_path, ABOUT)
    again = read_about(tmp_path)
    assert again == ABOUT
    assert again.gates[0].slower == (PAD,)


@pytest.mark.parametrize("text", ['{"schema": 1}', "{", '{"schema": 2}', "[]"])
def test_a_record_of_a_campaign_that_is_not_whole_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "planted.json").write_text(text)
    with pytest.raises(PeakgateError, match=r"planted\.json: "):
        read_about(tmp_path)
    with pytest.raises(PeakgateError, match="name the folder of a campaign"):
        read_about(tmp_path / "elsewhere")


def test_the_cell_of_a_copy_stands_in_its_id() -> None:
    assert cell_of("steps.copy_float-150us-10pm-2") == Cell(150, 10)
    assert cell_of(PAD) is None
