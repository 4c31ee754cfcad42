"""Threads that meet at objects, at named barriers and through atomics; inline PTX; the kernel's heap."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from emulating import finds

import peakgate_emulator as emulator
from peakgate_emulator import DefectKind, KernelBuildError, KernelDefect
from peakgate_emulator.ptx import translated

SOURCE = Path(__file__).parents[1] / "data" / "defects" / "sync.cu"
VALUES = np.arange(64, dtype=np.float32)
PLACES = np.arange(64)
COUNTED = np.where(5 - 3 * PLACES < 0, 7, 5 - 3 * PLACES)
OTHERS = VALUES[PLACES ^ 1]
KERNELS = {
    "object_barrier": 3 * VALUES[::-1] + 3,
    "flag": np.full(64, 3),
    "pipeline": 4 * VALUES[::-1],
    "named": np.concatenate((VALUES[:32], VALUES[31::-1])),
    "heap": VALUES,
    "ptx": (OTHERS + 2) * OTHERS + 2 + COUNTED + PLACES % 32 + 3,
}
BROKEN = {
    "object_barrier": DefectKind.SHARED_RACE,
    "flag": DefectKind.SHARED_RACE,
    "pipeline": DefectKind.UNINITIALISED_SHARED,
    "named": DefectKind.DIVERGENT_BARRIER,
    "heap": DefectKind.UNINITIALISED_GLOBAL,
    "ptx": DefectKind.UNINITIALISED_SHARED,
}


def outcome(name: str, schedule: int = 0, *, broken: bool = False) -> np.ndarray:
    kernel = emulator.load(SOURCE, name, (("BROKEN", "1"),) if broken else ())
    out = np.zeros(64, np.float32)
    kernel.launch((1, 1, 1), (64, 1, 1), (out, VALUES), shared_bytes=256, schedule=schedule)
    return out


@pytest.fixture(scope="module", autouse=True)
def _prebuilt() -> None:
    broken = (("BROKEN", "1"),)
    emulator.prebuild([(SOURCE, name, defines) for name in KERNELS for defines in ((), broken)])


@pytest.mark.parametrize("name", KERNELS)
def test_a_sound_kernel_computes_what_it_must_in_any_order(name: str) -> None:
    for schedule in (0, 1, 5):
        np.testing.assert_array_equal(outcome(name, schedule), KERNELS[name])


@pytest.mark.parametrize("name", KERNELS)
def test_a_missing_step_is_found(name: str) -> None:
    with finds(BROKEN[name]):
        outcome(name, broken=True)


def test_a_barrier_object_that_never_fills_says_who_is_missing() -> None:
    with pytest.raises(KernelDefect, match="waits for 65 arrivals, of which 1 are missing"):
        outcome("object_missed")


def test_an_instruction_in_no_table_is_named_with_its_line() -> None:
    with pytest.raises(
        KernelBuildError, match=r"^sync\.cu:\d+: PTX instruction tcgen05\.wait::ld\.sync\.aligned is not emul"
    ):
        outcome("tensor")


def test_a_kernel_that_reads_a_texture_is_named(tmp_path: Path) -> None:
    source = tmp_path / "kernel.cu"
    source.write_text(
        "__global__ void reads(float* out, cudaTextureObject_t t) {\n    out[0] = texCubemap<float>(t, 0, 0, 1);\n}\n"
        "__global__ void beside(float* out) { out[0] = 1; }\n"
    )
    out = np.zeros(1, np.float32)
    emulator.load(source, "beside").launch((1, 1, 1), (1, 1, 1), (out,))
    assert out[0] == 1
    with pytest.raises(
        KernelBuildError, match=r"^kernel\.cu:[12]: texture memory \(texCubemap\) is not emulated: give it a twin"
    ):
        emulator.load(source, "reads").launch((1, 1, 1), (1, 1, 1), (out, np.uint64(0)))


def test_translation_keeps_lines_and_leaves_comments_alone() -> None:
    text = '// asm("x;")\nint a;\nasm volatile("mov.u32 %0,\\n"\n  " 3;"\n  : "=r"(a));\nint b;\n'
    assert translated(text).splitlines()[0] == '// asm("x;")'
    assert translated(text).splitlines()[5] == "int b;"
    assert translated("int asmbler(int);") == "int asmbler(int);"


MEETING = """#include <cuda/latch>
#include <cuda/semaphore>
__device__ cuda::binary_semaphore<cuda::thread_scope_device> free_place{1};
__global__ void kernel(int* out) {
    __shared__ cuda::latch<cuda::thread_scope_block> all;
    __shared__ int values[64];
    if (threadIdx.x == 0) init(&all, 64);
    __syncthreads();
    values[threadIdx.x] = threadIdx.x;
    ARRIVE;
    const int other = values[63 - threadIdx.x];
    TAKE;
    out[0] += other;
    GIVE;
}
"""
MEETING_SOUND = {"ARRIVE": "all.arrive_and_wait()", "TAKE": "free_place.acquire()", "GIVE": "free_place.release()"}


@pytest.mark.parametrize("schedule", [0, 1, 2])
@pytest.mark.parametrize(
    ("changed", "kinds"),
    [
        ({}, ()),
        ({"ARRIVE": "all.count_down()"}, (DefectKind.SHARED_RACE,)),
        ({"ARRIVE": "all.wait()"}, (DefectKind.ENDLESS_LOOP,)),
        ({"TAKE": "", "GIVE": ""}, (DefectKind.GLOBAL_RACE,)),
    ],
    ids=["right", "no wait", "no arrival", "no semaphore"],
)
def test_a_latch_and_a_semaphore_order_what_they_guard(
    changed: dict[str, str], kinds: tuple[DefectKind, ...], schedule: int, tmp_path: Path
) -> None:
    (tmp_path / "meeting.cu").write_text(MEETING)
    kernel, out = (
        emulator.load(tmp_path / "meeting.cu", "kernel", tuple((MEETING_SOUND | changed).items())),
        np.zeros(1, np.int32),
    )
    with finds(*kinds):
        kernel.launch((3, 1, 1), (64, 1, 1), (out,), schedule=schedule)
        assert out[0] == 3 * 63 * 32


ROLES = """#include <cooperative_groups.h>
#include <cuda/pipeline>
__global__ void kernel(int* out, const int* in) {
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    __shared__ int s[2][32];
    const auto block = cooperative_groups::this_thread_block();
    const bool produces = threadIdx.x < 32;
    auto pipe = cuda::make_pipeline(block, &state, ROLE);
    const int t = threadIdx.x % 32;
    for (int k = 0; k < 5; ++k) {
        if (produces) {
            ACQUIRE;
            cuda::memcpy_async(&s[k % 2][t], in + 32 * k + t, sizeof(int), pipe);
            COMMIT;
        } else {
            WAIT;
            out[32 * k + t] = s[k % 2][31 - t];
            RELEASE;
        }
    }
    pipe.quit();
}
"""
ROLES_SOUND = {
    "ROLE": "produces ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer",
    "ACQUIRE": "pipe.producer_acquire()",
    "COMMIT": "pipe.producer_commit()",
    "WAIT": "pipe.consumer_wait()",
    "RELEASE": "pipe.consumer_release()",
}


@pytest.mark.parametrize("schedule", [0, 1, 2])
@pytest.mark.parametrize(
    ("changed", "kinds"),
    [
        ({}, ()),
        ({"ROLE": "32"}, ()),
        ({"ACQUIRE": ""}, (DefectKind.SHARED_RACE, DefectKind.DIVERGENT_BARRIER)),
        ({"COMMIT": ""}, (DefectKind.DIVERGENT_BARRIER,)),
        ({"COMMIT": "if (t) pipe.producer_commit()"}, (DefectKind.DIVERGENT_BARRIER,)),
        ({"WAIT": ""}, (DefectKind.SHARED_RACE, DefectKind.UNINITIALISED_SHARED)),
        ({"RELEASE": ""}, (DefectKind.DIVERGENT_BARRIER,)),
        ({"ACQUIRE": "pipe.consumer_wait()"}, (DefectKind.ASSERTION,)),
        ({"ROLE": "31"}, (DefectKind.ASSERTION, DefectKind.DIVERGENT_BARRIER)),
    ],
    ids=[
        "roles",
        "count",
        "no acquire",
        "no commit",
        "a lane commits not",
        "no wait",
        "no release",
        "other role",
        "one less",
    ],
)
def test_a_pipeline_has_producers_and_consumers(
    changed: dict[str, str], kinds: tuple[DefectKind, ...], schedule: int, tmp_path: Path
) -> None:
    (tmp_path / "roles.cu").write_text(ROLES)
    kernel = emulator.load(tmp_path / "roles.cu", "kernel", tuple((ROLES_SOUND | changed).items()))
    given, out = np.arange(160, dtype=np.int32), np.zeros(160, np.int32)
    with finds(*kinds):
        kernel.launch((1, 1, 1), (64, 1, 1), (out, given), schedule=schedule)
        assert out.tolist() == given.reshape(5, 32)[:, ::-1].ravel().tolist()


@pytest.mark.parametrize(
    ("changed", "kinds", "message"),
    [
        ({"ARRIVE": "all.count_down(2)"}, (DefectKind.ASSERTION,), "a latch is counted down at most to zero"),
        (
            {"ARRIVE": "if (threadIdx.x) all.arrive_and_wait()"},
            (DefectKind.ENDLESS_LOOP,),
            r"meeting\.cu:10: endless loop",
        ),
    ],
)
def test_a_latch_names_the_call_that_is_wrong(
    changed: dict[str, str], kinds: tuple[DefectKind, ...], message: str, tmp_path: Path
) -> None:
    (tmp_path / "meeting.cu").write_text(MEETING)
    kernel = emulator.load(tmp_path / "meeting.cu", "kernel", tuple((MEETING_SOUND | changed).items()))
    with finds(*kinds) as found:
        kernel.launch((1, 1, 1), (64, 1, 1), (np.zeros(1, np.int32),))
    assert any(re.search(message, str(defect)) for defect in found.value.defects)


SPECIALISED = """__global__ void kernel(int* out, const int* in) {
    __shared__ int s[2][32];
    const int t = threadIdx.x % 32;
    out += 192 * blockIdx.x;
    if (threadIdx.x < 32) {
        for (int k = 0; k < 6; ++k) {
            asm volatile("bar.sync %0, 64;" ::"r"(3 + k % 2) : "memory");
            s[k % 2][t] = in[32 * k + t];
            asm volatile("bar.arrive %0, 64;" ::"r"(FULL) : "memory");
        }
    } else {
        asm volatile("bar.arrive 3, 64; bar.arrive 4, 64;" ::: "memory");
        for (int k = 0; k < 6; ++k) {
            asm volatile("bar.sync %0, 64;" ::"r"(FULL) : "memory");
            out[32 * k + t] = s[k % 2][31 - t];
            if (k < 4) asm volatile("bar.arrive %0, 64;" ::"r"(3 + k % 2) : "memory");
        }
    }
}
"""


@pytest.mark.parametrize("schedule", [0, 1, 2])
@pytest.mark.parametrize("full", ["1 + k % 2", "1"], ids=["one for each stage", "one for both"])
def test_nobody_arrives_twice_before_a_named_barrier_is_over(full: str, schedule: int, tmp_path: Path) -> None:
    """With one barrier for both stages the producer's arrivals for two of them may end one phase, without consumers."""
    (tmp_path / "kernel.cu").write_text(SPECIALISED)
    kernel = emulator.load(tmp_path / "kernel.cu", "kernel", (("FULL", full),))
    given, out = np.arange(192, dtype=np.int32), np.zeros((2, 192), np.int32)
    with finds(*[DefectKind.DIVERGENT_BARRIER] * (full == "1")):
        kernel.launch((2, 1, 1), (64, 1, 1), (out, given), schedule=schedule)
        assert out.tolist() == [given.reshape(6, 32)[:, ::-1].ravel().tolist()] * 2


