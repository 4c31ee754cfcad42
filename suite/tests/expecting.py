"""What tests expect: a refusal by its code, whatever its words are, and the rows of files in ``data``."""

from __future__ import annotations

from pathlib import Path

import pytest
from peakgate.core.errors import Code, PeakgateError


def refuses(code: Code, match: str | None = None) -> pytest.RaisesExc[PeakgateError]:
    """A block that ends in an error of this code, and of this text where one is given."""
    return pytest.raises(PeakgateError, match=match, check=lambda error: error.code is code)


def rows(name: str) -> list[str]:
    """The lines of a file of ``data``, without its comments and empty lines."""
    text = Path(__file__).with_name("data").joinpath(name).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("# ")]
