"""Transpose of a float32 matrix: over sizes and block shapes."""

from peakgate.suite import cases


@cases("transpose")
def test_transpose(case, gpu_benchmark):
    gpu_benchmark(case)
