"""The memory traffic of an access pattern: whole sectors from DRAM, one word per cycle and bank of shared memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

SECTOR_BYTES = 32
WARP_THREADS = 32
BANKS = 32


def sector_useful_fraction(stride: int, element_bytes: int) -> float:
    """Useful part of the bytes that memory moves for every ``stride``-th element, if each sector is moved once.

    Memory moves whole sectors of 32 bytes, and elements are ``stride * e`` bytes apart. Up to 32 bytes apart every
    sector of the span is touched: e useful bytes of stride * e, 1 / stride. Further apart each element needs a sector
    of its own, which contains it wholly because 32 is a multiple of e: e / 32.
    """
    return element_bytes / min(stride * element_bytes, SECTOR_BYTES)


def warp_useful_fraction(stride: int, element_bytes: int, offset: int = 0) -> float:
    """Useful part of the sectors that one warp requests, if no other warp uses the rest of them.

    32 elements span whole sectors, so all warps of a launch begin at the same position in a sector as the first.
    """
    sectors = {(offset + lane * stride) * element_bytes // SECTOR_BYTES for lane in range(WARP_THREADS)}
    return WARP_THREADS * element_bytes / (len(sectors) * SECTOR_BYTES)


def bank_turns(words: Iterable[int]) -> float:
    """How many-way a warp's access to these 4-byte words conflicts in shared memory's banks; 1 is conflict-free."""
    return float(max(Counter(word % BANKS for word in set(words)).values()))


def tile_words(tile: tuple[int, int], pad: int, *, by: str) -> list[int]:
    """The word that each thread of the first warp accesses in a padded (columns, rows) tile, by "row" or by "col"."""
    columns, rows = tile
    if by == "row":
        return [thread // columns * (columns + pad) + thread % columns for thread in range(WARP_THREADS)]
    return [thread % rows * (columns + pad) + thread // rows for thread in range(WARP_THREADS)]
