"""Bandwidth against occupancy: over block shapes, registers and shared memory."""

from peakgate.suite import cases


@cases("occupancy")
def test_occupancy(case, gpu_benchmark):
    gpu_benchmark(case)