COLLECTIVE = """#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;
__global__ void kernel(int* out, int last) {
    const auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    if ((int)threadIdx.x > last) return;
    out[threadIdx.x] = cg::CALL(tile, 1, cg::plus<int>());
}
"""


@pytest.mark.parametrize(("last", "found"), [(39, False), (31, False), (36, True)])
@pytest.mark.parametrize("call", ["reduce", "inclusive_scan", "exclusive_scan"])
def test_every_thread_of_a_group_reduces(call: str, last: int, found: bool, tmp_path: Path) -> None:
    (tmp_path / "kernel.cu").write_text(COLLECTIVE)
    kernel = emulator.load(tmp_path / "kernel.cu", "kernel", (("CALL", call),))
    with finds(*[DefectKind.WARP_MASK] * found):
        kernel.launch((1, 1, 1), (40, 1, 1), (np.zeros(40, np.int32), np.int32(last)))


def test_a_copy_that_nobody_waits_for_is_named_where_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "kernel.cu").write_text(
        "#include <cuda_pipeline.h>\n__global__ void kernel(float* out, const float* in) {\n    __shared__ float s[1];"
        "\n    __pipeline_memcpy_async(s, in, 4);\n    __pipeline_commit();\n    out[0] = s[0];\n}\n"
    )
    with finds(DefectKind.UNINITIALISED_SHARED) as found:
        emulator.load(tmp_path / "kernel.cu", "kernel").launch((1, 1, 1), (1, 1, 1), (np.zeros(1, np.float32), VALUES))
    (defect,) = found.value.defects
    assert (defect.location, defect.other_location) == ("kernel.cu:6", "kernel.cu:4")


