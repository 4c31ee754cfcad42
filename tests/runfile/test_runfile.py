from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest
from synthetic_runs import benchmark, document, save

from peakgate.base import records
from peakgate.base.errors import PeakgateError
from peakgate.base.records import RecordError
from peakgate.base.verdict import Judgement, Verdict
from peakgate.cli import main
from peakgate.device.cpu import CpuDevice
from peakgate.judge.metrics import metrics
from peakgate.measure.sampling import Samples
from peakgate.run import run_file
from peakgate.runfile.saved import IQR_IN_SDS, MEDIAN_ERROR_IN_SDS, ForeignFileError, load_run
from peakgate.runfile.schema import CaseRecord, Gpu
from peakgate.session.outcome import Outcome, Proof, extra_info
from peakgate.spec import catalogue
from peakgate.spec.case import Scale, Tier
from peakgate.spec.recorded import Energy, TunedChoice

ROOT = Path(__file__).parents[2]


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


def test_what_a_process_has_so_far_is_a_run(
    tmp_path: Path,
) -> None:
    timed, refused_case = list(catalogue.cases(Scale.SMALL))[:2]
    samples = Samples((1.0, 2.0, 3.0, 6.0), (None,) * 4, 0, "events", pair_ratios=(1.25,))
    passed = Judgement(Verdict.PASS, "")
    outcomes = [
        Outcome(timed, passed, samples=samples, metrics=metrics(timed, samples, None, {})),
        Outcome(refused_case, Judgement(Verdict.WRONG, "element 0 is NaN")),
    ]
    device = SimpleNamespace(describe=lambda: {"slug": "nvidia-h200"}, kind="gpu")
    session: Any = SimpleNamespace(
        device=device, preflight=None, roofs={}, tier=Tier.GATE, seed=1, whole=False, steps=SimpleNamespace(wall_s={})
    )
    (tmp_path / "run.json").write_text(json.dumps(run_file.unsaved(session, outcomes, {"id": "c1"})))
    run = load_run(tmp_path / "run.json")
    (found,) = run.cases.values()
    assert (found.case, found.samples, found.pair_ratios) == (timed.id, 4, (1.25,))
    assert found.time_us == pytest.approx(2.5)
    assert found.sampling_error == pytest.approx(MEDIAN_ERROR_IN_SDS * 2.0 / IQR_IN_SDS / 2.5 / 2)
    assert run.unmeasured[refused_case.id].verdict is Verdict.WRONG


def test_a_record_is_read_as_it_was_written() -> None:
    case = next(iter(catalogue.cases(Scale.SMALL)))
    samples = Samples((1.0, 2.0, 3.0, 6.0), (None,) * 4, 0, "events", pair_ratios=(1.25,))
    outcome = Outcome(
        case,
        Judgement(Verdict.NO_FLOOR, "no peak is claimed"),
        samples=samples,
        metrics=metrics(case, samples, None, {}),
        proof=Proof(np.float64(1e-7), 8),
        energy=Energy(2e-3, 1.9e-3, 2.1e-3, 3, 5.0, 400.0, None),
        tuned=(TunedChoice("k", "BLOCK: 64"),),
    )
    entry = extra_info(outcome)
    assert list(entry) == list(CaseRecord.__struct_fields__)
    assert msgspec.to_builtins(msgspec.json.decode(json.dumps(entry), type=CaseRecord)) == entry
    assert CpuDevice().describe().keys() <= Gpu.__annotations__.keys()


def test_the_sampling_error_is_of_a_median_of_normal_samples(tmp_path: Path) -> None:
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
    assert "invalid JSON at" in refused(path)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "binary.json"
    path.write_bytes(b"\xff\xfe\x00\x80{}")
    assert "not text" in refused(path)


def test_absurd_nesting_and_absurd_numbers_are_refused(tmp_path: Path) -> None:
    deep, long = tmp_path / "deep.json", tmp_path / "long.json"
    deep.write_text("[" * 100_000)
    long.write_text("1" * 5000)
    assert refused(deep).startswith(str(deep))
    assert refused(long).startswith(str(long))


DECIDED = {"schema": 1, "command": ["peakgate", "bench"], "exit_code": 0, "cases": []}


def test_other_json_is_distinguished_from_a_damaged_run(tmp_path: Path) -> None:
    content = document()
    del content["peakgate_schema"]
    for name, foreign in (("foreign", content), ("other", {"verdict": "PASS"}), ("decided", DECIDED)):
        with pytest.raises(ForeignFileError):
            load_run(save(tmp_path, name, foreign))


EXTRA = "benchmarks[0].extra_info"


