from contracts import WAVES, pair

FAMILY = pair("../../common/waves.cu", **WAVES)
