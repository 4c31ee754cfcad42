"""c = a b in float32: is a product worked out by tensor cores in half precision?"""

from contracts import TILED_PRODUCT, pair

FAMILY = pair("../../common/tiled_product.cu", **TILED_PRODUCT)
