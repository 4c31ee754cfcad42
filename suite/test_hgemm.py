"""Matrix product in bfloat16 with float sums: over sizes and tiles."""

from peakgate.suite import cases


@cases("hgemm")
def test_hgemm(case, gpu_benchmark):
    gpu_benchmark(case)
