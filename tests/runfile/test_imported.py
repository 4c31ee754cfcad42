"""nvbench's and Google Benchmark's files as run files: what they say is kept, what they do not say stays unknown."""

from __future__ import annotations

import gzip
import json
import lzma
import struct
from pathlib import Path

import pytest
from benchmark_documents import COUNT, MEAN, RATE, SHARE, google, nvbench, state, summary
from refusals import refusal
from runs import plain_pytest

from peakgate.base.errors import Code
from peakgate.base.verdict import Verdict
from peakgate.cli import main
from peakgate.runfile.saved import load_run

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "peakgate.toml").write_text("")
    monkeypatch.chdir(tmp_path)


def imported(document: object, *options: str) -> tuple[int, list[Path]]:
    Path("theirs.json").write_text(json.dumps(document))
    code = main(["import", "theirs.json", *options])
    return code, sorted(Path(".benchmarks").rglob("*.json"))


def test_an_nvbench_state_is_a_case_with_its_axes_as_the_size() -> None:
    code, files = imported(nvbench(state(MEAN, RATE, SHARE, COUNT)), "--commit", "abcd1234", "--date", "2026-11-02")
    assert code == 0
    run = load_run(files[0])
    case = run.cases["cub_bench_scan.nvbench-T_I32-Elements_1024"]
    assert case.time_us == pytest.approx(100.0)
    assert (case.samples, case.gbs, case.peak_fraction) == (40, 3600.0, 0.75)
    assert (run.slug, run.commit, run.whole, run.taken.isoformat()) == (
        "nvidia-h200",
        "abcd1234",
        True,
        "2026-11-02T00:00:00+00:00",
    )


def test_what_the_file_does_not_say_is_unknown_and_not_made_up() -> None:
    _, files = imported(nvbench(state(MEAN)))
    saved = json.loads(files[0].read_text())
    gpu, info = saved["machine_info"]["gpu"], saved["benchmarks"][0]["extra_info"]
    assert [gpu[name] for name in ("uuid", "driver", "vbios")] == [None] * 3
    assert [info[name] for name in ("gbs", "peak_fraction", "registers", "relative_error", "fingerprint", "bytes")] == [
        None
    ] * 6
    assert saved["benchmarks"][0]["stats"] == {"median": 100e-6, "iqr": None, "rounds": None}
    assert info["sampling"] == "nvbench, cold, mean"
    assert "time stamp" in saved["peakgate"]["imported"]["datetime_from"]
    assert load_run(files[0]).commit == "unknown"


def test_samples_beside_the_json_give_the_median_and_are_kept(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "theirs.json-bin").mkdir()
    binary = tmp_path / "theirs.json-bin" / "0.bin"
    binary.write_bytes(struct.pack("<3f", 1e-4, 2e-4, 4e-4))
    given = nvbench(state(MEAN, summary("nv/json/bin:nv/cold/sample_times", filename="theirs.json-bin/0.bin", size=3)))
    _, files = imported(given)
    saved = json.loads(files[0].read_text())
    assert saved["benchmarks"][0]["stats"]["median"] == pytest.approx(2e-4)
    assert len(saved["benchmarks"][0]["stats"]["data"]) == 3
    binary.write_bytes(struct.pack("<2f", 1e-4, 2e-4))
    assert main(["import", "theirs.json"]) == 2
    assert refusal(capsys) is Code.MALFORMED
    binary.unlink()
    assert main(["import", "theirs.json"]) == 2
    assert refusal(capsys) is Code.UNREADABLE


def test_floors_judge_what_was_imported(tmp_path: Path) -> None:
    floors = tmp_path / "baselines" / "nvidia-h200" / "floors.toml"
    floors.parent.mkdir(parents=True)
    case = "cub_bench_scan.nvbench-T_I32-Elements_1024"
    for floor, code, verdict in ((0.7, 0, "PASS"), (0.8, 1, "BELOW_FLOOR")):
        floors.write_text(f'schema = 1\ngpu = "nvidia-h200"\n\n[floors]\n"{case}" = {floor}\n')
        found, files = imported(nvbench(state(MEAN, RATE, SHARE)), "--date", f"2026-11-0{code + 1}")
        assert found == code
        assert load_run(files[-1]).cases[case].verdict == Verdict(verdict)
    code, files = imported(nvbench(state(MEAN)), "--date", "2026-11-04")
    assert (code, load_run(files[-1]).cases[case].verdict) == (3, Verdict.INCONCLUSIVE)


