"""Tasks come back whatever becomes of the processes that run them."""

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from peakgate.base.errors import PeakgateError
from peakgate.inspect import workers
from peakgate.inspect.workers import Died, run


def squared(value, report):
    report(f"at {value}")
    return value * value


def killed(report):
    report("the last problem")
    os.kill(os.getpid(), signal.SIGKILL)


def left(report):
    os._exit(7)


def sleeps(report):
    report("the last problem")
    signal.pause()


def computes(report):
    report("the last problem")
    while True:
        pass


def terminated(report):
    os.kill(os.getpid(), signal.SIGABRT)


def works_on(report):
    for step in range(4):
        report(f"step {step}")
        until = time.process_time() + 0.4
        while time.process_time() < until:
            pass
    return "the end"


def complains(report):
    raise PeakgateError("grid is missing")


def prints(kind, report):
    if kind == "endless line":
        os.write(1, b"x" * (workers.MOST_PRINTED_BYTES + 1))
    os.write(1, b"::error::printed\x1b[2J\n")
    os.write(2, b"\r##[group]more\n")
    return kind


@pytest.mark.parametrize(("kind", "shown"), [("lines", True), ("endless line", False)])
def test_what_a_task_prints_is_shown_up_to_a_limit_without_what_a_log_or_a_terminal_obeys(kind, shown, capsys):
    dict(run([partial(prints, kind)], jobs=1))
    printed = capsys.readouterr().out
    assert (": :error::printed" in printed) == ("# #[group]more" in printed) == shown
    assert "\x1b" not in printed
    assert len(printed) < 2 * workers.MOST_PRINTED_BYTES


def prints_lines(count, report):
    os.write(1, b"a line\n" * count)
    return count


def test_lines_that_are_too_many_are_counted(capsys):
    dict(run([partial(prints_lines, workers.MOST_PRINTED_LINES + 3)], jobs=1))
    printed = capsys.readouterr()
    assert printed.out.count("a line") == workers.MOST_PRINTED_LINES
    assert "3 more lines" in printed.err


FORKED = """
import json, sys, threading
from peakgate.inspect.workers import run

def imported(report):
    return "a name that is set here alone" in sys.modules

if __name__ == "__main__":
    sys.modules["a name that is set here alone"] = sys
    forked = dict(run([imported] * 3, jobs=2))
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    spawned = dict(run([imported], jobs=1))
    print(json.dumps([*forked.values(), *spawned.values()]))
"""


def test_workers_are_forked_while_there_is_one_thread_and_spawned_beside_others(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(FORKED)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent), "PYTHONWARNINGS": "error"}
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=False)
    assert json.loads(done.stdout) == [True, True, True, False], done.stderr


def test_every_task_is_answered_once():
    answers = dict(run([partial(squared, value) for value in range(7)], jobs=2))
    assert answers == {value: value * value for value in range(7)}


def test_a_task_that_takes_its_process_along_is_answered_with_where_and_how_and_the_others_go_on():
    answers = dict(run([partial(squared, 3), killed, left, partial(squared, 4)], jobs=1))
    assert {number: answer for number, answer in answers.items() if not isinstance(answer, Died)} == {0: 9, 3: 16}
    assert [(answers[number].at, answers[number].how.split()[-1]) for number in (1, 2)] == [
        ("the last problem", "SIGKILL"),
        ("", "7"),
    ]


def test_a_task_that_computes_without_an_end_is_ended():
    ((_, died),) = run([computes], jobs=1, limit_s=1)
    assert (died.at, died.ended) == ("the last problem", True)
    assert died.how.endswith("processor time")


def test_a_task_that_waits_without_an_end_is_ended(monkeypatch):
    monkeypatch.setattr(workers, "WALL_PER_PROCESSOR_S", 0.01)
    ((_, died),) = run([sleeps], jobs=1, limit_s=60)
    assert died.ended


def test_a_task_that_says_what_it_is_at_has_time_for_each():
    assert dict(run([works_on], jobs=1, limit_s=1)) == {0: "the end"}


@pytest.mark.parametrize(("task", "ended"), [(killed, True), (terminated, False), (left, False)])
def test_an_end_from_outside_is_told_apart_from_a_crash(task, ended):
    ((_, died),) = run([task], jobs=1)
    assert died.ended == ended


def test_what_a_task_raises_is_raised_to_the_caller():
    with pytest.raises(PeakgateError, match=r"^grid is missing$"):
        list(run([complains], jobs=1))


def test_no_task_needs_no_process():
    assert list(run([], jobs=2)) == []
