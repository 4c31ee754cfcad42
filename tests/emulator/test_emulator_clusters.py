"""Blocks of a cluster run together and reach one another's shared memory; what no barrier orders is found."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from emulating import finds, loaded, tiles

import peakgate_emulator as emulator
from peakgate_emulator import DefectKind

BLOCKS, THREADS = 4, 64

SUMS_SOUND = {"BLOCK_SYNC": "__syncthreads()", "MIDDLE": "cluster.sync()", "END": "cluster.sync()", "CLUSTER": "2"}
RACE, DIVERGENT, ENDLESS = DefectKind.SHARED_RACE, DefectKind.DIVERGENT_BARRIER, DefectKind.ENDLESS_LOOP
UNWRITTEN, BOUNDS = DefectKind.UNINITIALISED_SHARED, DefectKind.OUT_OF_BOUNDS

ARRIVE, WAIT = "barrier.cluster.arrive.release.aligned;", "barrier.cluster.wait.acquire.aligned;"
MEET = f'asm volatile("{ARRIVE}\\n{WAIT}" ::: "memory")'.replace("\n", "\\n")
RING_SOUND = {
    "ARRIVALS": "64",
    "INIT_FENCE": 'asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory")',
    "ANNOUNCE": "",
    "BEGIN": MEET,
    "WAIT_EMPTY(b, p)": "wait(b, p)",
    "SEND(to, v, barrier)": '{ asm volatile("st.shared::cluster.s32 [%0], %1;" ::"r"(to), "r"(v) : "memory");'
    " arrive_at(&full, next); }",
    "WAIT_FULL(b, p)": "wait(b, p)",
    "RELEASE(b, rank)": "arrive_at(b, rank)",
    "END": MEET,
}
ASYNC = {
    "ARRIVALS": "1",
    "ANNOUNCE": 'asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 256;" ::"r"(at(&full)) : "memory")',
    "SEND(to, v, barrier)": 'asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.s32 '
    '[%0], %1, [%2];" ::"r"(to), "r"(v), "r"(barrier) : "memory")',
}
RELAXED = f'asm volatile("{ARRIVE.replace("release", "relaxed")}\\n{WAIT}" ::: "memory")'


def run(name: str, macros: dict[str, str], given: list[Any], threads: int = THREADS) -> None:
    """Four blocks of a kernel, in several orders of threads."""
    kernel = loaded(name, macros)
    for schedule in (0, 1, 2, 7):
        kernel.launch((BLOCKS, 1, 1), (threads, 1, 1), given, schedule=schedule)


def run_sums(threads: int = THREADS, **changed: str) -> tuple[np.ndarray, np.ndarray]:
    given = np.arange(BLOCKS * threads, dtype=np.int32)
    out = np.zeros(BLOCKS, np.int32)
    run("sums", SUMS_SOUND | changed, [out, given], threads)
    return out, given.reshape(BLOCKS, -1).sum(axis=1)


def run_ring(rounds: int, **changed: str) -> tuple[np.ndarray, np.ndarray]:
    given = np.arange(BLOCKS * THREADS, dtype=np.int32)
    out = np.zeros_like(given)
    run("ring", RING_SOUND | changed, [out, given, np.int32(rounds)])
    return out, np.roll(given.reshape(BLOCKS, -1), rounds, axis=0).ravel()


@pytest.mark.parametrize("cluster", [1, 2, 4])
def test_blocks_add_up_what_the_others_of_their_cluster_have(cluster: int) -> None:
    out, parts = run_sums(CLUSTER=str(cluster))
    assert out.tolist() == np.repeat(parts.reshape(-1, cluster).sum(axis=1), cluster).tolist()


@pytest.mark.parametrize("rounds", [1, 3, 6])
@pytest.mark.parametrize("changed", [{}, ASYNC], ids=["stores", "st.async"])
def test_values_go_round_by_stores_and_barriers_in_other_blocks(rounds: int, changed: dict[str, str]) -> None:
    out, expected = run_ring(rounds, **changed)
    assert out.tolist() == expected.tolist()


def test_a_clusters_relaxed_barrier_orders_what_was_fenced() -> None:
    out, expected = run_ring(2, BEGIN=RELAXED, END=RELAXED)
    assert out.tolist() == expected.tolist()


def test_threads_that_end_are_not_waited_for_by_the_cluster() -> None:
    out, parts = run_sums(END="if (threadIdx.x >= 32) return; cluster.sync()")
    assert out.tolist() == np.repeat(parts.reshape(-1, 2).sum(axis=1), 2).tolist()


@pytest.mark.parametrize(
    ("changed", "kinds"),
    [
        ({"MIDDLE": "__syncthreads()"}, {RACE}),  # the other block need not have begun
        ({"MIDDLE": "cluster.sync(); atomicAdd(&part, 1)"}, {RACE}),
        ({"END": ""}, {RACE}),  # it may have ended
        ({"MIDDLE": "cluster.barrier_arrive(); cluster.sync()"}, {DIVERGENT}),
        ({"MIDDLE": "cluster.barrier_wait()"}, {DIVERGENT}),
        ({"MIDDLE": "cluster.sync(); *cluster.map_shared_rank(&part, 2) = 0"}, {BOUNDS}),
        ({"CLUSTER": "3"}, {DefectKind.LAUNCH_REFUSED}),  # four blocks are no multiple
        ({"BLOCK_SYNC": "cluster.sync()", "MIDDLE": "if (cluster.block_rank()) return; __syncthreads()"}, {RACE}),
    ],
)
def test_what_clusters_do_wrong_in_adding_up_is_found(changed: dict[str, str], kinds: set[DefectKind]) -> None:
    with finds(*kinds) as found:
        run_sums(THREADS, **changed)
    assert {defect.kind for defect in found.value.defects} == kinds


@pytest.mark.parametrize(
    ("changed", "kinds"),
    [
        ({"BEGIN": "__syncthreads()"}, {RACE}),
        ({"BEGIN": RELAXED, "INIT_FENCE": ""}, {DefectKind.SAME_VALUE_RACE}),
        ({"WAIT_EMPTY(b, p)": ""}, {RACE}),
        ({"WAIT_FULL(b, p)": ""}, {UNWRITTEN}),
        ({"RELEASE(b, rank)": ""}, {ENDLESS}),
        ({"END": ""}, {RACE}),
        ({"WAIT_FULL(b, p)": "wait(b, p ^ 1)"}, {UNWRITTEN, ENDLESS}),
    ],
)
@pytest.mark.parametrize("more", [{}, ASYNC], ids=["stores", "st.async"])
def test_what_a_ring_of_blocks_does_wrong_is_found(
    changed: dict[str, str], kinds: set[DefectKind], more: dict[str, str]
) -> None:
    with finds(*kinds):
        run_ring(3, **(more | changed))


MULTICAST_SOUND = {
    "INIT_FENCE": RING_SOUND["INIT_FENCE"],
    "BEGIN": MEET,
    "BYTES": "1024",
    "MASK": "(unsigned short)3",
    "WAIT": 'asm volatile("{.reg .pred over;\\nagain:\\nmbarrier.try_wait.parity.shared::cta.b64 over, [%0], 0;\\n'
    '@!over bra again;}" ::"r"(at(&full)) : "memory")',
    "END": "",  # a block that has received all bytes knows that no more come
}


def run_multicast(**changed: str) -> tuple[np.ndarray, np.ndarray]:
    given = np.arange(32 * 8, dtype=np.int32).reshape(32, 8)
    out = np.zeros(BLOCKS * 256, np.int32)
    given_tiles = tiles(given, (16, 8))
    run("shared_tile", MULTICAST_SOUND | changed, [out, given_tiles])
    return out, np.tile(given.ravel(), BLOCKS)


def test_a_tile_comes_to_all_blocks_that_a_copy_names() -> None:
    out, expected = run_multicast()
    assert out.tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("changed", "kinds"),
    [
        ({"BEGIN": "__syncthreads()"}, {RACE}),
        ({"WAIT": ""}, {RACE, UNWRITTEN}),
        ({"BYTES": "512"}, {DIVERGENT, RACE, UNWRITTEN}),
        ({"MASK": "(unsigned short)1"}, {DIVERGENT, ENDLESS}),
        ({"INIT_FENCE": "", "BEGIN": MEET}, {RACE}),
        ({"WAIT": "if (rank == 1) return;" + MULTICAST_SOUND["WAIT"]}, {RACE}),  # bytes for a block that has ended
    ],
)
def test_what_a_copy_to_several_blocks_does_wrong_is_found(changed: dict[str, str], kinds: set[DefectKind]) -> None:
    with finds(*kinds):
        run_multicast(**changed)


def test_a_block_must_not_end_while_its_own_copy_reads_it() -> None:
    given = np.arange(BLOCKS * THREADS, dtype=np.int32)
    out = np.zeros_like(given)
    run("exchanged", {"END": MEET}, [out, given])
    np.testing.assert_array_equal(out, given.reshape(2, 2, -1)[:, ::-1].ravel())
    with finds(RACE):
        run("exchanged", {"END": ""}, [out, given])


PUBLISHED = """extern "C" __global__ __cluster_dims__(2) void published(int* out, int reader) {
    if (threadIdx.x != 0) return;
    if (blockIdx.x == 0) {
        out[1] = 5;
        asm volatile("fence.acq_rel." RELEASE ";" ::: "memory");
        asm volatile("red.relaxed." SCOPE ".global.add.u32 [%0], 1;" ::"l"(out) : "memory");
    } else if (blockIdx.x == reader) {
        for (int seen = 0; !seen;)
            asm volatile("ld.relaxed." SCOPE ".global.u32 %0, [%1];" : "=r"(seen) : "l"(out) : "memory");
        asm volatile("fence.acq_rel." ACQUIRE ";" ::: "memory");
        out[2] = out[1];
    }
}
"""


@pytest.mark.parametrize("scopes", [*itertools.product(("cta", "cluster", "gpu"), repeat=3)])
@pytest.mark.parametrize("reader", [1, 2])
def test_a_scope_reaches_its_cluster_or_the_device(reader: int, scopes: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "published.cu").write_text(PUBLISHED)
    names = ("RELEASE", "SCOPE", "ACQUIRE")
    macros = tuple((name, f'"{scope}"') for name, scope in zip(names, scopes, strict=True))
    kernel = emulator.load(tmp_path / "published.cu", "published", macros)
    wide = {"gpu"} if reader == 2 else {"cluster", "gpu"}
    for schedule in (0, 1, 2):
        with finds(*([] if {*scopes} <= wide else [DefectKind.GLOBAL_RACE, DefectKind.SAME_VALUE_RACE])):
            kernel.launch((4, 1, 1), (1, 1, 1), (np.zeros(4, np.int32), np.int32(reader)), schedule=schedule)


@pytest.mark.parametrize(
    ("semantics", "found"), [("release.cta", True), ("relaxed.cluster", True), ("release.cluster", False)]
)
def test_an_arrival_at_another_block_releases_to_it(semantics: str, found: bool) -> None:
    arrive = f'asm volatile("mbarrier.arrive.{semantics}.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory")'
    with finds(*[RACE] * found):
        run_ring(
            5, **{"SEND(to, v, barrier)": RING_SOUND["SEND(to, v, barrier)"].replace("arrive_at(&full, next)", arrive)}
        )


@pytest.mark.parametrize(
    ("semantics", "fence", "found"),
    [
        ("acquire.cta", "", True),
        ("acquire.cluster", "", False),
        ("relaxed.cluster", "", True),
        ("relaxed.cluster", "fence.acq_rel.cta;", True),
        ("relaxed.cluster", "fence.acq_rel.cluster;", False),
    ],
)
def test_a_wait_acquires_from_another_block_by_its_scope(semantics: str, fence: str, found: bool) -> None:
    wait = (
        'asm volatile("{.reg .pred over; again: mbarrier.try_wait.parity.%s.shared::cta.b64 over, [%%0], %%1; '
        '@!over bra again; %s}" ::"r"(at(b)), "r"(p) : "memory")'
    )
    with finds(*[RACE] * found):
        run_ring(5, **{"WAIT_FULL(b, p)": wait % (semantics, fence)})


REDUCED = """extern "C" __global__ __cluster_dims__(4) void reduced(unsigned* out) {
    __shared__ unsigned sums[32];
    __shared__ unsigned long long full;
    const unsigned at = (unsigned)__cvta_generic_to_shared(&full);
    unsigned to, barrier;
    asm("mapa.shared::cluster.u32 %0, %1, 0;" : "=r"(to) : "r"((unsigned)__cvta_generic_to_shared(sums + threadIdx.x)));
    asm("mapa.shared::cluster.u32 %0, %1, 0;" : "=r"(barrier) : "r"(at));
    START;
    if (threadIdx.x == 0 && blockIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at));
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(BYTES) : "memory");
    }
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
    if (blockIdx.x != 0)
        asm volatile("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes." OPERATION
                     " [%0], %1, [%2];"
                     ::"r"(to), "r"(blockIdx.x + threadIdx.x), "r"(barrier) : "memory");
    else {
        WAIT;
        out[threadIdx.x] = sums[threadIdx.x];
    }
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
}
"""
REDUCED_SOUND = {
    "START": "sums[threadIdx.x] = 5",
    "BYTES": "3 * 32 * 4",
    "OPERATION": '"add.u32"',
    "WAIT": 'asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared.b64 p, [%0], 0; @!p bra again; }" '
    '::"r"(at) : "memory")',
}


@pytest.mark.parametrize(
    ("changed", "kinds"),
    [
        ({}, set()),
        ({"OPERATION": '"max.u32"'}, set()),
        ({"WAIT": ""}, {RACE}),
        ({"BYTES": "32"}, {RACE}),
    ],
    ids=["sums", "maxima", "no wait", "fewer bytes expected than come"],
)
def test_blocks_reduce_into_the_memory_of_one(changed: dict[str, str], kinds: set[DefectKind], tmp_path: Path) -> None:
    (tmp_path / "reduced.cu").write_text(REDUCED)
    kernel = emulator.load(tmp_path / "reduced.cu", "reduced", tuple((REDUCED_SOUND | changed).items()))
    lanes = np.arange(32)
    for schedule in (0, 1, 2):
        out = np.zeros(32, np.uint32)
        with finds(*kinds):
            kernel.launch((4, 1, 1), (32, 1, 1), (out,), schedule=schedule)
            np.testing.assert_array_equal(out, 5 + 6 + 3 * lanes if not changed else np.maximum(5, 3 + lanes))


EXCHANGE = """#include <cstdint>
__device__ uint32_t at(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }
__global__ void __cluster_dims__(2, 1, 1) exchange(int* out, int steps) {
    __shared__ uint64_t bars[2];
    __shared__ int slots[2];
    for (int b = 0; b < 2; ++b) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at(bars + b)));
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 4;" ::"r"(at(bars + b)) : "memory");
    }
    MEET;
    int value = blockIdx.x;
    for (int s = 0; s < steps; ++s) {
        const int b = s % SLOTS;
        uint32_t slot, bar;
        asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(slot) : "r"(at(slots + b)), "r"(1 - blockIdx.x));
        asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(bar) : "r"(at(bars + b)), "r"(1 - blockIdx.x));
        asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.s32 [%0], %1, [%2];"
                     ::"r"(slot), "r"(value), "r"(bar) : "memory");
        asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @!p bra again; }"
                     ::"r"(at(bars + b)), "r"(s / SLOTS & 1) : "memory");
        if (s + SLOTS < steps)
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 4;" ::"r"(at(bars + b)) : "memory");
        value += slots[b];
    }
    out[blockIdx.x] = value;
    MEET;
}
"""


@pytest.mark.parametrize(("slots", "kinds"), [("2", set()), ("1", {RACE})])
def test_bytes_that_arrive_order_what_their_sender_had_read(slots: str, kinds: set[DefectKind], tmp_path: Path) -> None:
    (tmp_path / "exchange.cu").write_text(EXCHANGE)
    kernel = emulator.load(tmp_path / "exchange.cu", "exchange", (("MEET", MEET), ("SLOTS", slots)))
    for schedule in (0, 1, 2):
        out = np.zeros(2, np.int32)
        with finds(*kinds):
            kernel.launch((2, 1, 1), (1, 1, 1), (out, np.int32(6)), schedule=schedule)
            np.testing.assert_array_equal(out, 32)
