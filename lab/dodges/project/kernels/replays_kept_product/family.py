from contracts import PRODUCT, pair

FAMILY = pair("../../common/product.cu", **PRODUCT)
