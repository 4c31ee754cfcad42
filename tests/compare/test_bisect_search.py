"""The search of a bisect: groups of equal code, the posterior, and which group is named; all without a GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peakgate.base.report import Report
from peakgate.compare.ab.decide import INTERVAL_TAIL, CaseStatus
from peakgate.compare.bisect import report
from peakgate.compare.bisect.search import (
    BuiltCommit,
    Effort,
    End,
    SearchOutcome,
    Unusable,
    groups,
    halving,
    narrowed,
    posterior,
    search,
)
from peakgate.spec.contract import Contract

CASE = "family.kernel-1"


def commit(name: str, code: str | None = "a", **more: str) -> BuiltCommit:
    return BuiltCommit(name, f"subject of {name}", {CASE: Contract(code=code, launch="as usual")}, more.get("problem"))


def history(codes: str) -> list[BuiltCommit]:
    """A commit per letter; ``x`` does not build, ``-`` has a problem of its own."""
    made = []
    for place, code in enumerate(codes):
        problem = {"problem": "its cases cannot be listed"} if code == "-" else {}
        made.append(commit(f"{place:040d}", None if code == "x" else code, **problem))
    return made


def places(codes: str) -> list[tuple[int, ...]]:
    return [group.places for group in groups(history(codes), CASE)]


def test_adjacent_commits_of_equal_code_are_one_group_and_those_with_none_are_in_none() -> None:
    assert places("aaxab-bc") == [(0, 1, 3), (4, 6), (7,)]


def test_a_group_begins_with_commits_before_it_that_had_nothing_to_measure() -> None:
    found = groups(history("axx-b"), CASE)
    assert (found[1].since, found[1].first) == (1, 4)


def test_an_operation_of_the_device_is_never_surely_equal() -> None:
    made = [BuiltCommit(str(at), "", {CASE: Contract(operation="memcpy", launch="as usual")}) for at in range(3)]
    assert len(groups(made, CASE)) == 3


@pytest.mark.parametrize(
    ("codes", "kept"), [("abc", "abc"), ("abab", "ab"), ("abacd", "acd"), ("abcbc", "abc"), ("aba", "a")]
)
def test_only_what_lies_between_the_last_of_goods_code_and_the_next_of_bads_is_searched(codes: str, kept: str) -> None:
    assert "".join(str(group.identity.code) for group in narrowed(groups(history(codes), CASE))) == kept


class Measured:
    """Pairs of groups with known times, in percent over GOOD's, and a little noise."""

    def __init__(
        self, percent: Sequence[float], noise: float = 0.002, broken: Sequence[int] = (), seed: int = 1
    ) -> None:
        self.times = np.log1p(np.array(percent) / 100)
        self.noise, self.broken = noise, broken
        self.rng = np.random.default_rng(seed)
        self.asked: list[tuple[int, int, int]] = []

    def __call__(self, base: int, head: int, count: int) -> Sequence[float]:
        if head in self.broken:
            raise Unusable("wrong results")
        self.asked.append((base, head, count))
        values: list[float] = (self.times[head] - self.times[base] + self.rng.normal(0, self.noise, count)).tolist()
        return values


@given(groups=st.integers(2, 40), data=st.data())
@settings(max_examples=20, deadline=None)
def test_a_clear_step_is_found_wherever_it_is_in_as_few_steps_as_halving_takes(
    groups: int, data: st.DataObject
) -> None:
    step = data.draw(st.integers(1, groups - 1))
    pairs = Measured([0.0] * step + [2.0] * (groups - step))
    outcome = search(groups - 1, pairs, Effort())
    assert (outcome.end, outcome.group, outcome.before) == (End.FOUND, step, step - 1)
    between = {head for base, head, _ in pairs.asked if base == 0} - {groups - 1}
    assert len(between) <= np.ceil(np.log2(groups)) + 1


def test_a_step_that_makes_it_faster_is_found_too() -> None:
    assert search(7, Measured([0.0] * 3 + [-2.0] * 5), Effort()).group == 3


def test_ends_that_do_not_differ_leave_no_commit() -> None:
    pairs = Measured([0.0] * 8)
    assert search(7, pairs, Effort()).end is End.SAME
    assert {head for _, head, _ in pairs.asked} == {7}


def test_a_group_that_cannot_be_measured_is_skipped_and_reported() -> None:
    outcome = search(7, Measured([0.0] * 4 + [2.0] * 4, broken=[3, 4]), Effort())
    assert (outcome.end, outcome.group, outcome.before) == (End.FOUND, 5, 2)
    assert (3, "wrong results") in outcome.unusable
    assert (4, "wrong results") in outcome.unusable


def test_an_end_that_cannot_be_measured_ends_the_search() -> None:
    with pytest.raises(Unusable, match="wrong results"):
        search(7, Measured([0.0] * 8, broken=[7]), Effort())


