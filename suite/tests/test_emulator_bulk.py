"""Copies by the copy engine: tiles come and go as tensor maps have them; what is not waited for or fenced is found."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from peakgate import emulator
from peakgate.core.arguments import StridedMapArgument, TensorMapArgument
from peakgate.emulator import DefectKind, KernelDefect, TileArray
from peakgate.emulator.ptx import translated

TILES = """
#include <cuda.h>
constexpr int ROWS = 16, BYTES = ROWS * COLS * 2;
__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
// Unit of 16 bytes as the swizzle of SPAN bytes has it.
__device__ unsigned place(unsigned byte) { return byte ^ ((byte >> 7 & (SPAN ? SPAN / 16 - 1 : 0)) << 4); }
__device__ void wait(void* barrier, unsigned parity) {
    asm volatile("{\\n.reg .pred over;\\nagain:\\nmbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1, 1000;\\n"
                 "@!over bra again;\\n}" ::"r"(at(barrier)), "r"(parity) : "memory");
}
// Doubles an array, tiles of one column of tiles each block; one comes while another is at work.
extern "C" __global__ void doubled(const __grid_constant__ CUtensorMap out, const __grid_constant__ CUtensorMap in,
                                   int rows) {
    extern __shared__ __align__(1024) unsigned char memory[];
    __shared__ __align__(8) unsigned long long full[2];
    unsigned char* const results = memory + 2 * BYTES;
    const int tiles = (rows + ROWS - 1) / ROWS, column = blockIdx.x * COLS;
    const auto bring = [&](int tile) {
        if (threadIdx.x != 0 || tile >= tiles) return;
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                     ::"r"(at(full + tile % 2)), "r"(EXPECTED));
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint"
                     " [%0], [%1, {%2, %3}], [%4], %5;"
                     ::"r"(at(memory + tile % 2 * BYTES) + SHIFT), "l"(&in), "r"(column), "r"(tile * ROWS),
                       "r"(at(full + tile % 2)), "l"(0ull) : "memory");
    };
    if (threadIdx.x == 0) {
        for (int slot = 0; slot < 2; ++slot) asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(at(full + slot)));
        INIT_FENCE;
        asm volatile("prefetch.tensormap [%0];" ::"l"(&in));
    }
    __syncthreads();
    bring(0);
    for (int tile = 0; tile < tiles; ++tile) {
        bring(tile + 1);
        WAIT(full + tile % 2, tile / 2 % 2);
        for (unsigned i = threadIdx.x; i < ROWS * COLS; i += blockDim.x) {
            const unsigned short value = *(const unsigned short*)(memory + tile % 2 * BYTES + place(2 * i));
            *(unsigned short*)(results + place(2 * i)) = 2 * value;
        }
        FENCE;
        __syncthreads();
        if (threadIdx.x == 0) {
            asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];"
                         ::"l"(&out), "r"(column), "r"(tile * ROWS), "r"(at(results)) : "memory");
            COMMIT;
            READ;
        }
        DONE;
    }
}
"""
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


def doubled(folder: Path, changes: dict[str, str], shape: tuple[int, int] = (48, 64), schedule: int = 0) -> Any:
    given = SOUND | changes
    source = folder / "doubled.cu"
    macros = "".join(f"#define {name} {text}\n" for name, text in given.items())
    source.write_text(macros + TILES, encoding="utf-8")
    kernel = emulator.load(source, "doubled", ())
    array = np.random.default_rng(1).integers(0, 1 << 15, shape).astype(np.uint16)
    result = np.zeros_like(array)
    columns = int(given["COLS"])
    described = TensorMapArgument(0, (16, columns), SPANS[given["SPAN"]])
    read_only = array.view()
    read_only.flags.writeable = False
    maps = [TileArray(each, described, "uint16") for each in (result, read_only)]
    blocks = -(-shape[1] // columns)
    rows = np.int32(shape[0])
    kernel.launch((blocks, 1, 1), (64, 1, 1), (*maps, rows), shared_bytes=96 * columns, schedule=schedule, outputs=[0])
    return array, result


@pytest.mark.parametrize("schedule", [0, 1, 2, 7])
@pytest.mark.parametrize("shape", [(48, 64), (16, 32), (41, 40), (5, 8)])
def test_tiles_come_and_go_in_any_order_of_threads(shape: tuple[int, int], schedule: int, tmp_path: Path) -> None:
    array, result = doubled(tmp_path, {}, shape, schedule)
    np.testing.assert_array_equal(result, 2 * array)


@pytest.mark.parametrize(("span", "columns"), [("0", "40"), ("32", "16"), ("128", "64")])
def test_every_swizzle_is_that_of_hardware(span: str, columns: str, tmp_path: Path) -> None:
    array, result = doubled(tmp_path, {"SPAN": span, "COLS": columns}, (37, 136))
    np.testing.assert_array_equal(result, 2 * array)


@pytest.mark.parametrize("schedule", [0, 1, 2])
@pytest.mark.parametrize("what", BROKEN)
def test_what_is_not_waited_for_fenced_or_counted_is_found(what: str, schedule: int, tmp_path: Path) -> None:
    changes, kinds = BROKEN[what]
    with pytest.raises(KernelDefect) as caught:
        doubled(tmp_path, changes, schedule=schedule)
    assert kinds & {defect.kind for defect in caught.value.defects}


BOXES = """
#include <cuda.h>
extern "C" __global__ void boxes(unsigned char* out, const __grid_constant__ CUtensorMap in, int x, int y, int z) {
    __shared__ __align__(128) unsigned char box[4096];
    __shared__ __align__(8) unsigned long long barrier;
    const unsigned to = (unsigned)__cvta_generic_to_shared(box), ready = (unsigned)__cvta_generic_to_shared(&barrier);
    asm volatile("mbarrier.init.shared.b64 [%0], 1;\\nfence.proxy.async;" ::"r"(ready) : "memory");
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(ready), "r"(LOADED));
    asm volatile(TILE ::"r"(to), "l"(MAP), "r"(x), "r"(y), "r"(z), "r"(ready), "h"((unsigned short)BLOCKS));
    asm volatile("{\\n.reg .b64 state;\\n.reg .pred over;\\nmbarrier.arrive.shared.b64 state, [%0];\\n"
                 "again: mbarrier.try_wait.shared.b64 over, [%0], state;\\n@!over bra again;\\n}" ::"r"(ready));
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(out), "r"(to), "r"(LOADED));
    asm volatile("cp.async.bulk.commit_group;\\ncp.async.bulk.wait_group 0;");
}
"""
LOAD = "cp.async.bulk.tensor.{}.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {{{}}}], [%5];"
BULK = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 256, [%5];"
MULTICAST = LOAD.format("2d", "%2, %3").replace("bytes ", "bytes.multicast::cluster ").replace("];", "], %6;")


def boxed(
    folder: Path,
    array: np.ndarray,
    box: tuple[int, ...],
    tile: str,
    *,
    at: tuple[int, int, int] = (0, 0, 0),
    argument: str = "&in",
    blocks: int = 1,
) -> np.ndarray:
    source = folder / "boxes.cu"
    source.write_text(BOXES.replace("TILE", f'"{tile}"'), encoding="utf-8")
    loaded = int(np.prod(box)) * array.itemsize
    macros = {"LOADED": str(loaded), "MAP": argument, "BLOCKS": str(blocks)}
    kernel = emulator.load(source, "boxes", tuple(macros.items()))
    out = np.zeros(box, array.dtype)
    given = TileArray(array, TensorMapArgument(1, box), array.dtype.name)
    kernel.launch((1, 1, 1), (1, 1, 1), (out.view(np.uint8), given, *map(np.int32, at)), outputs=[0])
    return out


STORED = """
#include <cuda.h>
extern "C" __global__ void stored(const __grid_constant__ CUtensorMap out) {
    __shared__ __align__(128) float box[8 * 16];
    for (int i = 0; i < 8 * 16; ++i)
        if (i % 16 < WRITTEN) box[i] = i;
    asm volatile("fence.proxy.async;" ::: "memory");
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];\\n"
                 "cp.async.bulk.commit_group;\\ncp.async.bulk.wait_group 0;"
                 ::"l"(&out), "r"((unsigned)__cvta_generic_to_shared(box)), "r"(0), "r"(0), "r"(1) : "memory");
}
"""


@pytest.mark.parametrize("written", [12, 11])
def test_only_what_lies_in_the_array_is_read_for_a_store(written: int, tmp_path: Path) -> None:
    """Columns 12 to 23 of 8 rows, by a box of 16 columns of which the axis has 12."""
    source = tmp_path / "stored.cu"
    source.write_text(STORED, encoding="utf-8")
    array = np.zeros((8, 24), np.float32)
    seen = StridedMapArgument(0, (1, 8, 16), axes=((2, 12), (8, 24), (12, 1)))
    kernel = emulator.load(source, "stored", (("WRITTEN", str(written)),))
    with pytest.raises(KernelDefect) if written < 12 else nullcontext() as caught:
        kernel.launch((1, 1, 1), (1, 1, 1), [TileArray(array, seen, "float32")])
    if caught:
        assert caught.value.kind is UNWRITTEN
    else:
        np.testing.assert_array_equal(array[:, 12:], np.arange(128).reshape(8, 16)[:, :12])
        assert not array[:, :12].any()


@pytest.mark.parametrize("corner", [(0, 0, 0), (1, 2, 1), (-3, -1, -1), (9, 3, 2)])
def test_a_box_is_cut_out_of_three_axes_and_is_zero_outside(corner: tuple[int, int, int], tmp_path: Path) -> None:
    array = np.arange(1, 3 * 5 * 12 + 1, dtype=np.float32).reshape(3, 5, 12)
    out = boxed(tmp_path, array, (2, 3, 8), LOAD.format("3d", "%2, %3, %4"), at=corner)
    around = np.pad(array, 16)
    x, y, z = (16 + at for at in corner)
    np.testing.assert_array_equal(out, around[z : z + 2, y : y + 3, x : x + 8])


def test_bytes_are_copied_without_a_map_and_rows_with_one(tmp_path: Path) -> None:
    array = np.arange(64, dtype=np.float32)
    out = boxed(tmp_path, array, (64,), LOAD.format("1d", "%2"))
    np.testing.assert_array_equal(out, array)
    out = boxed(tmp_path, np.ones((4, 16), np.float32), (4, 16), MULTICAST)
    np.testing.assert_array_equal(out, 1)


def test_a_map_may_be_in_global_memory(tmp_path: Path) -> None:
    array = np.arange(64, dtype=np.float32).reshape(4, 16)
    source = tmp_path / "pointer.cu"
    text = BOXES.replace("const __grid_constant__ CUtensorMap in", "const CUtensorMap* in")
    source.write_text(text.replace("TILE", f'"{LOAD.format("2d", "%2, %3")}"'), encoding="utf-8")
    kernel = emulator.load(source, "boxes", (("LOADED", "256"), ("MAP", "in"), ("BLOCKS", "1")))
    out = np.zeros_like(array)
    given = TileArray(array, TensorMapArgument(1, (4, 16)), "float32")
    kernel.launch((1, 1, 1), (1, 1, 1), (out.view(np.uint8), given, *map(np.int32, (0, 1, 0))), outputs=[0])
    np.testing.assert_array_equal(out, np.concatenate((array[1:], np.zeros((1, 16)))))


WRONG = {
    "another number of coordinates": (LOAD.format("1d", "%2"), "&in", DefectKind.OUT_OF_BOUNDS),
    "no map": (LOAD.format("2d", "%2, %3"), "&barrier", DefectKind.OUT_OF_BOUNDS),
    "bytes of no array": (BULK, "(const char*)out + 4096", DefectKind.OUT_OF_BOUNDS),
    "bytes on no multiple of 16": (BULK, "out + 8", DefectKind.MISALIGNED),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_no_copy_can_be_made_of_is_found(what: str, tmp_path: Path) -> None:
    tile, argument, kind = WRONG[what]
    with pytest.raises(KernelDefect) as caught:
        boxed(tmp_path, np.ones((4, 16), np.float32), (4, 16), tile, argument=argument)
    assert caught.value.kind is kind


def test_a_copy_to_a_block_that_the_cluster_does_not_have_is_found(tmp_path: Path) -> None:
    with pytest.raises(KernelDefect) as caught:
        boxed(tmp_path, np.ones((4, 16), np.float32), (4, 16), MULTICAST, blocks=3)
    assert caught.value.kind is DefectKind.OUT_OF_BOUNDS


ROWS = """
extern "C" __global__ void rows(float* out, const float* in) {
    __shared__ float row[64];
    __shared__ unsigned long long barrier;
    const unsigned ready = (unsigned)__cvta_generic_to_shared(&barrier);
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 64;" ::"r"(ready));
    __syncthreads();
    const unsigned to = (unsigned)__cvta_generic_to_shared(row + threadIdx.x);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(in + threadIdx.x));
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(ready));
    asm volatile("{ .reg .pred p; again: mbarrier.test_wait.parity.shared.b64 p, [%0], 0; @!p bra again; }"
                 ::"r"(ready));
    out[threadIdx.x] = row[63 - threadIdx.x];
}
"""


@pytest.mark.parametrize("schedule", [0, 1, 2])
def test_a_barrier_object_waits_for_copies_of_its_threads(schedule: int, tmp_path: Path) -> None:
    source = tmp_path / "rows.cu"
    source.write_text(ROWS, encoding="utf-8")
    given = np.arange(64, dtype=np.float32)
    out = np.zeros_like(given)
    emulator.load(source, "rows", ()).launch((1, 1, 1), (64, 1, 1), (out, given), schedule=schedule, outputs=[0])
    np.testing.assert_array_equal(out, given[::-1])


PARTING = """
extern "C" __global__ void parting(float* out) {
    __shared__ __align__(16) float row[2][32];
    row[0][threadIdx.x] = row[1][threadIdx.x] = threadIdx.x;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    for (int i = 0; i < 2 && threadIdx.x == 0; ++i) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 128;"
                     ::"l"(out + 32 * i), "r"((unsigned)__cvta_generic_to_shared(row[i])) : "memory");
        COMMIT;
    }
    WAIT;
}
"""
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
def test_a_block_may_not_leave_shared_memory_that_a_copy_still_reads(wait: str, tmp_path: Path) -> None:
    commit, waits, sound = WAITS[wait]
    source = tmp_path / "parting.cu"
    source.write_text(PARTING, encoding="utf-8")
    kernel = emulator.load(source, "parting", (("COMMIT", commit), ("WAIT", waits)))
    out = np.zeros(64, np.float32)
    with nullcontext() if sound else pytest.raises(KernelDefect) as caught:
        kernel.launch((1, 1, 1), (32, 1, 1), (out,), outputs=[0])
    if caught:
        assert caught.value.kind is RACE
    else:
        np.testing.assert_array_equal(out, np.tile(np.arange(32), 2))


GUIDE = """
#include <cuda.h>
#include <cuda/barrier>
#include <utility>
using barrier = cuda::barrier<cuda::thread_scope_block>;
namespace cde = cuda::device::experimental;
// As the programming guide has it: a tile comes, is counted up by one, and goes.
extern "C" __global__ void guide(const __grid_constant__ CUtensorMap map, const int* ones, int x, int y) {
    __shared__ alignas(128) int tile[8][32];
    __shared__ alignas(16) int one[32];
    __shared__ barrier bar;
    if (threadIdx.x == 0) {
        init(&bar, blockDim.x);
        INIT_FENCE;
    }
    __syncthreads();
    barrier::arrival_token token;
    if (threadIdx.x == 0) {
        cde::cp_async_bulk_tensor_2d_global_to_shared(&tile, &map, x, y, bar);
        cuda::device::memcpy_async_tx(one, ones, cuda::aligned_size_t<16>(sizeof one), bar);
        token = cuda::device::barrier_arrive_tx(bar, 1, sizeof tile + sizeof one);
    } else {
        token = bar.arrive();
    }
    bar.wait(std::move(token));
    for (int row = 0; row < 8; ++row) tile[row][threadIdx.x] += one[threadIdx.x];
    FENCE;
    __syncthreads();
    if (threadIdx.x == 0) {
        cde::cp_async_bulk_tensor_2d_shared_to_global(&map, x, y, &tile);
        cde::cp_async_bulk_commit_group();
        cde::cp_async_bulk_wait_group_read<0>();
    }
}
"""


def guided(folder: Path, changes: dict[str, str], schedule: int = 0) -> np.ndarray:
    source = folder / "guide.cu"
    source.write_text(GUIDE, encoding="utf-8")
    macros = dict.fromkeys(("INIT_FENCE", "FENCE"), "cde::fence_proxy_async_shared_cta()") | changes
    kernel = emulator.load(source, "guide", tuple(macros.items()))
    array = np.zeros((20, 64), np.int32)
    given = (TileArray(array, TensorMapArgument(0, (8, 32)), "int32"), np.ones(32, np.int32), np.int32(32), np.int32(8))
    kernel.launch((1, 1, 1), (32, 1, 1), given, schedule=schedule)
    return array


@pytest.mark.parametrize("schedule", [0, 1, 2])
def test_the_guide_s_tile_is_counted_up(schedule: int, tmp_path: Path) -> None:
    array = guided(tmp_path, {}, schedule)
    assert array[8:16, 32:].all()
    assert array.sum() == 8 * 32


@pytest.mark.parametrize("what", ["INIT_FENCE", "FENCE"])
def test_the_guide_s_fences_are_missed(what: str, tmp_path: Path) -> None:
    with pytest.raises(KernelDefect) as caught:
        guided(tmp_path, {what: ""})
    assert caught.value.kind is RACE


@pytest.mark.parametrize(
    "written",
    [
        "cp.async.bulk.tensor.2d.im2col.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4]",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2",
        "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%0], %1, [%2]",
        "mbarrier.arrive.noComplete.shared.b64 %0, [%1], 1",
        "tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1",
    ],
)
def test_a_copy_that_is_not_known_is_refused_by_name(written: str) -> None:
    done = translated(f'void f() {{ asm("{written};" :: "r"(a), "l"(b), "r"(c), "r"(d), "r"(e)); }}')
    assert f'peakgate_not_emulated("PTX instruction {written.split(maxsplit=1)[0]}' in done
