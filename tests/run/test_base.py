from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from expecting import refuses

from peakgate.base.errors import Code
from peakgate.run import inputs
from peakgate.run.inputs import floors_at

TEXT = 'schema = 1\ngpu = "nvidia-h200"\n[floors]\n"a.b" = 0.7\n'


def git(*arguments: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, *arguments], check=True, capture_output=True)


@pytest.fixture
def floors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The floors of a repository at its tag ``base``."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "baselines" / "nvidia-h200" / "floors.toml"
    path.parent.mkdir(parents=True)
    path.write_text(TEXT)
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "base")
    git("tag", "base")
    return path


@pytest.mark.parametrize("change", ["lowered", "deleted", "folder gone", "a link"])
def test_a_change_of_the_floors_does_not_reach_the_judge(floors: Path, change: str) -> None:
    if change == "lowered":
        floors.write_text(TEXT.replace("0.7", "0.1"))
    else:
        floors.unlink()
    if change == "folder gone":
        floors.parent.rmdir()
        floors.parent.parent.rmdir()
    elif change == "a link":
        floors.symlink_to("/dev/null")
    for baselines in (Path("baselines"), floors.parent.parent):
        assert floors_at("base", baselines, "nvidia-h200").get("a.b") == 0.7


def test_a_gpu_without_floors_at_the_base_has_none(floors: Path) -> None:
    assert not floors_at("base", Path("baselines"), "nvidia-l4").present


@pytest.mark.parametrize("ref", ["nowhere", "", "--all"])
def test_a_ref_that_is_no_commit_is_refused(floors: Path, ref: str) -> None:
    with refuses(Code.COMMIT):
        floors_at(ref, Path("baselines"), "nvidia-h200")


def test_a_mistake_in_the_base_is_named_with_its_commit(floors: Path) -> None:
    floors.write_text("schema = 9")
    git("commit", "-q", "-a", "-m", "broken")
    with refuses(Code.RECORD, r"^HEAD:baselines/nvidia-h200/floors.toml:1: "):
        floors_at("HEAD", Path("baselines"), "nvidia-h200")


def test_the_tool_has_a_digest_of_the_files_of_both_its_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = (tmp_path / "peakgate", tmp_path / "peakgate_emulator")
    for package in packages:
        package.mkdir()
    monkeypatch.setattr(inputs, "PACKAGES", packages)
    digests = []
    for name in ("peakgate/one.py", "peakgate_emulator/two.cpp", "peakgate/three.txt"):
        (tmp_path / name).write_text("")
        digests.append(inputs.harness.__wrapped__())
    assert len({*digests}) == 2
    assert digests[1] == digests[2]
