"""Which declared work is noted, of what hardware counters saw."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peakgate.judge.work import FACTOR, work_notes
from peakgate.spec.recorded import CaseCounters, WorkNote

L2_BYTES = 60e6
AMOUNTS = st.floats(1.0, 1e12)
COUNTS = st.builds(
    CaseCounters,
    launched_kernels=st.integers(1, 3),
    dram_read_bytes=AMOUNTS,
    dram_written_bytes=AMOUNTS,
    l2_read_bytes=AMOUNTS,
    l2_written_bytes=AMOUNTS,
    executed_flops=st.none() | AMOUNTS,
    half_flops=st.none() | AMOUNTS,
)
STATES = st.sampled_from(("cold", "warm", "graph"))


def counted(**changed: Any) -> CaseCounters:
    """A launch that read 100 MB and wrote as much, of which the L2 still holds 20 MB."""
    of_launch = {"launched_kernels": 1, "dram_read_bytes": 100e6, "dram_written_bytes": 80e6}
    return CaseCounters(**of_launch | {"l2_read_bytes": 100e6, "l2_written_bytes": 100e6, "half_flops": 0} | changed)


def noted(
    declared_bytes: float | None = None,
    counts: CaseCounters | None = None,
    state: str = "cold",
    flops: float | None = None,
    l2_bytes: float | None = L2_BYTES,
) -> list[WorkNote]:
    declared = {"declared_bytes": declared_bytes, "declared_flops": flops}
    return list(work_notes("a.b", state, counts or counted(), l2_bytes=l2_bytes, **declared))


def test_bytes_that_dram_moved_are_not_noted() -> None:
    for declared in (90e6, 200e6, 400e6):
        assert noted(declared) == []


def test_more_than_twice_what_was_moved_is_noted() -> None:
    assert noted(401e6) == [WorkNote("a.b", "bytes", 401e6, 200e6, "DRAM and stores in the L2")]
    assert {"401", "200"} <= set(noted(401e6)[0].sentence.split())
    assert noted(401e6, counted(dram_written_bytes=100e6)) == [WorkNote("a.b", "bytes", 401e6, 200e6, "DRAM")]


def test_less_than_half_of_what_dram_moved_is_noted() -> None:
    assert noted(89e6) == [WorkNote("a.b", "bytes", 89e6, 180e6, "DRAM")]


def test_stores_count_that_the_l2_still_holds() -> None:
    in_l2 = counted(dram_read_bytes=0.0, dram_written_bytes=0.0, l2_read_bytes=0.0, l2_written_bytes=16e6)
    assert noted(16e6, in_l2) == []


def test_stores_to_one_place_count_as_far_as_the_l2_holds_them() -> None:
    again = counted(dram_read_bytes=0.0, dram_written_bytes=0.0, l2_written_bytes=1e9)
    assert noted(121e6, again)[0].counted == L2_BYTES
    assert noted(121e6, again, l2_bytes=None) == []


def test_a_warm_launch_is_held_to_what_passed_the_l2() -> None:
    hits = counted(dram_read_bytes=0.0, dram_written_bytes=0.0)
    for state in ("warm", "graph"):
        assert noted(400e6, hits, state) == []
        assert noted(401e6, hits, state) == [WorkNote("a.b", "bytes", 401e6, 200e6, "the L2")]
    assert noted(401e6, hits)[0].counter.startswith("DRAM and stores")


def test_what_several_kernels_leave_in_memory_is_not_noted() -> None:
    assert noted(10e6, counted(launched_kernels=2)) == []
    assert noted(401e6, counted(launched_kernels=2)) != []


@pytest.mark.parametrize(("declared", "is_noted"), [(0.4e9, True), (0.5e9, False), (2e9, False), (2.1e9, True)])
def test_flops_are_compared_where_they_were_counted(declared: float, is_noted: bool) -> None:
    found = noted(None, counted(executed_flops=1e9), flops=declared)
    assert found == ([WorkNote("a.b", "flops", declared, 1e9, "the kernels")] if is_noted else [])
    assert noted(None, counted(executed_flops=None), flops=declared) == []
    assert noted(None, counted(executed_flops=1e9, half_flops=None), flops=declared) == []


def test_instructions_on_halves_may_be_operations_and_need_not_be() -> None:
    both = counted(executed_flops=1e9, half_flops=3e9)
    assert noted(None, both, flops=8e9) == noted(None, both, flops=0.5e9) == []
    assert [each.counted for each in noted(None, both, flops=9e9) + noted(None, both, flops=0.4e9)] == [4e9, 1e9]


def test_flops_that_nothing_executed_are_noted() -> None:
    assert noted(None, counted(executed_flops=0), flops=1.0) != []


def test_what_is_not_declared_or_not_counted_is_not_noted() -> None:
    assert noted(None, flops=None) == noted(0.0, flops=0.0) == []
    for name in ("dram_read_bytes", "dram_written_bytes", "l2_read_bytes", "l2_written_bytes"):
        assert noted(1.0, counted(**{name: None})) == []


@given(COUNTS, STATES, AMOUNTS, AMOUNTS)
def test_what_is_noted_differs_by_more_than_the_factor(
    counts: CaseCounters, state: str, declared_bytes: float, flops: float
) -> None:
    found = noted(declared_bytes, counts, state, flops)
    assert len({each.work for each in found}) == len(found)
    assert all(max(each.declared, each.counted) > FACTOR * min(each.declared, each.counted) for each in found)


@given(COUNTS, STATES)
def test_the_bytes_that_dram_moved_are_never_noted(counts: CaseCounters, state: str) -> None:
    assert counts.dram_read_bytes is not None
    assert counts.dram_written_bytes is not None
    assert noted(counts.dram_read_bytes + counts.dram_written_bytes, counts, state) == []


@given(COUNTS, STATES, AMOUNTS, st.integers(-20, 20))
def test_units_do_not_matter(counts: CaseCounters, state: str, declared_bytes: float, exponent: int) -> None:
    factor = 2.0**exponent  # scales floats exactly
    names = ("dram_read_bytes", "dram_written_bytes", "l2_read_bytes", "l2_written_bytes")
    scaled = {name: factor * (getattr(counts, name) or 0.0) for name in names}
    found = noted(declared_bytes, counts, state)
    larger = noted(
        factor * declared_bytes,
        CaseCounters(launched_kernels=counts.launched_kernels, **scaled),
        state,
        None,
        factor * L2_BYTES,
    )
    assert [(each.work, factor * each.counted, each.counter) for each in found] == [
        (each.work, each.counted, each.counter) for each in larger
    ]
