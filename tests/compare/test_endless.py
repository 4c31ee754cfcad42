"""A change whose family file never ends: the command that lists its cases can be ended, and leaves nothing behind."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from ab_fake import git

from peakgate.base.processes import Asked, own_module
from peakgate.compare.ab import plan
from peakgate.compare.ab.folders import SideFolder
from peakgate.compare.ab.process import SideBroken

LONGEST_S = 60.0
EMPTY = """
from peakgate.case import Family
FAMILY = Family("endless", "synthetic", (), lambda scale: iter(()), lambda case: iter(()))
"""
FAMILY = """
import os, pathlib, signal
pipe = os.open(pathlib.Path(__file__).parents[2] / "started", os.O_WRONLY)
os.write(pipe, b"started\\n")
while True:
    signal.pause()
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository whose working tree has a family that says through a pipe that it is imported, and never ends."""
    folder = tmp_path / "repository"
    (folder / "kernels" / "endless").mkdir(parents=True)
    (folder / "baselines").mkdir()
    (folder / "peakgate.toml").write_text("")
    family = folder / "kernels" / "endless" / "family.py"
    family.write_text(EMPTY)
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "base")
    family.write_text(FAMILY)
    os.mkfifo(folder / "started")
    return folder


@pytest.mark.parametrize(
    ("arguments", "ended_by"),
    [
        (["ab", "--plan", "--capability", "9.0", "HEAD"], signal.SIGINT),
        (["ab", "--plan", "--capability", "9.0", "HEAD"], signal.SIGKILL),
        (["protect", "--base", "HEAD"], signal.SIGTERM),
    ],
)
def test_a_command_that_waits_for_an_endless_family_is_ended_with_all_that_it_made(
    repository: Path, arguments: Sequence[str], ended_by: signal.Signals
) -> None:
    scratch = repository.parent / "scratch"
    scratch.mkdir()
    reading = os.open(repository / "started", os.O_RDONLY | os.O_NONBLOCK)
    command = subprocess.Popen(
        [sys.executable, "-P", "-m", "peakgate", *arguments],
        cwd=repository,
        env=os.environ | {"TMPDIR": str(scratch)},
        stderr=subprocess.PIPE,
    )
    try:
        assert answers(reading)
        os.read(reading, 100)
        command.send_signal(ended_by)
        _, errors = command.communicate(timeout=LONGEST_S)
        while answers(reading) and os.read(reading, 100):  # until no family has the pipe open
            pass
        assert answers(reading)
    finally:
        command.kill()
        os.close(reading)
    assert b"Traceback" not in errors
    if ended_by is signal.SIGKILL:  # what it left goes with the next command
        left = list(scratch.iterdir())
        assert left != []
        for folder in left:
            wait_until_unlocked(folder)
        (repository / "kernels" / "endless" / "family.py").write_text(EMPTY)
        again = [sys.executable, "-P", "-m", "peakgate", *arguments]
        subprocess.run(
            again, cwd=repository, env=os.environ | {"TMPDIR": str(scratch)}, check=False, capture_output=True
        )
    else:
        assert command.returncode == 130
    assert list(scratch.iterdir()) == []
    assert len(git(repository, "worktree", "list").splitlines()) == 1


def wait_until_unlocked(folder: Path) -> None:
    """Wait for the end of a killed command's child that still holds its folder."""
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(held, fcntl.LOCK_EX)
    os.close(held)


def answers(pipe: int) -> bool:
    return bool(select.select([pipe], [], [], LONGEST_S)[0])


def test_a_side_that_never_lists_its_cases_is_broken_after_a_limit(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "CODES_LIMIT_S", 0.01)
    with pytest.raises(SideBroken, match="did not end within"):
        plan.read_codes([SideFolder("head", repository, None)] * 2, "gate", [os.environ] * 2, "9.0")


def test_a_process_that_prints_without_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("peakgate.base.processes.MOST_OUTPUT_BYTES", 1000)
    with Asked(["yes"], LONGEST_S) as asked:
        done = asked.finish()
    assert "printed more than" in done.problem
    assert len(done.output) == 1000


def test_a_process_that_fails_is_reported_with_its_last_line_and_its_exit_code() -> None:
    with Asked(["/bin/sh", "-c", "echo answer; echo why >&2; exit 5"], LONGEST_S) as asked:
        done = asked.finish()
    assert (done.code, done.output, done.problem) == (5, b"answer\n", "why (exit 5)")


def test_a_module_in_a_process_of_its_own_imports_nothing_from_the_working_directory(tmp_path: Path) -> None:
    for name in ("peakgate", "json", "peakgate_family"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(99)")
    with Asked(own_module("peakgate", "--version"), LONGEST_S, cwd=tmp_path) as asked:
        done = asked.finish()
    assert (done.code, done.output.split()[0]) == (0, b"peakgate")
