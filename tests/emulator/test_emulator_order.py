"""Order between threads: barriers, and polling that ends or is named."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from emulating import ONE, finds, loaded
from hypothesis import given, settings
from hypothesis import strategies as st

import peakgate_emulator as emulator
from peakgate_emulator import DefectKind, EmulatedKernel, KernelBuildError, KernelDefect
from peakgate_emulator.defects import MissingFence

THREADS, WORDS = 36, 3
WRITE, BARRIER, NOTHING = WORDS, 2 * WORDS, 2 * WORDS + 1
"""Steps of a program: first a read of each word, then a write of each, a barrier of all threads, nothing."""
RACES = {DefectKind.SHARED_RACE, DefectKind.GLOBAL_RACE, DefectKind.SAME_VALUE_RACE}


@pytest.fixture(scope="module")
def interpreters() -> tuple[EmulatedKernel, EmulatedKernel]:
    in_global, in_shared = (loaded("interpreter", {"IN_SHARED": place}) for place in "01")
    return in_global, in_shared


def races(kernel: EmulatedKernel, program: np.ndarray, schedule: int) -> bool:
    try:
        kernel.launch(
            (1, 1, 1),
            (THREADS, 1, 1),
            (np.zeros(WORDS, np.int32), program, np.int32(program.shape[1])),
            schedule=schedule,
        )
    except KernelDefect as defect:
        return {found.kind for found in defect.defects} <= RACES
    return False


@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, THREADS - 1), st.integers(0, 2 * WORDS - 1)), max_size=3),
        min_size=1,
        max_size=4,
    ),
    st.integers(0, 3),
)
@settings(max_examples=60, deadline=None)
def test_with_barriers_alone_only_work_between_two_races(
    interpreters: tuple[EmulatedKernel, EmulatedKernel], phases: list[list[tuple[int, int]]], schedule: int
) -> None:
    expected = False
    columns = []
    for phase in phases:
        for thread, step in phase:
            columns.append(np.full(THREADS, NOTHING, np.int32))
            columns[-1][thread] = step
        columns.append(np.full(THREADS, BARRIER, np.int32))
        expected |= any(
            first != second and max(a, b) >= WRITE and a % WORDS == b % WORDS
            for (first, a), (second, b) in combinations(phase, 2)
        )
    program = np.ascontiguousarray(np.stack(columns, axis=1))
    for kernel in interpreters:
        assert races(kernel, program, schedule) == expected


def launched(tmp_path: Path, body: str, blocks: int, schedule: int = 0, threads: int = 64) -> np.ndarray:
    source = tmp_path / "polls.cu"
    source.write_text(f'extern "C" __global__ void polls(int* out) {{ const int b = blockIdx.x; {body} }}')
    out = np.zeros(4096, np.int32)
    emulator.load(source, "polls").launch((blocks, 1, 1), (threads, 1, 1), (out,), schedule=schedule)
    return out


@pytest.mark.parametrize("schedule", [0, 1, 2, 3])
def test_a_block_waits_for_the_one_after_it_and_all_that_follow(tmp_path: Path, schedule: int) -> None:
    body = (
        "if (threadIdx.x == 0) { if (b + 1 < gridDim.x) { while (atomicAdd(out + b + 1, 0) == 0) {} } __threadfence(); "
        "out[1000 + b] = b + 1 < gridDim.x ? out[1001 + b] + 1 : 1; __threadfence(); atomicExch(out + b, 1); }"
    )
    out = launched(tmp_path, body, 40, schedule)
    assert out[1000:1040].tolist() == list(range(40, 0, -1))


def test_shared_memory_is_each_blocks_own_while_it_waits(tmp_path: Path) -> None:
    body = (
        "__shared__ int s[64]; s[threadIdx.x] = 100 * b + threadIdx.x; __syncthreads(); "
        "if (threadIdx.x == 0) { atomicAdd(out, 1); while (atomicAdd(out, 0) < gridDim.x) {} } __syncthreads(); "
        "out[64 + 64 * b + threadIdx.x] = s[63 - threadIdx.x];"
    )
    out = launched(tmp_path, body, 9)
    for b, part in enumerate(np.split(out[64 : 64 + 9 * 64], 9)):
        assert part.tolist() == [100 * b + 63 - t for t in range(64)]


def test_polling_of_all_that_live_is_a_deadlock(tmp_path: Path) -> None:
    with pytest.raises(KernelDefect) as caught:
        launched(tmp_path, "if (threadIdx.x < 2) { while (!*(volatile int*)out) {} } __syncthreads();", 3)
    assert caught.value.kind is DefectKind.ENDLESS_LOOP
    assert "6 threads poll" in str(caught.value)
    assert "186 wait" in str(caught.value)


@pytest.mark.parametrize("blocks", [5, 17, 257])
@pytest.mark.parametrize("read", ["((volatile int*)out)[1 + i]", "atomicAdd(out + 1 + i, 0)"])
def test_the_last_block_may_not_gather_without_waiting(tmp_path: Path, read: str, blocks: int) -> None:
    body = (
        "if (threadIdx.x) return; atomicExch(out + 1 + b, 1); __threadfence(); if (b + 1 < gridDim.x) return; "
        f"int sum = 0; for (int i = 0; i < gridDim.x; i++) sum += {read}; *out = sum;"
    )
    assert launched(tmp_path, body, blocks)[0] == blocks
    assert launched(tmp_path, body, blocks, schedule=2)[0] < blocks


@pytest.mark.parametrize("schedule", [0, 2, 3])
def test_a_block_that_looks_back_at_all_before_it_gets_an_answer(tmp_path: Path, schedule: int) -> None:
    body = (
        "if (threadIdx.x) return; volatile int* const flag = out; int sum = 1; "
        "for (int i = b - 1; i >= 0; i--) { int found; while (!(found = flag[i])) {} sum += found > 0; } flag[b] = 1; "
        "out[2000 + b] = sum;"
    )
    assert launched(tmp_path, body, 150, schedule)[2000:2150].tolist() == list(range(1, 151))


LOCK = (
    "bool done = false; while (!done) { if (atomicCAS(out, 0, 1) == 0) { __threadfence(); out[1] += 1; %s "
    "atomicExch(out, 0); done = true; } }"
)
"""Every thread adds one under a lock, one after another."""


@pytest.mark.parametrize("schedule", [0, 1, 2])
def test_thousands_of_threads_take_a_lock_in_turn(tmp_path: Path, schedule: int) -> None:
    assert launched(tmp_path, LOCK % "__threadfence();", 16, schedule, threads=256)[:2].tolist() == [0, 4096]


@pytest.mark.parametrize("schedule", [0, 2])
def test_a_lock_without_a_fence_orders_nothing(tmp_path: Path, schedule: int) -> None:
    with pytest.raises(KernelDefect) as caught:
        launched(tmp_path, LOCK % "", 16, schedule)
    assert caught.value.kind in RACES


@pytest.mark.parametrize("release", ["__threadfence_block();", "__threadfence();"])
def test_a_lock_that_is_released_to_its_block_orders_no_other(tmp_path: Path, release: str) -> None:
    def takes(blocks: int) -> None:
        launched(tmp_path, LOCK % release, blocks)

    takes(1)
    if release == "__threadfence();":
        takes(2)
        return
    with pytest.raises(KernelDefect) as caught:
        takes(2)
    assert caught.value.kind in RACES


@pytest.mark.parametrize("schedule", [0, 2])
def test_what_a_locks_earlier_holder_wrote_is_known(tmp_path: Path, schedule: int) -> None:
    """The word's releases are those of threads of two blocks in turn; who takes it last asks for its own block's."""
    body = (
        "const int turn = 2 * threadIdx.x + b; while (atomicAdd(out, 0) != turn) {} "
        "if (threadIdx.x < 2) __threadfence(); else __threadfence_block(); "
        "if (b == 0) out[2] += 1; else out[3] += 1; __threadfence(); atomicExch(out, turn + 1);"
    )
    assert launched(tmp_path, body, 2, schedule, threads=4)[2:4].tolist() == [4, 4]


@pytest.mark.parametrize("schedule", [0, 1, 2])
def test_a_thread_that_counts_while_it_waits_lets_others_end_it(tmp_path: Path, schedule: int) -> None:
    body = "if (b == 0) { while (atomicAdd(out, 0) == 0) atomicAdd(out + 1, 1); } else atomicExch(out, 1);"
    out = launched(tmp_path, body, 2, schedule, threads=1)
    assert out[0] == 1


def test_a_thread_that_looks_at_two_words_in_turn_sees_either(tmp_path: Path) -> None:
    body = (
        "if (b == 0) { for (int k = 0; atomicAdd(out + 1, 0) == 0; ++k) { for (int i = 0; i < 9; ++i) "
        "if (atomicAdd(out + 2, 0)) { out[3 + threadIdx.x] = 1; return; } } } "
        "else if (threadIdx.x == 0) { for (int i = 0; i < 20000; ++i) atomicAdd(out + 1000, 1); "
        "atomicExch(out + 1, 1); }"
    )
    assert launched(tmp_path, body, 2)[3:67].sum() == 0


def test_a_loop_that_gives_up_by_itself_is_no_deadlock(tmp_path: Path) -> None:
    body = "int k = 0; while (k < 150 && atomicAdd(out, 0) == 0) ++k; out[1 + threadIdx.x] = k;"
    assert launched(tmp_path, body, 1)[1:65].tolist() == [150] * 64


def test_more_threads_than_can_live_at_once_are_no_defect(tmp_path: Path) -> None:
    body = "if (b + 1 < gridDim.x) { while (!*(volatile int*)(out)) {} } else atomicExch(out, 1);"
    with pytest.raises(KernelBuildError, match="polling for later blocks"):
        launched(tmp_path, body, 40, threads=1024)


def test_warps_know_nothing_of_each_other_from_launches_before():
    def launched(entry, blocks):
        kernel = loaded("after_another", entry=entry)
        out = np.zeros(64 * blocks, np.int32)
        try:
            kernel.launch((blocks, 1, 1), (64, 1, 1), (out,), cooperative=entry != "apart")
        except KernelDefect as defect:
            return [(each.kind, each.count) for each in defect.defects]
        return []

    fresh = launched("race", 2)
    assert DefectKind.SHARED_RACE in {kind for kind, _ in fresh}
    assert launched("meet", 2) == launched("apart", 1) == []
    assert launched("race", 2) == fresh


HANDED_OVER = """__global__ void kernel(int* out) {
    if (blockIdx.x == 0) {
        out[threadIdx.x + 2] = 5;
        WRITER;
        if (threadIdx.x == 0) atomicExch(out, 1);
    } else {
        while (atomicAdd(out, 0) == 0) {}
        READER;
        out[threadIdx.x + 4] = out[threadIdx.x + 2];
    }
}
"""


@pytest.mark.parametrize(
    ("sides", "fence", "message"),
    [
        (("_block()", "__threadfence()"), MissingFence.OF_WRITER, "a release is missing between k.cu:3 and k.cu:5"),
        (("()", ""), MissingFence.OF_READER, "missing before k.cu:9, after the read of what k.cu:5 stores"),
        (("()", "__threadfence_block()"), MissingFence.OF_READER, "an acquire is missing before k.cu:9"),
    ],
)
@pytest.mark.parametrize("schedule", [0, 1, 2])
def test_a_missing_fence_between_blocks_has_its_place(
    sides: tuple[str, str], fence: MissingFence, message: str, schedule: int, tmp_path: Path
) -> None:
    (tmp_path / "k.cu").write_text(HANDED_OVER)
    macros = {"WRITER": f"__threadfence{sides[0]}; __syncthreads()", "READER": sides[1]}
    kernel = emulator.load(tmp_path / "k.cu", "kernel", tuple(macros.items()))
    with finds(DefectKind.GLOBAL_RACE) as found:
        kernel.launch((2, 1, 1), (2, 1, 1), (np.zeros(6, np.int32),), schedule=schedule)
    (defect,) = found.value.defects
    assert (defect.fence, defect.other_thread, defect.other_block) == (fence, defect.thread, (0, 0, 0))
    assert message in str(defect)


def test_a_race_without_a_flag_names_the_other_thread_alone(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text("__global__ void kernel(int* out) { out[threadIdx.x] = blockIdx.x; }")
    kernel = emulator.load(tmp_path / "k.cu", "kernel")
    with finds(DefectKind.GLOBAL_RACE) as found:
        kernel.launch((2, 2, 1), (2, 1, 1), (np.zeros(2, np.int32),))
    defect = found.value.defects[0]
    assert (defect.other_thread, defect.other_block, defect.missing) == ((0, 0, 0), (0, 0, 0), None)


LOCKED = """__global__ void kernel(int* lock, int* data) {
    while (atomicCAS(lock, 0, 1) != 0) {}
    AFTER;
    data[0] = data[0] + 1;
    data[1] += data[0];
    BEFORE;
    RELEASE;
}
"""


@pytest.mark.parametrize("missing", ["AFTER", "BEFORE", "RELEASE"])
@pytest.mark.parametrize("schedule", [0, 1, 2])
def test_a_lock_without_a_fence_is_one_defect_of_several_races(missing: str, schedule: int, tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(LOCKED)
    macros = {"AFTER": "__threadfence()", "BEFORE": "__threadfence()", "RELEASE": "atomicExch(lock, 0)"}
    macros |= {missing: "*lock = 0" if missing == "RELEASE" else ""}
    kernel = emulator.load(tmp_path / "k.cu", "kernel", tuple(macros.items()))
    with finds(DefectKind.GLOBAL_RACE) as found:
        kernel.launch((4, 1, 1), ONE, (np.zeros(1, np.int32), np.zeros(2, np.int32)), schedule=schedule)
    if missing == "RELEASE":  # no fence is missing: one defect per pair of lines
        assert len({frozenset((each.location, each.other_location)) for each in found.value.defects}) <= 3
        return
    (defect,) = found.value.defects
    assert defect.fence is (MissingFence.OF_READER if missing == "AFTER" else MissingFence.OF_WRITER)
    assert len(defect.with_it) >= 3
    assert {defect.published_at, *(each.published_at for each in defect.with_it)} == {"k.cu:7"}


LOOK_BACK = """__global__ void kernel(int* sums, int4* status) {
    int4 seen = {0, 0, 0, 1}, *at = status + blockIdx.x;
    if (blockIdx.x > 0) {
        do asm volatile("ld.LOAD.global.v4.s32 {%0, %1, %2, %3}, [%4];"
                        : "=r"(seen.x), "=r"(seen.y), "=r"(seen.z), "=r"(seen.w) : "l"(at - 1) : "memory");
        while (!seen.w);
    }
    asm volatile("st.STORE.global.v4.s32 [%0], {%1, %2, %3, %4};"
                 :: "l"(at), "r"(seen.x + 1), "r"(seen.y + 2), "r"(seen.z + 3), "r"(1) : "memory");
    sums[blockIdx.x] = seen.x + seen.y + seen.z;
}
"""


@pytest.mark.parametrize(
    "how", [("volatile", "volatile"), ("relaxed.gpu", "relaxed.gpu"), ("acquire.gpu", "release.gpu")]
)
def test_a_status_word_may_have_128_bits(how: tuple[str, str], tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(LOOK_BACK.replace("LOAD", how[0]).replace("STORE", how[1]))
    kernel = emulator.load(tmp_path / "k.cu", "kernel")
    for schedule in (0, 1, 2):
        sums = np.zeros(8, np.int32)
        kernel.launch((8, 1, 1), ONE, (sums, np.zeros(32, np.int32)), schedule=schedule)
        np.testing.assert_array_equal(sums, 6 * np.arange(8))


LAST_BLOCK = """#include <cuda/atomic>
__global__ void kernel(int* out, int* parts, unsigned* arrived) {
    __shared__ bool last;
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = 1;
        cuda::atomic_ref<unsigned, cuda::thread_scope_device> counter(*arrived);
        last = counter.fetch_add(1, cuda::memory_order_ORDER) + 1 == gridDim.x;
        BEFORE;
    }
    __syncthreads();
    AFTER;
    if (last && threadIdx.x == 1)
        for (int block = 0; block < gridDim.x; ++block) *out += parts[block];
}
"""


@pytest.mark.parametrize(
    ("order", "before", "after", "kinds"),
    [
        ("acq_rel", "", "", set()),
        ("release", "", "", {DefectKind.GLOBAL_RACE}),
        ("release", "__threadfence()", "", set()),
        ("release", "", "__threadfence()", set()),
    ],
)
def test_a_barrier_makes_no_acquire_of_a_written_release(
    order: str, before: str, after: str, kinds: set[DefectKind], tmp_path: Path
) -> None:
    text = LAST_BLOCK.replace("ORDER", order).replace("BEFORE", before).replace("AFTER", after)
    (tmp_path / "k.cu").write_text(text)
    kernel = emulator.load(tmp_path / "k.cu", "kernel")
    for schedule in (0, 1, 2):
        arrays = np.zeros(1, np.int32), np.zeros(4, np.int32), np.zeros(1, np.uint32)
        with finds(*kinds):
            kernel.launch((4, 1, 1), (32, 1, 1), arrays, schedule=schedule)
            assert arrays[0][0] == 4


def test_the_second_order_of_threads_runs_others_between_two_stores(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(
        "__global__ void kernel(int* seen) {\n    int* const word = seen + 2 * blockIdx.x;\n"
        "    if (threadIdx.x == 0) word[1] = atomicAdd(word, 0);\n"
        "    else { atomicExch(word, 1); atomicExch(word, 2); }\n}\n"
    )
    kernel = emulator.load(tmp_path / "k.cu", "kernel")
    seen = np.zeros((32, 2), np.int32)
    kernel.launch((32, 1, 1), (2, 1, 1), (seen,), schedule=1)
    assert {*seen[:, 1]} == {1, 2}


def test_others_run_between_a_load_of_a_word_and_its_atomic(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(
        "__global__ void kernel(int* count, int most) {\n"
        "    if (*(volatile int*)count < most) atomicAdd(count, 1);\n}\n"
    )
    count = np.zeros(1, np.int32)
    emulator.load(tmp_path / "k.cu", "kernel").launch((4, 1, 1), (64, 1, 1), (count, np.int32(20)), schedule=2)
    assert count[0] > 20
