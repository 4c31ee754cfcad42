"""Sums of chunks of 65536 elements: is a sum put together of earlier parts?"""

from contracts import CHUNK_SUMS

from peakgate.family import family, kernel

FAMILY = family(kernel("../../common/chunk_sums.cu", name="honest", **CHUNK_SUMS), kernel("cheat.cu", **CHUNK_SUMS))
