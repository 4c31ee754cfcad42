"""Each claim of the emulator's table of features, with every compiler there is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from emulating import COMPILERS, ONE, every_compiler
from hypothesis import given, settings
from hypothesis import strategies as st

import peakgate_emulator as emulator
from peakgate_emulator import Compiler, EmulatedKernel

KERNELS = Path(__file__).parents[1] / "data" / "defects"
SOURCE = KERNELS / "features.cu"
DEFINES = (("FROM_DEFINE", "5"),)
IN = np.arange(128, dtype=np.float32)

Triple = tuple[int, int, int]

CHECKED_BY_THEMSELVES: dict[str, tuple[Triple, Triple, int]] = {
    "keywords": (ONE, ONE, 8),
    "geometry": ((2, 3, 2), (4, 2, 3), 288),
    "vectors": (ONE, ONE, 8),
    "arithmetic": (ONE, ONE, 8),
    "shuffles": (ONE, (64, 1, 1), 64),
    "absent_lanes": (ONE, (8, 1, 1), 8),
    "barriers": (ONE, (64, 1, 1), 64),
    "atomics": (ONE, (64, 1, 1), 9),
    "memory_functions": (ONE, (64, 1, 1), 64),
    "prints": (ONE, ONE, 1),
    "read": (ONE, (64, 1, 1), 64),
}


def load(name: str, compiler: Compiler) -> EmulatedKernel:
    return emulator.load(SOURCE, name, DEFINES, compiler=compiler)


@pytest.fixture(scope="module", autouse=True)
def _prebuilt() -> None:
    names = (*CHECKED_BY_THEMSELVES, "hints", "values")
    for compiler in COMPILERS:
        emulator.prebuild([(SOURCE, name, DEFINES) for name in names], compiler=compiler)


@every_compiler
@pytest.mark.parametrize("name", CHECKED_BY_THEMSELVES)
def test_a_supported_feature_works(name: str, compiler: Compiler) -> None:
    grid, block, count = CHECKED_BY_THEMSELVES[name]
    ok = np.zeros(count, np.int32)
    load(name, compiler).launch(grid, block, (ok, IN))
    np.testing.assert_array_equal(ok, np.ones(count))


@every_compiler
def test_loads_and_stores_with_cache_hints_are_plain_ones(compiler: Compiler) -> None:
    out = np.zeros(64, np.float32)
    load("hints", compiler).launch(ONE, (64, 1, 1), (out, IN))
    np.testing.assert_array_equal(out, 4 * IN[:64])


@every_compiler
def test_values_of_every_kind_are_passed(compiler: Compiler) -> None:
    pair = np.zeros(1, np.dtype([("first", "i4"), ("second", "f8")], align=True))
    pair[0] = (3, 4.5)
    arguments: tuple[Any, ...] = (
        (ok := np.zeros(6, np.int32)),
        pair[0],
        np.float64(0.25),
        np.uint8(200),
        np.int64(1 << 40),
        np.arange(8, dtype=np.int32),
        np.ones(1, np.float64),
    )
    load("values", compiler).launch(ONE, ONE, arguments)
    np.testing.assert_array_equal(ok, np.ones(6))


@settings(max_examples=25, deadline=None)
@given(rows=st.integers(1, 70), columns=st.integers(1, 70), schedule=st.integers(0, 2**32 - 1))
def test_a_tiled_transpose_is_exact_in_every_shape_and_order(rows: int, columns: int, schedule: int) -> None:
    kernel = emulator.load(KERNELS / "clean_transpose.cu", "clean_transpose")
    matrix = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
    out = np.full((columns, rows), np.nan, np.float32)
    grid = (-(-columns // 16), -(-rows // 16), 1)
    kernel.launch(grid, (16, 4, 1), (out, matrix, np.int32(columns), np.int32(rows)), schedule=schedule)
    np.testing.assert_array_equal(out, matrix.T)
