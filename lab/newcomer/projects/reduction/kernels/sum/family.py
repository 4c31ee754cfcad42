from peakgate.family import In, Out, Temp, Value, kernel, launch

FAMILY = kernel(
    "sum.cu",
    arguments=lambda n: {"out": Out(1), "x": In(n, data=(0, 1)), "n": Value(n), "sums": Temp(528), "count": Value(528)},
    launches=[
        launch("partial_sums", "sums x n", grid=528, block=256),
        launch("final_sum", "out sums count", grid=1, block=256),
    ],
    bytes=lambda n: 4 * n,
    reference=launch("one_block", "out x n", grid=1, block=256, source="one_block.cu"),
    sizes=[1 << 26],
)
