"""Digests of single kernels: of their machine code, and of nothing that only tools read."""

import pytest

from peakgate.compile.cubin import cubin
from peakgate.compile.kernel_code import kernel_code, stable_name
from peakgate.spec.case import Stage

SOURCE = """
__constant__ float table[4] = {{1, 2, 3, {last}}};
__device__ __noinline__ float helper(float a) {{ return a * {factor} + table[(int)a & 3]; }}
extern "C" __global__ void one(float* x, int n)
{{
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) {{ x[at] = helper(x[at]); }}
}}
extern "C" __global__ void two(float* x) {{ x[threadIdx.x] *= 2; }}
{more}
"""
BOTH = frozenset(["one", "two", "three"])


@pytest.fixture(scope="module")
def code(tmp_path_factory):
    pytest.importorskip("cuda.bindings.nvrtc")

    def digests(*, name="k", options=(), last="4", factor="2", more="", comment=""):
        source = tmp_path_factory.mktemp("source") / f"{name}.cu"
        source.write_text(comment + SOURCE.format(last=last, factor=factor, more=more))
        stage = Stage(name, "a test", source, entry="one", options=options)
        return kernel_code(cubin(stage, (), (9, 0)).path.read_bytes(), BOTH)

    return digests


def test_each_kernel_has_a_digest_and_absent_ones_have_none(code):
    assert code().keys() == {"one", "two"}
    assert len(set(code().values())) == 2


@pytest.mark.parametrize(
    "given",
    [
        {"comment": "// one\n// two\n"},
        {"name": "another_file"},
        {"options": ("-lineinfo",)},
        {"more": 'extern "C" __global__ void aaa(float* x) { __shared__ float s[9]; s[threadIdx.x] = *x; *x = s[8]; }'},
    ],
)
def test_what_the_compiler_does_not_see_changes_no_digest(code, given):
    changed, before = code(**given), code()
    assert {name: changed[name] for name in before} == before


def test_a_changed_device_function_changes_its_kernel_alone(code):
    before, after = code(), code(factor="3")
    assert (before["one"] != after["one"], before["two"] == after["two"]) == (True, True)


def test_changed_constants_change_the_digest(code):
    assert code()["one"] != code(last="5")["one"]


def test_the_hash_of_a_source_file_is_not_part_of_a_name():
    names = [f"_ZN55_GLOBAL__N__{digest}_20_reduce_cu_{digest}3sumEv" for digest in ("3f1a9c2e", "aaaaaaaa")]
    assert stable_name(names[0]).startswith("_ZN55_GLOBAL__N__00000000_20_reduce_cu")
    assert stable_name("triton_poi_fused_add_0") == "triton_poi_fused_add_0"
