from __future__ import annotations

import subprocess
from collections.abc import Mapping
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from peakgate.cli import main
from peakgate.common.errors import PeakgateError
from peakgate.reports.protect import acknowledged
from peakgate.reports.protect.changes import Acknowledgement, Kind, floor_changes, rule, run_changes

PAD = "transpose.smem_pad-8192-32x8"
COPY = "roof.copy-1GiB"
TODAY = date(2026, 11, 20)
Captured = pytest.CaptureFixture[str]
FLOORS = st.dictionaries(st.sampled_from("abcdef"), st.floats(0.1, 1.0))


def git(*arguments: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, *arguments], check=True, capture_output=True)


def floors(values: Mapping[str, float]) -> str:
    lines = [f'"{case}" = {floor}' for case, floor in values.items()]
    return "\n".join(['schema = 1\ngpu = "nvidia-h200"\n[floors]', *lines, ""])


@pytest.fixture
def gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The baselines of one GPU in a repository whose tag ``base`` has two floors and two runs."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "baselines" / "nvidia-h200"
    (folder / "runs").mkdir(parents=True)
    (folder / "floors.toml").write_text(floors({PAD: 0.7, COPY: 0.8}))
    for name in ("one", "two"):
        (folder / "runs" / f"{name}.json").write_text(f'{{"run": "{name}"}}')
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "base")
    git("tag", "base")
    return folder


def acknowledge(folder: Path, *entries: str) -> None:
    text = "".join(f"[[acknowledged]]\n{entry}\n" for entry in entries)
    (folder / acknowledged.FILE).write_text(f"schema = 1\n{text}")


def test_an_untouched_tree_passes(gpu: Path, capsys: Captured) -> None:
    assert main(["protect", "--base", "base"]) == 0
    assert capsys.readouterr().out == "no unacknowledged change of floors or saved runs against base\n"


def test_raising_and_adding_is_fine(gpu: Path) -> None:
    (gpu / "floors.toml").write_text(floors({PAD: 0.75, COPY: 0.8, "roof.read-1GiB": 0.9}))
    (gpu / "runs" / "three.json").write_text("{}")
    git("add", ".")
    assert main(["protect", "--base", "base"]) == 0


def test_a_lowered_floor_fails_and_is_listed_by_itself(gpu: Path, capsys: Captured) -> None:
    (gpu / "floors.toml").write_text(floors({PAD: 0.65, COPY: 0.9}))
    assert main(["protect", "--base", "base"]) == 1
    listed = capsys.readouterr().out.splitlines()
    assert listed[0] == f"nvidia-h200: floor lowered: {PAD}: 0.7 to 0.65"
    assert len(listed) == 2
    assert "baselines/nvidia-h200/acknowledged.toml" in listed[1]


def test_a_dropped_floor_fails(gpu: Path, capsys: Captured) -> None:
    (gpu / "floors.toml").write_text(floors({PAD: 0.7}))
    assert main(["protect", "--base", "base"]) == 1
    assert f"floor dropped: {COPY}: 0.8 to none" in capsys.readouterr().out


def test_a_deleted_floors_file_drops_every_floor(gpu: Path, capsys: Captured) -> None:
    (gpu / "floors.toml").unlink()
    assert main(["protect", "--base", "base"]) == 1
    assert capsys.readouterr().out.count("floor dropped") == 2


def test_an_edited_and_a_deleted_run_fail_whether_committed_or_not(gpu: Path, capsys: Captured) -> None:
    (gpu / "runs" / "one.json").write_text("{}")
    (gpu / "runs" / "two.json").unlink()
    for _ in range(2):
        assert main(["protect", "--base", "base"]) == 1
        told = capsys.readouterr().out
        assert "nvidia-h200: run edited: one.json" in told
        assert "nvidia-h200: run deleted: two.json" in told
        git("add", "-A")
        git("commit", "-q", "--allow-empty", "-m", "change")


def test_a_renamed_run_is_a_deleted_one(gpu: Path, capsys: Captured) -> None:
    git("mv", "baselines/nvidia-h200/runs/one.json", "baselines/nvidia-h200/runs/first.json")
    assert main(["protect", "--base", "base"]) == 1
    assert "run deleted: one.json" in capsys.readouterr().out


