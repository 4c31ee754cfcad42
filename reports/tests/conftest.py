from __future__ import annotations

from pathlib import Path

import pytest
from comparing import Saved


@pytest.fixture
def saved(tmp_path: Path) -> Saved:
    return Saved(tmp_path)
