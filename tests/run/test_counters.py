"""``bench --counters``: figures from what ncu prints, in the run file, with notes on declared work."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from runs import HOSTILE, places
from runs import run as run_bench
from synthetic_runs import document

from peakgate.base.verdict import ExitCode
from peakgate.run import bench, counters, ncu
from peakgate.run.places import Places
from peakgate.runfile.frame import to_frame
from peakgate.runfile.saved import load_run
from peakgate.runfile.schema import COUNTER_COLUMNS

GH100 = Path(__file__).parents[1] / "data" / "ncu" / "gh100.csv"
"""What ncu 2025.3.1 printed of these cases on an H200, by the metrics asked for."""
TRANSPOSE, SGEMM, HGEMM = "transpose.naive_row-8192-16x16", "sgemm.warp_tiled-1024", "hgemm.wgmma-4096"
CUBLAS, OFFSET = "hgemm.cublas-64x4096x14336", "access.offset-f64-o1"
CASES = (TRANSPOSE, SGEMM, HGEMM, CUBLAS, OFFSET)
KERNELS = ncu.parse(GH100.read_text(), CASES)

PRINTS = """#!{python}
import json, sys
from pathlib import Path
at = sys.argv.index("peakgate.run.ncu")
cases = Path(sys.argv[at + 2]).read_text().split()
records = [record for case in cases for record in ({{"begun": case}}, {{"case": case, "problem": None}})]
Path(sys.argv[at + 1]).write_text("".join(json.dumps(record) + chr(10) for record in [*records, {{"end": True}}]))
print(Path({printed!r}).read_text())
"""


@pytest.fixture
def staged(tmp_path: Path) -> Places:
    """A run that measured these cases on an H200, with too few bytes declared of one and too many of another."""
    places = Places(tmp_path / "out", tmp_path / "run.json")
    places.clear()
    declared = {TRANSPOSE: 536870912, SGEMM: 12582912, HGEMM: 50331648, CUBLAS: 300000000, OFFSET: 536870912}
    extra = {case: {"bytes": number, "flops": 0, "state": "cold", "math": "fp32"} for case, number in declared.items()}
    extra[OFFSET] |= {"flops": 33554432, "tflops": 33554432 / 400e6}
    content = document(dict.fromkeys(CASES, 400.0), extra=extra, l2_bytes=62914560)
    for path in (places.staged_json, places.staging / "saved" / "0001_a.json"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(content))
    return places


def use_ncu(monkeypatch: pytest.MonkeyPatch, folder: Path, printed: Path) -> None:
    program = folder / "ncu"
    program.write_text(PRINTS.format(python=sys.executable, printed=str(printed)))
    program.chmod(0o755)
    monkeypatch.setattr(ncu, "find", lambda: str(program))


def test_sectors_of_a_transpose_are_those_of_its_accesses() -> None:
    found = counters.case_counters(KERNELS[TRANSPOSE], "fp32")
    assert (found.launched_kernels, found.load_sectors_per_request, found.store_sectors_per_request) == (1, 4, 16)
    assert (found.dram_read_bytes, found.dram_written_bytes) == (280911104, 260261632)
    assert (found.l2_read_bytes, found.l2_written_bytes) == (32 * 8388608, 32 * 31079214)
    assert found.achieved_occupancy == pytest.approx(0.7476)
    assert found.l2_hit_fraction == pytest.approx(31059467 / (31059467 + 8388720))
    assert found.executed_flops == found.half_flops == found.tensor_fraction == 0


def test_operations_are_counted_on_both_kinds_of_cores() -> None:
    assert counters.case_counters(KERNELS[SGEMM], "fp32").executed_flops == 2 * 1024**3
    assert counters.case_counters(KERNELS[HGEMM], "bf16").executed_flops == 2 * 4096**3
    assert counters.case_counters(KERNELS[OFFSET], "fp32").executed_flops == 8192 * 4096


def test_kernels_of_one_launch_are_one_record() -> None:
    found = counters.case_counters(KERNELS[CUBLAS], "bf16")
    assert found.launched_kernels == 2
    assert found.dram_read_bytes == 119306752 + 3154432
    assert found.load_sectors_per_request is not None


def test_operations_of_tensor_cores_are_unknown_where_nothing_counts_them() -> None:
    older = [{name: value for name, value in KERNELS[HGEMM][0].items() if "ops_path" not in name}]
    assert counters.case_counters(older, "bf16").executed_flops is None
    assert counters.case_counters(older, "fp32").executed_flops == 0


def test_what_has_no_counter_is_missing() -> None:
    found = counters.case_counters([{"gpu__time_duration.sum": 1.0}], "fp32")
    assert {getattr(found, name) for name in COUNTER_COLUMNS} == {1, None}


def test_a_run_file_has_counters_and_notes_and_its_times(
    staged: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use_ncu(monkeypatch, tmp_path, GH100)
    report = counters.add(staged, tmp_path, "gpu:0")
    assert report["problem"] is None
    assert [(note["case"], note["work"], note["declared"]) for note in report["notes"]] == [
        (HGEMM, "bytes", 50331648),
        (CUBLAS, "bytes", 300000000),
    ]
    assert f"note: {HGEMM}: " in capsys.readouterr().out
    for path in staged.staging.rglob("*.json"):
        assert json.loads(path.read_text())["peakgate"]["counters"] == report
    frame = to_frame([load_run(staged.staged_json)]).set_index("case")
    assert frame["time_us"].tolist() == pytest.approx([400.0] * len(CASES))
    assert frame["store_sectors_per_request"][TRANSPOSE] == 16
    assert frame[list(COUNTER_COLUMNS)].dtypes.unique().tolist() == ["float64"]


def test_counters_of_a_run_without_them_are_missing_in_its_frame(staged: Places) -> None:
    assert to_frame([load_run(staged.staged_json)])[list(COUNTER_COLUMNS)].isna().all(axis=None)


def test_states_other_than_cold_keep_their_caches(
    staged: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = json.loads(staged.staged_json.read_text())
    content["benchmarks"][0]["extra_info"]["state"] = "warm"
    for path in staged.staging.rglob("*.json"):
        path.write_text(json.dumps(content))
    asked = []

    def profile(_program: str, cases: list[str], *_others: Any, flush: bool, **_: Any) -> ncu.Profiled:
        asked.append((cases, flush))
        return ncu.Profiled()

    monkeypatch.setattr(ncu, "find", lambda: "ncu")
    monkeypatch.setattr(ncu, "profile", profile)
    counters.add(staged, tmp_path, "gpu:0")
    assert asked == [(list(CASES[1:]), True), ([TRANSPOSE], False)]


@pytest.mark.parametrize(
    ("printed", "advice"),
    [
        ("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission", "NVreg_RestrictProfilingToAdminUsers=0"),
        ("==ERROR== no such thing", "no such thing"),
    ],
)
def test_what_keeps_counters_from_being_read_is_one_line(
    staged: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, printed: str, advice: str
) -> None:
    (tmp_path / "printed").write_text(printed)
    use_ncu(monkeypatch, tmp_path, tmp_path / "printed")
    report = counters.add(staged, tmp_path, "gpu:0")
    assert advice in report["problem"]
    assert "\n" not in report["problem"]
    assert load_run(staged.staged_json).cases[SGEMM].counters is None


def test_a_machine_without_ncu_says_what_to_install(
    staged: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ncu, "find", lambda: None)
    assert counters.add(staged, tmp_path, "gpu:0")["problem"] == ncu.NO_NCU


def test_an_interrupt_leaves_what_was_counted(staged: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted = ncu.Profiled({SGEMM: KERNELS[SGEMM]}, problem=ncu.STOPPED)
    monkeypatch.setattr(ncu, "find", lambda: "ncu")
    monkeypatch.setattr(ncu, "profile", lambda *_, **__: interrupted)
    assert counters.add(staged, tmp_path, "gpu:0")["problem"] == ncu.STOPPED
    saved = load_run(staged.staged_json).cases
    assert [case for case, found in saved.items() if found.counters is not None] == [SGEMM]


def test_the_emulator_has_no_counters_and_its_verdicts_stand(tmp_path: Path) -> None:
    done = run_bench(tmp_path, "--counters", "-k", "a_copy")
    assert done.returncode == 0, done.stdout + done.stderr
    assert counters.EMULATED in done.stdout
    assert json.loads((tmp_path / "bench.json").read_text())["counters"]["problem"] == counters.EMULATED
    (saved,) = tmp_path.rglob("0001_*.json")
    assert json.loads(saved.read_text())["peakgate"]["counters"]["not_counted"] == {}


def test_an_interrupt_while_counters_are_read_saves_the_run_and_exits_130(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(HOSTILE)
    monkeypatch.setattr(counters, "add", lambda *_: {"problem": ncu.STOPPED})
    code = bench.main("bench", ["--counters", "--device=cpu", *places(tmp_path), "-k", "a_copy"])
    assert code == ExitCode.INTERRUPTED
    assert json.loads((tmp_path / "bench.json").read_text())["exit_code"] == ExitCode.INTERRUPTED
    assert len(list(tmp_path.rglob("0001_*.json"))) == 1
