"""Memory traffic of an access pattern: whole sectors from DRAM, one word per cycle per shared-memory bank."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

SECTOR_BYTES = 32
WARP_THREADS = 32
BANKS = 32


def sector_useful_fraction(stride: int, element_bytes: int) -> float:
    """Useful part of the bytes memory moves for every ``stride``-th element, when each sector is moved once.

    Memory moves whole sectors of 32 bytes, and elements are ``stride * e`` bytes apart. Up to 32 bytes apart every
    sector of the span is touched: e useful of stride * e bytes, 1 / stride. Further apart each element pulls a sector
    of its own, in which it lies wholly because e divides 32: e / 32.
    """
    return element_bytes / min(stride * element_bytes, SECTOR_BYTES)


def warp_useful_fraction(stride: int, element_bytes: int, offset: int = 0) -> float:
    """Useful part of the sectors one warp asks for, when its neighbours' use of them is not counted.

    32 elements span whole sectors, so all warps of a launch begin at the same place in a sector as the first.
    """
    sectors = {(offset + lane * stride) * element_bytes // SECTOR_BYTES for lane in range(WARP_THREADS)}
    return WARP_THREADS * element_bytes / (len(sectors) * SECTOR_BYTES)


def bank_turns(words: Iterable[int]) -> float:
    """Turns in which shared memory serves a warp that asks for these 4-byte words: the most words in one bank."""
    return float(max(Counter(word % BANKS for word in set(words)).values()))


def tile_words(tile: tuple[int, int], pad: int, *, by: str) -> list[int]:
    """The word that each thread of the first warp meets in a padded (columns, rows) tile, by "row" or by "col"."""
    columns, rows = tile
    if by == "row":
        return [thread // columns * (columns + pad) + thread % columns for thread in range(WARP_THREADS)]
    return [thread % rows * (columns + pad) + thread // rows for thread in range(WARP_THREADS)]
