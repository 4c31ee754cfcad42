"""One law for every output format: what a run file says is shown, and never obeyed."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import re
import string
from pathlib import Path
from types import ModuleType

import pytest
from comparing import compare
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from rich.console import Console
from synthetic_runs import LADDER, document, save

from peakgate.base.errors import PeakgateError, refused
from peakgate.base.formatting import one_line
from peakgate.base.report import Annotation
from peakgate.compare.report import report
from peakgate.render import files, findings, terminal
from peakgate.review.changes import NONE, ChangeKind, ProtectedChange
from peakgate.run import display
from peakgate.runfile.find import RunSide
from peakgate.runfile.saved import load_run

ROOT = Path(__file__).parents[2]

FRAGMENTS = (
    *("::error::", "::add-mask::x", "::set-output name=a::b", "##[group]", "##vso[task.setvariable]", "##teamcity[a]"),
    *("\x1b[2J", "\x1b]0;t\x07", "\x9b31m", "\r", "\n", "\u2028", "\x00", "\x85", "\u202e", "\u200b", "\t"),
    *("=1+1", "+1", "-1", "@SUM(A1)", "=cmd|' /C calc'!A0", "|", "`", "<b>", "&", '"', "'", ","),
)
WORDS = st.text(string.ascii_letters, min_size=1, max_size=4)
HOSTILE = st.lists(st.sampled_from(FRAGMENTS) | WORDS, min_size=1, max_size=6).map("".join)
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)  # a failure is small enough as it is

COMMAND = re.compile(r"^\s*::\w|(?<!\S)::\w|##\w*\[", re.MULTILINE)
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""What a terminal or a viewer obeys, but for the line feed."""


def verdict_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("verdict_script", ROOT / ".github" / "verdict.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def not_obeyed(formats: dict[str, str]) -> None:
    for name, text in formats.items():
        assert not CONTROL.search(text), (name, CONTROL.search(text))
        if name == "csv":
            for row in csv.reader(io.StringIO(text, newline="")):
                assert not [each for each in row if each.lstrip()[:1] in tuple("=@")], name
                assert not [each for each in row if each[:1] in tuple("+-") and not _number(each)], name
        elif name == "json":
            json.loads(text)
        if not name.endswith(("json", "html")):  # these two are files, and no log
            assert not COMMAND.search(text), (name, COMMAND.search(text))


def _number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


@settings(max_examples=12, deadline=None, phases=PHASES, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=HOSTILE, gpu=HOSTILE, driver=HOSTILE, commit=HOSTILE)
def test_no_format_of_a_comparison_is_obeyed(tmp_path: Path, case: str, gpu: str, driver: str, commit: str) -> None:
    sides = []
    for name, factor in (("base", 1.0), ("new", 1.3)):
        times = {**LADDER, case: 100.0 * factor, f"{case}2": 100.0}
        run = load_run(save(tmp_path, name, document(times, driver=driver, name=gpu, commit=commit)))
        sides.append(RunSide(f"{name} {commit}", (run,)))
    found = report(compare(sides[0], sides[1]))
    console = Console(file=io.StringIO(), width=100, highlight=False)
    terminal.show(found, console, everything=True)
    terminal.last_line(found, console, written=[Path("out/compare.md")])
    assert isinstance(console.file, io.StringIO)
    not_obeyed(
        {
            "terminal": console.file.getvalue(),
            **{name: files.text(found, name) for name in ("md", "csv", "json", "junit.xml")},
        }
    )


@given(case=HOSTILE, reason=HOSTILE, note=HOSTILE)
@settings(max_examples=30, deadline=None, phases=PHASES)
def test_the_table_of_a_run_is_not_obeyed(case: str, reason: str, note: str) -> None:
    figures = {"time_us": 1.0, "gbs": 1.0, "tflops": 1.0, "bound": "memory", "peak_fraction": 0.5, "floor": 0.6}
    entry = {"case": case, "family": case, "verdict": "BELOW_FLOOR", "reason": reason, **figures}
    not_obeyed({"table": display.render([entry], [note], width=100, colour=False)})


@given(text=HOSTILE)
@settings(max_examples=60, deadline=None, phases=PHASES, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_line_on_a_log_is_obeyed(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    refused(PeakgateError(text))
    change = ProtectedChange("", ChangeKind.CONTRACT, text, text, text, NONE)
    not_obeyed({"error": capsys.readouterr().err, "protect": one_line(change.row().name)})
    path = tmp_path / "bench.json"
    path.write_text(json.dumps({"exit_code": 1, "verdicts": {text: 1}}))
    verdict_script().judge([path])
    (own,) = capsys.readouterr().out.splitlines()
    assert own.startswith("::error title=Peakgate: regression::bench: ")
    (found,) = findings.commands([Annotation("died", text, Path(f"{text}.cu"))])
    for line in (own, found):
        head, _, message = line.removeprefix("::").partition("::")
        assert head.startswith("error ")
        assert not CONTROL.search(message)
        assert "##[" not in line  # ``::`` is obeyed at the start of a line only