def test_baselines_that_are_gone_altogether_fail(gpu: Path, capsys: Captured) -> None:
    git("rm", "-q", "-r", "baselines")
    assert not gpu.exists()
    assert main(["protect", "--base", "base"]) == 1
    told = capsys.readouterr().out
    assert (told.count("floor dropped"), told.count("run deleted")) == (2, 2)


def test_an_acknowledged_change_passes_and_is_still_listed(gpu: Path, capsys: Captured) -> None:
    (gpu / "floors.toml").write_text(floors({PAD: 0.65, COPY: 0.8}))
    (gpu / "runs" / "one.json").unlink()
    acknowledge(
        gpu,
        f'case = "{PAD}"\nreason = "less shared memory"\nexpires = 9999-12-31',
        'run = "one.json"\nreason = "throttled"\nexpires = "9999-12-31"',
    )
    assert main(["protect", "--base", "base"]) == 0
    told = capsys.readouterr().out
    assert f"floor lowered: {PAD}: 0.7 to 0.65; acknowledged until 9999-12-31: less shared memory" in told
    assert "run deleted: one.json" in told


def test_an_acknowledgement_excuses_its_own_case_alone(gpu: Path, capsys: Captured) -> None:
    (gpu / "floors.toml").write_text(floors({PAD: 0.65, COPY: 0.7}))
    acknowledge(gpu, f'case = "{PAD}"\nreason = "meant"\nexpires = 9999-12-31')
    assert main(["protect", "--base", "base"]) == 1
    assert "1 changes against base" in capsys.readouterr().out


def test_an_acknowledgement_that_nothing_needs_is_pointed_out(gpu: Path, capsys: Captured) -> None:
    acknowledge(gpu, f'case = "{PAD}"\nreason = "meant"\nexpires = 9999-12-31')
    assert main(["protect", "--base", "base"]) == 0
    assert f"the acknowledgement of {PAD} excuses nothing here" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("schema = 2", "schema is 2"),
        ("schema = true", "schema is True"),
        ("schema = 1\nacknowledge = []", "unknown key 'acknowledge'"),
        ("schema = 1\nacknowledged = 3", "not a list"),
        ("schema = 1\nacknowledged = [3]", "entry 1 is not a table"),
        ("schema = 1\n[[acknowledged]]\ncase = 'a'\nreason = 'b'", "expires of a is None"),
        (
            "schema = 1\n[[acknowledged]]\ncase = 'a'\nreason = 'b'\nexpires = '31.12.2026'",
            "expires of a is '31.12.2026'",
        ),
        ("schema = 1\n[[acknowledged]]\ncase = 'a'\nreason = 'b'\nexpires = 2026-12-31T00:00:00", "expected a date"),
        ("schema = 1\n[[acknowledged]]\ncase = 'a'\nreason = 'b'\nexpires = 20261231", "expected a date"),
        ("schema = 1\n[[acknowledged]]\ncase = 'a'\nreason = 'b'\nexpires = 2026-11-19", "a expired on 2026-11-19"),
        ("schema = 1\n[[acknowledged]]\ncase = 'a'\nreason = ' '\nexpires = 2026-12-31", "reason of a is ' '"),
        ("schema = 1\n[[acknowledged]]\ncase = 'a'\nwhy = 'b'\nexpires = 2026-12-31", "unknown key 'why' in entry 1"),
        ("schema = 1\n[[acknowledged]]\nreason = 'b'\nexpires = 2026-12-31", "neither case nor run"),
        (
            "schema = 1\n[[acknowledged]]\ncase = 'a'\nrun = 'r'\nreason = 'b'\nexpires = 2026-12-31",
            "both a case and a run",
        ),
        ("schema = ", "not TOML"),
    ],
)
def test_a_file_of_acknowledgements_is_read_strictly(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / acknowledged.FILE).write_text(text)
    with pytest.raises(PeakgateError) as caught:
        acknowledged.load(tmp_path, TODAY)
    assert said in str(caught.value)
    assert acknowledged.FILE in str(caught.value)


