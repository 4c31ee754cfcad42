"""What becomes of a case in the report of an A/B: from decisions, processes and sentinels to verdicts."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from ab_records import ab_record
from msgspec import structs
from synthetic_runs import document

from peakgate.base.verdict import Verdict
from peakgate.compare.ab import verdicts as ab
from peakgate.compare.ab.decide import INTERVAL_TAIL, CaseStatus
from peakgate.compare.ab.plan import Plan
from peakgate.compare.ab.record import AbRecord, Process, Times
from peakgate.compare.ab.schedule import Phase, Side, order
from peakgate.compare.judge import FEWEST_CASES_FOR_SUITE
from peakgate.compare.spread import BETWEEN_SESSIONS
from peakgate.runfile.saved import load_run

TIMES_US = {"a.fast-1": 100.0, "a.slow-2": 400.0, "b.c": 240.0, "b.d": 180.0}
WATCHED = ("a.slow-2", "b.c", "b.d")
Refusals = Mapping[str, tuple[Verdict, str]]


SUITE_US = {f"c.c-{number}": 100.0 + number for number in range(FEWEST_CASES_FOR_SUITE)}


def record(
    tmp_path: Path,
    slower: Mapping[Phase, float],
    refused: Mapping[Side, Refusals] | None = None,
    suite: float | None = None,
) -> AbRecord:
    """A proof and ten pairs of either stage; head's sentinels are slower by these factors, nothing else is.

    With ``suite`` there are so many cases that they are judged together, slower in head by that factor.
    """
    times_us = TIMES_US | (SUITE_US if suite else {})
    plan = Plan(measured=("a.fast-1", *(times_us.keys() - TIMES_US.keys())), sentinels=WATCHED)
    made = ab_record(tmp_path, plan, (10, 10))
    for stage in (Phase.PROOF, Phase.SCREEN, Phase.CONFIRM):
        for pair in range(1 if stage is Phase.PROOF else 10):
            for which in order(pair):
                factor = (slower.get(stage, 1.0) if which is Side.HEAD else 1.0) * (1 + 1e-4 * (pair % 3))
                times = {case: time_us * (factor if case in WATCHED else 1.0) for case, time_us in times_us.items()}
                for case in SUITE_US.keys() & times.keys():
                    times[case] *= (suite or 1.0) if which is Side.HEAD else 1.0
                refusals = dict((refused or {}).get(which, {})) if stage is Phase.PROOF else {}
                path = tmp_path / f"{stage}-{pair}-{which}.json"
                commit = ("a" if which is Side.BASE else "b") * 40
                kept = {case: time_us for case, time_us in times.items() if not refused or case not in refusals}
                path.write_text(json.dumps(document(kept, day=pair + 1, commit=commit, tier="gate")))
                made.runs[path.name] = load_run(path)
                made.processes.append(Process(stage, pair, which, path.name, 0, 1.5, refusals))
    return made


def verdicts(made: AbRecord) -> dict[str, Verdict]:
    return {row.case: row.verdict for row in ab.comparison(made).records}


def decided(status: CaseStatus, resolvable: float = 0.002, direction: int = 1) -> Verdict:
    """The verdict on a case with this decision, in an experiment that came to its end."""
    estimate = {"pairs": 20, "log_ratio": 0.004, "standard_error": 0.001, "df": 19.0, "interval_tail": INTERVAL_TAIL}
    decision = SimpleNamespace(**estimate, status=status, resolvable=resolvable, direction=direction, p_value=0.5)
    return ab._decided(ab_record(Path(), Plan()), decision, Times(()), Times(())).verdict


@pytest.mark.parametrize("direction", [1, -1])
def test_a_suspect_that_is_open_after_the_last_look_is_undecided(direction: int) -> None:
    assert decided(CaseStatus.OPEN, direction=direction) is Verdict.INCONCLUSIVE


@pytest.mark.parametrize(("percent", "verdict"), [(4.9, Verdict.SAME), (5.1, Verdict.INCONCLUSIVE)])
def test_a_case_in_which_a_slowdown_of_5_percent_would_go_unseen_is_undecided(percent: float, verdict: Verdict) -> None:
    assert decided(CaseStatus.CLEARED, math.log1p(percent / 100), direction=0) is verdict


@pytest.mark.parametrize(
    ("sides", "verdict"), [([Side.BASE, Side.HEAD], "WRONG"), ([Side.HEAD], "WRONG"), ([Side.BASE], "NEW")]
)
def test_a_case_that_is_wrong_in_head_is_wrong_whatever_it_is_in_base(
    tmp_path: Path, sides: Sequence[Side], verdict: str
) -> None:
    wrong = {"a.fast-1": (Verdict.WRONG, "output 0 is off")}
    assert verdicts(record(tmp_path, {}, dict.fromkeys(sides, wrong)))["a.fast-1"] == verdict


@pytest.mark.parametrize(
    ("slower", "verdict"),
    [
        ({}, Verdict.SAME),
        ({Phase.SCREEN: 1.05}, Verdict.INCONCLUSIVE),
        ({Phase.CONFIRM: 1.05}, Verdict.INCONCLUSIVE),
    ],
)
def test_sentinels_that_move_together_in_either_stage_leave_the_unchanged_undecided(
    tmp_path: Path, slower: Mapping[Phase, float], verdict: Verdict
) -> None:
    found = verdicts(record(tmp_path, slower))
    assert {found[case] for case in WATCHED} == {verdict}


@pytest.mark.parametrize(("factor", "verdict"), [(1.02, "SLOWER"), (0.98, "FASTER"), (1.0, "SAME")])
def test_a_suite_whose_changed_cases_moved_as_one_moved(tmp_path: Path, factor: float, verdict: str) -> None:
    suite = ab.comparison(record(tmp_path, {}, suite=factor)).suite
    assert suite is not None
    assert (suite.verdict, suite.cases) == (verdict, len(SUITE_US) + 1)


def test_a_head_whose_processes_scatter_more_is_reported(tmp_path: Path) -> None:
    made = record(tmp_path, {}, suite=1.0)
    assert not ab.comparison(made).spread
    for number, process in enumerate(each for each in made.of(Phase.SCREEN) if each.which is Side.HEAD):
        assert process.file is not None
        run, factor = made.runs[process.file], 1 + 0.05 * (-1) ** number
        scattered = structs.replace(run.cases["a.fast-1"], time_us=100.0 * factor, trimmed_mean_us=None)
        made.runs[process.file] = replace(run, cases={**run.cases, "a.fast-1": scattered})
    assert {(each.case, each.kind) for each in ab.comparison(made).spread} == {("a.fast-1", BETWEEN_SESSIONS)}


def test_a_new_case_that_is_wrong_is_wrong(tmp_path: Path) -> None:
    made = record(tmp_path, {}, {Side.HEAD: {"head.only": (Verdict.WRONG, "output 0 is off")}})
    made.plan = Plan(measured=("a.fast-1",), head_only=("head.only",))
    assert verdicts(made)["head.only"] == Verdict.WRONG


def test_a_case_that_one_side_lacks_or_nobody_timed_is_never_the_same(tmp_path: Path) -> None:
    made = record(tmp_path, {})
    made.plan = Plan(
        measured=("a.fast-1", "not.timed"),
        sentinels=WATCHED,
        unchanged={"un.changed": "machine code"},
        base_only=("base.only",),
        head_only=("head.only",),
        mended=("mended.in-head",),
        broken=("builds.nowhere",),
        lost=("lost.in-head",),
    )
    found = verdicts(made)
    assert {case: verdict for case, verdict in found.items() if case not in (*WATCHED, "a.fast-1")} == {
        "un.changed": "SAME",
        "base.only": "MISSING",
        "head.only": "INCONCLUSIVE",
        "mended.in-head": "INCONCLUSIVE",
        "builds.nowhere": "INCONCLUSIVE",
        "lost.in-head": "MISSING",
    }  # what the device refused on both sides is left out
