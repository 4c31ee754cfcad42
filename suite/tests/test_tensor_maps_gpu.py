"""Copies through tensor maps on a GPU: ``pytest -m gpu suite/tests/test_tensor_maps_gpu.py``."""

import random

import pytest
from peakgate.core.case import Scale
from peakgate.family import In, Out, TensorMap, kernel

pytestmark = pytest.mark.gpu(here=True)

COPY = """#include <cuda.h>
constexpr unsigned bytes = 128 * 64 * 2;
extern "C" __global__ void copy(const __grid_constant__ CUtensorMap out, const __grid_constant__ CUtensorMap in) {
    extern __shared__ __align__(1024) unsigned char tile[];
    __shared__ __align__(8) unsigned long long barrier;
    const unsigned to = (unsigned)__cvta_generic_to_shared(tile), ready = (unsigned)__cvta_generic_to_shared(&barrier);
    const int column = blockIdx.x * 64, row = blockIdx.y * 128;
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(ready) : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(ready), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4}], [%2];" ::"r"(to), "l"(&in), "r"(ready), "r"(column), "r"(row) : "memory");
    for (unsigned done = 0; !done;) {
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(ready) : "memory");
    }
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];"
                 ::"l"(&out), "r"(to), "r"(column), "r"(row) : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
"""


def mapped(m, n):
    arrays = Out(m, n, dtype="bfloat16"), In(m, n, dtype="bfloat16")
    return [TensorMap(array, box=(128, 64), swizzle=128) for array in arrays]


@pytest.mark.parametrize("size", [(256, 512), (257, 520), (4096, 8192)])
def test_a_launch_finds_its_arrays_through_their_maps_wherever_they_are(size, tmp_path):
    from peakgate.device.choose import open_device  # noqa: PLC0415  (it needs CuPy)
    from peakgate.device.interface import Witness  # noqa: PLC0415
    from peakgate.measure.sampling import SamplingPlan  # noqa: PLC0415

    source = tmp_path / "copy.cu"
    source.write_text(COPY)
    device, _ = open_device("gpu")
    if device.capability != (9, 0):
        pytest.skip("the copies are compiled for 9.0a")
    family = kernel(
        str(source),
        arguments=mapped,
        grid=lambda m, n: (-(-n // 64), -(-m // 128)),
        block=1,
        shared_bytes=128 * 64 * 2,
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

    def judge(launch):
        equal.append(bool((launch.outputs[0] == launch.inputs[0]).all()))

    draws = random.Random(20261123)
    plan = SamplingPlan(min_samples=24, max_samples=24, batch=3)
    launchable.sample(plan, Witness(draws.randrange, lambda: True, judge))
    assert len(equal) == 8
    assert all(equal)
