"""Every case of kernels/scale, for `pytest benchmarks`."""

from peakgate.suite import cases


@cases("scale")
def test_scale(case, gpu_benchmark):
    gpu_benchmark(case)