ZERO = """__global__ void kernel(int* out) {
    __shared__ int s[64];
    s[threadIdx.x] = threadIdx.x;
    if (threadIdx.x < 32) asm volatile("bar.sync NUMBER, 32;" ::: "memory");
    MEETING;
    __syncthreads();
    out[threadIdx.x] = s[63 - threadIdx.x];
}
"""


@pytest.mark.parametrize("schedule", [0, 1, 2])
@pytest.mark.parametrize(
    ("number", "meeting", "found"), [("1", "", False), ("0", "", True), ("0", "bar.sync 2, 64;", False)]
)
def test_a_barrier_of_all_threads_is_barrier_zero(
    number: str, meeting: str, found: bool, schedule: int, tmp_path: Path
) -> None:
    meeting = f'asm volatile("{meeting}" ::: "memory")' if meeting else ""
    (tmp_path / "kernel.cu").write_text(ZERO.replace("NUMBER", number).replace("MEETING", meeting))
    with finds(*[DefectKind.DIVERGENT_BARRIER] * found):
        out = np.zeros(64, np.int32)
        emulator.load(tmp_path / "kernel.cu", "kernel").launch((1, 1, 1), (64, 1, 1), (out,), schedule=schedule)
        assert out.tolist() == [*range(63, -1, -1)]


