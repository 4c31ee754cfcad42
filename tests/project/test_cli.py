"""The command ``peakgate`` as a user types it."""

import os
import re
import shlex
import subprocess
import sys

import pytest

from peakgate import cli
from peakgate.base.errors import CannotDecide, Code, PeakgateError
from peakgate.inspect import SUBJECTS


def test_without_a_verb_every_verb_is_listed(capsys):
    assert cli.main([]) == 0
    said = capsys.readouterr().out
    assert all(f"\n  {verb} " in said for verb in cli.VERBS)


FIRST_SCREEN, TOGETHER = 15, 110
"""At most so many options of a verb stand before its advanced ones, and so many have all verbs."""


def options_of(verb, capsys):
    """The options that a verb's --help lists, those of the first screen and the advanced ones."""
    with pytest.raises(SystemExit):
        cli.main([*verb.split(), "--help"])
    first, _, advanced = capsys.readouterr().out.partition("\nadvanced options:\n")
    return tuple(set(re.findall(r"^  (--?[a-z][\w-]*)", text, re.MULTILINE)) - {"-h"} for text in (first, advanced))


def test_the_verbs_are_few_and_so_are_their_options(capsys):
    assert len(cli.VERBS) == 16
    inspected = [set().union(*options_of(f"inspect {subject}", capsys)) for subject in SUBJECTS]
    every = {verb: options_of(verb, capsys) for verb in cli.VERBS} | {"inspect": (set().union(*inspected), set())}
    assert all(len(first) <= FIRST_SCREEN for first, _ in every.values())
    assert sum(len(first) + len(advanced) for first, advanced in every.values()) <= TOGETHER


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("peakgate be", {"bench"}),
        ("peakgate bench --det", {"--determinism"}),
        ("peakgate inspect ", {*SUBJECTS, "-h", "--help"}),
        ("peakgate inspect resources --ti", {"--tier"}),
        ("peakgate init --ci git", {"github", "gitlab"}),
        ("peakgate help PG30", {f"PG30{number}" for number in range(1, 8)}),
        ("peakgate compare late", {"latest", "latest~1"}),
    ],
)
def test_a_shell_that_asks_is_told_what_may_follow(line, offered, tmp_path):
    pytest.importorskip("argcomplete", reason="argcomplete is not installed")
    about = {"_ARGCOMPLETE": "1", "COMP_LINE": line, "COMP_POINT": str(len(line)), "_ARGCOMPLETE_IFS": "\n"}
    about |= {"_ARGCOMPLETE_STDOUT_FILENAME": str(tmp_path / "offered"), "_ARGCOMPLETE_SUPPRESS_SPACE": "1"}
    command = [sys.executable, "-P", "-m", "peakgate"]
    subprocess.run(command, env=os.environ | about, capture_output=True, check=False)
    assert set((tmp_path / "offered").read_text().split()) == offered