def test_over_the_peak_is_impossible_and_a_skip_undecided(capsys: Captured) -> None:
    over = summary("nv/cold/bw/global/utilization", value=55.0)
    assert imported(nvbench(state(MEAN, over)))[0] == 1
    assert ": IMPOSSIBLE, " in capsys.readouterr().out
    skipped = state(elements=7, is_skipped=True, skip_reason="too small")
    code, _ = imported(nvbench(state(MEAN), skipped), "--date", "2026-11-09")
    assert code == 3
    assert "Elements_7: INCONCLUSIVE" in capsys.readouterr().out


def test_a_selection_is_not_whole() -> None:
    _, files = imported(nvbench(state(MEAN), argv=("bench", "-b", "scan")))
    assert load_run(files[0]).whole is False


def test_google_benchmarks_repetitions_are_samples(capsys: Captured) -> None:
    entry: dict[str, object] = {
        "name": "BM_copy/1024/manual_time",
        "run_name": "BM_copy/1024/manual_time",
        "run_type": "iteration",
    }
    entries = [entry | {"real_time": time, "time_unit": "us", "bytes_per_second": 1e12} for time in (10, 11, 15)]
    aggregate = entry | {"run_type": "aggregate", "aggregate_name": "mean", "real_time": 12, "time_unit": "us"}
    assert imported(google(*entries, aggregate))[0] == 2
    assert refusal(capsys) is Code.GPU_MODELS
    code, files = imported(google(*entries, aggregate), "--gpu", "NVIDIA H200")
    assert code == 0
    run = load_run(files[0])
    case = run.cases["BM_copy.google-benchmark-1024-manual_time"]
    assert case.time_us == pytest.approx(11.0)
    assert (case.samples, case.gbs) == (3, 1000.0)
    assert run.taken.isoformat() == "2026-11-01T10:00:00+01:00"


def test_two_benchmarks_of_one_id_are_refused(capsys: Captured) -> None:
    assert imported(nvbench(state(MEAN), state(MEAN)))[0] == 2
    assert refusal(capsys) is Code.RECORD


def test_each_gpu_of_an_nvbench_file_is_a_run() -> None:
    given = nvbench(state(MEAN), state(MEAN, device=1))
    given["devices"].append(given["devices"][0] | {"id": 1})
    code, files = imported(given, "--date", "2026-11-02")
    assert code == 0
    assert [len(load_run(path).cases) for path in files] == [1, 1]


def test_a_file_in_which_nothing_was_measured_is_refused(capsys: Captured) -> None:
    for given in (nvbench(), nvbench() | {"benchmarks": []}, google()):
        assert imported(given, "--gpu", "NVIDIA H200") == (2, [])
        assert refusal(capsys) is Code.TOO_FEW


def test_a_time_that_is_none_costs_its_own_case() -> None:
    zero, unknown = (summary("nv/cold/time/gpu/mean", value=value) for value in (0.0, "nan"))
    given = nvbench(state(MEAN), state(zero, elements=7), state(unknown, elements=9))
    code, files = imported(given)
    assert code == 3
    run = load_run(files[0])
    assert (len(run.cases), len(run.unmeasured)) == (1, 2)


def test_rows_of_a_fitted_curve_are_no_measurement() -> None:
    timed = {"run_type": "iteration", "real_time": 10.0, "time_unit": "us"}
    fit = {"name": "BM_sort_BigO", "run_name": "BM_sort", "run_type": "aggregate", "aggregate_name": "BigO"}
    code, files = imported(google(timed | {"name": "BM_sort/8", "run_name": "BM_sort/8"}, fit), "--gpu", "A")
    assert (code, list(load_run(files[0]).cases)) == (0, ["BM_sort.google-benchmark-8"])


def test_aggregates_of_files_without_run_types_are_no_cases() -> None:
    rows = [{"name": f"BM_copy/8{end}", "real_time": 9.0, "time_unit": "us"} for end in ("", "_mean", "_stddev")]
    _, files = imported(google(*rows), "--gpu", "A")
    assert list(load_run(files[0]).cases) == ["BM_copy.google-benchmark-8"]


def test_two_families_of_one_name_are_refused(capsys: Captured) -> None:
    row = {"name": "BM_copy", "run_name": "BM_copy", "run_type": "iteration", "real_time": 9.0, "time_unit": "us"}
    given = google(row | {"family_index": 0}, row | {"family_index": 3, "real_time": 900.0})
    assert imported(given, "--gpu", "NVIDIA H200") == (2, [])
    assert refusal(capsys) is Code.RECORD


def test_a_file_with_a_contradiction_is_not_written(capsys: Captured) -> None:
    late = nvbench(state(MEAN))
    assert imported(late, "--date", "2199-01-01") == (2, [])
    assert refusal(capsys) is Code.NO_RUN


