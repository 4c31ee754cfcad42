"""c = a b in float32: is a product worked out by tensor cores in half precision?"""

from peakgate.family import In, Out, Value, family, kernel

FAMILY = family(
    *(
        kernel(
            source,
            arguments=lambda m, n, k: [Out(m, n), In(m, k), In(k, n), Value(m), Value(n), Value(k)],
            grid=lambda m, n, k: (-(-n // 64), -(-m // 64)),
            block=256,
            bytes=lambda m, n, k: 4 * (m * k + k * n + m * n),
            flops=lambda m, n, k: 2 * m * n * k,
            reference=lambda xp, a, b: a @ b,
            scale=lambda xp, a, b: xp.sqrt((a * a) @ (b * b)),
            sizes=[(1024, 1024, 1024)],
            small_sizes=[(128, 64, 64)],
            edges=[(1, 1, 1), (65, 33, 17), (64, 64, 32), (100, 130, 40)],
        )
        for source in ("honest.cu", "cheat.cu")
    )
)
