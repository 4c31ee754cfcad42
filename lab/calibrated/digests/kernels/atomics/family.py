"""Atomics in shared and global memory whose result does not depend on their order."""

import numpy as np

from peakgate.family import In, InOut, Value, kernel

START = 77


def reference(xp, *arrays):
    found, sums, wide, values = (np.array(array.get() if hasattr(array, "get") else array) for array in arrays)
    found[:8] += np.bincount(values % 8, minlength=8).astype(np.int32)
    found[8], found[9] = max(found[8], values.max()), min(found[9], values.min())
    found[10] ^= np.bitwise_xor.reduce(values)
    found[11] |= np.bitwise_or.reduce(values)
    found[12] &= np.bitwise_and.reduce(values)
    found[13] -= values.sum(dtype=np.int32)
    found[14] = (START + values.size) % 1000
    if values.size > START:
        found[15] = swapped(values)
    sums += np.bincount(values % 4, minlength=4).astype(np.float32)
    for parity in (0, 1):
        chosen = values[values % 2 == parity]
        wide[parity] += (np.uint64(1) << (chosen % 40).astype(np.uint64)).sum(dtype=np.uint64)
    return tuple(xp.asarray(array) for array in (found, sums, wide))


def swapped(values):
    """Thread START swaps its value in; no other thread's number is in the data, which starts at 1 000 000."""
    return values[START]


FAMILY = kernel(
    "atomics.cu",
    arguments=lambda n: [
        *(InOut(16, dtype="int32", data=START), InOut(4, data=0), InOut(2, dtype="uint64", data=0)),
        *(In(n, dtype="int32", data=(1_000_000, 1_001_000)), Value(n)),
    ],
    grid=lambda n: -(-n // 128),
    block=128,
    bytes=lambda n: 4 * n,
    reference=reference,
    sizes=[900_000],
)
