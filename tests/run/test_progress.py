"""The line that says how far something has come: by itself, and in a run on a terminal."""

import io
import os
import pty
import re
import subprocess
from itertools import pairwise
from types import SimpleNamespace

import pytest
from runs import DEFECTS, ENVIRONMENT, ROOT, command, places

from peakgate.base.formatting import duration
from peakgate.base.progress import Progress
from peakgate.run.status import StatusLine


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def narrow(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")


def lines_shown(stream):
    return [line.rstrip() for line in stream.getvalue().split("\r")]


def test_a_terminal_keeps_one_line_and_no_rest_of_a_longer_one(narrow):
    stream = Terminal()
    progress = Progress(stream)
    longer, shorter = "9 of 10, a_long_name", "10 of 10, b"
    progress.show(longer)
    progress.show(shorter)
    assert stream.getvalue() == f"\r{longer}\r{shorter:<20}"
    progress.clear()
    assert stream.getvalue().endswith(f"\r{'':<11}\r")


def test_a_line_too_long_for_the_terminal_loses_its_text_and_not_the_time_left(narrow):
    stream = Terminal()
    Progress(stream).show("47 of 186, " + "x" * 100, 12.0)
    shown = lines_shown(stream)[1]
    assert len(shown) == 39
    assert "12 s left" in shown


def test_a_log_gets_its_first_line_after_the_interval_and_one_an_interval():
    clock, stream = Clock(), io.StringIO()
    progress = Progress(stream, every_s=10.0, clock=clock)
    for second in range(25):
        clock.now = 100.0 + second
        progress.show(f"{second} s")
    progress.clear()
    assert stream.getvalue().splitlines() == ["10 s", "20 s"]


@pytest.mark.parametrize(("seconds", "words"), [(0.2, "1 s"), (59.0, "59 s"), (59.5, "1 min 0 s"), (200, "3 min 20 s")])
def test_a_duration_is_rounded_up_to_seconds(seconds, words):
    assert duration(seconds) == words


def status_line(stream, clock, *, verbosity=-1, capture="fd", total=10):
    """A status line that writes to ``stream`` as pytest's reporter would; None stands for a pytest without one."""
    config = SimpleNamespace(
        option=SimpleNamespace(capture=capture),
        pluginmanager=SimpleNamespace(get_plugin=lambda name: stream),
        get_verbosity=lambda: verbosity,
    )
    line = StatusLine(config, clock)
    line.pytest_collection_finish(SimpleNamespace(items=[None] * total))
    return line


def item(name):
    return SimpleNamespace(name=name)


def status_of(line, status):
    """What pytest is left to print of a case."""
    hook = line.pytest_report_teststatus()
    next(hook)
    with pytest.raises(StopIteration) as done:
        hook.send(status)
    return done.value.value


def test_the_time_left_is_the_mean_of_the_cases_done_and_building_is_no_part_of_it(golden):
    clock, stream = Clock(), Terminal()
    line = status_line(stream, clock)
    line.building(10)
    clock.now += 60.0
    line.built()
    line.pytest_runtest_protocol(item("case 0"))
    for number in range(1, 6):
        clock.now += 2.0
        line.pytest_runtest_protocol(item(f"case {number}"))
    golden("status-line.txt", "".join(f"{line}\n" for line in lines_shown(stream)[1:]))
    assert [re.findall(r"(\d+) s left", line) for line in lines_shown(stream)[-4:]] == [[], ["14"], ["12"], ["10"]]


def test_failed_cases_are_counted_and_pytest_has_its_words_back_at_the_end():
    stream = Terminal()
    line = status_line(stream, Clock())
    line.pytest_runtest_protocol(item("case 0"))
    line.pytest_runtest_logreport(SimpleNamespace(failed=True))
    line.pytest_runtest_protocol(item("case 1"))
    assert "1 failed" in lines_shown(stream)[-1]
    assert status_of(line, ("failed", "F", "FAILED")) == ("failed", "", "")
    line.pytest_sessionfinish()
    assert stream.getvalue().endswith(" \r")
    assert status_of(line, ("failed", "F", "FAILED")) == ("failed", "F", "FAILED")


def test_a_crash_of_pytest_finds_the_line_empty():
    stream = Terminal()
    line = status_line(stream, Clock())
    line.pytest_runtest_protocol(item("case 0"))
    line.pytest_internalerror()
    assert stream.getvalue().endswith(" \r")


@pytest.mark.parametrize("asked", [{"verbosity": 0}, {"verbosity": 1}, {"verbosity": -2}, {"capture": "no"}])
def test_with_pytests_own_verbosity_options_its_own_display_is_shown(asked):
    stream = Terminal()
    line = status_line(stream, Clock(), **asked)
    line.pytest_runtest_protocol(item("case 0"))
    line.pytest_sessionfinish()
    assert stream.getvalue() == ""
    assert status_of(line, ("passed", ".", "PASSED")) == ("passed", ".", "PASSED")


def test_a_pytest_without_a_terminal_plugin_is_left_alone():
    line = status_line(None, Clock())
    line.pytest_runtest_protocol(item("case 0"))
    line.pytest_sessionfinish()
    assert status_of(line, ("passed", ".", "PASSED")) == ("passed", ".", "PASSED")


def run_on_a_terminal(folder, *arguments, project=ROOT, **settings):
    """What ``peakgate bench`` writes to a terminal of 80 columns, and its exit code."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command(folder, *arguments),
        cwd=project,
        env=ENVIRONMENT | {"COLUMNS": "80"} | settings,
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    written = bytearray()
    try:
        while chunk := os.read(ours, 65536):
            written += chunk
    except OSError:  # how Linux says that the other side is closed
        pass
    finally:
        os.close(ours)
    return written.decode(), process.wait()


def test_a_run_on_a_terminal_rewrites_one_line_and_leaves_no_trace_of_it(tmp_path):
    written, code = run_on_a_terminal(tmp_path, project=DEFECTS)
    assert code == 1
    before, _, after = written.partition("=== FAILURES")
    progress = before.split("\n")[0]
    assert "\x1b" not in progress
    shown = progress.split("\r")
    assert shown[1] == "building 3 cases"
    assert any("2 failed" in text and "defects.smem_pad-" in text for text in shown)
    assert all(len(later) >= len(earlier.rstrip()) for earlier, later in pairwise(shown[:-2]))
    assert not shown[-2].strip()
    assert " of 3," not in after
    assert "FAILED" not in progress


def test_a_run_of_an_a_b_keeps_to_pytests_own_display(tmp_path):
    written, code = run_on_a_terminal(tmp_path, "-k", "memcpy", PEAKGATE_AB="pair")
    assert code == 0
    assert "building" not in written
    assert written.startswith(".")


def test_a_short_run_into_a_log_says_nothing_of_its_progress(tmp_path, bench):
    done = bench(ROOT, "-k", "memcpy", *places(tmp_path))
    assert done.returncode == 0
    assert "building" not in done.stdout + done.stderr
    assert "\r" not in done.stdout + done.stderr
    assert "\x1b" not in done.stdout + done.stderr
