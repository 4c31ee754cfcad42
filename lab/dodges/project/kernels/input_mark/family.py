"""out = 2 x + 1: does a launch leave marks in its input?"""

from contracts import AFFINE, pair

FAMILY = pair("../../common/affine.cu", **AFFINE)
