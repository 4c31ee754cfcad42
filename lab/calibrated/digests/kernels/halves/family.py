"""float16: fused multiply-add, pairs, comparisons, square root, conversions."""

import numpy as np

from peakgate.family import In, Out, Value, kernel


def reference(xp, *arrays):
    a, b = (np.asarray(array.get() if hasattr(array, "get") else array) for array in arrays)
    fused = (a.astype(np.float64) * b - a).astype(np.float16)
    mixed = np.where(a > b, a * b - b * b, a * b + a)
    places = np.arange(a.size, dtype=np.float32)
    tenths = (np.float32(0.1) * places).astype(np.float16).astype(np.float32)
    widened = np.sqrt(np.abs(a)).astype(np.float32) + tenths
    return tuple(xp.asarray(array) for array in (fused, mixed, widened))


FAMILY = kernel(
    "halves.cu",
    arguments=lambda n: [
        *(Out(n, dtype="float16"), Out(n, dtype="float16"), Out(n)),
        *(In(n, dtype="float16"), In(n, dtype="float16"), Value(n)),
    ],
    grid=lambda n: -(-n // 128),
    block=128,
    bytes=lambda n: 12 * n,
    reference=reference,
    sizes=[1 << 20],
    tolerance=0.0,
)
