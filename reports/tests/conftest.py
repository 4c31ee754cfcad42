"""Fixtures of the tests of reports.

``pytest-benchmark compare`` loads this file in every environment, also without the extra ``reports``: what needs pandas
is imported by the fixtures.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from comparing import Saved


@pytest.fixture
def saved(tmp_path: Path) -> Saved:
    from comparing import Saved  # noqa: PLC0415  # needs pandas

    return Saved(tmp_path)
