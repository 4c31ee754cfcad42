"""How a command shows how far it is: on a terminal, in a log, and in a run."""

import io
import os
import pty
import re
import subprocess
import threading
from types import SimpleNamespace

import pytest
from runs import DEFECTS, ENVIRONMENT, ROOT, command, places

from peakgate.base import progress
from peakgate.base.formatting import duration
from peakgate.base.progress import Progress
from peakgate.base.streams import warn
from peakgate.callables.settings import case_of
from peakgate.run.display import StatusLine

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture(autouse=True)
def lines_of_progress(no_lines_of_progress, monkeypatch):
    monkeypatch.setattr(progress, "FIRST_LINE_S", 5.0)


@pytest.fixture
def narrow(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")


def frames(text):
    """What a terminal shows, one line after the other."""
    shown = [line.rstrip() for line in re.split(r"[\r\n]+", ESCAPES.sub("", text))]
    return [line for line in shown if line]


def test_a_bar_counts_gives_the_rate_and_what_is_left():
    clock, stream = Clock(), Terminal()
    shown = Progress(stream, clock=clock)
    shown.step("checking the kernels", 10, "build")
    for _ in range(5):
        clock.now += 2.0
        shown.advance()
    shown.clear()
    assert frames(stream.getvalue())[0] == "checking the kernels"
    assert re.findall(r"[\d.]+", frames(stream.getvalue())[-1]) == ["5", "10", "2.0", "10"]


def test_a_narrow_terminal_cuts_the_words_and_not_how_far(narrow):
    stream = Terminal()
    shown = Progress(stream, clock=Clock())
    shown.step("transpose." + "x" * 100, 186, "case", done=47)
    shown.clear()
    assert "47 of 186" in frames(stream.getvalue())[-1]
    assert all(len(line) <= 40 for line in frames(stream.getvalue()))


def test_a_terminal_is_left_as_it_was():
    stream = Terminal()
    shown = Progress(stream, clock=Clock())
    shown.step("comparing")
    shown.clear()
    written = stream.getvalue()
    assert written.count("\x1b[?25h") == written.count("\x1b[?25l") == 1
    assert ESCAPES.sub("", written).rpartition("\r")[2] == ""


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_text_of_a_family_is_made_harmless(stream):
    shown = Progress(stream, clock=(clock := Clock()))
    clock.now += progress.FIRST_LINE_S
    shown.step("a\x1b]0;title\x07b")
    shown.clear()
    assert "\x07" not in stream.getvalue()


def test_a_terminal_that_rewrites_nothing_is_a_log(monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    stream = Terminal()
    Progress(stream, clock=Clock()).step("comparing")
    assert stream.getvalue() == ""


def test_a_log_gets_a_first_line_soon_and_then_one_an_interval():
    clock, stream = Clock(), io.StringIO()
    shown = Progress(stream, clock=clock)
    shown.step("reading", 30, "file")
    for second in range(1, 28):
        clock.now = 100.0 + second
        shown.advance()
    shown.clear()
    figures = [["5", "30", "1.0", "25"], ["15", "30", "1.0", "15"], ["25", "30", "1.0", "5"]]
    assert [re.findall(r"[\d.]+", line) for line in stream.getvalue().splitlines()] == figures


def test_a_log_says_what_is_loaded_unless_that_is_quick(monkeypatch, capsys):
    with progress.starting("loading history"):
        pass
    assert capsys.readouterr().err == ""
    written = threading.Event()
    monkeypatch.setattr(progress, "FIRST_LINE_S", 0.0)
    monkeypatch.setattr(progress, "warn", lambda text: (warn(text), written.set()))
    with progress.starting("loading history"):
        assert written.wait(60)
    assert capsys.readouterr().err == "loading history\n"


def test_what_is_shown_goes_on_by_steps_of_code_below(monkeypatch):
    monkeypatch.setattr(progress, "FIRST_LINE_S", 0.0)
    monkeypatch.setattr(progress, "EVERY_S", 0.0)
    stream = io.StringIO()
    with progress.shown("reading", stream=stream, ticks=False):
        assert list(progress.each("ab", "writing", 2, "page")) == ["a", "b"]
    assert stream.getvalue().splitlines()[-1].startswith("writing, 2 of")


def test_code_below_shows_nothing_where_no_command_does(capfd):
    progress.step("comparing")
    assert list(progress.each("ab", "writing", 2, "page")) == ["a", "b"]
    assert capfd.readouterr() == ("", "")


def test_an_interrupt_says_how_far_it_was_and_how_to_go_on(capsys):
    def interrupted():
        with progress.shown("reading"):
            for each in progress.each("abc", "writing", 3, "page"):
                if each == "b":
                    raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert "writing, 1 of" in capsys.readouterr().err


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
    cases = {test.nodeid: case_of(test.nodeid) for test in (item(f"case_{number}") for number in range(total))}
    line = StatusLine(config, cases, clock)
    line.pytest_collection_finish(SimpleNamespace(items=[None] * total))
    return line


def item(name):
    return SimpleNamespace(nodeid=f"ops.py::{name}")


def status_of(line, status):
    """What pytest is left to print of a case."""
    hook = line.pytest_report_teststatus()
    next(hook)
    with pytest.raises(StopIteration) as done:
        hook.send(status)
    return done.value.value


def test_the_time_left_is_the_mean_of_the_cases_done(golden):
    clock, stream = Clock(), Terminal()
    line = status_line(stream, clock)
    with line.building(10, ticks=False):
        clock.now += 60.0
    for number in range(6):
        line.pytest_runtest_protocol(item(f"case_{number}"))
        clock.now += 2.0
    line.pytest_sessionfinish()
    golden("status-line.txt", "".join(f"{line}\n" for line in frames(stream.getvalue())))


def test_failed_cases_are_counted_and_pytest_has_its_words_back_at_the_end():
    clock, stream = Clock(), Terminal()
    line = status_line(stream, clock)
    line.pytest_runtest_protocol(item("case_0"))
    clock.now += 1.0
    line.pytest_runtest_logreport(SimpleNamespace(failed=True))
    line.pytest_runtest_protocol(item("case_1"))
    assert "1 failed" in frames(stream.getvalue())[-1]
    assert status_of(line, ("failed", "F", "FAILED")) == ("failed", "", "")
    line.pytest_sessionfinish()
    assert status_of(line, ("failed", "F", "FAILED")) == ("failed", "F", "FAILED")


def test_a_crash_of_pytest_finds_the_line_empty():
    stream = Terminal()
    line = status_line(stream, Clock())
    line.pytest_runtest_protocol(item("case_0"))
    line.pytest_internalerror()
    assert ESCAPES.sub("", stream.getvalue()).rpartition("\r")[2] == ""


@pytest.mark.parametrize("asked", [{"verbosity": 0}, {"verbosity": 1}, {"verbosity": -2}, {"capture": "no"}])
def test_with_pytests_own_verbosity_options_its_own_display_is_shown(asked):
    stream = Terminal()
    line = status_line(stream, Clock(), **asked)
    line.pytest_runtest_protocol(item("case_0"))
    line.pytest_sessionfinish()
    assert stream.getvalue() == ""
    assert status_of(line, ("passed", ".", "PASSED")) == ("passed", ".", "PASSED")


def test_a_pytest_without_a_terminal_plugin_is_left_alone():
    line = status_line(None, Clock())
    line.pytest_runtest_protocol(item("case_0"))
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


def test_a_run_on_a_terminal_shows_one_line_and_leaves_no_trace_of_it(tmp_path):
    written, code = run_on_a_terminal(tmp_path, project=DEFECTS)
    assert code == 1
    before, _, after = written.partition(" verdict\r\n")
    shown = frames(before)
    assert shown[0].startswith("reading")
    assert any(each.startswith("building") for each in shown)
    assert any(" failed" in text and "defects." in text for text in shown)  # a busy machine skips some frames
    assert " of 3 cases" not in after
    assert "FAILED" not in written
    assert written.count("WRONG defects.shifted-1024: ") == 1
    assert after.splitlines()[-1].startswith("next: peakgate check -k defects.")


def test_a_run_of_an_a_b_keeps_to_pytests_own_display(tmp_path):
    written, code = run_on_a_terminal(tmp_path, "-k", "memcpy", PEAKGATE_AB="pair")
    assert code == 0
    assert "building" not in written
    assert written.startswith(".")


def test_a_short_run_into_a_log_says_at_once_what_it_does_and_no_more(tmp_path, bench, monkeypatch):
    monkeypatch.setattr(progress, "AT_ONCE_S", 0.0)
    done = bench(ROOT, "-k", "memcpy", *places(tmp_path))
    assert done.returncode == 0
    assert done.stderr.startswith("reading")
    assert "building" not in done.stdout + done.stderr
    assert "\r" not in done.stdout + done.stderr
    assert "\x1b" not in done.stdout + done.stderr
