"""out = 2 x, with a count of launches: is every launch checked?"""

from contracts import DOUBLED, pair

FAMILY = pair("../../common/counted.cu", **DOUBLED)
