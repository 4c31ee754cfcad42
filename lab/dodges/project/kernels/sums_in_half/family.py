from contracts import MEANS, pair

FAMILY = pair("../../common/means.cu", **MEANS)
