"""The pattern of accesses: offsets, strides, layouts, shared tiles and the host link."""

from peakgate.suite import cases


@cases("access")
def test_access(case, gpu_benchmark):
    gpu_benchmark(case)
