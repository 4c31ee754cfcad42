"""The reduce family: its references, and what blocks leave in memory for the next launch."""

from __future__ import annotations

import numpy as np
import pytest
from emulated import small_of
from family_modules import reduce

from peakgate.case import Case, Scale
from peakgate.device.cpu import CpuLaunchable

KEEPING_STATE = ("last_block", "scan_chained", "scan_lookback", "scan_ahead")


def test_a_sum_and_a_maximum_begin_with_what_is_there() -> None:
    values = np.array([-3.0, -1.0, -2.0], np.float32)
    assert reduce.total(np, np.array([10.0]), values) == [4.0]
    assert reduce.largest(np, np.array([-2.0]), values) == [-1.0]
    assert reduce.largest(np, np.array([0.0]), values) == [0.0]


def test_running_sums_wrap_around() -> None:
    values = np.array([2**31 - 1, 1, 5], np.int32)
    assert reduce.running_sums(np, values).tolist() == [2**31 - 1, -(2**31), -(2**31) + 5]


def test_values_are_counted_in_equal_bins_and_none_outside() -> None:
    values = np.array([-0.01, 0.0, 0.5 / 256, 1 / 256, 255.9 / 256, 1.0], np.float32)
    found = reduce.counts(np, np.zeros(256, np.uint32), values)
    assert (found[0], found[1], found[255], found.sum()) == (2, 1, 1, 4)


def test_the_last_edge_size_has_more_tiles_than_a_warp_looks_back_over() -> None:
    case = small_of(reduce.FAMILY, "scan_lookback")[0]
    assert max(probe.launch.grid[0] for probe in reduce.FAMILY.probes(case)) > 33


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("name", KEEPING_STATE)
def test_a_launch_leaves_its_state_ready_for_the_next(name: str) -> None:
    """The last block's counter begins again; tickets go on, and name the same tiles."""
    for case in small_of(reduce.FAMILY, name):
        launchable = CpuLaunchable(case)
        assert callable(case.reference)
        (expected,) = case.reference(np, launchable.inputs)
        for _ in range(3):
            launchable.outputs[0].fill(0)
            launchable.run()
            np.testing.assert_allclose(launchable.outputs[0], expected, rtol=1e-5, atol=1e-3)


@pytest.mark.usefixtures("compiler")
def test_the_last_block_adds_up_in_the_same_order_in_every_order_of_threads() -> None:
    (case, *_) = small_of(reduce.FAMILY, "last_block")
    found = set()
    for schedule in range(3):
        launchable = CpuLaunchable(case)
        launchable.run(schedule)
        found.add(launchable.outputs[0].tobytes())
    assert len(found) == 1


def test_the_last_edge_size_takes_every_slot_of_a_ring_more_than_once() -> None:
    case = small_of(reduce.FAMILY, "scan_ahead")[0]
    last = max(reduce.FAMILY.probes(case), key=lambda probe: probe.buffers[0].shape)
    assert last.buffers[2].shape[0] > last.launch.grid[0] * reduce.AHEAD_STAGES


def of_stage(name: str) -> list[Case]:
    return [case for case in reduce.FAMILY.cases(Scale.BENCH) if case.stage.name == name]


def test_a_tile_has_a_word_for_its_state() -> None:
    for case in (*of_stage("scan_chained"), *of_stage("scan_lookback")):
        states = case.buffers[2]
        assert states.shape == (case.launch.grid[0],), case.id
    for case in of_stage("scan_ahead"):
        assert case.buffers[2].shape == (case.buffers[0].shape[0] // reduce.AHEAD_TILE,), case.id
