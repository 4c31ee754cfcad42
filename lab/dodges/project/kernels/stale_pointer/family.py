"""c = a b in float32: is an answer copied from where an earlier launch wrote it?"""

from contracts import TILED_PRODUCT, pair

FAMILY = pair("../../common/tiled_product.cu", **TILED_PRODUCT)
