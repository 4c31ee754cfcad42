from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from peakgate.common.errors import PeakgateError
from peakgate.reports.runs.runfile import load_run
from peakgate.verdict import Verdict
from synthetic_runs import benchmark, document, save


def refused(path: Path) -> str:
    with pytest.raises(PeakgateError) as caught:
        load_run(path)
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    return message


def test_a_run_is_read_with_its_gpu_its_commit_and_its_cases(tmp_path: Path) -> None:
    wrong = {"case": "sgemm.naive-128", "verdict": "WRONG", "reason": "element 0 is NaN"}
    run = load_run(save(tmp_path, "run", document({"roof.copy-1GiB": 504.0}, day=3, not_measured=[wrong])))
    assert (run.slug, run.uuid, run.driver, run.tier) == ("nvidia-h200", "GPU-0001", "580.159.04", "full")
    assert run.taken.day == 3
    assert run.commit.startswith("a1b2")
    case = run.cases["roof.copy-1GiB"]
    assert case.time_us == pytest.approx(504.0)
    assert case.registers == 32
    assert run.unmeasured["sgemm.naive-128"].verdict is Verdict.WRONG


def test_the_sampling_error_is_that_of_a_median_of_normal_samples(tmp_path: Path) -> None:
    content = document({"a.b": 100.0}, extra={"a.b": {"samples": 100, "iqr": 0.01349}})
    error = load_run(save(tmp_path, "run", content)).cases["a.b"].sampling_error
    assert error == pytest.approx(1.2533 * 0.01 / 10)


def test_two_samples_tell_no_sampling_error(tmp_path: Path) -> None:
    content = document({"a.b": 100.0}, extra={"a.b": {"samples": 2}})
    assert load_run(save(tmp_path, "run", content)).cases["a.b"].sampling_error is None


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert "cannot be read" in refused(tmp_path / "none.json")


@pytest.mark.parametrize("share", [0.0, 0.3, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_named_with_the_place(tmp_path: Path, share: float) -> None:
    text = json.dumps(document())
    path = tmp_path / "half.json"
    path.write_text(text[: int(len(text) * share)])
    assert "truncated or invalid JSON at line 1" in refused(path)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "binary.json"
    path.write_bytes(b"\xff\xfe\x00\x80{}")
    assert "not text" in refused(path)


def test_absurd_nesting_and_absurd_numbers_are_refused(tmp_path: Path) -> None:
    deep, long = tmp_path / "deep.json", tmp_path / "long.json"
    deep.write_text("[" * 100_000)
    long.write_text("1" * 5000)
    assert "no run file" in refused(deep)
    assert "no run file" in refused(long)


def test_a_pytest_benchmark_file_is_told_apart_from_a_run(tmp_path: Path) -> None:
    content = document()
    del content["peakgate_schema"]
    assert "a pytest-benchmark file, not a Peakgate run" in refused(save(tmp_path, "foreign", content))


def test_json_that_is_no_benchmark_file_is_told_so(tmp_path: Path) -> None:
    assert "not a pytest-benchmark file" in refused(save(tmp_path, "other", {"verdict": "PASS"}))


@pytest.mark.parametrize(
    ("change", "reported"),
    [
        ({"peakgate_schema": 2}, "peakgate_schema is 2"),
        ({"benchmarks": []}, "no benchmarks"),
        ({"benchmarks": {"a": 1}}, "no benchmarks"),
        ({"benchmarks": [1]}, "benchmarks[0] is not a table"),
        ({"machine_info": {}}, "machine_info.gpu is not a table"),
        ({"machine_info": {"gpu": {"name": "x"}}}, "slug"),
        ({"datetime": "yesterday"}, "'yesterday', not an ISO date"),
        ({"datetime": None}, "not an ISO date"),
        ({"benchmarks": [benchmark("a.b", 1.0), benchmark("a.b", 2.0)]}, "case a.b is in it twice"),
        ({"benchmarks": [benchmark("a.b", 1.0, verdict="SLOW")]}, "verdict 'SLOW' of a.b"),
        ({"benchmarks": [benchmark("a.b", 1.0, registers="many")]}, "registers of a.b is 'many'"),
        ({"benchmarks": [benchmark("a.b", 1.0, registers=True)]}, "registers of a.b is True"),
        ({"benchmarks": [benchmark("a.b", 1.0, gbs=math.inf)]}, "gbs of a.b is inf"),
        ({"benchmarks": [benchmark("a.b", 1.0, floor=-0.1)]}, "floor of a.b is -0.1"),
        ({"benchmarks": [benchmark("a.b", 1.0, stage=3)]}, "stage of a.b is 3"),
        ({"benchmarks": [benchmark("a.b", 1.0, case=None)]}, "benchmarks[0] has no extra_info.case"),
        ({"peakgate": {"not_measured": {}}}, "not_measured is not a list"),
        ({"peakgate": {"not_measured": [{"verdict": "WRONG"}]}}, "not_measured[0] names no case"),
        ({"peakgate": {"not_measured": [{"case": "a.b"}]}}, "verdict None of a.b"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, change: dict[str, Any], reported: str) -> None:
    assert reported in refused(save(tmp_path, "run", document() | change))


@pytest.mark.parametrize("median", [math.nan, math.inf, -1e-6, 0.0, None, "1", True, 10**400])
def test_a_median_that_is_no_time_is_refused_and_the_case_named(tmp_path: Path, median: object) -> None:
    content = document({"a.b": 10.0})
    content["benchmarks"][0]["stats"]["median"] = median
    message = refused(save(tmp_path, "run", content))
    assert "median" in message
    assert "a.b" in message


def test_an_edited_time_beside_untouched_stats_is_noted_and_the_stats_count(tmp_path: Path) -> None:
    run = load_run(save(tmp_path, "run", document({"a.b": 10.0}, extra={"a.b": {"time_us": 20.0}})))
    assert run.cases["a.b"].time_us == pytest.approx(10.0)
    assert "a.b" in run.notes[0]


def test_a_date_without_a_zone_is_taken_as_utc(tmp_path: Path) -> None:
    run = load_run(save(tmp_path, "run", document() | {"datetime": "2026-11-05T10:00:00"}))
    assert run.taken.utcoffset() is not None
