"""Input data, refills and comparisons on the GPU, in one kernel each instead of about ten of CuPy's.

Data and comparisons only for the types below. ``measure.data``, ``measure.refill`` and ``judge.correctness`` define the
results and support all types.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import cupy
import numpy as np

from peakgate.judge.correctness import ErrorBound, Largest
from peakgate.measure import data
from peakgate.measure.data import COMPLEX_PARTS, COPIED_BELOW, SPECIAL_BELOW, seed_offset, specials
from peakgate.measure.refill import ROUNDS, SEEDS, SPARSE_BYTES, Words, chunk_bytes, pairs_of
from peakgate.spec import dtypes
from peakgate.spec.case import Array

ELEMENTS_SOURCE = Path(__file__).with_name("elements.cu")

# Types that the kernel ``fill`` supports, and the macro of elements.cu for each.
FILLED = {
    "float16": "HALF",
    "bfloat16": "BFLOAT16",
    "float32": "FLOAT",
    "float64": "DOUBLE",
    **dict.fromkeys(("int16", "uint16", "int32", "uint32"), "INTEGER"),
    **dict.fromkeys(("int64", "uint64"), "LONG_INTEGER"),
}

# C++ types by NumPy name, of those whose values are all exact in double.
COMPARED_TYPES = {
    "float32": "float",
    "float64": "double",
    "int32": "int",
    "uint32": "unsigned int",
    "int8": "signed char",
    "uint8": "unsigned char",
    "int16": "short",
    "uint16": "unsigned short",
}

_WORDS = {1: "char", 2: "short", 4: "int", 8: "long long"}
_THREADS, _MOST_BLOCKS = 256, 2048


def random_array(shape: tuple[int, ...], dtype: str, seed: int) -> Array:
    """The same bits as ``measure.data.random_array``, which is called for a type that is not in FILLED."""
    if dtype in COMPLEX_PARTS:
        return random_array((*shape, 2), COMPLEX_PARTS[dtype], seed).view(dtype).reshape(shape)
    if dtype not in FILLED:
        return data.random_array(cupy, shape, dtype, seed)
    values = cupy.empty(shape, dtypes.storage(dtype))
    macros = (
        ("VALUE", f"unsigned {_WORDS[values.itemsize]}"),
        (FILLED[dtype], 1),
        ("COPIED", COPIED_BELOW),
        ("SPECIAL", SPECIAL_BELOW),
    )
    fill = _function("fill", macros)
    if values.size:
        drawn = np.uint64(values.size), np.uint32(seed_offset(seed)), _specials(dtype)
        fill(_grid(values.size), (_THREADS,), (values, *drawn))
    return values


@cache
def _specials(dtype: str) -> Array:
    return cupy.asarray(specials(dtype))


# The structs of elements.cu.
_MOST_FILLED = 8
_FILLED = np.dtype(
    [("target", "u8"), ("pool", "u8"), ("words", "u8")]
    + [(name, "u4") for name in ("chunks", "shift", "word_bytes", "offset")]
)
_ALL_FILLED = np.dtype([("buffers", _FILLED, (_MOST_FILLED,))])

_MOST_CHANGED = 8
_CHANGED = np.dtype(
    [("target", "u8"), ("pool", "u8"), ("words", "u8")]
    + [(name, "u4") for name in ("pool_words", "word_bytes", "seed", "unused")]
)
_ALL_CHANGED = np.dtype([("buffers", _CHANGED, (_MOST_CHANGED,)), ("keys", "u4", (ROUNDS,)), ("unused", "u4")])


def refill(arrays: Sequence[tuple[Array, Array, int]]) -> None:
    """``measure.refill.fill`` of each array with its pool and seed, with the same bits, in stream order."""
    for first in range(0, len(arrays), _MOST_FILLED):
        some = [each for each in arrays[first : first + _MOST_FILLED] if each[0].size]
        given = np.zeros(_MOST_FILLED, _FILLED)
        for at, (target, pool, seed) in enumerate(some):
            chunk = chunk_bytes(target.nbytes, target.itemsize)
            word = math.gcd(chunk, target.nbytes, target.data.ptr, 16)
            words, shift = target.nbytes // word, (chunk // word).bit_length() - 1
            drawn = pool.nbytes // chunk, shift, word, seed_offset(seed)
            given[at] = (target.data.ptr, pool.data.ptr, words, *drawn)
        if some:
            kernel, most = _function("refill", (("MOST_FILLED", _MOST_FILLED),)), int(given["words"].max())
            kernel((*_grid(most), len(some)), (_THREADS,), (given.view(_ALL_FILLED)[0],))


def change(arrays: Sequence[tuple[Array, Array, int]], keys: Words) -> None:
    """``measure.refill.change`` of each array with its pool, seed and keys, with the same bits, in stream order."""
    for first in range(0, len(arrays), _MOST_CHANGED):
        some = [each for each in arrays[first : first + _MOST_CHANGED] if each[0].size]
        given = np.zeros(_MOST_CHANGED, _CHANGED)
        for at, (target, pool, seed) in enumerate(some):
            given[at] = (target.data.ptr, pool.data.ptr, target.size, pool.size, target.itemsize, seed % SEEDS, 0)
        pages = max((math.ceil(target.nbytes / SPARSE_BYTES) for target, _, _ in some), default=0)
        if pages:
            kernel = _function("change", (("MOST_CHANGED", _MOST_CHANGED),))
            every = np.zeros(1, _ALL_CHANGED)
            every["buffers"], every["keys"] = given, keys
            kernel((*_grid(pages), len(some)), (_THREADS,), (every[0], np.uint32(SPARSE_BYTES)))


def exchange(words: Array, seed: int, keys: Array) -> None:
    """``measure.refill.exchange`` of an array of words of 1 to 8 bytes, with the same result, in stream order.

    The keys are on the GPU: a copy from the host would wait for a blocked stream.
    """
    if pairs := pairs_of(words.size, words.itemsize):
        word = f"unsigned {_WORDS[words.itemsize]}"
        given = np.uint64(words.size), np.uint32(pairs), np.uint32(seed % SEEDS), keys
        _function("exchange", (("EXCHANGED", word),))(_grid(pairs), (_THREADS,), (words, *given))


def compared(found: Array, wanted: Array, bound: ErrorBound, magnitude: Array | None) -> Largest | None:
    """The largest differences of an output, for ``judge.correctness.compare``.

    None for types not in COMPARED_TYPES, types that saturate, and unsupported layouts: ``found`` must be contiguous,
    ``wanted`` contiguous or two-dimensional.
    """
    found, wanted = _readable(found), _readable(wanted)
    types = found.dtype.name, wanted.dtype.name
    order = _rows(wanted)
    if not set(types) <= COMPARED_TYPES.keys() or order is None or not found.flags.c_contiguous or not found.size:
        return None
    if bound.saturates:
        return None
    macros = {"FOUND": COMPARED_TYPES[types[0]], "WANTED": COMPARED_TYPES[types[1]], "THREADS": _THREADS}
    compare = _function("compare", tuple(macros.items()))
    report = cupy.zeros(4, np.uint64)
    rows, columns, row_stride, column_stride = order
    sizes = np.uint64(rows), np.uint64(columns), np.int64(row_stride), np.int64(column_stride)
    terms = (np.float64(bound.absolute), np.float64(bound.relative), np.float64(bound.weighted))
    weights: Any = np.uintp(0)
    if magnitude is not None and bound.weighted:
        weights = cupy.ascontiguousarray(cupy.broadcast_to(magnitude, found.shape), "float64")
    compare(_grid(found.size), (_THREADS,), (found, wanted, weights, *sizes, *terms, report))
    reported = cupy.asnumpy(report)
    if int(reported[3]) != found.size:
        return None  # the kernel did not compare every element
    return Largest(*(float(each) for each in reported[:3].view(np.float64)))


def first_difference(one: Array, other: Array) -> int | None:
    """Near which byte two contiguous arrays of one size, aligned to 8 bytes, first differ; None if they are equal."""
    report = cupy.zeros(1, np.uint64)
    words = math.ceil(one.nbytes / 8)
    kernel = _function("difference", (("DIFFERENCE", 1),))
    kernel(_grid(words), (_THREADS,), (one, other, np.uint64(one.nbytes), report))
    left = int(cupy.asnumpy(report)[0])
    return one.nbytes - left if left else None


def _readable(array: Array) -> Array:
    """The array, with float16 converted to float32, which is exact."""
    return array.astype("float32") if array.dtype.name == "float16" else array


def _rows(array: Array) -> tuple[int, int, int, int] | None:
    """Rows, columns and their strides in elements; None for an unsupported layout."""
    if array.flags.c_contiguous:
        return 1, array.size, 0, 1
    if array.ndim != 2 or any(stride % array.itemsize for stride in array.strides):
        return None
    (rows, columns), (down, along) = array.shape, array.strides
    return rows, columns, down // array.itemsize, along // array.itemsize


def _grid(count: int) -> Sequence[int]:
    return (min(math.ceil(count / _THREADS), _MOST_BLOCKS),)


@cache
def _function(name: str, macros: tuple[tuple[str, Any], ...]) -> Any:
    # Not as options: for each new set of options CuPy calls the compiler, 20 ms, to compute the cache key.
    defined = "".join(f"#define {macro} {value}\n" for macro, value in macros)
    return cupy.RawModule(code=defined + ELEMENTS_SOURCE.read_text(encoding="utf-8")).get_function(name)
