"""Blocks and clusters that take others off the launch and do their work."""

from __future__ import annotations

import numpy as np
import pytest
from emulating import finds, loaded

from peakgate_emulator import DefectKind

SOUND = {
    "WAIT": 'asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @!p bra again; }"'
    '::"r"(at(&arrived)), "r"(parity))',
    "AGAIN": 'asm volatile("fence.proxy.async;"); __syncthreads()',
}


def launched(changes: dict[str, str], schedule: int) -> tuple[np.ndarray, np.ndarray]:
    out, by = np.zeros(12, np.int32), np.full(12, -1, np.int32)
    kernel = loaded("taken_over", SOUND | changes, capability=(10, 0))
    kernel.launch((4, 3, 1), (64, 1, 1), (out, by), schedule=schedule)
    return out, by


@pytest.mark.parametrize("schedule", [0, 1, 2, 7])
def test_each_block_runs_or_is_taken_over_once(schedule: int) -> None:
    out, by = launched({}, schedule)
    assert (out == 1).all()
    assert len({*by.tolist()}) < len(by)


@pytest.mark.parametrize("schedule", [0, 1, 2])
@pytest.mark.parametrize("what", SOUND)
def test_an_answer_read_early_or_overwritten_is_found(what: str, schedule: int) -> None:
    with finds(DefectKind.SHARED_RACE, DefectKind.UNINITIALISED_SHARED, DefectKind.ENDLESS_LOOP):
        launched({what: ""}, schedule)


SOUND_PAIRS = SOUND | {
    "TO_ALL": '".multicast::cluster::all"',
    "AGAIN": 'asm volatile("fence.proxy.async;"); asm volatile("barrier.cluster.arrive.release.aligned;"); '
    'asm volatile("barrier.cluster.wait.acquire.aligned;")',
}


def launched_in_pairs(changes: dict[str, str], schedule: int) -> tuple[np.ndarray, np.ndarray]:
    out, by = np.zeros(24, np.int32), np.full(24, -1, np.int32)
    kernel = loaded("taken_over_pairs", SOUND_PAIRS | changes, capability=(10, 0), specific=True)
    kernel.launch((24, 1, 1), (64, 1, 1), (out, by), schedule=schedule)
    return out, by


@pytest.mark.parametrize("schedule", [0, 1, 2, 7])
def test_each_pair_runs_or_is_taken_over_once(schedule: int) -> None:
    out, by = launched_in_pairs({}, schedule)
    assert (out == 1).all()
    assert len({*by.tolist()}) < len(by)
    assert (by % 2 == np.arange(24) % 2).all()


@pytest.mark.parametrize("schedule", [0, 1, 2])
@pytest.mark.parametrize("what", SOUND_PAIRS)
def test_an_answer_for_a_pair_read_early_or_overwritten_is_found(what: str, schedule: int) -> None:
    kinds = {DefectKind.SHARED_RACE, DefectKind.UNINITIALISED_SHARED, DefectKind.ENDLESS_LOOP}
    with finds(*kinds, DefectKind.DIVERGENT_BARRIER):
        launched_in_pairs({what: '""' if what == "TO_ALL" else ""}, schedule)
