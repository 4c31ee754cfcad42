"""Attention, forward, in bfloat16: over length, width and mask."""

from peakgate.suite import cases


@cases("attention")
def test_attention(case, gpu_benchmark):
    gpu_benchmark(case)
