from contracts import MEANS, pair

CONTRACT = MEANS | {"sizes": [(6144, 1024)]}

FAMILY = pair("../../common/means.cu", **CONTRACT)
