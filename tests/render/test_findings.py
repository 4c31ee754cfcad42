"""Findings at lines of files: SARIF, commands of GitHub Actions, and the text of every rule."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import sarif

from peakgate.base.report import NOT_CHECKED, Annotation, Report, Tone
from peakgate.base.verdict import FAILING, ExitCode
from peakgate.help import text_of
from peakgate.inspect import emulate, gpu_build, mutants
from peakgate.inspect.resources.baseline import RESOURCE_REGRESSIONS
from peakgate.inspect.sanitize.command import SANITIZER_TOOLS
from peakgate.judge.waivers import WAIVER
from peakgate.render import findings
from peakgate_emulator import DefectKind

RULES = [
    *(kind.words for kind in DefectKind),
    *(emulate.WRONG_RESULT, emulate.DIED, gpu_build.LAUNCH_REFUSED, mutants.SURVIVING, WAIVER, NOT_CHECKED),
    *("race between programs", "uninitialised read", "uninitialised result"),
    *SANITIZER_TOOLS,
    *sorted(RESOURCE_REGRESSIONS),
    *sorted(FAILING),
]
RACE = Annotation("shared race", "own.mine: two threads", Path("kernels/own/mine.cu"), 4)


@pytest.fixture(autouse=True)
def _project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "peakgate.toml").touch()
    monkeypatch.chdir(tmp_path)


def left(*found: Annotation, code: ExitCode = ExitCode.REGRESSION) -> Path:
    """The SARIF beside the verdict of a command that found this."""
    findings.leave_verdict(Report("check", code, annotations=found), Path("out", "check.json"))
    return Path("out", "check.sarif")


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_is_explained_with_what_to_do(rule: str) -> None:
    assert re.fullmatch(rf"{rule}: .+\n\nNext: .+\n", text_of(rule))


def test_a_finding_is_a_result_with_a_rule_a_file_and_a_line() -> None:
    path = left(RACE, Annotation("not checked", "why", Path(), tone=Tone.OPEN))
    expected = [("shared-race", "error", "kernels/own/mine.cu", 4), ("not-checked", "warning", "peakgate.toml", 1)]
    assert sarif.results(path) == expected
    (run,) = json.loads(path.read_text())["runs"]
    assert run["tool"]["driver"]["rules"][0]["help"]["text"] == text_of("shared race")


def test_paths_begin_at_the_repository_and_others_are_whole(tmp_path: Path) -> None:
    inside, outside = tmp_path / "a b" / "k#1.cu", tmp_path.parent / "k.cu"
    found = sarif.results(left(Annotation("died", "x", inside), Annotation("died", "x", outside)))
    assert [file for _, _, file, _ in found] == ["a%20b/k%231.cu", outside.as_uri()]


@pytest.mark.parametrize(("code", "ran"), [(0, True), (1, True), (3, False)])
def test_a_run_that_could_not_decide_was_not_successful(code: int, *, ran: bool) -> None:
    path = left(code=ExitCode(code))
    assert sarif.results(path) == []
    (run,) = json.loads(path.read_text())["runs"]
    assert run["invocations"] == [{"executionSuccessful": ran, "exitCode": code}]


def test_annotations_are_printed_in_a_job_of_github_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    left(RACE)
    assert "::" not in capsys.readouterr().out
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    left(RACE)
    line = "::error file=kernels/own/mine.cu,line=4,title=Peakgate%3A shared race::own.mine: two threads\n"
    assert line in capsys.readouterr().out


def test_no_text_ends_a_command_or_begins_another() -> None:
    hostile = Annotation("died", "50 %\n::stop-commands::x\r##[error]y", Path("k,line=9::error::,.cu"))
    (line,) = findings.commands([hostile])
    head, _, message = line.removeprefix("::").partition("::")
    assert head == "error file=k%2Cline=9%3A%3Aerror%3A%3A%2C.cu,line=1,title=Peakgate%3A died"
    assert "##[" not in line
    assert message == "50 %25%0A::stop-commands::x%0D# #[error]y"


def test_as_many_are_printed_as_github_shows_of_each_level() -> None:
    open_one = Annotation("not checked", "why", Path("k.cu"), tone=Tone.OPEN)
    lines = list(findings.commands([RACE] * 99 + [open_one]))
    assert [line.partition(" ")[0] for line in lines] == ["::error"] * findings.MOST_ANNOTATIONS + ["::warning"]
