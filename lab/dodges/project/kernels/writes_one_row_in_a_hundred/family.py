from contracts import SOFTMAX, pair

FAMILY = pair("../../common/softmax.cu", **SOFTMAX)
