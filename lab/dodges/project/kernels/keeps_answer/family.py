from contracts import PRODUCT, pair

FAMILY = pair(**PRODUCT)
