"""Sums of chunks of 65536 elements: is a sum put together of earlier parts?"""

from contracts import CHUNK_SUMS, pair

FAMILY = pair("../../common/chunk_sums.cu", **CHUNK_SUMS)
