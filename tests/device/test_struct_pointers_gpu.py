"""Structs with pointers on a GPU: ``pytest -m gpu tests/device/test_struct_pointers_gpu.py``."""

import json
import os
import random
import subprocess
import sys

import pytest

from peakgate.spec.case import Scale
from peakgate.spec.catalogue import family_at

pytestmark = pytest.mark.gpu

KERNEL = """
struct Inner { double by; const float* bias; };
struct Params { char tag; float* out; Inner inner; short more[3]; const float* rows[2]; const float* none; int n; };
extern "C" __global__ void sum(const __grid_constant__ Params p) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < p.n && p.tag == 7 && p.more[2] == 3 && p.none == nullptr)
        p.out[i] = p.rows[0][i] + float(p.inner.by) * p.rows[1][i] + p.inner.bias[i % 3];
}
"""
FAMILY = """
from peakgate.family import In, Out, Struct, family, kernel

def arguments(n):
    inner = Struct((2.0, In(3)), (("by", "float64"), ("bias", "pointer")))
    members = (
        ("tag", "int8"), ("out", "pointer"), ("inner", "struct"), ("more", "int16"), ("rows", "pointer"),
        ("none", "pointer"), ("n", "int32"),
    )
    return [Struct((7, Out(n), inner, (1, 2, 3), (In(n), In(n)), None, n), members)]

FAMILY = family(*(
    kernel(
        f"{name}.cu", name=name, entry="sum", arguments=arguments, grid=lambda n: -(-n // 256), block=256,
        bytes=lambda n: 12 * n, reference=lambda xp, bias, x, y: x + 2 * y + xp.resize(bias, len(x)),
        sizes=[1 << 22], state=("cold", "graph"),
    )
    for name in ("right", "wrong")
))
"""


@pytest.fixture
def folder(project):
    """A family of a right kernel and of one that reads another array of the struct in place of the second."""
    return project("sums", FAMILY, right=KERNEL, wrong=KERNEL.replace("p.rows[1]", "p.rows[0]"))


def test_a_right_kernel_passes_and_a_wrong_one_is_wrong(folder, tmp_path):
    command = [sys.executable, "-m", "peakgate", "bench", "--device=gpu"]
    done = subprocess.run(command, env=os.environ | {"NO_COLOR": "1"}, capture_output=True, text=True, check=False)
    sys.stdout.write(done.stdout + done.stderr)
    report = json.loads((tmp_path / ".peakgate" / "out" / "bench.json").read_text())
    verdicts = {each["case"].removeprefix(f"{folder.name}."): each["verdict"] for each in report["cases"]}
    assert verdicts == {
        "right-4194304": "NO_FLOOR",
        "right-4194304-graph": "NO_FLOOR",
        "wrong-4194304": "WRONG",
        "wrong-4194304-graph": "WRONG",
    }


@pytest.mark.gpu(here=True)
def test_a_struct_points_to_its_arrays_where_they_are_moved(folder):
    from peakgate.device.choose import open_device  # noqa: PLC0415  (it needs CuPy)
    from peakgate.device.interface import SampleChecker  # noqa: PLC0415
    from peakgate.measure.sampling import SamplingPlan  # noqa: PLC0415

    device, _ = open_device("gpu")
    case = next(iter(family_at(folder / "family.py").cases(Scale.BENCH)))
    launchable = device.prepare(case)
    launchable.run()
    (expected,) = case.reference(device.xp, launchable.inputs)
    assert device.xp.allclose(launchable.outputs[0], expected, atol=1e-5)
    near = []

    class OneOfEachBatch(SampleChecker):
        def least(self, _launch_us):
            return 8

        def candidates(self, _count, _launch_us):
            return 1

        def check(self, launch):
            (each,) = case.reference(device.xp, launch.inputs)
            near.append(bool(device.xp.allclose(launch.outputs[0], each, atol=1e-5)))

    plan = SamplingPlan(min_samples=24, max_samples=24, batch=3)
    launchable.sample(plan, OneOfEachBatch(random.Random(20261130).randrange))
    assert near == [True] * 8
