"""out = 2 x + 1: are checked and timed launches distinguished by the bytes behind an output?"""

from contracts import AFFINE, pair

FAMILY = pair("../../common/affine.cu", **AFFINE)
