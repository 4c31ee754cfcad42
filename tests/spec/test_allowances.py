"""How far an element may be off is a finite number from 0 up: by anything else every wrong result would be right."""

import json

import pytest

from peakgate.base import config
from peakgate.base.errors import Code
from peakgate.cli import main
from peakgate.spec.case import Case, Launch, Stage, Work

KERNEL = """
extern "C" __global__ void k(float* out, const float* in, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = 3 * in[i];
}
"""
FAMILY = """\
import numpy as np
from peakgate.family import In, Out, Value, kernel

FAMILY = kernel(
    "k.cu", arguments=lambda n: [Out(n), In(n), Value(n)], grid=lambda n: -(-n // 64), block=64,
    bytes=lambda n: 8 * n, reference=lambda xp, x: 2 * x, sizes=[4096], edges=[100], GIVEN
)
"""
BAD = ["-1", "float('inf')", "float('nan')", "True", "10**400", "'x'"]


def judged(project, families):
    """The exit code of ``bench``, and verdict and reason of each family's first case, one by name."""
    for name, given in families.items():
        project(name, FAMILY.replace("GIVEN", given), k=KERNEL)
    code = main(["bench", "--device", "cpu"])
    cases = json.loads((config.current().out / "bench.json").read_text())["cases"]
    return code, {each["case"].split(".")[0]: (each["verdict"], each["reason"]) for each in cases}


def test_a_tolerance_that_is_no_number_leaves_a_kernel_undecided(project, compiler):
    given = [f"{name}={bad}" for name in ("tolerance", "atol", "rtol", "terms") for bad in BAD]
    given += [f"tolerance={bad}" for bad in ("[-1.0]", "lambda n: 1", "np.array(1.0)")]
    code, found = judged(project, {f"f{at}": each for at, each in enumerate(given)})
    assert code == 3
    for at, each in enumerate(given):
        verdict, reason = found[f"f{at}"]
        assert (verdict, reason.endswith(f"[{Code.FAMILY}]")) == ("INCONCLUSIVE", True), (each, verdict, reason)


def test_a_scale_that_is_not_finite_or_does_not_fit_is_no_pass(project, compiler):
    given = {
        "infinite": "scale=lambda xp, x: x * np.inf",
        "nan": "scale=lambda xp, x: x * np.nan",
        "shape": "scale=lambda xp, x: xp.ones(3)",
        "text": "scale=lambda xp, x: 'x'",
        "two": "scale=lambda xp, x: (x, x)",
        "fails": "scale=lambda xp, x: 1 / 0",
        "none": "scale=3",
    }
    code, found = judged(project, given)
    assert code == 3
    for name, (verdict, reason) in found.items():
        assert verdict == "INCONCLUSIVE", (name, reason)
        assert "scale" in reason, (name, reason)
        assert "its reference" not in reason
        assert reason.endswith(f"[{Code.FAMILY if name == 'none' else Code.REFERENCE}]"), (name, reason)


def test_tolerances_of_numpy_and_0_and_any_scale_are_taken(project, compiler):
    given = {
        "single": "tolerance=np.float32(1e-5)",
        "exact": "tolerance=0",
        "one": "tolerance=[1e-5]",
        "terms": "terms=0",
        "scale": "scale=lambda xp, x: abs(x)",
        "size": "scale=lambda xp, x: None",
    }
    code, found = judged(project, given)
    assert (code, {verdict for verdict, _ in found.values()}) == (1, {"WRONG"}), found


@pytest.mark.parametrize("given", [{"tolerance": -1}, {"tolerance": True}, {"atol": "x"}, {"rtol": -1}, {"scale": 3}])
def test_a_record_with_an_allowance_that_is_none_is_refused(given):
    one = (1, 1, 1)
    with pytest.raises(ValueError, match="expected a f"):
        Case("a", Stage("b", "", operation="memcpy"), Launch(one, one), (), Work(0), None, **given)
