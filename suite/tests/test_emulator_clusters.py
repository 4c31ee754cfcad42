"""Blocks of a cluster run together and reach one another's shared memory; what no barrier orders is found."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from peakgate import emulator
from peakgate.core.arguments import TensorMapArgument
from peakgate.emulator import DefectKind, KernelDefect, TileArray

BLOCKS, THREADS = 4, 64

SUMS = """
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
// Each block's part of a sum, and of all of them by every block: out[block] = sum of in of its cluster.
extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) sums(int* out, const int* in) {
    __shared__ int part;
    const cg::cluster_group cluster = cg::this_cluster();
    if (threadIdx.x == 0) part = 0;
    BLOCK_SYNC;
    atomicAdd(&part, in[blockIdx.x * blockDim.x + threadIdx.x]);
    MIDDLE;
    if (threadIdx.x == 0) {
        int sum = 0;
        for (unsigned rank = 0; rank < cluster.num_blocks(); ++rank) sum += *cluster.map_shared_rank(&part, rank);
        out[blockIdx.x] = sum;
    }
    END;
}
"""
SUMS_SOUND = {"BLOCK_SYNC": "__syncthreads()", "MIDDLE": "cluster.sync()", "END": "cluster.sync()", "CLUSTER": "2"}
RACE, DIVERGENT, ENDLESS = DefectKind.SHARED_RACE, DefectKind.DIVERGENT_BARRIER, DefectKind.ENDLESS_LOOP
UNWRITTEN, BOUNDS = DefectKind.UNINITIALISED_SHARED, DefectKind.OUT_OF_BOUNDS

RING = """
__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ unsigned in_block(const void* p, unsigned rank) {
    unsigned address;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(at(p)), "r"(rank));
    return address;
}
__device__ void wait(const void* barrier, unsigned parity) {
    asm volatile("{.reg .pred over;\\nagain:\\n"
                 "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 over, [%0], %1;\\n@!over bra again;}"
                 ::"r"(at(barrier)), "r"(parity) : "memory");
}
__device__ void arrive_at(const void* barrier, unsigned rank) {
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];"
                 ::"r"(in_block(barrier, rank)) : "memory");
}
// Values go round: in each round every block sends what it has to the next one. out[block] = in[block - rounds].
extern "C" __global__ void __cluster_dims__(4) ring(int* out, const int* in, int rounds) {
    __shared__ int box[64];
    __shared__ __align__(8) unsigned long long full, empty;
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    const unsigned next = (rank + 1) % 4, last = (rank + 3) % 4;
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at(&full)), "r"(ARRIVALS));
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 64;" ::"r"(at(&empty)));
        INIT_FENCE;
        ANNOUNCE;
    }
    BEGIN;
    int value = in[blockIdx.x * 64 + threadIdx.x];
    for (int round = 0; round < rounds; ++round) {
        if (round > 0) WAIT_EMPTY(&empty, (round - 1) & 1);
        SEND(in_block(&box[threadIdx.x], next), value, in_block(&full, next));
        WAIT_FULL(&full, round & 1);
        value = box[threadIdx.x];
        if (threadIdx.x == 0 && round + 1 < rounds) ANNOUNCE;
        RELEASE(&empty, last);
    }
    out[blockIdx.x * 64 + threadIdx.x] = value;
    END;
}
"""
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


def run(folder: Path, source: str, defines: dict[str, str], given: list[Any], threads: int = THREADS) -> None:
    """Four blocks of the kernel in a source, in several orders of threads."""
    kernel = re.search(r"(\w+)\((?:int\* out)", source)[1]  # type: ignore[index]
    path = folder / f"{kernel}.cu"
    macros = "".join(f"#define {name} {text}\n" for name, text in defines.items())
    path.write_text(macros + source, encoding="utf-8")
    loaded = emulator.load(path, kernel, ())
    for schedule in (0, 1, 2, 7):
        loaded.launch((BLOCKS, 1, 1), (threads, 1, 1), given, schedule=schedule)


def run_sums(folder: Path, threads: int = THREADS, **changed: str) -> tuple[np.ndarray, np.ndarray]:
    given = np.arange(BLOCKS * threads, dtype=np.int32)
    out = np.zeros(BLOCKS, np.int32)
    run(folder, SUMS, SUMS_SOUND | changed, [out, given], threads)
    return out, given.reshape(BLOCKS, -1).sum(axis=1)


def run_ring(folder: Path, rounds: int, **changed: str) -> tuple[np.ndarray, np.ndarray]:
    given = np.arange(BLOCKS * THREADS, dtype=np.int32)
    out = np.zeros_like(given)
    defines = {**RING_SOUND, **changed}
    run(folder, RING, defines, [out, given, np.int32(rounds)])
    return out, np.roll(given.reshape(BLOCKS, -1), rounds, axis=0).ravel()


@pytest.mark.parametrize("cluster", [1, 2, 4])
def test_blocks_add_up_what_the_others_of_their_cluster_have(tmp_path: Path, cluster: int) -> None:
    out, parts = run_sums(tmp_path, CLUSTER=str(cluster))
    assert out.tolist() == np.repeat(parts.reshape(-1, cluster).sum(axis=1), cluster).tolist()


@pytest.mark.parametrize("rounds", [1, 3, 6])
@pytest.mark.parametrize("changed", [{}, ASYNC], ids=["stores", "st.async"])
def test_values_go_round_by_stores_and_barriers_in_other_blocks(
    tmp_path: Path, rounds: int, changed: dict[str, str]
) -> None:
    out, expected = run_ring(tmp_path, rounds, **changed)
    assert out.tolist() == expected.tolist()


def test_a_relaxed_barrier_of_the_cluster_orders_what_was_fenced_and_who_ends(tmp_path: Path) -> None:
    out, expected = run_ring(tmp_path, 2, BEGIN=RELAXED, END=RELAXED)
    assert out.tolist() == expected.tolist()


def test_threads_that_end_are_not_waited_for_by_the_cluster(tmp_path: Path) -> None:
    out, parts = run_sums(tmp_path, END="if (threadIdx.x >= 32) return; cluster.sync()")
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
        ({"CLUSTER": "3"}, {DefectKind.FAULT}),  # four blocks are no multiple
        ({"BLOCK_SYNC": "cluster.sync()", "MIDDLE": "if (cluster.block_rank()) return; __syncthreads()"}, {RACE}),
    ],
)
def test_what_clusters_do_wrong_in_adding_up_is_found(
    tmp_path: Path, changed: dict[str, str], kinds: set[DefectKind]
) -> None:
    with pytest.raises(KernelDefect) as found:
        run_sums(tmp_path, THREADS, **changed)
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
    tmp_path: Path, changed: dict[str, str], kinds: set[DefectKind], more: dict[str, str]
) -> None:
    with pytest.raises(KernelDefect) as found:
        run_ring(tmp_path, 3, **(more | changed))
    assert {defect.kind for defect in found.value.defects} & kinds


MULTICAST = """
#include <cuda.h>
__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
// Each of two blocks brings its half of a tile of 32 x 8 to both; out[block] = the tile.
extern "C" __global__ void __cluster_dims__(2, 1, 1) shared_tile(int* out, const __grid_constant__ CUtensorMap in) {
    __shared__ __align__(128) int tile[256];
    __shared__ __align__(8) unsigned long long full;
    const unsigned rank = blockIdx.x % 2;
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at(&full)));
        INIT_FENCE;
    }
    BEGIN;
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at(&full)), "r"(BYTES) : "memory");
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
                     " [%0], [%1, {%2, %3}], [%4], %5;"
                     ::"r"(at(tile + rank * 128)), "l"(&in), "r"(0), "r"(rank * 16), "r"(at(&full)), "h"(MASK)
                     : "memory");
    }
    WAIT;
    for (unsigned i = threadIdx.x; i < 256; i += blockDim.x) out[blockIdx.x * 256 + i] = tile[i];
    END;
}
"""
MULTICAST_SOUND = {
    "INIT_FENCE": RING_SOUND["INIT_FENCE"],
    "BEGIN": MEET,
    "BYTES": "1024",
    "MASK": "(unsigned short)3",
    "WAIT": 'asm volatile("{.reg .pred over;\\nagain:\\nmbarrier.try_wait.parity.shared::cta.b64 over, [%0], 0;\\n'
    '@!over bra again;}" ::"r"(at(&full)) : "memory")',
    "END": "",  # a block that has received all bytes knows that no more come
}


def run_multicast(folder: Path, **changed: str) -> tuple[np.ndarray, np.ndarray]:
    given = np.arange(2 * 256, dtype=np.int32).reshape(64, 8)[:32]
    given = np.ascontiguousarray(given)
    tiles = TileArray(given, TensorMapArgument(0, (16, 8), 0), "int32")
    out = np.zeros(BLOCKS * 256, np.int32)
    run(folder, MULTICAST, {**MULTICAST_SOUND, **changed}, [out, tiles])
    return out, np.tile(given.ravel(), BLOCKS)


def test_a_tile_comes_to_all_blocks_that_a_copy_names(tmp_path: Path) -> None:
    out, expected = run_multicast(tmp_path)
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
def test_what_a_copy_to_several_blocks_does_wrong_is_found(
    tmp_path: Path, changed: dict[str, str], kinds: set[DefectKind]
) -> None:
    with pytest.raises(KernelDefect) as found:
        run_multicast(tmp_path, **changed)
    assert {defect.kind for defect in found.value.defects} & kinds