def test_times_of_pytest_benchmark_are_the_hosts(tmp_path: Path) -> None:
    (tmp_path / "test_sum.py").write_text(
        "import pytest\n"
        "@pytest.mark.parametrize('n', [10, 100])\n"
        "def test_sum(benchmark, n):\n"
        "    benchmark.pedantic(sum, (range(n),), rounds=20)\n"
    )
    result = plain_pytest(tmp_path, "test_sum.py", "--benchmark-json=theirs.json")
    assert result.returncode == 0, result.stdout
    theirs = json.loads(Path("theirs.json").read_text())
    code, files = imported(theirs)
    run = load_run(files[0])
    assert (code, run.device, run.gpu["uuid"]) == (0, "cpu", theirs["machine_info"]["node"])
    case = run.cases["test_sum.test_sum-100"]
    assert case.time_us == pytest.approx(theirs["benchmarks"][1]["stats"]["median"] * 1e6)
    assert (case.samples, case.peak_fraction, case.verdict) == (20, None, Verdict.NO_FLOOR)
    assert imported(json.loads(files[0].read_text()))[0] == 2
    code, files = imported(theirs, "--gpu", "NVIDIA H200")
    assert (code, {load_run(path).slug for path in files} >= {"nvidia-h200"}) == (0, True)


def test_a_commit_is_given_by_its_hash(capsys: Captured) -> None:
    assert imported(nvbench(state(MEAN)), "--commit", "HEAD") == (2, [])
    assert refusal(capsys) is Code.OPTION


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "invalid JSON"),
        ("[]", "bad.json: the file is []"),
        ('{"benchmarks": []}', "neither nvbench's JSON"),
        ('{"devices": [{}], "benchmarks": []}', "devices[0].id "),
        ('{"devices": [], "benchmarks": [{"name": "a", "states": [{}]}]}', "benchmarks[0].states[0].device "),
        ('{"context": {}, "benchmarks": [{"name": "a", "real_time": "x"}]}', "benchmarks[0].real_time "),
    ],
)
def test_what_is_no_such_file_is_bad_input(tmp_path: Path, capsys: Captured, text: str, said: str) -> None:
    (tmp_path / "bad.json").write_text(text)
    assert main(["import", "bad.json", "--gpu", "x"]) == 2
    assert said in capsys.readouterr().err


def test_a_packed_file_is_read_or_its_format_named(tmp_path: Path, capsys: Captured) -> None:
    text = json.dumps(nvbench(state(MEAN))).encode()
    (tmp_path / "packed.json.gz").write_bytes(gzip.compress(text))
    (tmp_path / "packed.json.xz").write_bytes(lzma.compress(text))
    assert main(["import", "packed.json.gz"]) == 0
    capsys.readouterr()
    assert main(["import", "packed.json.xz"]) == 2
    assert "compressed by xz" in capsys.readouterr().err


def test_a_run_file_is_written_once_and_never_over_another(capsys: Captured) -> None:
    document = nvbench(state(MEAN))
    first = imported(document, "--date", "2026-11-05")[1]
    assert imported(document, "--date", "2026-11-05") == (0, first)
    code, files = imported(document, "--date", "2026-11-05", "--commit", "abcd")
    assert (code, files) == (2, first)
    assert refusal(capsys) is Code.TAKEN


def test_floors_and_compare_read_what_was_imported(capsys: Captured) -> None:
    for day, time_us in ((1, 100), (2, 100.5), (3, 150)):
        again = summary("nv/cold/time/gpu/mean", value=time_us * 1e-6)
        imported(nvbench(state(again, RATE, SHARE, COUNT)), "--date", f"2026-11-0{day}")
    files = sorted(map(str, Path(".benchmarks").rglob("*.json")))
    said = capsys.readouterr().out
    assert main(["floors", *files]) == 0
    assert "cub_bench_scan.nvbench-T_I32-Elements_1024" in capsys.readouterr().out
    assert f"next: peakgate compare {files[1]} {files[2]}" in said
    assert main(["compare", files[0], files[2]]) in (0, 1, 3)
    assert "peakgate bench" not in capsys.readouterr().out  # which cannot measure it again


def test_host_times_are_compared_without_a_word_of_floors(capsys: Captured, tmp_path: Path) -> None:
    (tmp_path / "test_sum.py").write_text(
        "def test_sum(benchmark):\n    benchmark.pedantic(sum, (range(9),), rounds=20)\n"
    )
    plain_pytest(tmp_path, "test_sum.py", "--benchmark-json=theirs.json")
    theirs = json.loads(Path("theirs.json").read_text())
    assert main(["compare", "theirs.json", "theirs.json"]) == 2
    assert "peakgate import" in capsys.readouterr().err
    for day in (1, 2):
        _, files = imported(theirs, "--date", f"2026-11-0{day}")
    assert main(["compare", *map(str, files)]) in (0, 3)
    assert "floor" not in capsys.readouterr().out
