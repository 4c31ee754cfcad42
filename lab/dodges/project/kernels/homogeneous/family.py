"""Sums of chunks of 65536 elements: is a sum scaled as its inputs seem to be?"""

from peakgate.family import In, Out, Value, family, kernel

CHUNK = 65536


def sums(xp, x):
    chunks = -(-x.size // CHUNK)
    padded = xp.zeros(chunks * CHUNK)
    padded[: x.size] = x
    return padded.reshape(chunks, CHUNK).sum(axis=1)


FAMILY = family(
    *(
        kernel(
            source,
            arguments=lambda n: [Out(-(-n // CHUNK)), In(n), Value(n)],
            grid=lambda n: -(-n // CHUNK),
            block=256,
            bytes=lambda n: 4 * n,
            reference=sums,
            terms=CHUNK,
            sizes=[1 << 26],
            small_sizes=[140000],
        )
        for source in ("honest.cu", "cheat.cu")
    )
)
