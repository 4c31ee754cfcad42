"""What of two processes is compared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from comparing import PAD, Saved
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from peakgate.reports.ab.record import Timed, compared_us, timed

SHORT, LONG = "t.short", "t.long"


def process(short_us: float, control_us: float | None, long_us: float = 1000.0) -> list[Timed]:
    """A process that measured a short case, with the control after it, and a long one."""
    return [Timed(SHORT, short_us, control_us), Timed(LONG, long_us, None)]


def test_kernels_are_compared_by_trimmed_means_where_a_run_has_them(tmp_path: Path) -> None:
    run = Saved(tmp_path).run()
    long = structs.replace(run.cases[PAD], time_us=200.0, trimmed_mean_us=201.0, control_us=None)
    short = structs.replace(long, case=SHORT, time_us=5.0, trimmed_mean_us=5.1, control_us=3.0)
    older = structs.replace(short, case=LONG, trimmed_mean_us=None)
    cases = {each.case: each for each in (long, short, older)}
    assert timed(replace(run, cases=cases)) == [Timed(PAD, 201.0, None), Timed(SHORT, 5.1, 3.0), Timed(LONG, 5.0, 3.0)]


@given(offsets_us=st.lists(st.floats(-0.3, 0.3), min_size=2, max_size=6), time_us=st.floats(2, 99))
def test_what_processes_differ_by_in_launching_any_kernel_is_no_change(offsets_us: list[float], time_us: float) -> None:
    found = compared_us([process(time_us + offset, 3.0 + offset) for offset in offsets_us])
    assert [each[SHORT] for each in found] == pytest.approx([found[0][SHORT]] * len(found), rel=1e-9)


def test_a_case_without_a_control_is_compared_as_it_is() -> None:
    found = compared_us([process(5.0, 3.0), process(6.0, None), process(5.5, 3.5)])
    assert found == [{SHORT: time_us, LONG: 1000.0} for time_us in (5.25, 6.0, 5.25)]


def test_the_control_of_a_case_is_the_mean_of_those_before_and_after_it() -> None:
    controls_us = {"t.a": 3.0, "t.b": 3.4, "t.c": 3.0, "t.d": 3.0, "t.e": 3.0}
    (found,) = compared_us([[Timed(case, 5.0, control_us) for case, control_us in controls_us.items()]])
    assert [round(time_us, 9) for time_us in found.values()] == [5.0, 4.8, 4.8, 5.0, 5.0]


def test_a_time_shorter_than_what_the_processes_differ_by_is_not_compared() -> None:
    assert SHORT not in compared_us([process(1.0, 1.0), process(1.0, 5.0)])[1]
