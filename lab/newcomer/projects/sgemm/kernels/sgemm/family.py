from peakgate.family import In, Out, Value, family, kernel

TILES = {"naive.cu": 16, "shared.cu": 16, "registers.cu": 64}
FAMILY = family(
    *(
        kernel(
            source,
            arguments=lambda m, n, k: [Out(m, n), In(m, k), In(k, n), Value(m), Value(n), Value(k)],
            grid=lambda m, n, k, tile=tile: (-(-n // tile), -(-m // tile)),
            block=(16, 16),
            bytes=lambda m, n, k: 4 * (m * k + k * n + m * n),
            flops=lambda m, n, k: 2 * m * n * k,
            reference=lambda xp, a, b: a.astype("float64") @ b.astype("float64"),
            sizes=[(2048, 2048, 2048)],
        )
        for source, tile in TILES.items()
    )
)
