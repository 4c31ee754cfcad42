from contracts import BLOCK, pair

from peakgate.family import In, Out, Temp, Value, launch

BLOCKS = 528
CONTRACT = {
    "arguments": lambda n: {"out": Out(1), "x": In(n), "n": Value(n), "sums": Temp(BLOCKS), "count": Value(BLOCKS)},
    "launches": [
        launch("partial_sums", "sums x n", grid=BLOCKS, block=BLOCK),
        launch("final_sum", "out sums count", grid=1, block=BLOCK),
    ],
    "bytes": lambda n: 4 * n,
    "reference": lambda xp, x: x.sum(dtype="float64", keepdims=True),
    "sizes": [1 << 25],
    "small_sizes": [1 << 17],
}

FAMILY = pair(**CONTRACT)
