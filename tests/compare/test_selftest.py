from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from refusals import refusal
from synthetic_runs import LADDER, document, save

from peakgate.base.errors import Code
from peakgate.cli import main
from peakgate.compare import resample
from peakgate.compare import selftest as measuring
from peakgate.compare.resample import SessionLayout, measure
from peakgate.runfile.saved import Run, load_run

PAD = "transpose.smem_pad-8192-32x8"
Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(resample, "MOST_RESAMPLES", 2)
    monkeypatch.setattr(measuring, "device_uuid", lambda choice: None if choice == "cpu" else "GPU-0")


def unchanged(folder: Path, sessions: int = 6, odd: int = 0, by: float = 0.0, scale: float = 1.0, **gpu: Any) -> Path:
    """Sessions of one commit with an SD of 0.2 %; the case PAD of session number ``odd`` is off by so much."""
    lot = random.Random(7)
    for day in range(1, sessions + 1):
        times = {case: scale * time_us * (1 + lot.gauss(0, 0.002)) for case, time_us in LADDER.items()}
        times[PAD] *= 1 + by * (day == odd)
        save(folder, f"s{day:02d}", document(times, day=day, **gpu))
    return folder


def load(folder: Path) -> list[Run]:
    return [load_run(path) for path in sorted(folder.glob("*.json"))]


@pytest.mark.parametrize("design", SessionLayout)
def test_quiet_sessions_give_no_false_positive(design: SessionLayout, tmp_path: Path) -> None:
    found = measure(design, load(unchanged(tmp_path)))
    assert (found.flagged, found.flagged_cases) == (0, {})
    assert set(found.detectable_percent) == set(LADDER)


def test_one_odd_session_is_found_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resample, "MOST_RESAMPLES", 15)  # all pairs
    found = measure(SessionLayout.SINGLE, load(unchanged(tmp_path, odd=3, by=0.06)))
    assert (found.flagged, found.flagged_cases) == (5, {PAD: 5})
    assert next(iter(found.flagged_sessions.items())) == (2, 5)


def test_more_sessions_on_a_side_see_smaller_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = load(unchanged(tmp_path, sessions=10))
    seen = [measure(design, runs).detectable_percent[PAD] for design in SessionLayout]
    assert seen[0] > seen[1] > seen[2]


def test_scaling_all_times_changes_no_false_positive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All cases stay longer than the short kernels that have a rule of their own."""
    base = measure(SessionLayout.HALVES, load(unchanged(tmp_path, odd=2, by=0.05)))

    for scale in (0.5, 20.0):
        scaled = measure(SessionLayout.HALVES, load(unchanged(tmp_path, odd=2, by=0.05, scale=scale)))
        assert (scaled.flagged, scaled.flagged_cases) == (base.flagged, base.flagged_cases)


def test_the_command_passes_on_a_quiet_runner_and_writes_the_record(
    tmp_path: Path, capsys: Captured, golden: Callable[[str, str], None]
) -> None:
    unchanged(tmp_path / "aa")
    assert main(["selftest", "aa", "--save"]) == 0
    golden("selftest.txt", capsys.readouterr().out)
    reported = json.loads(Path("baselines/nvidia-h200/selftest.json").read_text())
    assert (reported["verdict"], len(reported["designs"]), len(reported["sessions"])) == ("PASS", 3, 6)
    assert set(reported["smallest_detectable_change_percent"]) == set(LADDER)


def test_too_many_false_positives_exit_3_and_name_case_and_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured, golden: Callable[[str, str], None]
) -> None:
    monkeypatch.setattr(resample, "MOST_RESAMPLES", 5)
    unchanged(tmp_path / "aa", odd=3, by=0.06)
    assert main(["selftest", "aa"]) == 3
    golden("selftest-false-positives.txt", capsys.readouterr().out)
    single = json.loads(Path(".peakgate/out/selftest.json").read_text())["designs"][0]
    assert (single["alarming_cases"], single["alarming_sessions"]["s03.json"]) == ({PAD: 2}, 2)


def test_a_floor_tighter_than_the_runner_exits_3_and_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    fraction = load(unchanged(tmp_path / "aa", sessions=5))[0].cases[PAD].peak_fraction
    folder = tmp_path / "baselines" / "nvidia-h200"
    folder.mkdir(parents=True)
    (folder / "floors.toml").write_text(f'schema = 1\ngpu = "nvidia-h200"\n[floors]\n"{PAD}" = {fraction}\n')
    assert main(["selftest", "aa"]) == 3
    (tight,) = json.loads(Path(".peakgate/out/selftest.json").read_text())["floors_too_tight"]
    assert (tight["case"], tight["floor"]) == (PAD, pytest.approx(fraction))


def test_the_newest_sessions_are_used_when_fewer_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    unchanged(tmp_path / "aa", odd=1, by=0.06)
    assert main(["selftest", "aa", "--sessions", "5"]) == 0
    used = json.loads(Path(".peakgate/out/selftest.json").read_text())["sessions"]
    assert used == [f"s{day:02d}.json" for day in range(2, 7)]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"commit": "f" * 40}, "commit ffff"),
        ({"driver": "590.1"}, "driver 590.1, but s01.json has 580.159.04"),
        ({"uuid": "GPU-9"}, "GPU GPU-9"),
        ({"extra": {PAD: {"fingerprint": "f00d"}}}, f"{PAD} differs in machine code from s01.json"),
    ],
)
def test_sessions_that_are_not_one_code_on_one_runner_are_refused(
    tmp_path: Path, capsys: Captured, change: dict[str, Any], said: str
) -> None:
    save(unchanged(tmp_path / "aa"), "s07", document(day=7, **change))
    assert main(["selftest", "aa"]) == 2
    reported = capsys.readouterr().err
    assert len(reported.splitlines()) == 1
    assert said in reported


def test_too_few_or_emulated_sessions_are_refused(tmp_path: Path, capsys: Captured) -> None:
    unchanged(tmp_path / "few", sessions=4)
    unchanged(tmp_path / "emulated", slug="cpu-emulator")
    assert main(["selftest", "few"]) == 2
    assert refusal(capsys) is Code.TOO_FEW
    assert main(["selftest", "emulated"]) == 2
    assert refusal(capsys) is Code.EMULATED


def test_sessions_without_a_common_case_are_refused(tmp_path: Path, capsys: Captured) -> None:
    for day in range(1, 6):
        save(tmp_path / "aa", f"s{day}", document({f"a.b{day}": 100.0}, day=day))
    assert main(["selftest", "aa"]) == 2
    assert refusal(capsys) is Code.NOT_ALIKE


def test_a_later_comparison_quotes_the_selftest_in_one_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    unchanged(tmp_path / "aa", sessions=5)
    assert main(["selftest", "aa", "--save"]) == 0
    run = save(tmp_path, "run", document(driver="590.1"))
    capsys.readouterr()
    assert main(["compare", str(run), str(run)]) == 0
    notes = [line for line in capsys.readouterr().out.splitlines() if "selftest" in line]
    assert len(notes) == 1
    assert "another driver" in notes[0]
    other = save(tmp_path, "other", document(slug="nvidia-l4"))
    assert main(["compare", str(other), str(other)]) == 0
    assert "selftest" not in capsys.readouterr().out


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": 1, "command": "selftest", "designs": []}'])
def test_a_broken_selftest_record_is_named(tmp_path: Path, capsys: Captured, text: str) -> None:
    path = tmp_path / "baselines" / "nvidia-h200" / "selftest.json"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    run = save(tmp_path, "run", document())
    assert main(["compare", str(run), str(run)]) == 2
    reported = capsys.readouterr().err
    assert len(reported.splitlines()) == 1
    assert "selftest.json: " in reported


def test_a_record_of_another_schema_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    unchanged(tmp_path / "aa", sessions=5)
    assert main(["selftest", "aa"]) == 0
    path = tmp_path / ".peakgate" / "out" / "selftest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema": 9}))
    run = save(tmp_path, "run", document())
    assert main(["compare", str(run), str(run)]) == 2
    assert "schema is 9" in capsys.readouterr().err


FAKE_SUITE = """
import json, sys, time
from pathlib import Path
target = next(each.partition("=")[2] for each in sys.argv if each.startswith("--benchmark-json="))
number = int(Path(target).stem[-2:])
Path("calls").open("a").write(" ".join(sys.argv[1:]) + chr(10))
content = json.loads(Path("template.json").read_text())
content["datetime"] = f"2026-11-{number:02d}T00:00:00+00:00"
if number != BROKEN:
    Path(target).write_text(json.dumps(content))
