"""out = 2 x + 1: is a batch of timed launches recognised by its rhythm?"""

from contracts import AFFINE, pair

FAMILY = pair("../../common/affine.cu", **AFFINE)
