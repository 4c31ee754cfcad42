"""Pytest plugin of ``mutation.py``: tests that take longest run last.

mutmut stops at the first test that fails, so a mutant that a quick test kills costs no slow one. It runs pytest in the
folder of its statistics, which have the time of each test.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the tests by how long they took when mutmut first ran them."""
    statistics = Path("mutmut-stats.json")
    if statistics.exists():
        duration_s = json.loads(statistics.read_text(encoding="utf-8"))["duration_by_test"]
        items.sort(key=lambda item: (round(duration_s.get(item.nodeid, 0.0), 2), item.nodeid))
