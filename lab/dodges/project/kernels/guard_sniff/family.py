"""out = 2 x + 1: are checked and timed launches distinguished by the bytes behind an output?"""

from peakgate.family import In, Out, Value, family, kernel

FAMILY = family(
    *(
        kernel(
            source,
            arguments=lambda n: [Out(n), In(n), Value(n)],
            grid=lambda n: -(-n // 8192),
            block=256,
            bytes=lambda n: 2 * 4 * n,
            reference=lambda xp, x: 2 * x + 1,
            sizes=[1 << 25],
            small_sizes=[20000],
        )
        for source in ("honest.cu", "cheat.cu")
    )
)
