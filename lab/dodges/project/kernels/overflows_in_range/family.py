"""Softplus of a range: does the reference's own overflow excuse a kernel?"""

from contracts import ELEMENTS, pair

from peakgate.family import In, Out, Value


def contract(reference=lambda xp, x: xp.log1p(xp.exp(x))):
    return ELEMENTS | {"arguments": lambda n: [Out(n), In(n, data=(-100.0, 100.0)), Value(n)], "reference": reference}


FAMILY = pair(**contract(), witness=contract(lambda xp, x: xp.logaddexp(x, 0.0)))
