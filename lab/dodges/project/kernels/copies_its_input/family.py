from contracts import DOUBLED, pair

CONTRACT = DOUBLED | {"reference": lambda xp, x: x + 1e-3 * xp.sin(x)}

FAMILY = pair(**CONTRACT)
