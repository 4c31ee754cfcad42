"""out = 2 x + 1: does a launch write what its output holds already?"""

from contracts import AFFINE, pair

FAMILY = pair("../../common/affine.cu", **AFFINE)
