"""Copies by the copy engine: tiles come and go as tensor maps have them; what is not waited for or fenced is found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import ml_dtypes
import numpy as np
import pytest
from emulating import ONE, finds, loaded, tiles

import peakgate_emulator as emulator
from peakgate_emulator import DefectKind, TileArray, TileView

SOUND = {
    "SPAN": "64",
    "COLS": "32",
    "EXPECTED": "BYTES",
    "SHIFT": "0",
    "INIT_FENCE": 'asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory")',
    "WAIT(b, p)": "wait(b, p)",
    "FENCE": 'asm volatile("fence.proxy.async.shared::cta;" ::: "memory")',
    "COMMIT": 'asm volatile("cp.async.bulk.commit_group;" ::: "memory")',
    "DONE": "__syncthreads()",
    "READ": 'asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory")',
}
SPANS: dict[str, Literal[0, 32, 64, 128]] = {"0": 0, "32": 32, "64": 64, "128": 128}
RACE, UNWRITTEN = DefectKind.SHARED_RACE, DefectKind.UNINITIALISED_SHARED
BROKEN = {
    "no wait for the tile": ({"WAIT(b, p)": ""}, {UNWRITTEN, RACE}),
    "a wait for the phase before": ({"WAIT(b, p)": "wait(b, 1 ^ p)"}, {UNWRITTEN, RACE}),
    "one thread waits": ({"WAIT(b, p)": "if (threadIdx.x == 0) wait(b, p)"}, {UNWRITTEN, RACE}),
    "more bytes expected than come": ({"EXPECTED": "BYTES + 16"}, {DefectKind.ENDLESS_LOOP}),
    "more bytes come than expected": ({"EXPECTED": "BYTES / 2"}, {DefectKind.DIVERGENT_BARRIER}),
    "a tile on no multiple of 128 bytes": ({"SHIFT": "64"}, {DefectKind.MISALIGNED}),
    "a barrier that the copy engine may not see": ({"INIT_FENCE": ""}, {RACE}),
    "no fence before the store": ({"FENCE": ""}, {RACE}),
    "a fence of barriers alone": ({"FENCE": SOUND["INIT_FENCE"]}, {RACE}),
    "no wait for the store": ({"READ": ""}, {RACE}),
    "a store in no group": ({"COMMIT": ""}, {RACE}),
    "no barrier before the next store's values": ({"DONE": ""}, {RACE}),
}


def doubled(changes: dict[str, str], shape: tuple[int, int] = (48, 64), schedule: int = 0) -> Any:
    given = SOUND | changes
    array = np.random.default_rng(1).integers(0, 1 << 15, shape).astype(np.uint16)
    result = np.zeros_like(array)
    columns = int(given["COLS"])
    box, span = (16, columns), SPANS[given["SPAN"]]
    read_only = array.view()
    read_only.flags.writeable = False
    maps = [tiles(each, box, span) for each in (result, read_only)]
    blocks = (-(-shape[1] // columns), 1, 1)
    launched: dict[str, Any] = {"shared_bytes": 96 * columns, "schedule": schedule, "outputs": [0]}
    loaded("doubled", given).launch(blocks, (64, 1, 1), (*maps, np.int32(shape[0])), **launched)
    return array, result


@pytest.mark.parametrize("schedule", [0, 1, 2, 7])
@pytest.mark.parametrize("shape", [(48, 64), (16, 32), (41, 40), (5, 8)])
def test_tiles_come_and_go_in_any_order_of_threads(shape: tuple[int, int], schedule: int) -> None:
    array, result = doubled({}, shape, schedule)
    np.testing.assert_array_equal(result, 2 * array)


@pytest.mark.parametrize(("span", "columns"), [("0", "40"), ("32", "16"), ("128", "64")])
def test_every_swizzle_is_that_of_hardware(span: str, columns: str) -> None:
    array, result = doubled({"SPAN": span, "COLS": columns}, (37, 136))
    np.testing.assert_array_equal(result, 2 * array)


@pytest.mark.parametrize("schedule", [0, 1, 2])
@pytest.mark.parametrize("what", BROKEN)
def test_what_is_not_waited_for_fenced_or_counted_is_found(what: str, schedule: int) -> None:
    changes, kinds = BROKEN[what]
    with finds(*kinds):
        doubled(changes, schedule=schedule)


REDUCED = """#include <cuda_bf16.h>
__global__ void kernel(TYPE* sums, const TYPE* in) {
    __shared__ alignas(16) TYPE values[32];
    values[threadIdx.x] = in[32 * blockIdx.x + threadIdx.x];
    FENCE;
    __syncthreads();
    if (threadIdx.x == 0) {
        const unsigned from = (unsigned)__cvta_generic_to_shared(values);
        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group." OPERATION " [%0], [%1], %2;"
                     :: "l"(sums), "r"(from), "r"((unsigned)sizeof values) : "memory");
        asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
    }
    LATE
}
"""


@pytest.mark.parametrize(
    ("operation", "type_", "dtype", "combined"),
    [
        ("add.f32", "float", np.float32, lambda old, given: old + given.sum(axis=0)),
        ("add.noftz.bf16", "__nv_bfloat16", ml_dtypes.bfloat16, lambda old, given: old + given.sum(axis=0)),
        ("min.s32", "int", np.int32, lambda old, given: np.minimum(old, given.min(axis=0))),
        ("max.u64", "unsigned long long", np.uint64, lambda old, given: np.maximum(old, given.max(axis=0))),
        ("xor.b32", "unsigned", np.uint32, lambda old, given: old ^ np.bitwise_xor.reduce(given)),
    ],
)
def test_blocks_reduce_into_one_array(
    operation: str, type_: str, dtype: Any, combined: Callable[..., Any], tmp_path: Path
) -> None:
    given = np.random.default_rng(3).integers(0, 8, (4, 32)).astype(dtype)
    old = np.arange(32).astype(dtype)
    sums = old.copy()
    macros = {"TYPE": type_, "OPERATION": f'"{operation}"', "FENCE": SOUND["FENCE"], "LATE": ""}
    _reduced(tmp_path, macros, (_bits(sums), _bits(given)))
    np.testing.assert_array_equal(sums, combined(old, given).astype(dtype))


@pytest.mark.parametrize(
    ("changes", "kind"),
    [({"FENCE": ""}, RACE), ({"LATE": "if (threadIdx.x == 0) sums[blockIdx.x] = 1;"}, DefectKind.GLOBAL_RACE)],
    ids=["no fence", "a plain store by another block"],
)
def test_a_reduction_races_as_an_atomic_does(changes: dict[str, str], kind: DefectKind, tmp_path: Path) -> None:
    macros = {"TYPE": "float", "OPERATION": '"add.f32"', "FENCE": SOUND["FENCE"], "LATE": ""} | changes
    with finds(kind):
        _reduced(tmp_path, macros, (np.zeros(32, np.float32), np.ones((4, 32), np.float32)))


def _bits(array: Any) -> Any:
    return array.view(np.uint16) if array.dtype == ml_dtypes.bfloat16 else array


def _reduced(tmp_path: Path, macros: dict[str, str], arguments: tuple[Any, ...]) -> None:
    source = tmp_path / "kernel.cu"
    source.write_text(REDUCED)
    emulator.load(source, "kernel", tuple(macros.items())).launch((4, 1, 1), (32, 1, 1), arguments)


LOAD = "cp.async.bulk.tensor.{}.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {{{}}}], [%5];"
BULK = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 256, [%5];"
MULTICAST = LOAD.format("2d", "%2, %3").replace("bytes ", "bytes.multicast::cluster ").replace("];", "], %6;")


def boxed(
    array: np.ndarray, box: tuple[int, ...], tile: str, *, at: tuple[int, int, int] = (0, 0, 0), **macros: str
) -> np.ndarray:
    size = int(np.prod(box)) * array.itemsize
    usual = {"LOADED": str(size), "MAP": "&in", "BLOCKS": "1", "PARAMETER": "const __grid_constant__ CUtensorMap"}
    out = np.zeros(box, array.dtype)
    given = tiles(array, box)
    kernel = loaded("boxes", usual | {"TILE": f'"{tile}"'} | macros)
    kernel.launch(ONE, ONE, (out.view(np.uint8), given, *map(np.int32, at)), outputs=[0])
    return out


@pytest.mark.parametrize("written", [12, 11])
def test_only_what_lies_in_the_array_is_read_for_a_store(written: int) -> None:
    """Columns 12 to 23 of 8 rows, by a box of 16 columns of which the axis has 12."""
    array = np.zeros((8, 24), np.float32)
    seen = TileView((2, 8, 12), (48, 96), (1, 8, 16))  # halves of a row, rows, columns
    with finds(*([UNWRITTEN] if written < 12 else [])) as defect:
        loaded("stored", {"WRITTEN": str(written)}).launch(ONE, ONE, [TileArray(array, seen)])
    if not defect:
        np.testing.assert_array_equal(array[:, 12:], np.arange(128).reshape(8, 16)[:, :12])
        assert not array[:, :12].any()


@pytest.mark.parametrize("corner", [(0, 0, 0), (1, 2, 1), (-3, -1, -1), (9, 3, 2)])
def test_a_box_is_cut_out_of_three_axes_and_is_zero_outside(corner: tuple[int, int, int]) -> None:
    array = np.arange(1, 3 * 5 * 12 + 1, dtype=np.float32).reshape(3, 5, 12)
    out = boxed(array, (2, 3, 8), LOAD.format("3d", "%2, %3, %4"), at=corner)
    around = np.pad(array, 16)
    x, y, z = (16 + at for at in corner)
    np.testing.assert_array_equal(out, around[z : z + 2, y : y + 3, x : x + 8])


def test_bytes_are_copied_without_a_map_and_rows_with_one() -> None:
    array = np.arange(64, dtype=np.float32)
    out = boxed(array, (64,), LOAD.format("1d", "%2"))
    np.testing.assert_array_equal(out, array)
    out = boxed(np.ones((4, 16), np.float32), (4, 16), MULTICAST)
    np.testing.assert_array_equal(out, 1)


def test_a_map_may_be_in_global_memory() -> None:
    array = np.arange(64, dtype=np.float32).reshape(4, 16)
    out = boxed(array, (4, 16), LOAD.format("2d", "%2, %3"), at=(0, 1, 0), MAP="in", PARAMETER="const CUtensorMap*")
    np.testing.assert_array_equal(out, np.concatenate((array[1:], np.zeros((1, 16)))))


WRONG: dict[str, tuple[str, dict[str, str], DefectKind]] = {
    "another number of coordinates": (LOAD.format("1d", "%2"), {}, DefectKind.OUT_OF_BOUNDS),
    "no map": (LOAD.format("2d", "%2, %3"), {"MAP": "&barrier"}, DefectKind.OUT_OF_BOUNDS),
    "bytes of no array": (BULK, {"MAP": "(const char*)out + 4096"}, DefectKind.OUT_OF_BOUNDS),
    "bytes on no multiple of 16": (BULK, {"MAP": "out + 8"}, DefectKind.MISALIGNED),
    "a block that the cluster does not have": (MULTICAST, {"BLOCKS": "3"}, DefectKind.OUT_OF_BOUNDS),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_no_copy_can_be_made_of_is_found(what: str) -> None:
    tile, macros, kind = WRONG[what]
    with finds(kind):
        boxed(np.ones((4, 16), np.float32), (4, 16), tile, at=(0, 0, 0), **macros)


@pytest.mark.parametrize("schedule", [0, 1, 2])
def test_a_barrier_object_waits_for_copies_of_its_threads(schedule: int) -> None:
    given = np.arange(64, dtype=np.float32)
    out = np.zeros_like(given)
    loaded("rows").launch(ONE, (64, 1, 1), (out, given), schedule=schedule, outputs=[0])
    np.testing.assert_array_equal(out, given[::-1])


COMMIT, READ = SOUND["COMMIT"], SOUND["READ"]
WAITS = {
    "for the reading": (COMMIT, READ, True),
    "for the writing": (COMMIT, READ.replace(".read", ""), True),
    "none": (COMMIT, "", False),
    "for all but the last": (COMMIT, READ.replace("0", "1"), False),
    "for groups that were not closed": ("", READ, False),
    "by another thread": (COMMIT, f"if (threadIdx.x == 1) {READ}", False),
}


@pytest.mark.parametrize("wait", WAITS)
def test_no_block_leaves_shared_memory_that_a_copy_reads(wait: str) -> None:
    commit, waits, sound = WAITS[wait]
    out = np.zeros(64, np.float32)
    with finds(*([] if sound else [RACE])):
        loaded("parting", {"COMMIT": commit, "WAIT": waits}).launch(ONE, (32, 1, 1), (out,), outputs=[0])
    assert not sound or (out == np.tile(np.arange(32), 2)).all()


def guided(changes: dict[str, str], schedule: int = 0) -> np.ndarray:
    macros = dict.fromkeys(("INIT_FENCE", "FENCE"), "cde::fence_proxy_async_shared_cta()") | changes
    array = np.zeros((20, 64), np.int32)
    given = (tiles(array, (8, 32)), np.ones(32, np.int32), np.int32(32), np.int32(8))
    loaded("guide", macros).launch(ONE, (32, 1, 1), given, schedule=schedule)
    return array


@pytest.mark.parametrize("schedule", [0, 1, 2])
def test_the_guide_s_tile_is_counted_up(schedule: int) -> None:
    array = guided({}, schedule)
    assert array[8:16, 32:].all()
    assert array.sum() == 8 * 32


@pytest.mark.parametrize("what", ["INIT_FENCE", "FENCE"])
def test_the_guide_s_fences_are_missed(what: str) -> None:
    with finds(RACE):
        guided({what: ""})


IN_PLACE = """__global__ void kernel(float* out, const float* in) {
    __shared__ alignas(16) float tile[64];
    __shared__ alignas(8) unsigned long long full;
    const auto at = [](const void* p) { return (unsigned)__cvta_generic_to_shared(p); };
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at(&full)) : "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 256;" ::"r"(at(&full)) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 256, [%2];"
                     ::"r"(at(tile)), "l"(in), "r"(at(&full)) : "memory");
    }
    __syncthreads();
    asm volatile("{ .reg .pred p; W: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra W; }"
                 ::"r"(at(&full)) : "memory");
    tile[threadIdx.x] *= 2;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    MEETING;
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 256;"
                     ::"l"(out), "r"(at(tile)) : "memory");
        asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
    }
}
"""


@pytest.mark.parametrize("schedule", [0, 1, 2])
@pytest.mark.parametrize("meeting", ["__syncthreads()", ""])
def test_a_store_that_reads_too_early_is_found_by_what_is_written_then(
    meeting: str, schedule: int, tmp_path: Path
) -> None:
    """The first thread may be done before the others write: they have met the copy to the tile, not the one from it."""
    (tmp_path / "kernel.cu").write_text(IN_PLACE)
    kernel = emulator.load(tmp_path / "kernel.cu", "kernel", (("MEETING", meeting),))
    given, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    with finds(*[RACE] * (not meeting)):
        kernel.launch(ONE, (64, 1, 1), (out, given), schedule=schedule)
        assert out.tolist() == (2 * given).tolist()


WRITTEN = """__global__ void kernel(float* out, float* kept) {
    __shared__ alignas(16) float tile[64];
    __shared__ alignas(8) unsigned long long full;
    const auto at = [](const void* p) { return (unsigned)__cvta_generic_to_shared(p); };
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at(&full)) : "memory");
        asm volatile("fence.proxy.async" EARLY ";" ::: "memory");
    }
    kept[threadIdx.x] = threadIdx.x;
    WRITER;
    __syncthreads();
    READER;
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 256;" ::"r"(at(&full)) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 256, [%2];"
                     ::"r"(at(tile)), "l"(kept), "r"(at(&full)) : "memory");
    }
    asm volatile("{ .reg .pred p; W: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra W; }"
                 ::"r"(at(&full)) : "memory");
    out[threadIdx.x] = tile[63 - threadIdx.x];
}
"""


@pytest.mark.parametrize(
    ("writer", "reader", "found"),
    [
        ("fence.proxy.async;", "", False),
        ("fence.proxy.async.global;", "", False),
        ("", "fence.proxy.async;", False),
        ("fence.proxy.async.shared::cta;", "", True),
        ("", "", True),
        ("EARLY", "", True),
    ],
)
def test_the_copy_engine_needs_a_fence_for_global_memory_too(
    writer: str, reader: str, found: bool, tmp_path: Path
) -> None:
    (tmp_path / "kernel.cu").write_text(WRITTEN)
    early = '""' if writer == "EARLY" else '".shared::cta"'  # of the barrier object, before the others write
    fences = [f'asm volatile("{fence}" ::: "memory")' if "fence" in fence else "" for fence in (writer, reader)]
    kernel = emulator.load(
        tmp_path / "kernel.cu", "kernel", (("WRITER", fences[0]), ("READER", fences[1]), ("EARLY", early))
    )
    out = np.zeros(64, np.float32)
    with finds(*[DefectKind.GLOBAL_RACE] * found):
        kernel.launch(ONE, (64, 1, 1), (out, np.zeros(64, np.float32)))
        assert out.tolist() == [*range(63, -1, -1)]


HANDED_OVER = """__global__ void kernel(float* out, float* kept, int* flag) {
    __shared__ alignas(16) float tile[64];
    __shared__ alignas(8) unsigned long long full;
    const auto at = [](const void* p) { return (unsigned)__cvta_generic_to_shared(p); };
    if (blockIdx.x == 0) {
        kept[threadIdx.x] = threadIdx.x;
        EACH_WRITER;
        __syncthreads();
        if (threadIdx.x) return;
        ONE_WRITER;
        asm volatile("st.release.gpu.global.s32 [%0], 1;" ::"l"(flag) : "memory");
        return;
    }
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at(&full)) : "memory");
        asm volatile("fence.proxy.async;" ::: "memory");
        int ready = 0;
        while (!ready) asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(ready) : "l"(flag) : "memory");
    }
    __syncthreads();
    READER;
    if (threadIdx.x == 1) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 256;" ::"r"(at(&full)) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 256, [%2];"
                     ::"r"(at(tile)), "l"(kept), "r"(at(&full)) : "memory");
    }
    asm volatile("{ .reg .pred p; W: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra W; }"
                 ::"r"(at(&full)) : "memory");
    out[threadIdx.x] = tile[63 - threadIdx.x];
}
"""


@pytest.mark.parametrize("schedule", [0, 1, 2])
@pytest.mark.parametrize("fenced", ["EACH_WRITER", "ONE_WRITER", "READER", None])
def test_the_copy_engine_needs_a_fence_for_what_other_blocks_wrote(
    fenced: str | None, schedule: int, tmp_path: Path
) -> None:
    (tmp_path / "kernel.cu").write_text(HANDED_OVER)
    fence = 'asm volatile("fence.proxy.async.global;" ::: "memory")'
    places = tuple((each, fence if each == fenced else "") for each in ("EACH_WRITER", "ONE_WRITER", "READER"))
    kernel = emulator.load(tmp_path / "kernel.cu", "kernel", places)
    out = np.zeros(64, np.float32)
    with finds(*[DefectKind.GLOBAL_RACE] * (fenced is None)):
        kernel.launch((2, 1, 1), (64, 1, 1), (out, np.zeros(64, np.float32), np.zeros(1, np.int32)), schedule=schedule)
        assert out.tolist() == [*range(63, -1, -1)]


REFILLED = """__global__ void kernel(float* out, const float* in) {
    __shared__ alignas(16) float s[32];
    __shared__ unsigned long long bar;
    const unsigned at = (unsigned)__cvta_generic_to_shared(&bar), to = (unsigned)__cvta_generic_to_shared(s);
    s[threadIdx.x] = 1;
    FENCE;
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at));
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 128;" ::"r"(at) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 128, [%2];"
                     ::"r"(to), "l"(in), "r"(at) : "memory");
    }
    asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared.b64 p, [%0], 0; @!p bra again; }"
                 ::"r"(at) : "memory");
    out[threadIdx.x] = s[31 - threadIdx.x];
}
"""


@pytest.mark.parametrize(("fence", "kinds"), [(SOUND["FENCE"], set()), ("", {RACE})], ids=["fenced", "not fenced"])
def test_what_threads_wrote_is_refilled_after_a_proxy_fence(fence: str, kinds: set[DefectKind], tmp_path: Path) -> None:
    (tmp_path / "kernel.cu").write_text(REFILLED.replace("FENCE", fence))
    kernel = emulator.load(tmp_path / "kernel.cu", "kernel")
    for schedule in (0, 1, 2):
        out, given = np.zeros(32, np.float32), np.arange(32, dtype=np.float32)
        with finds(*kinds):
            kernel.launch(ONE, (32, 1, 1), (out, given), schedule=schedule)
            np.testing.assert_array_equal(out, given[::-1])
