"""Tensor cores on a GPU: ``pytest -m gpu tests/device/test_tensor_roofs_gpu.py``."""

import pytest
from tensor_products import by_the_transpose, is_product

from peakgate.spec.case import Scale
from peakgate.spec.recorded import TENSOR_MATH

pytestmark = pytest.mark.gpu(here=True)


@pytest.fixture(scope="module")
def device():
    from peakgate.device.choose import open_device  # noqa: PLC0415  (it needs CuPy)

    opened, _ = open_device("gpu")
    opened.warm_up()
    return opened


@pytest.mark.parametrize("math", TENSOR_MATH)
def test_a_types_roof_is_between_half_its_peak_and_the_peak(device, math):
    from peakgate.device.roofs import measure_roofs, tensor_roofs  # noqa: PLC0415

    peak = device.peaks.tensor_tflops.get(math)
    cases = tensor_roofs([math], device.capability)
    if not cases or peak is None:
        pytest.skip(f"no roof or no peak of {math} on {device.capability}")
    assert 0.5 < measure_roofs(device, cases)[math] / peak <= 1.0


@pytest.mark.parametrize("math", TENSOR_MATH)
def test_a_roof_multiplies_what_it_claims(device, math):
    import cupy  # noqa: PLC0415

    from peakgate.device.roofs import tensor_roofs  # noqa: PLC0415

    for case in tensor_roofs([math], device.capability):
        launchable = device.prepare(case)
        launchable.run()
        arrays = [cupy.asnumpy(each) for each in (*launchable.outputs, *launchable.inputs)]
        assert is_product(case, *arrays)


def test_samples_of_tensor_cores_are_kept_at_the_power_limit(device):
    from peakgate.device.roofs import tensor_roofs  # noqa: PLC0415
    from peakgate.measure.sampling import SamplingPlan  # noqa: PLC0415

    plan = SamplingPlan(min_samples=12, max_samples=12, warmup=12)
    for case in tensor_roofs(["fp16"], device.capability):
        samples = device.prepare(case).sample(plan)
        assert samples.conclusive
        assert samples.power_w is None or samples.power_w > 0.3 * device.facts.power_limit_w
        clock = samples.median_sm_clock_mhz
        assert clock is None or samples.power_bound or clock > 0.9 * device.facts.sm_clock_max_mhz


@pytest.mark.parametrize("size", [(256, 512, 128), (1000, 136, 72), (4096, 4096, 4096)])
def test_cublas_multiplies_by_the_transpose_in_bfloat16(device, size):
    from peakgate.device.expected import computed, expected  # noqa: PLC0415
    from peakgate.judge.correctness import check  # noqa: PLC0415

    (case,) = by_the_transpose(sizes=[size]).cases(Scale.BENCH)
    launchable = device.prepare(case)
    launchable.run()
    wanted = expected(device.xp, launchable, device.prepare)
    outputs = computed(device.xp, launchable)
    assert check(device.xp, case, outputs, wanted, device.compared).mismatch is None
