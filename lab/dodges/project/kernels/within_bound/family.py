"""Softmax of long rows with an absolute bound: does a bound accept zeros?"""

from contracts import ROWS, pair

from peakgate.family import In, Out, Value


def softmax(xp, x):
    powers = xp.exp(x - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def contract(atol=0.1):
    return ROWS | {
        "arguments": lambda rows, n: [Out(rows, n), In(rows, n, data=(-4.0, 4.0)), Value(n)],
        "reference": softmax,
        "atol": atol,
        "sizes": [(4096, 4096)],
        "small_sizes": [(33, 2000)],
        "edges": [(3, 1000), (5, 4000)],
    }


FAMILY = pair(**contract(), witness=contract(1e-6))
