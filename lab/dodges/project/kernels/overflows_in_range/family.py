"""Softplus of a range: does the reference's own overflow excuse a kernel?"""

from contracts import pair

from peakgate.family import In, Out, Value


def contract(reference=lambda xp, x: xp.log1p(xp.exp(x))):
    return {
        "arguments": lambda n: [Out(n), In(n, data=(-100.0, 100.0)), Value(n)],
        "grid": lambda n: -(-n // 256),
        "block": 256,
        "bytes": lambda n: 8 * n,
        "reference": reference,
        "sizes": [1 << 24],
    }


FAMILY = pair(**contract(), witness=contract(lambda xp, x: xp.logaddexp(x, 0.0)))
