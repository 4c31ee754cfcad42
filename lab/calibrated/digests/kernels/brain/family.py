"""bfloat16, as its bits: conversion, addition, fused multiply-add."""

import numpy as np

from peakgate.family import In, Out, Value, kernel


def rounded(values):
    """float64 values rounded to bfloat16, to nearest even."""
    bits = np.ascontiguousarray(values, np.float64).view(np.uint64)
    dropped = np.uint64(45)
    bits = (bits + np.uint64((1 << 44) - 1) + ((bits >> dropped) & np.uint64(1))) >> dropped << dropped
    return bits.view(np.float64)


def as_bits(values):
    return (values.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)


def reference(xp, *arrays):
    a, b = (rounded(array.get() if hasattr(array, "get") else array) for array in arrays)
    return tuple(xp.asarray(as_bits(rounded(values))) for values in (a, a + b, a * b + 0.5))


FAMILY = kernel(
    "brain.cu",
    arguments=lambda n: [*(Out(n, dtype="uint16") for _ in range(3)), In(n), In(n), Value(n)],
    grid=lambda n: -(-n // 128),
    block=128,
    bytes=lambda n: 14 * n,
    reference=reference,
    sizes=[1 << 20],
    min_capability=(8, 0),
)
