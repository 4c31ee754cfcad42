from __future__ import annotations

import csv
import json
import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from metrics_text import exposition
from synthetic_runs import LADDER, document, save, slower

from peakgate.base import config
from peakgate.base.errors import Code
from peakgate.cli import main

PAD = "transpose.smem_pad-8192-32x8"
Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PEAKGATE_CACHE", raising=False)


def archive(folder: Path, sessions: int = 20, factor: float = 1.0, since: int = 6) -> Path:
    """So many sessions a day apart, with PAD slower by a factor in the last of them."""
    lot = random.Random(4)
    for day in range(1, sessions + 1):
        times = slower(PAD, factor) if day > sessions - since else LADDER
        noisy = {case: time_us * (1 + lot.gauss(0, 0.002)) for case, time_us in times.items()}
        driver = "580.159.04" if day < 10 else "590.44.01"
        save(folder, f"run{day:02d}", document(noisy, day=day, commit=f"{day:02x}" * 20, driver=driver))
    return folder


def gpus() -> tuple[str, str]:
    return "GPU-820987e0-7ea8-edaf-bddd-93f4cd76e459", "GPU-e01a041c-428f-73ac-fe66-7ee0b54e8764"


def test_a_quiet_history_passes_and_writes_its_files(tmp_path: Path, capsys: Captured) -> None:
    archive(tmp_path / ".benchmarks")
    assert main(["history"]) == 0
    out = tmp_path / ".peakgate" / "out"
    assert sorted(path.suffix for path in out.iterdir()) == [".csv", ".html", ".json", ".md", ".prom"]
    reported = capsys.readouterr()
    assert reported.out.splitlines()[0] == "PASS: 15 SAME"
    assert reported.err == ""
    (mark,) = json.loads((out / "history.json").read_text())["marks"]
    assert (mark["before"], mark["after"]) == ("580.159.04", "590.44.01")


def test_a_case_that_got_slower_exits_1_with_the_command_that_settles_it(
    tmp_path: Path, capsys: Captured, golden: Callable[[str, str], None]
) -> None:
    archive(tmp_path / "runs", factor=1.05)
    assert main(["history", "--runs", "runs", "--out", "out"]) == 1
    golden("history.txt", capsys.readouterr().out)
    golden("history.md", Path("out/history.md").read_text(encoding="utf-8"))
    reported = json.loads(Path("out/history.json").read_text())
    assert (reported["verdict"], reported["exit_code"], reported["counts"]) == ("SLOWER", 1, {"SLOWER": 1, "SAME": 14})
    metrics = exposition(Path("out/history.prom").read_text(encoding="utf-8"))
    labels = {"case": PAD, "gpu": "nvidia-h200", "commit": "14" * 20}
    assert metrics["peakgate_verdict"][tuple((labels | {"verdict": "SLOWER"}).items())] == 1
    assert 1e-5 < metrics["peakgate_time_seconds"][tuple(labels.items())] < 1e-2
    worst = reported["rows"][0]
    assert (worst["case"], worst["good"]["commit"], worst["bad"]["commit"]) == (PAD, "0e" * 20, "0f" * 20)
    assert reported["commands"] == [worst["command"]]
    assert len(worst["recent_us"]) == 20


