"""The search of a bisect and its report, without a GPU."""

from __future__ import annotations

import math
from argparse import Namespace
from collections.abc import Callable, Collection, Sequence
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peakgate.base.report import Report
from peakgate.base.verdict import ExitCode, Verdict
from peakgate.compare.bisect.command import report
from peakgate.compare.bisect.search import CaseRow, PointState, SearchResult, search

CASE = "family.kernel-1"


def row(verdict: Verdict, percent: float = 0.0) -> CaseRow:
    return CaseRow(CASE, verdict, f"{percent:+.2f} % over 10 pairs", percent, percent - 0.3, percent + 0.3)


class Compared:
    """Comparisons of versions, all slow from ``first`` on; ``untold`` ones are never decided."""

    def __init__(self, first: int, untold: Collection[int] = ()) -> None:
        self.first, self.untold = first, untold
        self.heads: list[int] = []

    def __call__(self, base: str, head: str) -> CaseRow:
        self.heads.append(int(head))
        if int(head) in self.untold:
            return row(Verdict.INCONCLUSIVE)
        return row(Verdict.SLOWER if int(base) < self.first <= int(head) else Verdict.SAME)


def searched(count: int, compared: Compared) -> SearchResult:
    points = [str(number) for number in range(count)]
    return search(points, partial(compared, points[0]), compared)


@given(count=st.integers(2, 100), data=st.data())
def test_a_step_is_found_in_as_few_steps_as_halving_takes(count: int, data: st.DataObject) -> None:
    first = data.draw(st.integers(1, count - 1))
    compared = Compared(first)
    outcome = searched(count, compared)
    assert (outcome.exit_code, outcome.suspects) == (ExitCode.REGRESSION, [str(first)])
    assert len(compared.heads) - 1 <= math.ceil(math.log2(count - 1)) if count > 2 else len(compared.heads) == 1


@given(count=st.integers(3, 40), data=st.data())
def test_skipped_points_are_named_only_where_they_may_be_the_first(count: int, data: st.DataObject) -> None:
    first = data.draw(st.integers(1, count - 1))
    untold = data.draw(st.sets(st.integers(1, count - 2)))
    outcome = searched(count, Compared(first, untold - {first}))
    assert str(first) in outcome.suspects
    assert {int(each) for each in outcome.suspects[:-1]} <= untold
    assert (outcome.exit_code is ExitCode.REGRESSION) == (len(outcome.suspects) == 1)


@pytest.mark.parametrize("verdict", Verdict)
def test_only_slower_is_bad_and_only_a_time_is_good(verdict: Verdict) -> None:
    good = {Verdict.SAME, Verdict.FASTER}
    expected = PointState.BAD if verdict is Verdict.SLOWER else PointState.GOOD if verdict in good else PointState.SKIP
    assert row(verdict).state is expected


OPTIONS = Namespace(case=CASE, package="tiny", tier="gate", device="gpu:0")
STEPS = {"2.0": "SAME, +0.01 % over 10 pairs", "2.1": "INCONCLUSIVE, builds on neither side"}


def reported(code: ExitCode, suspects: Sequence[str], border: CaseRow | None, reason: str = "") -> Report:
    outcome = SearchResult(code, suspects, reason, "2.0", border, STEPS)
    return report(["1.0", "2.0", "2.1", "3.0"], row(Verdict.SLOWER, 5), outcome, OPTIONS)


def test_a_version_that_was_found_is_reported(shown: Callable[[str, Report], None]) -> None:
    shown("bisect.txt", reported(ExitCode.REGRESSION, ["3.0"], row(Verdict.SLOWER, 2)))


def test_an_undecided_bisect_lists_what_is_left() -> None:
    found = reported(ExitCode.UNDECIDED, ["2.1", "3.0"], None, "some were skipped")
    assert found.exit_code == 3
    assert any("2.1, 3.0" in each for each in found.sentences)
