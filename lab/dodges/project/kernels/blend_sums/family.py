"""Sums of chunks of 65536 elements: is a part of the inputs worked out while the rest is read?"""

from contracts import CHUNK_SUMS, pair

FAMILY = pair("../../common/chunk_sums.cu", **CHUNK_SUMS)
