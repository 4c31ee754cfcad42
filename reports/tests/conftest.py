"""Fixtures of the tests of reports.

``pytest-benchmark compare`` loads this file in every environment, also without the extra ``reports``: what needs pandas
is imported by the fixtures.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from comparing import Saved


@pytest.fixture(autouse=True, scope="session")
def _text_of_python() -> None:
    """Text is held as where PyArrow, which a fleet needs, is not installed: small frames take a third less time."""
    import pandas as pd  # noqa: PLC0415

    pd.options.mode.string_storage = "python"


@pytest.fixture(autouse=True)
def _after_every_synthetic_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Synthetic runs are dated November 2026, whatever this machine's clock says."""
    from peakgate.reports.runs import runfile  # noqa: PLC0415  # as in saved

    monkeypatch.setattr(runfile, "now", lambda: datetime(2027, 1, 1, tzinfo=UTC))


@pytest.fixture
def saved(tmp_path: Path) -> Saved:
    from comparing import Saved  # noqa: PLC0415  # needs pandas

    return Saved(tmp_path)
