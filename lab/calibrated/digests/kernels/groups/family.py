"""Cooperative groups: tiles of 16, reductions, scans, shuffles, votes, coalesced threads."""

import numpy as np

from peakgate.family import In, Out, Value, kernel


def reference(xp, given):
    values = np.asarray(given.get() if hasattr(given, "get") else given)
    padded = np.zeros(-(-values.size // 64) * 64, np.int32)
    padded[: values.size] = values
    tiles = padded.reshape(-1, 16)
    ranks = np.arange(16)
    bits = (1 << ranks).astype(np.int32)
    alike = tiles[:, :, None] % 4 == tiles[:, None, :] % 4
    found = (
        np.repeat(tiles.sum(1, keepdims=True), 16, axis=1),
        tiles.cumsum(1),
        tiles[:, ranks ^ 5] - tiles[:, 3:4],
        ((tiles % 3 == 0) * bits).sum(1, keepdims=True) + (alike * bits).sum(2),
    )
    return tuple(xp.asarray(part.astype(np.int32).ravel()[: values.size]) for part in found)


FAMILY = kernel(
    "groups.cu",
    arguments=lambda n: [
        *(Out(n, dtype="int32") for _ in range(4)),
        *(In(n, dtype="int32", data=(0, 1000)), Value(n)),
    ],
    grid=lambda n: -(-n // 64),
    block=64,
    bytes=lambda n: 20 * n,
    reference=reference,
    sizes=[1 << 20],
)
