"""Matrix product in float32: over sizes and tiles, from the naive kernel to the library."""

from peakgate.suite import cases


@cases("sgemm")
def test_sgemm(case, gpu_benchmark):
    gpu_benchmark(case)
