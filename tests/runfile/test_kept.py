"""Committed runs give the verdicts and figures that were kept in data/kept.json: of compare, history and floors.

A rule that is changed on purpose changes them: ``python tests/runfile/test_kept.py`` writes the file anew, and its
diff shows what the rule now says of real runs.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from comparing import compare

from peakgate.compare.floors.proposals import propose
from peakgate.compare.history.series import history
from peakgate.compare.history.trend import CaseFinding, find_trend
from peakgate.compare.result import SuiteShift
from peakgate.judge.floors import load_floors
from peakgate.runfile.find import Archive, RunSide, apart, find_history, find_side

RUNS = Path(__file__).parents[2] / "baselines" / "nvidia-h200" / "runs"
KEPT = Path(__file__).parents[1] / "data" / "kept.json"
DIGITS = 5

PAIRS = {
    "two sessions of one GPU": ("20261120T173100-gate.json.gz", "20261120T173109-gate.json.gz"),
    "two sessions of two GPUs": ("20261120T173222-gate.json.gz", "20261121T133902-gate.json.gz"),
    "two full runs of two GPUs": ("20261120T194543-full.json.gz", "20261121T134200-full.json.gz"),
    "a full run against a gate run": ("20261120T194608-full.json.gz", "20261120T194623-gate.json.gz"),
    "ten sessions each of two GPUs": ("20261120T1731*.json.gz", "20261121T1339*.json.gz"),
    "two sessions an hour apart": ("20261121T133902-gate.json.gz", "20261121T134026-gate.json.gz"),
}


@pytest.fixture(scope="module")
def kept() -> Any:
    return json.loads(KEPT.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", PAIRS)
def test_a_comparison_of_committed_runs_says_what_it_said(name: str, kept: Any) -> None:
    assert compared(*PAIRS[name]) == kept["compare"][name]


def test_the_history_of_the_committed_runs_says_what_it_said(kept: Any) -> None:
    assert judged() == kept["history"]


def test_committed_runs_floors_are_those_that_were_proposed(kept: Any) -> None:
    assert proposed() == kept["floors"]


def compared(base: str, new: str) -> dict[str, Any]:
    archive = Archive([RUNS])
    sides = apart(side(base), side(new))
    found = compare(*sides, find_history(archive, sides))
    return {
        "exit_code": int(found.exit_code()),
        "suite_wide": found.suite and trended(found.suite),
        "rows": {row.case: said(row) for row in found.records},
    }


def judged() -> dict[str, Any]:
    reported = find_trend(history(Archive([RUNS]).cases))
    return {
        "exit_code": int(reported.exit_code),
        "suite_wide": reported.together and trended(reported.together),
        "rows": {each.case: trended(each) for each in reported.findings},
    }


def trended(found: CaseFinding | SuiteShift) -> str:
    """Verdict, change in % and smallest detectable change in %, rounded as in ``said``."""
    figures = found.change_percent, found.smallest_detectable_change_percent
    return " ".join([found.verdict, *("-" if value is None else f"{value:.{DIGITS}g}" for value in figures)])


def proposed() -> dict[str, Any]:
    found = propose(side("20261120T1731*.json.gz").frame, load_floors(RUNS.parent / "floors.toml"))
    changed = {"raised": found.raised, "lowered": found.lowered}
    return {kind: each.set_index("case")["floor"].to_dict() for kind, each in changed.items()} | {
        "skipped": list(found.skipped)
    }


def side(pattern: str) -> RunSide:
    runs = [run for path in sorted(RUNS.glob(pattern)) for run in find_side(str(path), Archive([RUNS])).runs]
    return RunSide(pattern, tuple(runs))


def said(row: Any) -> str:
    """Verdict, change in %, smallest detectable change in %, p-value, rounded as far as every machine agrees."""
    figures = (row.change_percent, row.smallest_detectable_change_percent, row.p_value)
    shown = figures if row.change_percent is not None else ()
    return " ".join([row.verdict, *("-" if value is None else f"{value:.{DIGITS}g}" for value in shown)])


if __name__ == "__main__":
    document = {"compare": {name: compared(*pair) for name, pair in PAIRS.items()}}
    document |= {"history": judged(), "floors": proposed()}
    KEPT.parent.mkdir(exist_ok=True)
    KEPT.write_text(json.dumps(document, indent=0, separators=(",", ":")) + "\n", encoding="utf-8")