def test_a_case_acknowledged_twice_is_an_error(tmp_path: Path) -> None:
    entry = "case = 'a'\nreason = 'b'\nexpires = 2026-12-31"
    acknowledge(tmp_path, entry, entry)
    with pytest.raises(PeakgateError, match="a is acknowledged twice"):
        acknowledged.load(tmp_path, TODAY)


def test_an_acknowledgement_holds_on_its_last_day(tmp_path: Path) -> None:
    acknowledge(tmp_path, "case = 'a'\nreason = 'b'\nexpires = 2026-11-20")
    assert acknowledged.load(tmp_path, TODAY) == [Acknowledgement(tmp_path.name, "a", "b", "2026-11-20")]


def test_bytes_that_are_no_text_are_named(tmp_path: Path) -> None:
    (tmp_path / acknowledged.FILE).write_bytes(b"\xff")
    with pytest.raises(PeakgateError, match="cannot be read as UTF-8"):
        acknowledged.load(tmp_path, TODAY)


@pytest.mark.parametrize("ref", ["nowhere", "--all", "", "base:baselines"])
def test_a_base_that_is_no_commit_exits_2_with_one_line(gpu: Path, capsys: Captured, ref: str) -> None:
    assert main(["protect", f"--base={ref}"]) == 2
    told = capsys.readouterr().err
    assert len(told.splitlines()) == 1
    assert "no commit of that name" in told


def test_a_folder_outside_any_repository_exits_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert main(["protect", "--base", "main"]) == 2
    assert "not a git repository" in capsys.readouterr().err


def test_without_git_the_error_says_so(gpu: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setenv("PATH", "")
    assert main(["protect", "--base", "base"]) == 2
    assert "git is not installed" in capsys.readouterr().err


def test_floors_that_cannot_be_read_are_named_with_their_commit(gpu: Path, capsys: Captured) -> None:
    (gpu / "floors.toml").write_text("schema = 9")
    git("commit", "-q", "-a", "-m", "broken")
    assert main(["protect", "--base", "HEAD"]) == 2
    assert "HEAD:baselines/nvidia-h200/floors.toml:1: schema is 9" in capsys.readouterr().err


def test_a_folder_of_baselines_that_cannot_be_exits_2(gpu: Path, capsys: Captured) -> None:
    assert main(["protect", "--base", "base", "--baselines", "no/such/place"]) == 2
    assert "no such place" in capsys.readouterr().err


def test_a_repository_without_baselines_has_nothing_to_protect(gpu: Path) -> None:
    assert main(["protect", "--base", "base", "--baselines", "elsewhere"]) == 0


@given(FLOORS, FLOORS)
def test_exactly_the_floors_that_no_longer_hold_as_much_are_changes(
    before: dict[str, float], after: dict[str, float]
) -> None:
    changes = floor_changes("g", before, after)
    assert {change.what for change in changes} == {case for case in before if after.get(case, 0.0) < before[case]}
    assert all((change.kind is Kind.DROPPED) == (change.what not in after) for change in changes)


@given(FLOORS, FLOORS)
def test_every_change_is_failing_or_acknowledged_and_never_both(
    before: dict[str, float], after: dict[str, float]
) -> None:
    changes = floor_changes("g", before, after)
    words = [Acknowledgement("g", case, "meant", "2026-12-31") for case in "abc"]
    ruling = rule(changes, words)
    assert sorted(map(str, [*ruling.failing, *(change for change, _ in ruling.acknowledged)])) == sorted(
        map(str, changes)
    )
    assert {change.what for change in ruling.failing}.isdisjoint("abc")
    assert {word.what for word in ruling.idle} | {change.what for change, _ in ruling.acknowledged} == set("abc")


def test_an_acknowledgement_of_another_gpu_excuses_nothing() -> None:
    changes = floor_changes("nvidia-h200", {"a": 0.7}, {})
    assert rule(changes, [Acknowledgement("nvidia-l4", "a", "meant", "2026-12-31")]).failing == tuple(changes)


def test_only_files_in_a_runs_folder_are_runs() -> None:
    states = [("M", "g/floors.toml"), ("M", "resources.json"), ("A", "g/runs/new.json"), ("T", "g/runs/deep/x.json")]
    assert [(change.kind, change.what) for change in run_changes(states)] == [(Kind.EDITED, "deep/x.json")]
