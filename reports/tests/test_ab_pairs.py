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


@given(offsets_us=st.lists(st.floats(-0.3, 0.3), min_size=2, max_size=6), time_us=st.floats(2, 1e5))
def test_what_processes_differ_by_in_launching_any_kernel_is_no_change(
    run: Run, offsets_us: list[float], time_us: float
) -> None:
    found = compared_us([process(run, time_us + offset, 3.0 + offset, 500.0 + offset) for offset in offsets_us])
    assert [each[SHORT] for each in found] == pytest.approx([found[0][SHORT]] * len(found), rel=1e-9)
    assert [each[LONG] for each in found] == pytest.approx([found[0][LONG]] * len(found), rel=1e-9)


def test_a_process_without_the_control_is_compared_as_it_is(run: Run) -> None:
    assert [each[SHORT] for each in compared_us([process(run, 5.0, 3.0), process(run, 6.0, None)])] == [5.0, 6.0]


def test_one_disturbed_control_of_many_changes_nothing(run: Run) -> None:
    quiet = process(run, 5.0, 3.0)
    short = quiet.cases[SHORT]
    cases = {f"t.{at}": replace(short, case=f"t.{at}", control_us=3.4 if at == 7 else 3.0) for at in range(9)}
    assert set(compared_us([quiet, replace(quiet, cases=cases)])[1].values()) == {5.0}


def test_a_time_shorter_than_what_the_processes_differ_by_is_not_compared(run: Run) -> None:
    assert SHORT not in compared_us([process(run, 1.0, 1.0), process(run, 1.0, 5.0)])[1]
