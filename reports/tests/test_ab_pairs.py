"""The number that a pair of processes gives a case."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from comparing import PAD, Saved
from hypothesis import given
from hypothesis import strategies as st
from peakgate.reports.ab.pairs import log_ratio
from peakgate.reports.runs.runfile import CaseResult


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> CaseResult:
    folder: Path = tmp_path_factory.mktemp("runs")
    return Saved(folder).run().cases[PAD]


def test_trimmed_means_are_compared_and_medians_where_a_run_has_none(result: CaseResult) -> None:
    base = replace(result, time_us=5.0, trimmed_mean_us=4.0)
    assert log_ratio(base, replace(base, trimmed_mean_us=4.4)) == pytest.approx(math.log(1.1))
    older = replace(base, trimmed_mean_us=None)
    assert log_ratio(older, replace(older, time_us=6.0)) == pytest.approx(math.log(1.2))


@given(time_us=st.floats(2, 1e5), slower=st.floats(0.99, 1.1), overheads=st.tuples(*[st.floats(2.9, 3.1)] * 2))
def test_what_two_processes_differ_by_in_launching_any_kernel_is_no_change(
    result: CaseResult, time_us: float, slower: float, overheads: tuple[float, float]
) -> None:
    middle = sum(overheads) / 2
    base, head = (
        replace(result, trimmed_mean_us=us + overhead - middle, control_us=overhead)
        for us, overhead in zip((time_us, slower * time_us), overheads, strict=True)
    )
    assert log_ratio(base, head) == pytest.approx(math.log(slower), abs=1e-9)


def test_an_overhead_that_one_side_has_alone_changes_nothing(result: CaseResult) -> None:
    base, head = replace(result, time_us=5.0, control_us=3.0), replace(result, time_us=6.0)
    assert log_ratio(base, head) == -log_ratio(head, base) == pytest.approx(math.log(1.2))


def test_a_time_shorter_than_what_the_processes_differ_by_gives_no_number(result: CaseResult) -> None:
    base, head = replace(result, time_us=1.0, control_us=0.0), replace(result, time_us=1.0, control_us=2.0)
    assert math.isnan(log_ratio(base, head))
    assert math.isfinite(log_ratio(base, replace(head, control_us=1.9)))
