"""What the tests of the families share."""

from __future__ import annotations

import pytest
from peakgate.common.errors import PeakgateError
from peakgate.device import emulator


@pytest.fixture
def compiler() -> None:
    """Skip where the emulator finds no C++ compiler."""
    try:
        emulator.find_compiler()
    except PeakgateError as missing:
        pytest.skip(str(missing))
