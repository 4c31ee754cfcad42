from peakgate.family import In, InOut, Value, kernel

FAMILY = kernel(
    "histogram.cu",
    arguments=lambda n: [InOut(256, dtype="uint32", data=0), In(n, dtype="int32", data="index-{size}.npy"), Value(n)],
    grid=528,
    block=256,
    bytes=lambda n: 4 * n,
    reference="bins-{size}.npy",
    sizes=[1 << 20],
    small_sizes=[4099],
)
