from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peakgate.base.errors import PeakgateError, refused
from peakgate.base.formatting import cell, one_line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("::add-mask::secret", ": :add-mask::secret"),
        ("  ::error file=a::b", "  : :error file=a::b"),
        ("x::warning::y", "x: :warning::y"),
        ("##[group]x", "# #[group]x"),
        ("##vso[task.setvariable]x", "# #vso[task.setvariable]x"),
        ("tests/test_a.py::test_b", "tests/test_a.py::test_b"),
        ("# heading", "# heading"),
        ("a\nb\r\x1b[31mc\x00\u2028d\ud800", "a b  [31mc  d "),
    ],
)
def test_commands_of_ci_logs_and_control_characters_are_defused(text: str, shown: str) -> None:
    assert one_line(text) == shown


@given(st.text(st.sampled_from("::##[]ab -\n\r\x1b") | st.characters()))
def test_no_line_begins_with_a_command_whatever_the_text(text: str) -> None:
    plain = one_line(text)
    assert plain.isprintable()
    assert not plain.lstrip().startswith("::") or plain.strip() == "::"
    assert "##[" not in plain


@given(st.text())
def test_a_csv_cell_is_never_a_formula_and_one_line(text: str) -> None:
    stream = io.StringIO(newline="")
    csv.writer(stream, lineterminator="\n").writerow(["x", cell(text)])
    ((_, back),) = csv.reader(io.StringIO(stream.getvalue(), newline=""))
    assert not back.lstrip().startswith(("=", "+", "-", "@"))
    assert not {"\n", "\r", "\t"} & set(back)


def test_numbers_stay_numbers_in_a_cell() -> None:
    assert [cell(value) for value in (-1.5, None, 3)] == [-1.5, None, 3]


def test_an_error_that_quotes_a_log_command_prints_none(capsys: pytest.CaptureFixture[str]) -> None:
    refused(PeakgateError("\x1b[2J::add-mask::x\n::error::y"))
    written = capsys.readouterr().err
    assert "\x1b" not in written
    assert "::add-mask" not in written
    assert "::error" not in written
