"""The warp's matrix instructions: fragments lie as the PTX ISA lists them, and what is not synchronised is found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from peakgate import emulator
from peakgate.emulator import DefectKind, KernelDefect
from peakgate.emulator.ptx import translated

TYPES: dict[str, Any] = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "tf32": np.float32,
    "f32": np.float32,
    "f64": np.float64,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "s8": np.int8,
    "u8": np.uint8,
    "s4": ml_dtypes.int4,
    "u4": ml_dtypes.uint4,
    "s32": np.int32,
}
BITS = {"f16": 16, "bf16": 16, "tf32": 32, "f64": 64, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "s4": 4, "u4": 4}
FORMS = [
    *((16, 8, 16, "f32", kind, kind) for kind in ("f16", "bf16")),
    *((16, 8, 8, "f32", kind, kind) for kind in ("f16", "bf16", "tf32")),
    (16, 8, 4, "f32", "tf32", "tf32"),
    (16, 8, 16, "f16", "f16", "f16"),
    (16, 8, 8, "f16", "f16", "f16"),
    *((16, 8, 32, "f32", a, b) for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")),
    *((16, 8, 32, "s32", a, b) for a in ("s8", "u8") for b in ("s8", "u8")),
    (16, 8, 16, "s32", "s8", "s8"),
    (8, 8, 16, "s32", "u8", "s8"),
    (16, 8, 64, "s32", "s4", "u4"),
    (16, 8, 32, "s32", "u4", "s4"),
    (8, 8, 32, "s32", "s4", "s4"),
    (8, 8, 4, "f64", "f64", "f64"),
    *((16, 8, depth, "f64", "f64", "f64") for depth in (4, 8, 16)),
]
"""Rows, columns, length of the sums; types of the sums, of A and of B."""


def opcode(form: tuple[Any, ...]) -> str:
    rows, columns, depth, sums, a, b = form
    return f"mma.sync.aligned.m{rows}n{columns}k{depth}.row.col.{sums}.{a}.{b}.{sums}"


def place(lane: int, i: int, per: int, rows: int) -> tuple[int, int]:
    """Row and column of a lane's element ``i`` of A; of B with ``rows`` of 8, where the row is its column."""
    group, first, register = lane // 4, lane % 4, i // per
    down, along = (register % 2, register // 2) if rows == 16 else (0, register)
    return group + 8 * down, first * per + i % per + 4 * per * along


def fragments(matrix: np.ndarray, kind: str) -> np.ndarray:
    """What the lanes hold of a matrix whose rows run along k: 32 x registers."""
    rows, per = matrix.shape[0], max(32 // BITS[kind], 1)
    held = np.empty((32, matrix.size // 32), matrix.dtype)
    for lane in range(32):
        for i in range(held.shape[1]):
            held[lane, i] = matrix[place(lane, i, per, rows)]
    if BITS[kind] == 4:
        nibbles = held.astype(np.int8).view(np.uint8) & 15
        held = nibbles[:, 0::2] | nibbles[:, 1::2] << 4
    return np.ascontiguousarray(held).view(np.uint64 if BITS[kind] == 64 else np.uint32)


def statement(at: int, form: tuple[Any, ...]) -> str:
    rows, _, depth, sums, a, b = form
    counts = [rows * 8 // 32 // (2 if sums == "f16" else 1)]
    counts += [rows * depth * BITS[a] // 32 // max(32, BITS[a]), 8 * depth * BITS[b] // 32 // max(32, BITS[b])]
    letter = {"f32": "f", "f64": "d"}.get(sums, "r")
    wide = "d" if a == "f64" else "r"
    names = iter(range(sum(counts) + counts[0]))
    d, of_a, of_b, c = ("{" + ", ".join(f"%{next(names)}" for _ in range(n)) + "}" for n in (*counts, counts[0]))
    kind = {"f": "float", "d": "double", "r": "unsigned"}
    out = ", ".join(f'"={letter}"((({kind[letter]}*)d)[lane * {counts[0]} + {i}])' for i in range(counts[0]))
    given = [f'"{wide}"(((const {kind[wide]}*)a)[lane * {counts[1]} + {i}])' for i in range(counts[1])]
    given += [f'"{wide}"(((const {kind[wide]}*)b)[lane * {counts[2]} + {i}])' for i in range(counts[2])]
    given += [f'"{letter}"(((const {kind[letter]}*)c)[lane * {counts[0]} + {i}])' for i in range(counts[0])]
    return f'case {at}: asm volatile("{opcode(form)} {d}, {of_a}, {of_b}, {c};" : {out} : {", ".join(given)}); break;'


@pytest.fixture(scope="module")
def products(tmp_path_factory: pytest.TempPathFactory) -> Any:
    source = tmp_path_factory.mktemp("matrix") / "products.cu"
    cases = "\n".join(statement(at, form) for at, form in enumerate(FORMS))
    source.write_text(
        f"""extern "C" __global__ void products(void* d, const void* a, const void* b, const void* c, int form) {{
    const int lane = threadIdx.x;
    switch (form) {{
{cases}
    }}
}}
""",
        encoding="utf-8",
    )
    return emulator.load(source, "products", ())


def drawn(generator: np.random.Generator, shape: tuple[int, int], kind: str) -> np.ndarray:
    low, high = {"s4": (-8, 8), "u4": (0, 16), "s8": (-128, 128), "u8": (0, 256)}.get(kind, (0, 0))
    values = generator.integers(low, high, shape) if high else generator.standard_normal(shape)
    return values.astype(TYPES[kind])


@pytest.mark.parametrize("form", FORMS, ids=opcode)
def test_a_product_is_that_of_the_matrices_its_fragments_hold(products: Any, form: tuple[Any, ...]) -> None:
    rows, columns, depth, sums, of_a, of_b = form
    generator = np.random.default_rng(1)
    a, b = drawn(generator, (rows, depth), of_a), drawn(generator, (columns, depth), of_b)
    if of_a == "tf32":
        a, b = ((matrix.view(np.uint32) & 0xFFFFE000).view(np.float32) for matrix in (a, b))
    c = generator.standard_normal((rows, columns)).astype(TYPES[sums]) * (100 if sums == "s32" else 1)
    lanes = [[(lane // 4 + n // 2 * 8, lane % 4 * 2 + n % 2) for n in range(rows // 4)] for lane in range(32)]
    held = np.array([[c[at] for at in of_lane] for of_lane in lanes], TYPES[sums])
    got = np.zeros_like(held)
    products.launch(
        (1, 1, 1),
        (32, 1, 1),
        (got, fragments(a, of_a), fragments(b, of_b), held, np.int32(FORMS.index(form))),
    )
    exact = a.astype(np.float64) @ b.astype(np.float64).T + c.astype(np.float64)
    expected = np.array([[exact[at] for at in of_lane] for of_lane in lanes]).astype(TYPES[sums])
    np.testing.assert_allclose(got, expected, rtol=1e-15 if sums == "f64" else 0, atol=1e-14 if sums == "f64" else 0)


MOVES = """
extern "C" __global__ void moves(unsigned short* out, const unsigned short* in, unsigned short* moved) {
    __shared__ __align__(16) unsigned short tile[LANES * 8];
    for (int i = 0; i < 8; ++i) tile[threadIdx.x * 8 + i] = in[threadIdx.x * 8 + i];
    WAIT;
    unsigned r[4], t[4];
    const unsigned at = (unsigned)__cvta_generic_to_shared(tile + (threadIdx.x ROW) * 8) + SHIFT;
    if (threadIdx.x < STAY) asm volatile("ldmatrix.sync.aligned.x4.trans.m8n8.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
    for (int i = 0; i < 4; ++i) {
        asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(t[i]) : "r"(r[i]));
        ((unsigned*)moved)[i * 32 + threadIdx.x] = t[i];
    }
    __syncthreads();
    asm volatile("stmatrix.sync.aligned.x4.m8n8.shared.b16 [%0], {%1, %2, %3, %4};"
                 :: "r"(at), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]));
    WAIT;
    for (int i = 0; i < 8; ++i) out[threadIdx.x * 8 + i] = tile[threadIdx.x * 8 + i];
}
"""
SOUND = {"LANES": "32", "WAIT": "__syncthreads()", "ROW": "", "SHIFT": "0", "STAY": "32"}
BROKEN = {
    "no barrier": ({"WAIT": "", "ROW": "^ 1"}, DefectKind.SHARED_RACE),
    "misaligned row": ({"SHIFT": "4"}, DefectKind.MISALIGNED),
    "row that nobody wrote": ({"LANES": "64", "ROW": "+ 32"}, DefectKind.UNINITIALISED_SHARED),
    "lanes that stay away": ({"STAY": "16"}, DefectKind.WARP_MASK),
}


def moved(folder: Path, changes: dict[str, str]) -> tuple[np.ndarray, ...]:
    source = folder / "moves.cu"
    source.write_text(MOVES, encoding="utf-8")
    kernel = emulator.load(source, "moves", tuple((SOUND | changes).items()))
    given = np.arange(256, dtype=np.uint16)
    out, by_lane = np.zeros_like(given), np.zeros_like(given)
    kernel.launch((1, 1, 1), (32, 1, 1), (out, given, by_lane))
    return given.reshape(4, 8, 8), out.reshape(4, 8, 8), by_lane.reshape(4, 32, 2)


def test_matrices_are_loaded_transposed_stored_and_transposed_again(tmp_path: Path) -> None:
    given, out, by_lane = moved(tmp_path, {})
    np.testing.assert_array_equal(out, given.transpose(0, 2, 1))
    # movmatrix turns the transposed matrix back: a lane has two neighbours of row lane / 4.
    np.testing.assert_array_equal(by_lane.reshape(4, 8, 8), given)


@pytest.mark.parametrize("what", BROKEN)
def test_a_matrix_of_rows_that_are_not_there_yet_is_found(what: str, tmp_path: Path) -> None:
    changes, kind = BROKEN[what]
    with pytest.raises(KernelDefect) as caught:
        moved(tmp_path, changes)
    assert kind in {defect.kind for defect in caught.value.defects}


@pytest.mark.parametrize(
    "written",
    [
        "mma.sync.aligned.m16n8k16.row.row.f32.bf16.bf16.f32 {%0}, {%1}, {%2}, {%3}",
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.f16.f32 {%0}, {%1}, {%2}, {%3}",
        "mma.sync.aligned.m16n8k16.row.col.f16.bf16.bf16.f16 {%0}, {%1}, {%2}, {%3}",
        "mma.sync.aligned.m16n8k12.row.col.f32.bf16.bf16.f32 {%0}, {%1}, {%2}, {%3}",
        "mma.sp.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0}, {%1}, {%2}, {%3}",
        "ldmatrix.sync.aligned.m8n16.x1.shared.b8 {%0}, [%1]",
    ],
)
def test_a_form_that_is_not_known_is_refused_by_name(written: str) -> None:
    done = translated(f'void f() {{ asm("{written};" : "=r"(a) : "r"(b), "r"(c), "r"(d)); }}')
    assert "peakgate_not_emulated" in done


WMMA = """
#include <cuda_bf16.h>
#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void tile(float* c, const __nv_bfloat16* a, const __nv_bfloat16* b) {
    wmma::fragment<wmma::matrix_a, M, N, 16, __nv_bfloat16, wmma::row_major> of_a;
    wmma::fragment<wmma::matrix_b, M, N, 16, __nv_bfloat16, wmma::col_major> of_b;
    wmma::fragment<wmma::accumulator, M, N, 16, float> sums;
    wmma::fill_fragment(sums, 1.0f);
    wmma::load_matrix_sync(of_a, a, 16);
    wmma::load_matrix_sync(of_b, b, 16);
    wmma::mma_sync(sums, of_a, of_b, sums);
    for (int i = 0; i < sums.num_elements; ++i) sums.x[i] *= 2.0f;
    wmma::store_matrix_sync(c, sums, N, wmma::mem_row_major);
}
"""


@pytest.mark.parametrize(("rows", "columns"), [(16, 16), (32, 8), (8, 32)])
def test_wmma_multiplies_a_tile(rows: int, columns: int, tmp_path: Path) -> None:
    source = tmp_path / "tile.cu"
    source.write_text(WMMA, encoding="utf-8")
    generator = np.random.default_rng(1)
    a, b = drawn(generator, (rows, 16), "bf16"), drawn(generator, (columns, 16), "bf16")
    c = np.zeros((rows, columns), np.float32)
    kernel = emulator.load(source, "tile", (("M", str(rows)), ("N", str(columns))))
    kernel.launch((1, 1, 1), (32, 1, 1), (c, a, b))
    exact = a.astype(np.float64) @ b.astype(np.float64).T + 1
    np.testing.assert_array_equal(c, 2 * exact.astype(np.float32))
