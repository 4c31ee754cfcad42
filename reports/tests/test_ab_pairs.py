"""What of two processes is compared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from comparing import PAD, Saved
from hypothesis import given
from hypothesis import strategies as st
from peakgate.reports.ab.pairs import compared_us
from peakgate.reports.runs.runfile import Run

SHORT, LONG = "t.short", "t.long"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder: Path = tmp_path_factory.mktemp("runs")
    return Saved(folder).run()


def process(run: Run, short_us: float, control_us: float | None, long_us: float = 1000.0) -> Run:
    """A process that measured a short case, with the control after it, and a long one."""
    short = replace(run.cases[PAD], case=SHORT, time_us=1.0, trimmed_mean_us=short_us, control_us=control_us)
    return replace(run, cases={SHORT: short, LONG: replace(short, trimmed_mean_us=long_us, control_us=None)})


def test_trimmed_means_are_compared_and_medians_where_a_run_has_none(run: Run) -> None:
    newer = process(run, 4.0, None)
    older = replace(newer, cases={SHORT: replace(newer.cases[SHORT], trimmed_mean_us=None)})
    assert compared_us([newer, older]) == [{SHORT: 4.0, LONG: 1000.0}, {SHORT: 1.0}]


@given(offsets_us=st.lists(st.floats(-0.3, 0.3), min_size=2, max_size=6), time_us=st.floats(2, 99))
def test_what_processes_differ_by_in_launching_any_kernel_is_no_change(
    run: Run, offsets_us: list[float], time_us: float
) -> None:
    found = compared_us([process(run, time_us + offset, 3.0 + offset) for offset in offsets_us])
    assert [each[SHORT] for each in found] == pytest.approx([found[0][SHORT]] * len(found), rel=1e-9)


def test_a_case_without_a_control_is_compared_as_it_is(run: Run) -> None:
    found = compared_us([process(run, 5.0, 3.0), process(run, 6.0, None), process(run, 5.5, 3.5)])
    assert found == [{SHORT: time_us, LONG: 1000.0} for time_us in (5.25, 6.0, 5.25)]


def test_the_control_of_a_case_is_the_mean_of_those_before_and_after_it(run: Run) -> None:
    short = process(run, 5.0, 3.0).cases[SHORT]
    controls_us = {"t.a": 3.0, "t.b": 3.4, "t.c": 3.0, "t.d": 3.0, "t.e": 3.0}
    cases = {case: replace(short, case=case, control_us=control_us) for case, control_us in controls_us.items()}
    (found,) = compared_us([replace(run, cases=cases)])
    assert [round(time_us, 9) for time_us in found.values()] == [5.0, 4.8, 4.8, 5.0, 5.0]


def test_a_time_shorter_than_what_the_processes_differ_by_is_not_compared(run: Run) -> None:
    assert SHORT not in compared_us([process(run, 1.0, 1.0), process(run, 1.0, 5.0)])[1]
