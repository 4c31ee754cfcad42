"""What an A/B tells its processes: the GPU token and the mode."""

import json
import os
import subprocess
import sys

import pytest

from peakgate.base.errors import PeakgateError
from peakgate.run.ab_process import LONGEST_WORD, TOKEN_VARIABLE, GpuToken
from peakgate.run.request import MODE_VARIABLE, Mode, mode_of_environment

TAKES_THE_TOKEN = (
    "from peakgate.run.ab_process import GpuToken\n"
    "token = GpuToken.of_environment()\ntoken.wait()\nprint('measured', flush=True)\ntoken.release({'sample': 0.5})\n"
)


def test_a_process_waits_for_its_turn_and_says_when_and_after_what_it_left():
    process, word, left = _started()
    os.write(word, b".")
    assert process.communicate()[0] == "measured\n"
    assert json.loads(os.read(left, LONGEST_WORD)) == {"sample": 0.5}
    assert os.read(left, 1) == b""


def test_a_process_whose_turn_nobody_can_give_any_more_ends():
    process, word, left = _started()
    os.close(word)
    assert process.communicate()[0] == ""
    assert process.returncode == os.EX_UNAVAILABLE
    assert os.read(left, 1) == b""


def test_where_nobody_gives_turns_it_is_always_ours(monkeypatch):
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    token = GpuToken.of_environment()
    assert not token.needed
    token.wait()
    token.release({})


def test_a_run_is_whole_unless_the_ab_names_a_mode(monkeypatch):
    monkeypatch.delenv(MODE_VARIABLE, raising=False)
    assert mode_of_environment() is Mode.WHOLE
    monkeypatch.setenv(MODE_VARIABLE, "pair")
    assert mode_of_environment() is Mode.PAIR


@pytest.mark.parametrize("named", ["", "1", "whole"])
def test_a_mode_that_no_ab_names_is_bad_input(monkeypatch, named):
    monkeypatch.setenv(MODE_VARIABLE, named)
    with pytest.raises(PeakgateError):
        mode_of_environment()


def _started():
    their_word, word = os.pipe()
    left, their_left = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", TAKES_THE_TOKEN],
        env=os.environ | {TOKEN_VARIABLE: f"{their_word},{their_left}"},
        pass_fds=(their_word, their_left),
        stdout=subprocess.PIPE,
        text=True,
    )
    os.close(their_word)
    os.close(their_left)
    return process, word, left
