import os
import subprocess
import sys
from pathlib import Path

import pytest

from peakgate.base import config
from peakgate.base.errors import Code, PeakgateError
from peakgate.base.files import cache_folder
from peakgate_emulator.compiler import builds_folder


@pytest.mark.parametrize("named", [None, ""])
def test_the_cache_is_in_the_working_directory_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str | None
) -> None:
    monkeypatch.delenv("PEAKGATE_CACHE", raising=False)
    if named is not None:
        monkeypatch.setenv("PEAKGATE_CACHE", named)
    monkeypatch.chdir(tmp_path)
    assert cache_folder() == tmp_path / ".cache"
    assert builds_folder() == tmp_path / ".cache" / "emulator"


@pytest.mark.parametrize("place", ["", "inside"])
def test_a_committed_cache_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    monkeypatch.delenv("PEAKGATE_CACHE", raising=False)
    (tmp_path / "peakgate.toml").write_text("")
    (cache := tmp_path / place / ".cache" / "cubin").mkdir(parents=True)
    (cache / "built").write_text("wrong")
    monkeypatch.chdir(tmp_path / place)
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    assert read_anew(tmp_path)  # nobody has committed it
    subprocess.run(["git", "add", "--force", "."], cwd=tmp_path, check=True)
    assert refusal(tmp_path) is Code.TAKEN
    monkeypatch.setenv("PEAKGATE_CACHE", str(tmp_path.parent / "elsewhere"))
    assert read_anew(tmp_path)


def read_anew(root: Path) -> config.Project | None:
    config._read.cache_clear()
    return config.find(root)


def refusal(root: Path) -> Code | None:
    with pytest.raises(PeakgateError) as refused:
        read_anew(root)
    return refused.value.code


@pytest.mark.parametrize("why", ["another owner's", "damaged"])
def test_a_cache_that_git_does_not_tell_of_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    monkeypatch.delenv("PEAKGATE_CACHE", raising=False)
    (root := tmp_path / "inside").mkdir()
    (root / "peakgate.toml").write_text("")
    monkeypatch.chdir(root)
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    if why == "damaged":
        (tmp_path / ".git" / "HEAD").write_text("")
    else:
        monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    assert read_anew(root)  # there is no cache
    (root / ".cache").mkdir()
    assert refusal(root) is Code.COMMIT
    monkeypatch.setenv("PEAKGATE_CACHE", str(tmp_path.parent / "elsewhere"))
    assert read_anew(root)


def test_a_committed_link_in_place_of_the_cache_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PEAKGATE_CACHE", raising=False)
    root, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    (root / "inside").mkdir(parents=True)
    elsewhere.mkdir()
    (root / "peakgate.toml").write_text("")
    (root / "inside" / ".cache").symlink_to(elsewhere)
    monkeypatch.chdir(root / "inside")
    subprocess.run(["git", "init", "--quiet", str(root)], check=True)
    assert read_anew(root)  # it is the machine's own
    subprocess.run(["git", "add", "--force", "."], cwd=root, check=True)
    assert refusal(root) is Code.TAKEN


def test_a_relative_folder_is_the_same_from_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PEAKGATE_CACHE", "kept")
    assert cache_folder() == tmp_path / "kept"
    assert builds_folder().is_relative_to(cache_folder())


def test_cupy_compiles_into_the_cache_by_default(tmp_path: Path) -> None:
    asked = "import os, peakgate.device.driver; print(os.environ['CUPY_CACHE_DIR'])"
    for own, folder in ((None, tmp_path / "kept" / "cupy"), ("elsewhere", Path("elsewhere"))):
        environment = {name: value for name, value in os.environ.items() if name != "CUPY_CACHE_DIR"}
        environment |= {"PEAKGATE_CACHE": "kept"} | ({} if own is None else {"CUPY_CACHE_DIR": own})
        done = subprocess.run(
            [sys.executable, "-c", asked], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
        )
        assert Path(done.stdout.strip()) == folder
