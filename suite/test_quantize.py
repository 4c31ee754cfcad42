"""bfloat16 to 8 bits and back: over sizes of rows and groups."""

from peakgate.suite import cases


@cases("quantize")
def test_quantize(case, gpu_benchmark):
    gpu_benchmark(case)
