"""Whether the injected cause is named first."""

from __future__ import annotations

import json
from pathlib import Path

from peakgate.reports.explain.explain import Explained

from lab.injected.explained import EXPECTED, explained, figures

RECORD = Path(__file__).parents[1] / "injected" / "h200"


def test_a_campaign_counts_a_mutant_as_right_only_where_its_cause_comes_first() -> None:
    cases = dict.fromkeys(EXPECTED, "none")
    rows = figures(Explained(()), cases)
    assert [row["right"] for row in rows] == [False] * len(EXPECTED)


def test_the_packed_record_is_explained_anew() -> None:
    rows = json.loads((RECORD / "explained.json").read_text(encoding="utf-8"))
    again = figures(explained(RECORD / "explain"), {row["mutant"]: row["case"] for row in rows})
    assert sum(bool(row["right"]) for row in again) == len(EXPECTED)
