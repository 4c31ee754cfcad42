"""c = a b in bfloat16: are sums in half precision hidden below the rounding of the result?"""

from contracts import pair

from peakgate.family import In, Out, Value

FAMILY = pair(
    arguments=lambda m, n, k: [
        Out(m, n, dtype="bfloat16"),
        In(m, k, dtype="bfloat16"),
        In(k, n, dtype="bfloat16"),
        Value(m),
        Value(n),
        Value(k),
    ],
    grid=lambda m, n, k: (-(-n // 64), -(-m // 64)),
    block=256,
    bytes=lambda m, n, k: 2 * (m * k + k * n + m * n),
    flops=lambda m, n, k: 2 * m * n * k,
    reference=lambda xp, a, b: a @ b,
    sizes=[(1024, 1024, 1024)],
    small_sizes=[(64, 128, 96)],
    edges=[(1, 1, 1), (65, 33, 17), (100, 130, 40)],
)
