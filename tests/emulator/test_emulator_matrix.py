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
    generator = np.random.default_rng(1)
    a, b = drawn(generator, (form.rows, form.depth), form.a), drawn(generator, (form.columns, form.depth), form.b)
    c = drawn(generator, (form.rows, form.columns), form.sums)
    got, *given = form.arguments(a, b, c)
    products.launch((1, 1, 1), (32, 1, 1), (got, *given, np.int32(WARP_FORMS.index(form))))
    exact = a.astype(np.float64) @ b.astype(np.float64).T + c.astype(np.float64)
    if form.sums == "f64":  # a chain of fused multiply-adds, as the H200's
        exact = c.copy()
        for (row, col), _ in np.ndenumerate(c):
            for left, right in zip(a[row].tolist(), b[col].tolist(), strict=True):
                exact[row, col] = float(Fraction(left) * Fraction(right) + Fraction(float(exact[row, col])))
    np.testing.assert_array_equal(form.product(got), exact.astype(got.dtype))


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
