"""Attention in bfloat16, forward and backward: over length, width and mask."""

from peakgate.suite import cases


@cases("attention")
def test_attention(case, gpu_benchmark):
    gpu_benchmark(case)
