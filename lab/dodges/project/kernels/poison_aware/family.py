"""out = 2 x + 1: is an output that is about to be checked recognised by its contents?"""

from contracts import AFFINE, pair

FAMILY = pair("../../common/affine.cu", **AFFINE)