def test_the_version_is_that_of_the_distribution(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("peakgate 0.")


def test_an_unknown_verb_is_one_line_with_the_nearest_and_exit_2(capsys):
    assert cli.main(["comprae", "a", "b"]) == 2
    reported = capsys.readouterr().err
    assert reported.endswith(f" [{Code.OPTION}]\n")
    assert "'compare'" in reported


@pytest.mark.parametrize("verb", [*cli.VERBS, *(f"inspect {subject}" for subject in SUBJECTS)])
def test_every_verb_explains_itself(verb, capsys):
    with pytest.raises(SystemExit) as left:
        cli.main([*verb.split(), "--help"])
    assert left.value.code == 0
    said = capsys.readouterr().out
    assert said.startswith(f"usage: peakgate {verb}")
    assert verb == "inspect" or "exit codes: 0 " in said


@pytest.mark.parametrize(
    "mistake",
    [
        *("bench --seed x", "bench --seed -1", "bench --wait -1", "ab a --budget 0", "bench -k (", "bench foo"),
        *("bench --no-such-option", "check --seed -1", "history --since x", "ab --pairs 0", "floors", "help a b c"),
        *("inspect", "inspect registers", "show", "show --all latest", "floors --keep --write latest"),
    ],
)
def test_a_mistake_in_a_verbs_options_is_one_line_with_its_code(mistake, project, capfd):
    assert cli.main(mistake.split()) == 2
    reported = capfd.readouterr().err
    assert (len(reported.splitlines()), reported[-8:]) == (1, f"[{Code.OPTION}]\n")


def test_an_interrupt_during_the_imports_is_130_without_a_word():
    interrupted = "import sys; sys.argv = ['peakgate', '--version']; sys.meta_path.insert(0, Finder())"
    finder = (
        "class Finder:\n    def find_spec(self, name, *_):\n"
        "        if name == 'peakgate.base.config':\n            raise KeyboardInterrupt\n"
    )
    run = f"{finder}{interrupted}\nimport runpy; runpy.run_module('peakgate', run_name='__main__', alter_sys=True)"
    done = subprocess.run([sys.executable, "-P", "-c", run], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_a_missing_extra_is_one_line_that_says_what_to_install():
    without = "import sys; sys.modules['scipy'] = None; from peakgate.cli import main; "
    without += "sys.exit(main(['compare', 'latest', 'latest']))"
    done = subprocess.run([sys.executable, "-c", without], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "[reports]" in done.stderr
    assert f"[{Code.INSTALLATION}]" in done.stderr


@pytest.mark.parametrize("verb", ["bench", "check", "inspect mutants", "inspect sanitize"])
def test_outside_a_project_the_error_names_init(verb, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(verb.split()) == 2
    assert f"[{Code.PROJECT}]" in capsys.readouterr().err


def answer(*arguments, redirected=""):
    """The exit code of a command and what it writes to standard error, started by a shell."""
    command = shlex.join([sys.executable, "-P", "-m", "peakgate", *arguments])
    done = subprocess.run(["/bin/sh", "-c", f"{command} {redirected}"], capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


@pytest.mark.parametrize(("redirected", "code"), [(">&-", 0), (">&- 2>&-", 0), ("> /dev/full", 2)])
def test_an_output_that_takes_nothing_is_never_exit_code_1(redirected, code):
    assert answer("--version", redirected=redirected)[0] == code


@pytest.mark.parametrize(("redirected", "code"), [(">&-", 0), ("| true", 0), ("> /dev/full", 2)])
def test_a_run_is_saved_wherever_its_output_goes(project, tmp_path, redirected, code):
    (tmp_path / "peakgate.toml").write_text('benchmarks = ["benchmarks"]\n')
    (tmp_path / "benchmarks").mkdir()
    text = "import numpy\n\ndef bench_x(gpu_benchmark):\n    gpu_benchmark.expect(abs)(abs, numpy.ones(4))\n"
    (tmp_path / "benchmarks" / "bench_x.py").write_text(text)
    found, reported = answer("bench", "--device", "cpu", redirected=redirected)
    assert found == code
    assert (tmp_path / ".peakgate" / "out" / "bench.json").exists()
    assert len(list((tmp_path / ".benchmarks").rglob("*.json"))) == 1
    beyond_progress = reported.splitlines()[1:]
    assert len(beyond_progress) == (code == 2)
    assert all(f"[{Code.SYSTEM}]" in line for line in beyond_progress)


def test_a_missing_working_directory_is_bad_input_in_one_line(tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    command = shlex.join([sys.executable, "-P", "-m", "peakgate", "compare", "a", "b"])
    script = f"cd {shlex.quote(str(gone))} && rmdir {shlex.quote(str(gone))} && {command}"
    done = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        *((RuntimeError("::error::x\x1b[2J"), 70), (RecursionError(), 70), (OSError(5, "no such disk", "x"), 2)),
        *((MemoryError(), 2), (PeakgateError("x"), 2), (CannotDecide("x"), 3), (KeyboardInterrupt(), 130)),
    ],
)
def test_an_own_defect_is_70_and_what_others_caused_is_not(error, code, monkeypatch, capsys):
    def fail(_verb, _arguments):
        raise error

    monkeypatch.setattr("peakgate.run.bench.main", fail)
    assert cli.main(["bench"]) == code
    written = capsys.readouterr().err
    assert "::error" not in written
    assert "\x1b" not in written
    assert code == 70 or len(written.splitlines()) == (code != 130)
