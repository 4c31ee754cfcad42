from contracts import DOUBLED, pair

FAMILY = pair("../../common/doubled.cu", **DOUBLED)