@pytest.mark.parametrize(
    ("change", "field", "given"),
    [
        ({"peakgate_schema": 2}, "peakgate_schema", "2"),
        ({"peakgate_schema": True}, "peakgate_schema", "True"),
        ({"benchmarks": []}, "benchmarks", "[]"),
        ({"benchmarks": {"a": 1}}, "benchmarks", "{'a': 1}"),
        ({"benchmarks": [1]}, "benchmarks[0]", "1"),
        ({"machine_info": {}}, "machine_info.gpu", "missing"),
        ({"machine_info": {"gpu": {"name": "x"}}}, "machine_info.gpu.slug", "missing"),
        ({"datetime": None}, "datetime", "None"),
        ({"benchmarks": [benchmark("a.b", 1.0, verdict="SLOW")]}, f"{EXTRA}.verdict", "'SLOW'"),
        ({"benchmarks": [benchmark("a.b", 1.0, registers="many")]}, f"{EXTRA}.registers", "'many'"),
        ({"benchmarks": [benchmark("a.b", 1.0, registers=True)]}, f"{EXTRA}.registers", "True"),
        ({"benchmarks": [benchmark("a.b", 1.0, gbs=math.inf)]}, f"{EXTRA}.gbs", "inf"),
        ({"benchmarks": [benchmark("a.b", 1.0, floor=-0.1)]}, f"{EXTRA}.floor", "-0.1"),
        ({"benchmarks": [benchmark("a.b", 1.0, stage=3)]}, f"{EXTRA}.stage", "3"),
        ({"benchmarks": [benchmark("a.b", 1.0, probes="all")]}, f"{EXTRA}.probes", "'all'"),
        ({"benchmarks": [benchmark("a.b", 1.0, case=None)]}, f"{EXTRA}.case", "None"),
        ({"peakgate": {"not_measured": {}}}, "peakgate.not_measured", "{}"),
        ({"peakgate": {"not_measured": [{"verdict": "WRONG"}]}}, "peakgate.not_measured[0].case", "missing"),
        ({"peakgate": {"not_measured": [{"case": "a.b"}]}}, "peakgate.not_measured[0].verdict", "missing"),
    ],
)
def test_what_is_wrong_is_named_by_its_path_and_quoted(
    tmp_path: Path, change: dict[str, Any], field: str, given: str
) -> None:
    path = save(tmp_path, "run", document() | change)
    with pytest.raises(RecordError) as caught:
        load_run(path)
    assert caught.value.field == field
    assert given in refused(path)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"datetime": "yesterday"}, "'yesterday'"),
        ({"benchmarks": [benchmark("a.b", 1.0), benchmark("a.b", 2.0)]}, "'a.b'"),
    ],
)
def test_a_date_that_is_none_and_a_case_in_it_twice_are_named(
    tmp_path: Path, change: dict[str, Any], named: str
) -> None:
    assert named in refused(save(tmp_path, "run", document() | change))


@pytest.mark.parametrize("median", [math.nan, math.inf, -1e-6, 0.0, None, "1", True, 10**400])
def test_a_median_that_is_no_time_is_refused_and_the_case_named(tmp_path: Path, median: object) -> None:
    content = document({"a.b": 10.0})
    content["benchmarks"][0]["stats"]["median"] = median
    message = refused(save(tmp_path, "run", content))
    assert "median" in message
    assert "a.b" in message


EDITED: list[tuple[str, str, object]] = [
    ("extra_info", "time_us", 20.0),
    ("extra_info", "bytes", 1),
    ("extra_info", "gbs", 1000.0),
    ("extra_info", "flops", 10**9),
    ("extra_info", "tflops", 1.0),
    ("extra_info", "peak_fraction", 0.9),
    ("extra_info", "roof_fraction", 0.9),
    ("extra_info", "verdict", "BELOW_FLOOR"),
    ("extra_info", "verdict", "NO_FLOOR"),
    ("extra_info", "verdict", "SAME"),
    ("extra_info", "floor", 0.95),
    ("stats", "median", 20e-6),
    ("stats", "min", 11e-6),
    ("stats", "max", 9e-6),
]


