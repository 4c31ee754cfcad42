"""Softmax, RMS norm and layer norm: over lengths of rows and types."""

from peakgate.suite import cases


@cases("norm")
def test_norm(case, gpu_benchmark):
    gpu_benchmark(case)
