"""``check`` compiles each kernel as for a GPU, and finds launches that CUDA would refuse."""

import pytest
from expecting import refuses

from peakgate.base.errors import Code, PeakgateError
from peakgate.inspect import gpu_build
from peakgate.judge.occupancy import launch_refusal
from peakgate.spec.case import Launch

SOURCE = """
%(host)s
extern "C" __global__ void %(bounds)s mine(float* out, const float* in, int n) {
    __shared__ volatile float some[1024];  // 4096 bytes that no compiler takes out
    some[threadIdx.x %% 1024] = 2.0f;
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = %(expression)s;
}
"""
FAMILY = """
from peakgate.family import In, Out, Value, kernel
FAMILY = kernel(
    "mine.cu", arguments=lambda n: [Out(n), In(n), Value({count})], grid=lambda n: -(-n // {block}), block={block},
    reference=lambda xp, x: 2 * x, bytes=lambda n: 8 * n, sizes=[{size}], small_sizes=[100], edges=[33],
    shared_bytes={shared},
)
"""


@pytest.fixture
def check(project, checked, capsys):
    """Check a kernel: exit code, output, and the entry of the kernel in the verdict."""

    def run(*arguments, host="", bounds="", expression="2 * in[i]", block=64, size=1 << 20, shared=0, count="n"):
        text = SOURCE % {"host": host, "bounds": bounds, "expression": expression}
        project("mine", FAMILY.format(block=block, size=size, shared=shared, count=count), mine=text)
        code, found = checked(*arguments)
        return code, capsys.readouterr().out, found["kernels"][0]

    return run


NVRTC = "install the extra nvrtc"


@pytest.fixture
def nvrtc():
    pytest.importorskip("cuda.bindings.nvrtc")


@pytest.mark.usefixtures("nvrtc")
def test_a_kernel_that_the_emulator_takes_and_a_gpu_build_does_not_is_undecided_and_not_clean(check):
    code, said, kernel = check(expression="__builtin_fabsf(2 * in[i]) * (in[i] < 0 ? -1.0f : 1.0f)")
    assert code == 3
    assert kernel["defects"] == []
    assert kernel["launches"] > 0
    assert "for sm_90: mine/mine.cu:" in kernel["not_checked"]
    assert "1 not checked" in said


@pytest.mark.usefixtures("nvrtc")
@pytest.mark.parametrize(
    ("described", "why"),
    [
        (  # bounds in a macro, which the emulator does not see
            {"host": "#define BOUNDS __launch_bounds__(128)", "bounds": "BOUNDS", "block": 256},
            "256 threads per block, its __launch_bounds__ allow 128",
        ),
        ({"shared": 227 * 1024 - 4095}, "at most 232448 are allowed"),
    ],
)
def test_a_launch_that_cuda_refuses_by_what_the_compiler_gave_the_kernel_is_a_defect(check, described, why):
    code, said, kernel = check(**described)
    assert code == 1
    (defect,) = kernel["defects"]
    assert (defect["kind"], defect["launches"]) == (gpu_build.LAUNCH_REFUSED, 2)
    assert why in defect["what"]
    assert "on sm_90: " in said


@pytest.mark.usefixtures("nvrtc")
def test_launch_bounds_that_the_emulator_found_exceeded_are_reported_once(check):
    code, _, kernel = check(bounds="__launch_bounds__(128)", block=256)
    assert code == 1
    (defect,) = kernel["defects"]
    assert (defect["kind"], defect["where"]) == (gpu_build.LAUNCH_REFUSED, "mine.cu:3")


@pytest.mark.parametrize("installed", [True, False])
@pytest.mark.parametrize(
    ("described", "why"),
    [({"block": 2048}, "a block of 2048 x 1 x 1, at most 1024 x 1024 x 64 are allowed"),
     ({"block": 1, "size": 1 << 31}, "a grid of 2147483648 x 1 x 1, at most 2147483647 x 65535 x 65535 are allowed")],
)  # fmt: skip
def test_a_launch_that_no_gpu_takes_at_the_measured_size_is_a_defect_without_nvrtc_too(
    check, monkeypatch, installed, described, why
):
    if not installed:
        monkeypatch.setattr(gpu_build, "installed_nvrtc", uninstalled)
    code, said, kernel = check(count="(n % (1 << 31))", **described)
    assert code == 1
    (defect,) = (each for each in kernel["defects"] if each["kind"] == gpu_build.LAUNCH_REFUSED)
    assert why in defect["what"]
    assert (NVRTC in said) is not installed


def test_without_nvrtc_a_healthy_kernel_is_clean_and_the_report_says_what_was_left_out(check, monkeypatch):
    monkeypatch.setattr(gpu_build, "installed_nvrtc", uninstalled)
    code, said, _ = check()
    assert code == 0
    assert said.count(NVRTC) == 1


def uninstalled():
    raise PeakgateError(NVRTC, Code.INSTALLATION)


@pytest.mark.usefixtures("nvrtc")
def test_a_kernel_that_builds_and_launches_is_clean_and_a_second_check_takes_it_from_the_cache(check, monkeypatch):
    code, said, kernel = check()
    assert (code, kernel["defects"], kernel["not_checked"]) == (0, [], None)
    assert "not compiled" not in said

    def compile_to_cubin(*_):
        raise AssertionError("compiled again")

    monkeypatch.setattr("peakgate.compile.nvrtc.compile_to_cubin", compile_to_cubin)
    assert check()[0] == 0


ONE = (1, 1, 1)
REFUSALS = [
    (Launch((2**31 - 1, 65535, 65535), (1024, 1, 1)), {}, None),
    (Launch((2**31, 1, 1), ONE), {}, "grid"),
    (Launch((1, 65536, 1), ONE), {}, "grid"),
    (Launch((1, 1, 65536), ONE), {}, "grid"),
    (Launch(ONE, (1, 1, 65)), {}, "block"),
    (Launch(ONE, (32, 33, 1)), {}, "1056 threads per block, at most 1024"),
    (Launch(ONE, (256, 1, 1)), {"bound": 256}, None),
    (Launch(ONE, (257, 1, 1)), {"bound": 256}, "__launch_bounds__ allow 256"),
    (Launch(ONE, ONE, 227 << 10), {}, None),
    (Launch(ONE, ONE, 227 << 10), {"static_shared_bytes": 1}, "shared memory"),
    (Launch(ONE, (1024, 1, 1)), {"registers": 64}, None),
    (Launch(ONE, (1024, 1, 1)), {"registers": 65}, "registers"),
]


@pytest.mark.parametrize(("launch", "compiler", "why"), REFUSALS)
def test_a_launch_is_refused_beyond_the_limits_of_cuda_and_of_the_sm(launch, compiler, why):
    found = launch_refusal((9, 0), launch, **compiler)
    assert (found is None) if why is None else (why in found)


def test_a_capability_that_is_not_known_is_named():
    with refuses(Code.NO_GPU):
        launch_refusal((99, 0), Launch(ONE, ONE))
