"""bfloat16 to 8 or 4 bits and back: over sizes of rows and groups, and microscaling formats."""

from peakgate.suite import cases


@cases("quantize")
def test_quantize(case, gpu_benchmark):
    gpu_benchmark(case)
