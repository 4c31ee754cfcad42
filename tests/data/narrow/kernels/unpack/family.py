from peakgate.family import In, Out, Value, kernel

FAMILY = kernel(
    "unpack.cu",
    block=64,
    grid=lambda r, c: -(-r * c // 128),
    bytes=lambda r, c: 9 * r * c // 2 + 4 * r,
    arguments=lambda r, c: [Out(r, c), In(r, c, dtype="int4"), In(r), Value(r), Value(c)],
    reference=lambda xp, weights, scales: weights * scales[:, None],
    sizes=[(4096, 4096)],
)
