"""Products of pairs of blocks: sums lie as the layouts say, and what is not ordered is found."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from emulating import finds, loaded, tiles

from peakgate_emulator import DefectKind

BLACKWELL: dict[str, Any] = {"capability": (10, 0), "specific": True}
ALLOC = 'asm volatile("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], 64;" ::"r"(at(&address)))'
DEALLOC = 'asm volatile("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, 64;" ::"r"(sums))'
SOUND = {
    "ROWS": "256",
    "COLUMNS": "32",
    "CLUSTER": "2",
    "BEGIN": "MEET",
    "ALLOC": ALLOC,
    "DEALLOC": DEALLOC,
    "STAY": "",
    "LEADER": "0",
    "ANNOUNCED": "2 * BYTES",
    "EMPTY(b, p)": "wait(b, p)",
    "FILLED(b)": "(at(b) & EVEN)",
    "TAKEN(b, p)": "wait_relaxed(b, p)",
    "AFTER_TAKEN": "AFTER",
    "FULL(b, p)": "wait(b, p)",
    "RELEASE(b)": "commit(b, 3)",
    "COMMIT(b)": "commit(b, 3)",
    "MADE(b, p)": "wait_relaxed(b, p)",
    "AFTER_MADE": "AFTER",
    "FIRST_LANE": "warp * 32",
    "LOADED": 'asm volatile("tcgen05.wait::ld.sync.aligned;")',
    "BEFORE_TAKEN": "BEFORE",
    "GIVE(b)": "arrive_relaxed(b)",
    "GIVERS": "256",
    "END": "MEET",
}


def pairs(changes: dict[str, str], schedule: int, rows: int = 256) -> tuple[np.ndarray, np.ndarray]:
    """The products of three tiles as a pair of blocks makes them, and what they should be."""
    generator = np.random.default_rng(1)
    columns, count, number = 32, 3, 3
    a, b = (
        generator.standard_normal((each, number * count * 64)).astype(ml_dtypes.bfloat16) for each in (rows, columns)
    )
    c = np.zeros((number, rows, columns), np.float32)
    given = (c, tiles(a, (rows // 2, 64), 128), tiles(b, (columns // 2, 64), 128), np.int32(number), np.int32(count))
    kernel = loaded("tensor_pair", SOUND | {"ROWS": str(rows)} | changes, **BLACKWELL)
    kernel.launch(
        (2, 1, 1), (192, 1, 1), given, shared_bytes=2 * (rows // 2 + columns // 2) * 128, schedule=schedule, outputs=[0]
    )
    parts = (each.astype(np.float64).reshape(len(each), number, -1).swapaxes(0, 1) for each in (a, b))
    return c, np.matmul(next(parts), next(parts).swapaxes(1, 2))


@pytest.mark.parametrize("rows", [128, 256])
@pytest.mark.parametrize("schedule", [0, 1, 2, 7])
def test_a_pair_of_blocks_gives_the_products(schedule: int, rows: int) -> None:
    np.testing.assert_allclose(*pairs({}, schedule, rows), rtol=1e-5, atol=1e-5)


RACE, ACCESS = DefectKind.TENSOR_RACE, DefectKind.TENSOR_ACCESS
SHARED = {DefectKind.SHARED_RACE, DefectKind.UNINITIALISED_SHARED}
UNMADE = {RACE, DefectKind.UNINITIALISED_TENSOR}
STUCK = {DefectKind.ENDLESS_LOOP, DefectKind.DIVERGENT_BARRIER}
NO_WAIT = "(void)(b), (void)(p)"
BROKEN: dict[str, tuple[dict[str, str], set[DefectKind], str]] = {
    "operands that have not arrived": ({"FULL(b, p)": NO_WAIT}, SHARED, ""),
    "operands of the other block that have not arrived": (
        {"FILLED(b)": "at(b)", "ANNOUNCED": "BYTES"},
        SHARED,
        "",
    ),
    "bytes of the other block that are not announced": ({"ANNOUNCED": "BYTES"}, STUCK, "bytes"),
    "a slot refilled early": ({"EMPTY(b, p)": NO_WAIT}, {*SHARED, *STUCK}, ""),
    "a slot of the other block refilled early": ({"EMPTY(b, p)": "if (rank == 0) wait(b, p)"}, {*SHARED, *STUCK}, ""),
    "a slot that is released to one block": ({"RELEASE(b)": "commit(b, 1)"}, STUCK, ""),
    "sums that are given to the wrong block": ({"COMMIT(b)": "commit(b, 2)"}, STUCK, ""),
    "sums read before the wait": ({"MADE(b, p)": NO_WAIT}, UNMADE, ""),
    "sums of the other block read before the wait": ({"MADE(b, p)": "if (rank == 0) wait_relaxed(b, p)"}, UNMADE, ""),
    "no fence before the loads": ({"AFTER_MADE": ""}, {RACE}, "fence::after_thread_sync"),
    "no fence before the products": ({"AFTER_TAKEN": ""}, {RACE}, "fence::after_thread_sync"),
    "no fence after the loads": ({"BEFORE_TAKEN": ""}, {RACE}, "fence::before_thread_sync"),
    "no fence after the loads of the other block": (
        {"BEFORE_TAKEN": "if (rank == 0) BEFORE"},
        {RACE},
        "before_thread_sync",
    ),
    "no wait for the loads": ({"LOADED": ""}, {RACE}, ""),
    "sums replaced while they are read": ({"TAKEN(b, p)": NO_WAIT}, {RACE, *STUCK}, ""),
    "the other block has not begun": ({"BEGIN": "__syncthreads()"}, SHARED, ""),
    "allocated by one block": ({"ALLOC": f"if (rank == 0) {ALLOC}"}, {ACCESS}, "pair"),
    "allocated with other columns": (
        {"ALLOC": ALLOC.replace("64;", "%1;").replace("(at(&address))", '(at(&address)), "r"(rank ? 64 : 128)')},
        {ACCESS},
        "meets",
    ),
    "freed by one block": ({"DEALLOC": f"if (rank == 0) {DEALLOC}"}, {ACCESS}, "pair"),
    "freed before the barrier that the other block waits for": (
        {"END": f"__syncthreads(); if (rank && warp == 5) {DEALLOC}; MEET", "DEALLOC": f"if (rank == 0) {DEALLOC}"},
        {ACCESS},
        "waits for the other block",
    ),
    "freed while the other block may load": ({"END": "__syncthreads()"}, {RACE}, "tcgen05.dealloc of columns"),
    "freed as columns of one block": ({"DEALLOC": DEALLOC.replace("group::2", "group::1")}, {ACCESS}, "cta_group"),
    "blocks without a pair": ({"CLUSTER": "1"}, {ACCESS}, "cluster"),
    "a block that ends during the products": (
        {"STAY": "if (rank && warp != 4) return", "GIVERS": "128", "END": "if (rank) return; __syncthreads()"},
        {RACE, DefectKind.SHARED_RACE},
        "end",
    ),
    "a block that may end before the last arrivals": ({"END": "__syncthreads()"}, SHARED, "may have ended"),
}


@pytest.mark.parametrize("schedule", [0, 1, 2])
@pytest.mark.parametrize("what", BROKEN)
def test_pairs_without_a_wait_a_fence_or_a_commit_are_found(what: str, schedule: int) -> None:
    changes, kinds, words = BROKEN[what]
    with finds(*kinds) as caught:
        pairs(changes, schedule)
    assert words in " ".join(str(each) for each in caught.value.defects)


@pytest.mark.parametrize("schedule", [0, 1, 2])
def test_release_and_acquire_in_a_pair_need_no_fence(schedule: int) -> None:
    waits = {"TAKEN(b, p)": "wait(b, p)", "MADE(b, p)": "wait(b, p)", "GIVE(b)": "arrive(b)"}
    fences = dict.fromkeys(("AFTER_TAKEN", "AFTER_MADE", "BEFORE_TAKEN"), "")
    np.testing.assert_allclose(*pairs(waits | fences, schedule), rtol=1e-5, atol=1e-5)


def test_arrivals_and_waits_of_the_block_see_what_is_complete() -> None:
    """As in kernels that write `.cta`, the default: commits, and loads that were waited for, are complete there too."""
    waits = dict.fromkeys(("EMPTY(b, p)", "FULL(b, p)", "TAKEN(b, p)", "MADE(b, p)"), "wait_narrow(b, p)")
    narrow = waits | {"GIVE(b)": "arrive_narrow(b)", "BEFORE_TAKEN": ""}
    np.testing.assert_allclose(*pairs(narrow, 2), rtol=1e-5, atol=1e-5)
    with finds(RACE):
        pairs(narrow | {"LOADED": ""}, 2)


def test_the_odd_block_may_count_its_lanes_from_128() -> None:
    np.testing.assert_allclose(*pairs({"FIRST_LANE": "rank * 128 + warp * 32"}, 2), rtol=1e-5, atol=1e-5)
    with finds(ACCESS):
        pairs({"FIRST_LANE": "128 + warp * 32"}, 2)


def test_a_relaxed_barrier_suffices_before_a_deallocation() -> None:
    """It suffices that no accesses are concurrent (PTX ISA 9.7.16.5); loads must have been waited for."""
    end = {"END": "MEET_RELAXED", "GIVE(b)": "arrive(b)", "BEFORE_TAKEN": ""}
    np.testing.assert_allclose(*pairs(end, 2), rtol=1e-5, atol=1e-5)
    with finds(RACE):
        pairs(end | {"LOADED": ""}, 2)
    with finds(RACE):
        pairs(end | {"END": "__syncthreads()"}, 2)


def test_both_blocks_have_their_columns_once_both_have_asked() -> None:
    for schedule in (0, 1, 2):
        found, expected = pairs({"BEGIN": f"if (warp == 5) {ALLOC}; MEET", "ALLOC": ""}, schedule)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("schedule", [0, 1, 2, 7])
def test_a_block_may_end_before_its_pair_goes_on(schedule: int) -> None:
    out = np.full(96, 1, np.uint32)
    loaded("tensor_pairs", **BLACKWELL).launch((96, 1, 1), (32, 1, 1), (out,), schedule=schedule, outputs=[0])
    assert not out.any()