sys.exit(CODE)
"""


def fake_suite(tmp_path: Path, code: int = 1, broken: int = 0, **content: Any) -> tuple[str, ...]:
    """A suite that writes a copy of one run, but for the broken session, and exits with the code."""
    save(tmp_path, "template", document(**content))
    script = tmp_path / "peakgate.py"
    script.write_text(FAKE_SUITE.replace("BROKEN", str(broken)).replace("CODE", str(code)))
    return sys.executable, str(script)


def test_sessions_are_fresh_processes_whose_own_verdict_does_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measuring, "BENCH_COMMAND", fake_suite(tmp_path))
    assert main(["selftest", "--sessions", "5", "--save", "--tier", "full"]) == 0
    calls = (tmp_path / "calls").read_text().splitlines()
    assert len(calls) == 5
    assert all(call.endswith("--tier full") for call in calls)
    assert (tmp_path / "baselines" / "nvidia-h200" / "selftest.json").is_file()


@pytest.mark.parametrize(("code", "broken"), [(2, 1), (0, 3)])
def test_a_session_that_leaves_no_run_stops_the_selftest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured, code: int, broken: int
) -> None:
    monkeypatch.setattr(measuring, "BENCH_COMMAND", fake_suite(tmp_path, code, broken))
    assert main(["selftest", "--sessions", "5"]) == 2
    assert refusal(capsys) is Code.PROCESS
    assert len((tmp_path / "calls").read_text().splitlines()) == broken


def test_an_emulated_first_session_stops_the_selftest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setattr(measuring, "BENCH_COMMAND", fake_suite(tmp_path, slug="cpu-emulator"))
    assert main(["selftest", "--sessions", "5"]) == 2
    assert refusal(capsys) is Code.EMULATED
    assert len((tmp_path / "calls").read_text().splitlines()) == 1


def test_a_selftest_without_a_gpu_is_refused_before_its_first_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setattr(measuring, "BENCH_COMMAND", fake_suite(tmp_path))
    assert main(["selftest", "--device", "cpu"]) == 2
    assert refusal(capsys) is Code.EMULATED
    monkeypatch.setattr(measuring, "device_uuid", lambda _: None)
    assert main(["selftest"]) == 3
    assert refusal(capsys) is Code.NO_GPU
    assert not (tmp_path / "calls").exists()


def test_an_interrupted_session_ends_the_selftest_as_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measuring, "BENCH_COMMAND", fake_suite(tmp_path, code=130))
    assert main(["selftest", "--sessions", "5"]) == 130


@pytest.mark.parametrize("number", ["4", "0", "-1", "ten"])
def test_fewer_sessions_than_a_selftest_needs_are_wrong_usage(number: str, capsys: Captured) -> None:
    assert main(["selftest", "--sessions", number]) == 2
    assert capsys.readouterr().err.endswith(f"[{Code.OPTION}]\n")
