"""Temporary folders: removed after their block, or by the next process where theirs was killed."""

import subprocess
import sys
from pathlib import Path
from tempfile import mkdtemp

import pytest

from peakgate.base.files import scratch_folder

KILLED = """
import os, signal
from peakgate.base.files import scratch_folder
with scratch_folder("killed") as folder:
    (folder / "base").mkdir()
    (folder / "base" / "file").write_text("left")
    print(folder, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The folder for temporary files, this test's own."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return tmp_path


def test_a_folder_is_there_for_its_block_alone(place):
    def fails():
        with scratch_folder("mine") as folder:
            (folder / "file").write_text("x")
            assert [folder] == list(place.iterdir())
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert not list(place.iterdir())


def test_the_next_removes_what_a_killed_process_left(place):
    ended = subprocess.run([sys.executable, "-c", KILLED], check=False, capture_output=True, text=True)
    left = Path(ended.stdout.strip())
    assert left.parent == place
    assert (left / "base" / "file").exists()
    other = place / "peakgate-other"
    other.mkdir()
    (target := place / "target").mkdir()
    (place / "peakgate.link").symlink_to(target)
    (place / "peakgate.file").write_text("x")
    with scratch_folder("first") as first, scratch_folder("second") as second:
        assert not left.exists()
        assert {*place.iterdir()} == {first, second, other, target, place / "peakgate.link", place / "peakgate.file"}


def test_a_folder_of_somebody_else_stays(place, monkeypatch):
    other = place / "peakgate.theirs"
    other.mkdir()
    monkeypatch.setattr("peakgate.base.files.os.getuid", lambda: 12345)
    with scratch_folder("mine"):
        assert other.exists()


def test_the_next_there_removes_what_a_killed_process_left(place):
    (builds := place / "builds").mkdir()
    (left := builds / "peakgate.build.killed").mkdir()
    (built := builds / "kernel-1.so").write_text("")
    with scratch_folder("build") as elsewhere:
        assert elsewhere.parent == place
        assert left.exists()
    with scratch_folder("build", builds) as folder:
        assert {*builds.iterdir()} == {folder, built}
    assert [*builds.iterdir()] == [built]


def test_a_folder_removed_before_it_is_locked_is_made_again(place, monkeypatch):
    made = []

    def removed_at_first(**options):
        path = mkdtemp(**options)
        made.append(path)
        if len(made) == 1:
            Path(path).rmdir()
        return path

    monkeypatch.setattr("tempfile.mkdtemp", removed_at_first)
    with scratch_folder("mine") as folder:
        assert folder.is_dir()
    assert len(made) == 2
