"""c = a b in float32: is an answer worked out that was worked out before?"""

from contracts import TILED_PRODUCT, pair

FAMILY = pair("../../common/tiled_product.cu", **TILED_PRODUCT)
