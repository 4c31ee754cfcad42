"""Copies through tensor maps on a GPU: ``pytest -m gpu tests/device/test_tensor_maps_gpu.py``."""

import random

import pytest
from emulating import CUDA

from peakgate.family import In, Out, TensorMap, kernel
from peakgate.spec.case import Scale

pytestmark = pytest.mark.gpu(here=True)


def mapped(m, n):
    arrays = Out(m, n, dtype="bfloat16"), In(m, n, dtype="bfloat16")
    return [TensorMap(array, box=(8, 64), swizzle=128) for array in arrays]


@pytest.mark.parametrize("size", [(256, 512), (257, 520), (4096, 8192)])
def test_a_launch_finds_its_arrays_through_their_maps(size):
    from peakgate.device.choose import open_device  # noqa: PLC0415  (it needs CuPy)
    from peakgate.device.interface import SampleChecker  # noqa: PLC0415
    from peakgate.measure.sampling import SamplingPlan  # noqa: PLC0415

    device, _ = open_device("gpu")
    if device.capability != (9, 0):
        pytest.skip("the copies are compiled for 9.0a")
    family = kernel(
        str(CUDA / "tiles.cu"),
        arguments=mapped,
        grid=lambda m, n: (-(-n // 64), -(-m // 8)),
        block=32,
        bytes=lambda m, n: 4 * m * n,
        reference=lambda _, x: x,
        min_capability="9.0a",
        sizes=[size],
    )
    (case,) = family.cases(Scale.BENCH)
    launchable = device.prepare(case)
    launchable.run()
    assert (launchable.outputs[0] == launchable.inputs[0]).all()
    equal = []

    class OneOfEachBatch(SampleChecker):
        def least(self, _launch_us):
            return 8

        def candidates(self, _count, _launch_us):
            return 1

        def check(self, launch):
            equal.append(bool((launch.outputs[0] == launch.inputs[0]).all()))

    draws = random.Random(20261123)
    plan = SamplingPlan(min_samples=24, max_samples=24, batch=3)
    launchable.sample(plan, OneOfEachBatch(draws.randrange))
    assert len(equal) == 8
    assert all(equal)