@pytest.mark.parametrize(("section", "name", "value"), EDITED)
def test_a_figure_that_was_edited_contradicts_the_others(
    tmp_path: Path, section: str, name: str, value: object, capsys: pytest.CaptureFixture[str]
) -> None:
    about = {"floor": 0.5, "peak_fraction": 0.6, "roof_fraction": 0.7}
    content = document({"a.b": 10.0, "a.c": 10.0}, extra={"a.b": about, "a.c": about})
    content["machine_info"]["gpu"]["roofs"] = {"copy": 0.6 / 0.7 * content["machine_info"]["gpu"]["peak_gbs"]}
    load_run(save(tmp_path, "run", content))
    content["benchmarks"][1][section][name] = value
    path = save(tmp_path, "run", content)
    message = refused(path)
    assert "benchmarks[1]." in message
    assert "'a.c'" in message
    for arguments in (["show"], ["floors", "--keep"], ["floors", "--write"], ["compare", str(path)]):
        assert main([arguments[0], str(path), *arguments[1:]]) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize(("bound", "peak"), [("link", "peak_link_gbs"), ("nvlink", "peak_nvlink_gbs")])
@pytest.mark.parametrize("fraction", [0.8, 0.9])
def test_a_fraction_of_the_peak_of_a_link_is_computed_again(
    tmp_path: Path, bound: str, peak: str, fraction: float
) -> None:
    moved = {"bound": bound, "bytes": 400_000, "gbs": 40.0, "peak_fraction": fraction}
    gpu: dict[str, Any] = {peak: 50.0}
    path = save(tmp_path, "run", document({"a.b": 10.0}, extra={"a.b": moved}, **gpu))
    if fraction == 0.8:
        assert load_run(path).cases
    else:
        assert "extra_info.peak_fraction" in refused(path)


def test_a_case_that_was_not_measured_has_no_verdict_of_a_speed(tmp_path: Path) -> None:
    left = {"case": "a.d", "verdict": "PASS", "reason": ""}
    assert "'a.d'" in refused(save(tmp_path, "run", document({"a.b": 10.0}, not_measured=[left])))


@pytest.mark.parametrize("verdict", [None, "absent"])
def test_a_case_without_a_verdict_is_refused_by_a_history_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verdict: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    content = document({"a.b": 10.0}, extra={"a.b": {"verdict": verdict}})
    if verdict == "absent":
        del content["benchmarks"][0]["extra_info"]["verdict"]
    save(tmp_path / "runs" / "nvidia-h200", "0001_run", document({"a.b": 10.0}, day=1))
    save(tmp_path / "runs" / "nvidia-h200", "0002_run", content | {"datetime": "2026-11-02T12:00:00+00:00"})
    (tmp_path / "peakgate.toml").write_text("")
    monkeypatch.chdir(tmp_path)
    assert main(["history", "--runs", "runs"]) == 2
    assert "verdict" in capsys.readouterr().err


RUNS = sorted((ROOT / "baselines").glob("*/*/*.json*"))


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.name)
def test_the_figures_of_every_kept_run_agree(path: Path) -> None:
    assert load_run(path).cases


def test_a_date_without_a_zone_is_taken_as_utc(tmp_path: Path) -> None:
    run = load_run(save(tmp_path, "run", document() | {"datetime": "2026-11-05T10:00:00"}))
    assert run.taken.utcoffset() is not None


def test_a_packed_run_says_what_it_says_unpacked(tmp_path: Path) -> None:
    plain = save(tmp_path, "run", document())
    packed = tmp_path / "run.json.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert load_run(packed).cases == load_run(plain).cases


@pytest.mark.parametrize("damage", ["cut off", "no gzip", "followed by more", "a bomb"])
def test_a_packed_run_that_is_damaged_or_a_bomb_is_refused(
    tmp_path: Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = gzip.compress(json.dumps(document()).encode())
    monkeypatch.setattr(records, "LARGEST_FILE_BYTES", 1_000_000)
    path = tmp_path / "run.json.gz"
    path.write_bytes(
        {
            "cut off": whole[:-20],
            "no gzip": b"{}",
            "followed by more": whole + b"{}",
            "a bomb": gzip.compress(b" " * 100_000_000),
        }[damage]
    )
    refused(path)


def test_a_file_name_that_no_file_can_have_is_refused() -> None:
    refused(Path("run-\ud800.json"))


@pytest.mark.parametrize("floor", [None, 0.7])
@pytest.mark.parametrize(("fraction", "taken"), [(1.02, True), (1.021, False)])
def test_more_than_the_peak_is_a_contradiction(
    tmp_path: Path, floor: float | None, fraction: float, *, taken: bool
) -> None:
    verdict = "NO_FLOOR" if floor is None else "PASS"
    extra = {"roof.copy-1GiB": {"peak_fraction": fraction, "floor": floor, "verdict": verdict}}
    path = save(tmp_path, "run", document({"roof.copy-1GiB": 100.0}, extra=extra))
    if taken:
        assert load_run(path).cases
    else:
        assert "impossible" in refused(path)
