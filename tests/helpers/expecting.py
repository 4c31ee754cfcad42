"""What tests expect: a refusal by its code, whatever its words are."""

from __future__ import annotations

import pytest

from peakgate.base.errors import Code, PeakgateError


def refuses(code: Code, match: str | None = None) -> pytest.RaisesExc[PeakgateError]:
    """A block that ends in an error of this code, and of this text where one is given."""
    return pytest.raises(PeakgateError, match=match, check=lambda error: error.code is code)
