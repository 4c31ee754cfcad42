"""``measure.exchange`` on the GPU: no step of it waits for the host, which may have blocked the stream."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import cupy
import numpy as np
from peakgate.core.case import Array
from peakgate.measure.exchange import pairs_of

SOURCE = Path(__file__).with_name("exchange.cu")
WORDS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long"}
_THREADS, _MOST_BLOCKS = 256, 2048


def exchange(words: Array, keys: tuple[int, int]) -> None:
    """``measure.exchange.exchange`` of an array of words of 1 to 8 bytes, with the same result, in stream order."""
    if pairs := pairs_of(words.size, words.itemsize):
        grid = (min(-(-pairs // _THREADS), _MOST_BLOCKS),)
        given = np.uint64(words.size), np.uint32(pairs), *map(np.uint32, keys)
        _function(WORDS[words.itemsize])(grid, (_THREADS,), (words, *given))


@cache
def _function(word: str) -> Any:
    return cupy.RawModule(code=f"#define WORD {word}\n{SOURCE.read_text(encoding='utf-8')}").get_function("exchange")
