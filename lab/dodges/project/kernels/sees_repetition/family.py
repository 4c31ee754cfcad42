from contracts import DOUBLED, pair

FAMILY = pair(**DOUBLED)