def test_of_a_change_in_two_parts_the_older_is_named() -> None:
    outcome = search(15, Measured([0.0] * 5 + [1.5] * 5 + [3.0] * 6), Effort())
    assert (outcome.end, outcome.group) == (End.FOUND, 5)
    assert outcome.between


def test_noise_that_hides_the_step_is_undecided_and_not_guessed() -> None:
    class Drowned(Measured):
        def __call__(self, base: int, head: int, count: int) -> Sequence[float]:
            self.noise = 0.002 if (base, head) == (0, 7) else 0.2
            return super().__call__(base, head, count)

    outcome = search(7, Drowned([0.0] * 4 + [2.0] * 4), Effort(most=8))
    assert outcome.end is End.UNDECIDED
    assert outcome.group is None or outcome.border is not None


def test_the_posterior_is_even_before_anything_between_is_measured_and_halved_in_the_middle() -> None:
    beliefs = posterior({8: [0.02, 0.021, 0.019]}, range(1, 9))
    assert list(beliefs.values()) == pytest.approx([1 / 8] * 8)
    assert halving(beliefs, range(1, 8)) == 4


@given(st.lists(st.floats(-0.01, 0.03), min_size=2, max_size=12), st.integers(1, 5))
def test_the_posterior_is_a_distribution_over_the_candidates(values: list[float], group: int) -> None:
    beliefs = posterior({6: [0.02, 0.021, 0.018], group: values}, range(1, 7))
    assert sum(beliefs.values()) == pytest.approx(1)
    assert all(0 <= belief <= 1 for belief in beliefs.values())


def decision(percent: float, status: CaseStatus = CaseStatus.FLAGGED) -> SimpleNamespace:
    shift = float(np.log1p(percent / 100))
    estimate = {"pairs": 10, "log_ratio": shift, "standard_error": 0.001, "df": 9.0, "interval_tail": INTERVAL_TAIL}
    return SimpleNamespace(**estimate, status=status, resolvable=0.0025, direction=1, p_value=0.001)


def test_a_found_commit_is_reported(shown: Callable[[str, Report], None]) -> None:
    made = history("aax-bb")
    outcome = SearchOutcome(End.FOUND, decision(5), "", 1, 0, decision(2), unusable=((1, "wrong results"),))
    shown("bisect.txt", report.report(report.BisectAnswer(CASE, "gate", made, groups(made, CASE), outcome, 2, 24)))


def test_commits_with_nothing_to_measure_in_front_of_the_border_are_named_with_it() -> None:
    made = history("aax-bb")
    found = groups(made, CASE)
    outcome = SearchOutcome(End.FOUND, decision(2), "", 1, 0, decision(2))
    answer = report.BisectAnswer(CASE, "gate", made, found, outcome, 2, 24)
    assert [each.commit for each in answer.suspects] == [made[at].commit for at in (2, 3, 4)]
    said = report.report(answer).sentences
    assert said[0] == f"{made[4].commit[:12]} made {CASE} slower: subject of {made[4].commit}"
    assert f"{made[2].commit[:12]}, {made[3].commit[:12]}" in said[2]
    assert answer.command == f"peakgate ab {made[1].commit[:12]} {made[4].commit[:12]} -k {CASE} --explain"


def test_a_skipped_group_before_the_border_is_under_suspicion() -> None:
    made = history("abcd")
    outcome = SearchOutcome(End.FOUND, decision(2), "", 2, 0, decision(2), unusable=((1, "wrong results"),))
    answer = report.BisectAnswer(CASE, "full", made, groups(made, CASE), outcome)
    assert [each.commit for each in answer.suspects] == [made[1].commit, made[2].commit]
    assert f"skipped {made[1].commit[:12]}: wrong results" in report.report(answer).sentences
    assert answer.command is not None
    assert "--tier full" in answer.command


def test_a_commit_with_a_part_of_the_change_says_how_to_find_the_rest() -> None:
    made = history("abcd")
    outcome = SearchOutcome(End.FOUND, decision(5), "", 2, 1, decision(2))
    said = report.report(report.BisectAnswer(CASE, "gate", made, groups(made, CASE), outcome)).sentences
    assert any("`peakgate bisect " in line for line in said)


def test_an_undecided_bisect_lists_the_commits_that_are_left_and_exits_3() -> None:
    made = history("abcd")
    outcome = SearchOutcome(End.UNDECIDED, decision(2), "too few pairs", candidates=((2, 0.6), (3, 0.395), (1, 0.005)))
    answer = report.BisectAnswer(CASE, "gate", made, groups(made, CASE), outcome)
    assert [each.commit for each in answer.suspects] == [made[2].commit, made[3].commit]
    assert report.report(answer).exit_code == 3
    assert "2 commits left" in report.report(answer).sentences[1]
