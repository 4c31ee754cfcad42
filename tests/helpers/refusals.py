"""The code that a command's refusal ends with."""

from __future__ import annotations

import pytest

from peakgate.base.errors import Code


def refusal(capsys: pytest.CaptureFixture[str]) -> Code:
    """The code of the last line on stderr; StopIteration where it has none."""
    line = capsys.readouterr().err.rstrip()
    return next(code for code in Code if line.endswith(f" [{code}]"))
