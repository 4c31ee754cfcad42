"""Sum, maximum, running sums and histogram: over sizes."""

from peakgate.suite import cases


@cases("reduce")
def test_reduce(case, gpu_benchmark):
    gpu_benchmark(case)
