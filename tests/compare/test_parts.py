"""Which part of a slower end-to-end case explains it, and what none explains."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from comparing import Saved, compare
from synthetic_runs import LADDER

from peakgate.base.verdict import Verdict
from peakgate.compare.parts import ExplainedTime, explained
from peakgate.compare.report import report

WHOLE, FIRST, SECOND = "ops.bench_model", "ops.bench_attention", "ops.bench_mlp"


def row(case: str, base_us: float, percent: float, half: float = 1.0, verdict: str = "SAME") -> SimpleNamespace:
    """A compared case, slower by this percentage with an interval of this half width."""
    times = {"base_time_us": base_us, "new_time_us": base_us * (1 + percent / 100)}
    changes = {"change_percent": percent, "low_percent": percent - half, "high_percent": percent + half}
    return SimpleNamespace(case=case, verdict=verdict, **times, **changes)


def of(*parts: SimpleNamespace, named: tuple[str, ...] = (FIRST, SECOND), whole: float = 10.0) -> ExplainedTime:
    (found,) = explained([row(WHOLE, 100.0, whole, 1.0, "SLOWER"), *parts], {WHOLE: named})
    return found


def test_a_part_explains_the_difference_of_its_times() -> None:
    found = of(row(FIRST, 40.0, 20.0, verdict="SLOWER"), row(SECOND, 50.0, 0.2))
    assert list(found.parts) == [FIRST]
    assert found.parts[FIRST].change_us == pytest.approx(8.0)
    assert (found.parts[FIRST].low_us, found.parts[FIRST].high_us) == pytest.approx((7.6, 8.4))
    assert found.unresolved == (SECOND,)
    assert found.rest.change_us == pytest.approx(1.9)
    assert found.rest.high_us - found.rest.change_us == pytest.approx((1.0**2 + 0.4**2 + 0.5**2) ** 0.5)


def test_what_no_part_explains_is_said_only_where_it_is_resolved() -> None:
    assert "+10.00 µs" in of(row(FIRST, 40.0, 0.0), row(SECOND, 50.0, 0.0)).text
    assert "may be none" in of(row(FIRST, 40.0, 25.0), row(SECOND, 50.0, 0.0)).text


def test_a_part_that_got_faster_explains_less_than_nothing() -> None:
    found = of(row(FIRST, 40.0, 40.0), row(SECOND, 50.0, -10.0))
    assert found.parts[SECOND].change_us == pytest.approx(-5.0)
    assert found.rest.change_us == pytest.approx(-1.0)


def test_a_part_that_is_named_twice_counts_twice() -> None:
    found = of(row(FIRST, 20.0, 20.0), named=(FIRST, FIRST))
    assert found.parts[FIRST].change_us == pytest.approx(8.0)


def test_a_part_without_times_on_both_sides_is_named() -> None:
    untimed = row(SECOND, 50.0, 0.0)
    untimed.base_time_us, untimed.change_percent, untimed.verdict = None, None, "NEW"
    found = of(row(FIRST, 40.0, 1.0), untimed, named=(FIRST, SECOND, "ops.gone"))
    assert found.unmeasured == (SECOND, "ops.gone")
    assert "no measured part" in found.text


def test_a_part_whose_code_is_the_same_explains_nothing() -> None:
    unchanged = row(SECOND, 50.0, 0.0)
    unchanged.base_time_us = unchanged.change_percent = None
    found = of(row(FIRST, 40.0, 1.0), unchanged)
    assert (found.unmeasured, found.unresolved) == ((), (FIRST, SECOND))


@pytest.mark.parametrize("verdict", [each for each in Verdict if each is not Verdict.SLOWER])
def test_a_case_that_is_not_slower_is_not_explained(verdict: Verdict) -> None:
    rows = [row(WHOLE, 100.0, 10.0, verdict=str(verdict)), row(FIRST, 40.0, 20.0)]
    assert explained(rows, {WHOLE: (FIRST,)}) == []


def test_a_slower_case_whose_interval_includes_0_is_not_explained() -> None:
    assert explained([row(WHOLE, 100.0, 1.0, 2.0, "SLOWER"), row(FIRST, 40.0, 20.0)], {WHOLE: (FIRST,)}) == []


def test_a_comparison_reports_the_parts_of_its_slower_cases(tmp_path: Path) -> None:
    saved = Saved(tmp_path)
    extra = {WHOLE: {"parts": [FIRST, SECOND]}}
    before = LADDER | {WHOLE: 1000.0, FIRST: 400.0, SECOND: 500.0}
    after = before | {WHOLE: 1200.0, FIRST: 590.0}
    found = report(compare(saved.side(before, extra=extra), saved.side(after, extra=extra)))
    assert [each["case"] for each in found.fields["parts"]] == [WHOLE]
    assert "+200.00 µs" in found.sentences[0]
    assert f"{FIRST} explains +190.00 µs" in found.sentences[0]
    unchanged = report(compare(saved.side(before, extra=extra), saved.side(before, extra=extra)))
    assert unchanged.fields["parts"] == []