def test_too_few_sessions_exit_3_and_fold_into_one_line(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    assert main(["history", "--runs", str(archive(tmp_path / "runs", sessions=8))]) == 3
    shown = capsys.readouterr().out
    assert "INCONCLUSIVE  15 cases" in shown
    assert shown.count("8 sessions so") == 1
    assert shown.count("\n::notice ") == 1
    assert json.loads((config.current().out / "history.json").read_text())["sessions_needed"] == 2


def test_a_gpu_is_named_by_the_first_part_of_its_uuid(tmp_path: Path, capsys: Captured) -> None:
    first, second = gpus()
    for day in range(1, 13):
        save(tmp_path / "runs", f"r{day:02d}", document(day=day, uuid=second if day > 6 else first))
    assert main(["history", "--runs", "runs", "--out", "out"]) == 0
    text, shown = Path("out/history.md").read_text(encoding="utf-8"), capsys.readouterr().out
    for face in (shown, text):
        assert (first[:12] in face, second[:12] in face) == (True, True)
        assert first not in face
    reported = json.loads(Path("out/history.json").read_text())
    assert reported["marks"][0]["before"] == first
    assert reported["counts"] == {"SAME": len(LADDER)}


def test_what_the_newest_session_could_not_time_is_reported_and_decides(tmp_path: Path, capsys: Captured) -> None:
    wrong = [{"case": PAD, "verdict": "WRONG", "reason": "output 0 [0] is 1"}]
    for day in range(1, 15):
        save(tmp_path / "runs", f"r{day:02d}", document(day=day))
    last = document({case: us for case, us in LADDER.items() if case != PAD}, day=20, not_measured=wrong)
    save(tmp_path / "runs", "r20", last)
    assert main(["history", "--runs", "runs", "--out", "out"]) == 1
    assert f"1 WRONG ({PAD})" in capsys.readouterr().out
    save(tmp_path / "runs", "r20", {**last, "peakgate": {**last["peakgate"], "not_measured": []}})
    assert main(["history", "--runs", "runs", "--out", "out"]) == 1
    assert f"1 MISSING ({PAD}): measure again" in capsys.readouterr().out
    heading = Path("out/history.md").read_text(encoding="utf-8").splitlines()[0]
    assert heading.endswith("MISSING, 1 case in the newest session")


def test_the_first_reason_is_given_where_every_file_is_refused(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "runs").mkdir()
    for name in "ab":
        (tmp_path / "runs" / f"{name}.json").write_text('{"benchmarks": 1}', encoding="utf-8")
    assert main(["history", "--runs", "runs", "--out", "out"]) == 2
    assert "none of 2 files can be read: " in (said := capsys.readouterr().err)
    assert Code.NO_RUN in said


def test_a_case_that_vanished_is_missing_until_it_counts_as_no_longer_measured(
    tmp_path: Path, capsys: Captured
) -> None:
    rest = {case: us for case, us in LADDER.items() if case != PAD}
    for day in range(1, 13):
        save(tmp_path / "runs", f"r{day:02d}", document(day=day))
    codes = []
    for day in range(13, 18):
        save(tmp_path / "runs", f"r{day:02d}", document(rest, day=day))
        codes.append(main(["history", "--runs", "runs", "--out", "out"]))
    assert codes == [1, 1, 1, 1, 0]
    assert f"no longer measured: {PAD}" in capsys.readouterr().out


def test_an_accepted_regression_of_no_case_is_named_with_the_nearest(tmp_path: Path, capsys: Captured) -> None:
    for day in range(1, 13):
        save(tmp_path / "runs", f"r{day:02d}", document(day=day))
    accepted = tmp_path / "baselines" / "nvidia-h200" / "acknowledged.toml"
    accepted.parent.mkdir(parents=True)
    entry = f'[[regression]]\ncase = "{PAD}x"\npercent = 2.0\nreason = "a check"\ndate = 2026-11-02\n'
    accepted.write_text(f"schema = 1\n{entry}")
    assert main(["history", "--runs", "runs", "--out", "out"]) == 0
    assert re.findall(rf"{PAD}x?\b", capsys.readouterr().out)[-2:] == [f"{PAD}x", PAD]


def test_a_regression_of_a_pool_is_told_of_all_its_sessions(tmp_path: Path, capsys: Captured) -> None:
    """Two GPUs take turns, the first of them 4 % slower in every case."""
    first, second = gpus()
    for day in range(1, 29):
        times = slower(PAD, 1.05) if day > 14 else LADDER
        if day % 2:
            times = {case: time_us * 1.04 for case, time_us in times.items()}
        content = document(times, day=day, commit=f"{day:02x}" * 20, uuid=first if day % 2 else second)
        save(tmp_path / "runs", f"r{day:02d}", content)
    assert main(["history", "--runs", "runs", "--out", "out"]) == 1
    shown = capsys.readouterr().out
    assert "since 14 sessions" in shown
    assert "ab 0e0e0e0e0e0e 0f0f0f0f0f0f" in shown
    reported = json.loads(Path("out/history.json").read_text())
    assert reported["counts"] == {"SLOWER": 1, "SAME": len(LADDER) - 1}
    assert reported["suite_wide"]["verdict"] == "SAME"
    assert (reported["rows"][0]["good"]["uuid"], reported["rows"][0]["bad"]["uuid"]) == (second, first)


def test_the_csv_is_the_series_a_row_a_session(tmp_path: Path) -> None:
    runs = archive(tmp_path / "runs", sessions=12)
    save(runs, "part", document({PAD: 100.0}, day=20, whole=False))
    assert main(["history", "--runs", str(runs), "--out", "out"]) == 0
    with Path("out/history.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["whole"] for row in rows] == ["True"] * 12 + ["False"]
    assert rows[-1][f"{PAD} time_us"] == "100"
    assert rows[-1]["transpose.smem-8192-32x8 time_us"] == ""


def test_only_cases_with_the_part_are_judged(tmp_path: Path) -> None:
    runs = archive(tmp_path / "runs", factor=1.05)
    assert main(["history", "--runs", str(runs), "-k", "hinted"]) == 0
    assert main(["history", "--runs", str(runs), "-k", "hinted or smem_pad"]) == 1


def test_all_lists_unchanged_cases_too(tmp_path: Path, capsys: Captured) -> None:
    assert main(["history", "--runs", str(archive(tmp_path / "runs")), "--all"]) == 0
    assert "SAME" in capsys.readouterr().out.split("transpose.hinted-4096-32x8")[0]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ([], Code.WHICH_RUN),
        (["--runs", "nowhere"], Code.UNREADABLE),
        (["--runs", "runs", "--gpu", "nvidia-l4"], Code.WHICH_RUN),
        (["--runs", "runs", "-k", "nothing"], Code.SELECTION),
        (["--runs", "runs", "--out", "taken"], Code.UNWRITABLE),
    ],
)
def test_mistakes_exit_2_with_one_line(tmp_path: Path, capsys: Captured, arguments: list[str], code: Code) -> None:
    archive(tmp_path / "runs", sessions=2)
    (tmp_path / "taken").write_text("")
    assert main(["history", *arguments]) == 2
    reported = capsys.readouterr().err
    assert len(reported.splitlines()) == 1
    assert reported.endswith(f" [{code}]\n")


def test_commits_lead_to_their_pages_where_the_repository_is_hosted(tmp_path: Path) -> None:
    archive(tmp_path / "runs", factor=1.05)
    address = "https://forge.example/commit/{}"
    Path("peakgate.toml").write_text(f'commit_url = "{address}"')
    assert main(["history", "--runs", "runs", "--out", "out"]) == 1
    assert f'<a href="{address.format("0f" * 20)}">' in Path("out/history.html").read_text(encoding="utf-8")
