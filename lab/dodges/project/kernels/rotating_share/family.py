"""out = 2 x + 1: is a whole output written in each launch?"""

from contracts import AFFINE, pair

FAMILY = pair("../../common/affine.cu", **AFFINE)
