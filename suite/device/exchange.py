"""``measure.exchange`` on the GPU: no step of it waits for the host, which may have blocked the stream."""

from __future__ import annotations

from functools import cache
from typing import Any

import cupy
import numpy as np
from peakgate.core.case import Array
from peakgate.measure.exchange import pairs_of

_SOURCE = """
__device__ unsigned int mixed(unsigned int bits) {
    bits ^= bits >> 16;
    bits *= 0x7feb352du;
    bits ^= bits >> 15;
    bits *= 0x846ca68bu;
    return bits ^ bits >> 16;
}

__device__ unsigned long long place(
    unsigned int part, unsigned long long count, unsigned long long parts, unsigned int first, unsigned int second)
{
    const unsigned long long begin = part * count / parts, end = (part + 1ull) * count / parts;
    return begin + ((mixed(mixed(part ^ first) ^ second) * (end - begin)) >> 32);
}

extern "C" __global__ void exchange(
    WORD* words, unsigned long long count, unsigned int pairs, unsigned int first, unsigned int second)
{
    for (unsigned int at = blockIdx.x * blockDim.x + threadIdx.x; at < pairs; at += gridDim.x * blockDim.x) {
        const unsigned long long one = place(at, count, 2ull * pairs, first, second);
        const unsigned long long other = place(at + pairs, count, 2ull * pairs, first, second);
        const WORD kept = words[one];
        words[one] = words[other];
        words[other] = kept;
    }
}
"""
_WORDS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long"}
_THREADS, _MOST_BLOCKS = 256, 2048


def exchange(words: Array, keys: tuple[int, int]) -> None:
    """``measure.exchange.exchange`` of an array of words of 1 to 8 bytes, with the same result, in stream order."""
    if pairs := pairs_of(words.size, words.itemsize):
        grid = (min(-(-pairs // _THREADS), _MOST_BLOCKS),)
        given = np.uint64(words.size), np.uint32(pairs), *map(np.uint32, keys)
        _function(_WORDS[words.itemsize])(grid, (_THREADS,), (words, *given))


@cache
def _function(word: str) -> Any:
    return cupy.RawModule(code=f"#define WORD {word}\n{_SOURCE}").get_function("exchange")
