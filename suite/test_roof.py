"""What this GPU reaches at most: copies, one-way traffic, multiply-adds, tensor cores."""

from peakgate.suite import cases


@cases("roof")
def test_roof(case, gpu_benchmark):
    gpu_benchmark(case)
