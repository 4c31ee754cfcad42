import json
import os
import stat
import subprocess
import sys

import pytest
from expecting import refuses

from peakgate.base.errors import CannotDecide, Code, refused
from peakgate.base.verdict import ExitCode
from peakgate.run import lock
from peakgate.run.lock import HELD_VARIABLE, device_uuid, inherited, locked

UUID = "GPU-00000000-0000-0000-0000-000000000001"


@pytest.fixture(autouse=True)
def own_locks(monkeypatch, tmp_path):
    monkeypatch.delenv(HELD_VARIABLE, raising=False)
    monkeypatch.setattr(lock, "LOCK_FOLDERS", (tmp_path,))


def elsewhere(wait_s=0.0, uuid=UUID):
    """As a process that is not started by the holder."""
    before = os.environ.pop(HELD_VARIABLE)
    try:
        with locked(uuid, wait_s):
            pass
    finally:
        os.environ[HELD_VARIABLE] = before


def test_a_second_run_is_told_who_has_the_gpu_and_may_have_it_afterwards(tmp_path):
    with locked(UUID):
        with pytest.raises(
            CannotDecide, match=f"{UUID}: .* {os.getpid()} ", check=lambda error: error.code is Code.BUSY
        ) as busy:
            elsewhere()
        assert refused(busy.value) is ExitCode.UNDECIDED
    with locked(UUID, 0.0):
        pass


def test_a_run_that_waits_says_so_once(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(lock.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(lock.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    with locked(UUID), pytest.raises(CannotDecide):
        elsewhere(3.0)
    assert now[0] == pytest.approx(3.0)
    assert capsys.readouterr().err.endswith(" to 3 s\n")


def test_what_the_holder_starts_measures_under_its_lock(tmp_path):
    with locked(UUID, 0.0), locked(UUID, 0.0):
        assert len(inherited()) == 1
    assert inherited() == ()


def test_another_gpu_and_no_gpu_are_free(tmp_path):
    with locked(UUID), locked(UUID[:-1] + "2", 0.0), locked(None, 0.0):
        pass


def test_a_run_on_two_gpus_locks_both_and_frees_both():
    uuid = "GPU-1,GPU-0"
    with locked(uuid, 0.0):
        for taken in ("GPU-0", "GPU-1", "GPU-2,GPU-1"):
            with pytest.raises(CannotDecide, check=lambda error: error.code is Code.BUSY):
                elsewhere(uuid=taken)
        elsewhere(uuid="GPU-2")  # also after a run that found only its other GPU taken
        with locked("GPU-0", 0.0):
            pass  # what it starts measures under its locks
    with locked(uuid, 0.0):
        pass


def test_two_runs_lock_in_one_order_whatever_they_name_first(monkeypatch):
    taken = []
    monkeypatch.setattr(lock, "take", lambda descriptor, name, *_: taken.append(name))
    for uuid in ("GPU-b,GPU-a", "GPU-a,GPU-b"):
        with locked(uuid):
            pass
    assert taken == ["GPU-a", "GPU-b"] * 2


def test_a_process_that_outlives_its_holder_keeps_the_gpu_locked_until_it_ends(tmp_path):
    with locked(UUID):
        child = subprocess.Popen(
            [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=inherited(), text=True
        )
    with pytest.raises(CannotDecide), locked(UUID, 0.0):
        pass
    child.communicate("\n")
    with locked(UUID, 0.0):
        pass


def test_every_user_may_open_the_lock_whatever_the_umask_of_the_first_one(tmp_path):
    before = os.umask(0o077)
    try:
        with locked(UUID):
            pass
    finally:
        os.umask(before)
    (path,) = tmp_path.iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o666


def test_a_link_in_place_of_the_lock_is_refused_and_not_written_through(tmp_path):
    target = tmp_path / "mine"
    target.write_text("kept")
    (tmp_path / f"peakgate-{UUID}.lock").symlink_to(target)
    with (
        refuses(Code.UNWRITABLE),
        locked(UUID),
    ):
        pass
    assert target.read_text() == "kept"


@pytest.mark.parametrize("content", ["", "{", json.dumps({"pid": 1})])
def test_a_holder_that_left_no_name_is_waited_for_all_the_same(tmp_path, content):
    with locked(UUID):
        next(tmp_path.iterdir()).write_text(content)
        with pytest.raises(CannotDecide, check=lambda error: error.code is Code.BUSY):
            elsewhere()


def test_control_characters_of_a_holder_do_not_reach_the_terminal(tmp_path):
    about = {"pid": 1, "user": "\x1b[31m", "command": "a\nb", "since": ""}
    with locked(UUID):
        next(tmp_path.iterdir()).write_text(json.dumps(about))
        with pytest.raises(CannotDecide) as busy:
            elsewhere()
    assert str(busy.value).isprintable()


@pytest.mark.parametrize("choice", ["cpu", "tpu", "gpu:9999"])
def test_a_device_that_is_no_gpu_has_no_lock(choice):
    assert device_uuid(choice) is None
