"""Sums of chunks of 65536 elements: is a sum scaled as its inputs seem to be?"""

from contracts import CHUNK_SUMS, pair

FAMILY = pair("../../common/chunk_sums.cu", **CHUNK_SUMS)
