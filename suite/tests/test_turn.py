"""The turns of an A/B's processes on the GPU."""

import json
import os
import subprocess
import sys

from peakgate.run.turn import LONGEST_WORD, VARIABLE, Turn

TAKES_A_TURN = (
    "from peakgate.run.turn import Turn\n"
    "turn = Turn.of_environment()\nturn.wait()\nprint('measured', flush=True)\nturn.over({'sample': 0.5})\n"
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
    monkeypatch.delenv(VARIABLE, raising=False)
    turn = Turn.of_environment()
    assert not turn.given
    turn.wait()
    turn.over({})


def _started():
    their_word, word = os.pipe()
    left, their_left = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", TAKES_A_TURN],
        env=os.environ | {VARIABLE: f"{their_word},{their_left}"},
        pass_fds=(their_word, their_left),
        stdout=subprocess.PIPE,
        text=True,
    )
    os.close(their_word)
    os.close(their_left)
    return process, word, left
