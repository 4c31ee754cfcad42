from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from comparing import Saved
from peakgate.reports import runfile


@pytest.fixture(autouse=True)
def _after_every_synthetic_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Synthetic runs are dated November 2026, whatever this machine's clock says."""
    monkeypatch.setattr(runfile, "now", lambda: datetime(2027, 1, 1, tzinfo=UTC))


@pytest.fixture
def saved(tmp_path: Path) -> Saved:
    return Saved(tmp_path)