def test_a_lane_that_is_missing_is_shown_where_it_waits(tmp_path: Path) -> None:
    (tmp_path / "kernel.cu").write_text(
        "__global__ void kernel(int* out) {\n    if (threadIdx.x == 1) {\n"
        "        out[0] = __reduce_max_sync(3, 1);\n    }\n    __syncwarp();\n}\n"
    )
    with finds(DefectKind.WARP_MASK) as found:
        emulator.load(tmp_path / "kernel.cu", "kernel").launch((1, 1, 1), (32, 1, 1), (np.zeros(1, np.int32),))
    (defect,) = found.value.defects
    assert {defect.location, defect.other_location} == {"kernel.cu:3", "kernel.cu:5"}


def test_blocks_and_grids_have_barriers_in_two_parts(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(
        "#include <cooperative_groups.h>\n"  # which brings std::move, as nvcc does
        "__global__ void k(int* out, int* sums) {\n    const auto block = cooperative_groups::this_thread_block();\n"
        "    const auto grid = cooperative_groups::this_grid();\n    __shared__ int s[4];\n    s[threadIdx.x] = 1;\n"
        "    auto own = block.barrier_arrive();\n    block.barrier_wait(std::move(own));\n"
        "    const auto pair = cooperative_groups::tiled_partition<2>(block);\n"
        "    invoke_one(pair, [&](int by) { s[threadIdx.x] *= by; }, 1);\n"
        "    s[threadIdx.x] = invoke_one_broadcast(pair, [&] { return s[threadIdx.x]; });\n    block.sync();\n"
        "    sums[grid.thread_rank()] = s[0] + s[1] + s[2] + s[3];\n    auto token = grid.barrier_arrive();\n"
        "    grid.barrier_wait(std::move(token));\n    out[grid.thread_rank()] = sums[7 - grid.thread_rank()];\n}\n"
    )
    kernel = emulator.load(tmp_path / "k.cu", "k")
    for schedule in (0, 1, 2):
        out = np.zeros(8, np.int32)
        kernel.launch((2, 1, 1), (4, 1, 1), (out, np.zeros(8, np.int32)), cooperative=True, schedule=schedule)
        np.testing.assert_array_equal(out, 4)


IN_GLOBAL = """#include <cuda/barrier>
#include <cooperative_groups.h>
#include <new>
using Barrier = cuda::barrier<SCOPE>;
__device__ alignas(16) char storage[sizeof(Barrier)];
__global__ void kernel(int* out, int* data) {
    Barrier& meeting = *reinterpret_cast<Barrier*>(storage);
    const auto grid = cooperative_groups::this_grid();
    const int n = grid.size(), i = grid.thread_rank();
    if (i == 0) new (&meeting) Barrier(EXPECTED);
    grid.sync();
    int sum = i;
    for (int round = 0; round < 3; ++round) {
        data[round % 2 * n + i] = sum;
        MEET;
        sum += data[round % 2 * n + (i + 5) % n];
    }
    out[i] = sum;
}
"""
MEETS = "meeting.arrive_and_wait()"


@pytest.mark.parametrize(
    ("scope", "expected", "meet", "kinds"),
    [
        ("device", "n", MEETS, ()),
        ("system", "n", "auto token = meeting.arrive(); while (!meeting.try_wait(token)) {}", ()),
        ("device", "n", "(void)meeting.arrive(); meeting.wait_parity(round % 2)", ()),
        ("device", "n / 2", MEETS, (DefectKind.GLOBAL_RACE, DefectKind.ENDLESS_LOOP)),
        ("device", "n + 1", MEETS, (DefectKind.ENDLESS_LOOP,)),
        ("block", "n", MEETS, (DefectKind.GLOBAL_RACE,)),
        ("device", "n", "(void)meeting.arrive()", (DefectKind.GLOBAL_RACE,)),
    ],
    ids=["device", "system", "parity", "too few", "too many", "scope", "no wait"],
)
def test_a_barrier_in_global_memory_orders_blocks(
    scope: str, expected: str, meet: str, kinds: tuple[DefectKind, ...], tmp_path: Path
) -> None:
    text = IN_GLOBAL.replace("SCOPE", f"cuda::thread_scope_{scope}").replace("EXPECTED", expected)
    (tmp_path / "kernel.cu").write_text(text.replace("MEET;", f"{meet};"))
    kernel = emulator.load(tmp_path / "kernel.cu", "kernel")
    for schedule in (0, 1, 2):
        out = np.zeros(8, np.int32)
        with finds(*kinds):
            kernel.launch((2, 1, 1), (4, 1, 1), (out, np.zeros(16, np.int32)), cooperative=True, schedule=schedule)
        wanted = np.arange(8)
        for _ in range(3):
            wanted = wanted + np.roll(wanted, -5)
        assert kinds or (out == wanted).all()


AT_ZERO = """__global__ void kernel(int* out) {
    __shared__ int box[64];
    if (threadIdx.x < FIRST) {
        box[threadIdx.x] = threadIdx.x;
        asm volatile("ONE" ::: "memory");
    } else {
        asm volatile("OTHER" ::: "memory");
        out[threadIdx.x % 32] = box[31 - threadIdx.x % 32];
    }
}
"""
WHOLE = "bar.sync 0;"


@pytest.mark.parametrize(
    ("first", "lines", "found"),
    [
        ("32", (WHOLE, WHOLE), False),
        ("32", ("barrier.sync 0, 64;", WHOLE), False),
        ("48", ("barrier.sync 0;", "barrier.sync 0;"), False),
        ("48", (WHOLE, WHOLE), True),
    ],
    ids=["warps", "a count of all", "lanes, unaligned", "lanes"],
)
@pytest.mark.parametrize("schedule", [0, 1])
def test_warps_may_meet_at_barrier_zero_from_different_lines(
    first: str, lines: tuple[str, str], found: bool, schedule: int, tmp_path: Path
) -> None:
    text = AT_ZERO.replace("FIRST", first).replace("ONE", lines[0]).replace("OTHER", lines[1])
    (tmp_path / "kernel.cu").write_text(text)
    with finds(*[DefectKind.DIVERGENT_BARRIER] * found):
        out = np.zeros(32, np.int32)
        emulator.load(tmp_path / "kernel.cu", "kernel").launch((1, 1, 1), (64, 1, 1), (out,), schedule=schedule)
        if first == "32":
            assert out.tolist() == [*range(31, -1, -1)]
