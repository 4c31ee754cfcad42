import ast
import re
from pathlib import Path

import pytest

from peakgate.base.errors import CannotDecide, Code, PeakgateError, refused
from peakgate.base.verdict import ExitCode

ROOT = Path(__file__).parents[2]
RAISED = ("PeakgateError", "CannotDecide", "ForeignFileError")


def test_a_users_error_is_one_line_whatever_its_message_quotes(capsys):
    error = PeakgateError("floors.toml: bad\n  = 3\n)", Code.MALFORMED)
    assert refused(error) is ExitCode.BAD_INPUT
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert str(error).endswith(f" [{Code.MALFORMED}]")


@pytest.mark.parametrize("text", ["a: b [PG103]", "a: b [PG999]", "a: b", "a [1]", "", "a: b [x]"])
def test_an_error_of_another_process_keeps_its_code(text):
    found = CannotDecide.repeated(text)
    assert (str(found), found.exit_code) == (text, ExitCode.UNDECIDED)
    assert found.code == (Code.COMMIT if "PG103" in text else None)


def test_every_refusal_has_a_code():
    """One that repeats another's text has that one's."""
    without = [
        f"{path.name}:{node.lineno}"
        for path in (ROOT / "src").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in RAISED
        if len(node.args) < 2
    ]
    assert without == []


def test_the_page_lists_every_code():
    page = (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (PG\d+) \| [^|]+ \| [^|]+ \|$", page, re.MULTILINE)
    assert rows == [str(code) for code in Code]
