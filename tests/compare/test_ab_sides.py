"""What becomes of a side before it is measured: submodules, its own build, a tool that fits, its own modules."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from ab_experiment import ab, start_quickly
from ab_fake import FakeSide, commit, git

from peakgate.base import progress
from peakgate.base.errors import Code, PeakgateError
from peakgate.compare.ab.folders import Wanted, folders, resolve
from peakgate.compare.ab.process import SideBroken, build_side, refuse_foreign
from peakgate.compare.ab.schedule import Side

Captured = pytest.CaptureFixture[str]


def built(tmp_path: Path, settings: str) -> None:
    (tmp_path / "peakgate.toml").write_text(settings)
    build_side(Side.HEAD, tmp_path, {"PATH": "/usr/bin:/bin"}, tmp_path / "log")


def test_a_build_runs_in_its_side_with_its_temporary_files_inside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(progress, "FIRST_LINE_S", 0.0)
    monkeypatch.setattr(progress, "EVERY_S", 0.0)
    with progress.shown("building", stream=shown, ticks=False):
        built(tmp_path, 'build = "pwd > where && echo $TMPDIR >> where"')
    assert "pwd > where" in shown.getvalue()
    assert (tmp_path / "where").read_text().split() == [str(tmp_path), str(tmp_path / ".peakgate" / "tmp")]


def test_a_project_without_a_build_is_taken_as_it_is(tmp_path: Path) -> None:
    built(tmp_path, "")
    assert not (tmp_path / "log").exists()


def test_a_build_that_fails_or_does_not_end_breaks_its_side(tmp_path: Path) -> None:
    with pytest.raises(SideBroken, match="head: its build `echo no compiler; exit 4` exits 4: no compiler"):
        built(tmp_path, 'build = "echo no compiler; exit 4"')
    with pytest.raises(SideBroken, match=r"did not end within build_timeout_s of 0\.2 s"):
        built(tmp_path, 'build = "sleep 60 & wait"\nbuild_timeout_s = 0.2')


@pytest.mark.parametrize(("side", "code"), [("base", 2), ("head", 1)])
def test_a_base_that_does_not_build_is_bad_input_and_such_a_head_a_regression(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured, side: str, code: int
) -> None:
    start_quickly(tmp_path, monkeypatch)
    write = FakeSide.write

    def failing(self: FakeSide, folder: Path, name: str, log: Path) -> Path:
        written = write(self, folder, name, log)
        if name == side:
            with (folder / "peakgate.toml").open("a") as settings:
                settings.write('\nbuild = "exit 7"\n')
        return written

    monkeypatch.setattr(FakeSide, "write", failing)
    assert ab(tmp_path, FakeSide(), FakeSide()) == code
    assert f"{side}: its build" in capsys.readouterr().err


def test_a_side_that_needs_another_peakgate_is_bad_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    start_quickly(tmp_path, monkeypatch)
    write = FakeSide.write

    def newer(self: FakeSide, folder: Path, name: str, log: Path) -> Path:
        written = write(self, folder, name, log)
        (folder / "peakgate.toml").write_text('a_key_of_tomorrow = 1\nrequires = ">=99"\n')
        return written

    monkeypatch.setattr(FakeSide, "write", newer)
    assert ab(tmp_path, FakeSide(), FakeSide()) == 2
    assert "requires peakgate >=99," in capsys.readouterr().err


def test_a_module_from_outside_its_side_is_bad_input_and_named(tmp_path: Path) -> None:
    found = tmp_path / "foreign.json"
    refuse_foreign(Side.BASE, found)
    found.write_text(json.dumps({"mine": "/home/me/mine/__init__.py", "mine.ops": "/home/me/mine/ops.py"}))
    with pytest.raises(
        PeakgateError, match=r"base: module mine is loaded from /home/me/mine/__init__\.py, outside its"
    ):
        refuse_foreign(Side.BASE, found)


def test_worktrees_have_submodules_and_a_project_may_be_a_folder_of_its_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "library"
    library.mkdir()
    (library / "header.cuh").write_text("// shared\n")
    commit(library, "library")
    repository = tmp_path / "repository"
    (repository / "gpu").mkdir(parents=True)
    (repository / "gpu" / "peakgate.toml").write_text("")
    commit(repository, "project")
    git(repository, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library), "third_party")
    head = commit(repository, "with a submodule")
    monkeypatch.chdir(repository / "gpu")
    with folders(Wanted(head), Wanted(".")) as (base, working):
        assert (base.path.name, base.commit) == ("gpu", head)
        assert (base.path.parent / "third_party" / "header.cuh").read_text() == "// shared\n"
        assert working.path == (repository / "gpu").resolve()
    assert git(repository, "worktree", "list").count("\n") == 0


@pytest.mark.parametrize("name", [".", "HEAD", ""])
def test_a_repository_without_a_commit_is_bad_input_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / "peakgate.toml").write_text("")
    monkeypatch.chdir(tmp_path)
    git(tmp_path, "init", "--quiet")
    with pytest.raises(PeakgateError, match="no commit yet", check=lambda error: error.code is Code.COMMIT):
        resolve(Wanted(name))


def test_a_commit_without_the_projects_folder_is_bad_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "readme").write_text("")
    first = commit(tmp_path, "nothing yet")
    (tmp_path / "gpu").mkdir()
    (tmp_path / "gpu" / "peakgate.toml").write_text("")
    second = commit(tmp_path, "the project")
    monkeypatch.chdir(tmp_path / "gpu")
    with (
        pytest.raises(PeakgateError, match="gpu", check=lambda error: error.code is Code.PROJECT),
        folders(Wanted(first), Wanted(second)),
    ):
        pass
