"""The warp's matrix instructions: fragments lie as the PTX ISA lists them, and what is not synchronised is found."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from emulating import finds, loaded
from matrix_forms import WARP_FORMS, WarpForm, drawn, warp_source

import peakgate_emulator as emulator
from peakgate_emulator import DefectKind


@pytest.fixture(scope="module")
def products(tmp_path_factory: pytest.TempPathFactory) -> Any:
    source = tmp_path_factory.mktemp("matrix") / "products.cu"
    source.write_text(warp_source(WARP_FORMS), encoding="utf-8")
    return emulator.load(source, "products", ())


@pytest.mark.parametrize("form", WARP_FORMS, ids=lambda form: form.opcode)
def test_a_product_is_that_of_the_matrices_its_fragments_hold(products: Any, form: WarpForm) -> None:
    a, b, c = form.drawn(np.random.default_rng(1))
    got, *given = form.arguments(a, b, c)
    products.launch((1, 1, 1), (32, 1, 1), (got, *given, np.int32(WARP_FORMS.index(form))))
    exact = a.astype(np.float64) @ b.astype(np.float64).T + c.astype(np.float64)
    if form.sums == "f64":  # a chain of fused multiply-adds, as the H200's
        exact = c.copy()
        for (row, col), _ in np.ndenumerate(c):
            for left, right in zip(a[row].tolist(), b[col].tolist(), strict=True):
                exact[row, col] = float(Fraction(left) * Fraction(right) + Fraction(float(exact[row, col])))
    np.testing.assert_array_equal(form.product(got), exact.astype(got.dtype))


INVALID = {
    "two equal columns": (WarpForm(16, 16, "f32", "f16", "f16", 1), 0b1010),
    "the higher column first": (WarpForm(16, 32, "f32", "bf16", "bf16", 1), 0b0001),
    "equal columns of bytes": (WarpForm(16, 64, "s32", "s8", "u8", 0, ordered=False), 0b1111),
    "equal pairs of four bits": (WarpForm(16, 128, "s32", "s4", "s4", 0), 0b0101),
    "half a number of 32 bits": (WarpForm(16, 8, "f32", "tf32", "tf32", 3), 0b1001),
}


def multiplied(folder: Path, form: WarpForm, lane: int, nibble: int | None = None, b: Any = None) -> np.ndarray:
    """A sparse product, with other metadata for the first chunk of a lane."""
    (folder / "products.cu").write_text(warp_source([form]), encoding="utf-8")
    a, of_b, c = form.drawn(np.random.default_rng(1))
    got, of_a, *given = form.arguments(a, of_b if b is None else b, c)
    if nibble is not None:
        of_a[lane, -1] = of_a[lane, -1] & ~np.uint32(0xF) | np.uint32(nibble)
    emulator.load(folder / "products.cu", "products").launch((1, 1, 1), (32, 1, 1), (got, of_a, *given, np.int32(0)))
    return form.product(got)


@pytest.mark.parametrize("what", INVALID)
def test_sparse_metadata_that_names_no_columns_is_found(what: str, tmp_path: Path) -> None:
    form, nibble = INVALID[what]
    selected = 20 + (form.selector or 0) * (2 if form.depth == 32 else 1)
    with finds(DefectKind.INVALID_METADATA):
        multiplied(tmp_path, form, selected, nibble)
    if form.selector:
        multiplied(tmp_path, form, 20, nibble)  # that of another lane is not looked at


def test_a_selector_of_lanes_that_are_not_there_is_found(tmp_path: Path) -> None:
    with finds(DefectKind.INVALID_METADATA):
        multiplied(tmp_path, WarpForm(16, 32, "f32", "f16", "f16", 2), 0)


def test_unordered_metadata_that_descends_is_refused(tmp_path: Path) -> None:
    with pytest.raises(emulator.KernelBuildError, match="higher column first"):
        multiplied(tmp_path, WarpForm(16, 16, "f32", "f16", "f16", 0, ordered=False), 0, 0b0001)


def test_columns_that_a_sparse_matrix_lacks_are_not_multiplied(tmp_path: Path) -> None:
    form = WarpForm(16, 16, "f32", "f16", "f16", 0)
    _, b, _ = form.drawn(np.random.default_rng(1))
    b[3, 5] = np.inf
    found = multiplied(tmp_path, form, 0, b=b)
    has_it = (form.kept() == 5).any(axis=1)
    assert 0 < has_it.sum() < 16
    np.testing.assert_array_equal(np.isfinite(found[:, 3]), ~has_it)


@pytest.mark.parametrize(
    "form",
    [
        WarpForm(16, 32, "f32", "e4m3", "e4m3", 0),
        WarpForm(16, 16, "f16", "bf16", "bf16", 0),
        WarpForm(16, 256, "s32", "u4", "u4", 0),
        WarpForm(8, 32, "s32", "s8", "s8", 0),
    ],
    ids=lambda form: form.opcode,
)
def test_a_sparse_product_of_no_such_shape_is_refused(form: WarpForm, tmp_path: Path) -> None:
    text = form.opcode + " {%0}, {%0}, {%0}, {%0}, %0, 0;"
    (tmp_path / "k.cu").write_text(f'__global__ void k(int* x) {{ asm volatile("{text}" : "+r"(*x)); }}')
    with pytest.raises(emulator.KernelBuildError, match="is not emulated"):
        emulator.load(tmp_path / "k.cu", "k").launch((1, 1, 1), (32, 1, 1), (np.zeros(1, np.int32),))


SOUND = {"LANES": "32", "WAIT": "__syncthreads()", "ROW": "", "SHIFT": "0", "STAY": "32"}
BROKEN = {
    "no barrier": ({"WAIT": "", "ROW": "^ 1"}, DefectKind.SHARED_RACE),
    "misaligned row": ({"SHIFT": "4"}, DefectKind.MISALIGNED),
    "row that nobody wrote": ({"LANES": "64", "ROW": "+ 32"}, DefectKind.UNINITIALISED_SHARED),
    "lanes that stay away": ({"STAY": "16"}, DefectKind.WARP_MASK),
}


def moved(changes: dict[str, str]) -> tuple[np.ndarray, ...]:
    given = np.arange(256, dtype=np.uint16)
    out, by_lane = np.zeros_like(given), np.zeros_like(given)
    loaded("moves", SOUND | changes).launch((1, 1, 1), (32, 1, 1), (out, given, by_lane))
    return given.reshape(4, 8, 8), out.reshape(4, 8, 8), by_lane.reshape(4, 32, 2)


def test_matrices_are_loaded_and_stored_transposed() -> None:
    given, out, by_lane = moved({})
    np.testing.assert_array_equal(out, given.transpose(0, 2, 1))
    # movmatrix turns the transposed matrix back: a lane has two neighbours of row lane / 4.
    np.testing.assert_array_equal(by_lane.reshape(4, 8, 8), given)


@pytest.mark.parametrize("what", BROKEN)
def test_a_matrix_of_rows_that_are_not_there_yet_is_found(what: str) -> None:
    changes, kind = BROKEN[what]
    with finds(kind):
        moved(changes)


@pytest.mark.parametrize(("rows", "columns"), [(16, 16), (32, 8), (8, 32)])
def test_wmma_multiplies_a_tile(rows: int, columns: int) -> None:
    generator = np.random.default_rng(1)
    a, b = drawn(generator, (rows, 16), "bf16"), drawn(generator, (columns, 16), "bf16")
    c = np.zeros((rows, columns), np.float32)
    loaded("tile", {"M": str(rows), "N": str(columns)}).launch((1, 1, 1), (32, 1, 1), (c, a, b))
    exact = a.astype(np.float64) @ b.astype(np.float64).T + 1
    np.testing.assert_array_equal(c, 2 * exact.astype(np.float32))


DROPPED = """__global__ void k(float2* out, const unsigned* a, const unsigned* b) {
    const int t = threadIdx.x;
    float x, y;
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0, _, %1, _}, {%2, %3, %4, %5}, {%6, %7}, {%8, 0., %9, 0.};" : "=f"(x), "=f"(y)
                 : "r"(a[t]), "r"(a[t]), "r"(a[t]), "r"(a[t]), "r"(b[t]), "r"(b[t]), "f"(0.5f), "f"(1.0f));
    out[t] = make_float2(x, y);
}
"""


def test_results_may_be_dropped_and_sums_begin_with_numbers(tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    source.write_text(DROPPED)
    out, a, b = np.zeros((32, 2), np.float32), np.ones(64, np.float16), np.ones(64, np.float16)
    emulator.load(source, "k").launch((1, 1, 1), (32, 1, 1), (out, a.view(np.uint32), b.view(np.uint32)))
    np.testing.assert_array_equal(out, [[16.5, 17]] * 32)
