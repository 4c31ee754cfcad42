"""Kernels as people publish them run in the emulator as they are, and do what they do on a GPU."""

from __future__ import annotations

import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from emulating import COMPILERS, ONE, every_compiler, loaded

import peakgate_emulator as emulator
from peakgate_emulator import (
    Compiler,
    DefectKind,
    EmulatedKernel,
    EmulatorError,
    KernelBuildError,
    KernelDefect,
    LaunchNotEnded,
    Pointing,
)

KERNELS = Path(__file__).parents[1] / "data" / "defects"
FOREIGN, GROUPS, HALVES = KERNELS / "foreign.cu", KERNELS / "groups.cu", KERNELS / "halves.cu"
GROUP_KERNELS = ("tiles", "reductions", "dynamic_groups", "coalesced", "primitives")


@pytest.fixture(scope="module", autouse=True)
def _prebuilt() -> None:
    wanted = [(GROUPS, name, ()) for name in (*GROUP_KERNELS, "copied")]
    wanted += [(HALVES, name, ()) for name in ("arithmetic", "narrowed", "widened", "brain", "pairs")]
    wanted += [(FOREIGN, name, ()) for name in ("softmax<float, 64>", "scaling::by_constant", "along")]
    for compiler in COMPILERS:
        emulator.prebuild(wanted, compiler=compiler)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return tmp_path / "kernel.cu"


def kernel_of(source: Path, text: str, entry: str = "kernel", **options: Any) -> EmulatedKernel:
    source.write_text(text)
    return emulator.load(source, entry, **options)


@every_compiler
def test_a_template_beside_a_main_is_launched_by_its_id(compiler: Compiler) -> None:
    rows = np.random.default_rng(1).normal(size=(3, 100)).astype(np.float32)
    out = np.zeros_like(rows)
    kernel = emulator.load(FOREIGN, "softmax<float, 64>", compiler=compiler)
    kernel.launch((3, 1, 1), (64, 1, 1), (out, rows, np.int32(100)))
    powers = np.exp(rows.astype(np.float64))
    np.testing.assert_allclose(out, powers / powers.sum(axis=1, keepdims=True), rtol=1e-5)


@every_compiler
def test_parameters_choose_among_kernels_of_one_name(compiler: Compiler, source: Path) -> None:
    text = (
        "namespace a {\ntemplate <int N> __global__ void fill(int* out) { out[0] = N; }\n"
        "template <int N> __global__ void fill(int* out, float) { out[0] = N + 1; }\n}\n"
    )
    out = np.zeros(1, np.int32)
    kernel_of(source, text, "fill<3>(int*)", compiler=compiler).launch(ONE, ONE, (out,))
    assert out[0] == 3
    kernel_of(source, text, "a::fill<3>(int*, float)", compiler=compiler).launch(ONE, ONE, (out, np.float32(0)))
    assert out[0] == 4
    with pytest.raises(KernelBuildError, match=r"^kernel\.cu has no entry point `fill<3>` "):
        kernel_of(source, text, "fill<3>", compiler=compiler)


def test_a_kernel_runs_beside_one_that_does_not_compile(source: Path) -> None:
    text = "__global__ void kernel(int* out) { out[0] = 5; }\n__global__ void parent() { kernel<<<1, 1>>>(nullptr); }\n"
    out = np.zeros(1, np.int32)
    kernel_of(source, text).launch(ONE, ONE, (out,))
    assert out[0] == 5
    with pytest.raises(KernelBuildError, match=r"^kernel\.cu:2: "):
        kernel_of(source, text, "parent")


@every_compiler
def test_shared_arrays_of_half_are_read_by_vectors(compiler: Compiler) -> None:
    out, given = np.zeros(32, np.float32), np.arange(32, dtype=np.float32)
    loaded("half_vectors", compiler=compiler).launch(ONE, (8, 1, 1), (out, given))
    np.testing.assert_array_equal(out, given)


@every_compiler
def test_constant_memory_keeps_what_the_host_has_set(compiler: Compiler) -> None:
    kernel = emulator.load(FOREIGN, "scaling::by_constant", compiler=compiler)
    values, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    factors = np.array([1, 10, 100, 1000], np.float32)
    for constants in ({"scaling::factors": factors}, {}):
        kernel.launch(ONE, (8, 1, 1), (out, values), constants=constants)
        np.testing.assert_array_equal(out, 2 * values * np.tile(factors, 2))


@pytest.mark.parametrize(
    ("name", "count", "complaint"),
    [
        ("scaling::gone", 4, "no variable 'scaling::gone'; expected a __constant__ or __device__ one"),
        ("scaling::factors", 5, "20 bytes given for variable scaling::factors, which has 16"),
    ],
)
def test_a_constant_that_does_not_fit_is_named(name: str, count: int, complaint: str) -> None:
    kernel = emulator.load(FOREIGN, "scaling::by_constant")
    arrays = np.zeros(8, np.float32), np.zeros(8, np.float32)
    with pytest.raises(EmulatorError, match=re.escape(complaint)):
        kernel.launch(ONE, (8, 1, 1), arrays, constants={name: np.zeros(count, np.float32)})


def test_a_static_constant_is_set_too(source: Path) -> None:
    kernel = kernel_of(source, "static __constant__ int c[2];\n__global__ void kernel(int* out) { out[0] = c[1]; }\n")
    out = np.zeros(1, np.int32)
    kernel.launch(ONE, ONE, (out,), constants={"c": np.array([3, 4], np.int32)})
    assert out[0] == 4


@pytest.mark.parametrize("as_bytes", [False, True], ids=["structured", "bytes"])
def test_a_struct_is_passed_by_value(as_bytes: bool) -> None:
    line = np.array((3, 0.5), np.dtype([("offset", "i4"), ("slope", "f8")], align=True))[()]
    values, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    kernel = emulator.load(FOREIGN, "along")
    kernel.launch(ONE, (8, 1, 1), (out, values, line.tobytes() if as_bytes else line), outputs=(0,))
    np.testing.assert_array_equal(out, 3 + values / 2)


@pytest.mark.parametrize(
    ("capability", "specific"), [((7, 5), False), ((9, 0), False), ((9, 0), True), ((12, 0), False)]
)
def test_the_architecture_is_the_one_asked_for(capability: tuple[int, int], specific: bool) -> None:
    out = np.full(3, -1, np.int32)
    loaded("arch", capability=capability, specific=specific).launch(ONE, ONE, (out,))
    assert out.tolist() == [900 * specific] * 2 + [capability[0] * 100 + capability[1] * 10]


def test_of_nvrtcs_options_macros_alone_count(source: Path) -> None:
    options = ("--use_fast_math", "-DA=3", "--define-macro=B=4", "--maxrregcount=32", "--std=c++20")
    kernel = kernel_of(source, "__global__ void kernel(int* out) { out[0] = A * B; }\n", options=options)
    out = np.zeros(1, np.int32)
    kernel.launch(ONE, ONE, (out,))
    assert out[0] == 12


def test_a_standard_older_than_the_headers_has_no_effect(source: Path) -> None:
    text = "#include <cuda_fp16.h>\n__global__ void kernel(float* out) { out[0] = __half2float(__float2half(2.0f)); }\n"
    out = np.zeros(1, np.float32)
    kernel_of(source, text, options=("--std=c++11", "-std=c++14")).launch(ONE, ONE, (out,))
    assert out[0] == 2


@every_compiler
@pytest.mark.parametrize("name", GROUP_KERNELS)
@pytest.mark.parametrize("schedule", [0, 1, 5])
def test_groups_and_warp_primitives_give_what_they_must(name: str, schedule: int, compiler: Compiler) -> None:
    ok = np.zeros(64, np.int32)
    emulator.load(GROUPS, name, compiler=compiler).launch(ONE, (64, 1, 1), (ok,), schedule=schedule)
    np.testing.assert_array_equal(ok, np.ones(64))


@every_compiler
def test_a_groups_copy_has_arrived_after_its_wait(compiler: Compiler) -> None:
    ok, values = np.zeros(64, np.int32), np.arange(64, dtype=np.int32)
    emulator.load(GROUPS, "copied", compiler=compiler).launch(ONE, (64, 1, 1), (ok, values))
    np.testing.assert_array_equal(ok, np.ones(64))


def halves(seed: int, count: int = 4096) -> np.ndarray[Any, np.dtype[np.float16]]:
    """Every kind of number in 16 bits: subnormal and infinite ones and NaNs too."""
    return np.random.default_rng(seed).integers(0, 1 << 16, count, np.uint16).view(np.float16)


def same(found: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> None:
    np.testing.assert_array_equal(found[~np.isnan(expected)], expected[~np.isnan(expected)])
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))


@every_compiler
def test_half_arithmetic_rounds_as_numpys_does(compiler: Compiler) -> None:
    a, b, c = halves(1), halves(2), halves(3)
    out = np.zeros((len(a), 7), np.float16)
    emulator.load(HALVES, "arithmetic", compiler=compiler).launch((64, 1, 1), (64, 1, 1), (out, a, b, c))
    with np.errstate(all="ignore"):
        fused = np.longdouble(a) * np.longdouble(b) + np.longdouble(c)
        expected = (a + b, a - b, a * b, a / b, fused.astype(np.float16), np.sqrt(abs(a)), np.where(a > b, a, -a))
    for at, column in enumerate(expected):
        same(out[:, at], column)


def test_a_fused_multiply_add_rounds_once() -> None:
    kernel = loaded("fused")
    # a * b is a tie; c, too small for a double beside it, decides.
    for a, b, c, expected in ((7, 37 / 256, -(2**-70), 129 / 128), (9, 29 / 256, 2**-70, 131 / 128)):
        bits = (np.array([a, b, c], np.float32).view(np.uint32) >> 16).astype(np.uint16)
        out = np.zeros(1, np.uint16)
        kernel.launch(ONE, ONE, (out, bits))
        assert (out.astype(np.uint32) << 16).view(np.float32)[0] == expected


@every_compiler
def test_conversions_to_half_round_to_nearest_even(compiler: Compiler) -> None:
    rng = np.random.default_rng(4)
    with np.errstate(all="ignore"):
        narrow = (rng.normal(size=4096) * 2.0 ** rng.integers(-28, 18, 4096)).astype(np.float32)
        wide = np.float64(halves(5)) * (1 + 2.0**-11 * rng.integers(0, 3, 4096))  # ties, and numbers beside them
        out = np.zeros((4096, 2), np.float16)
        emulator.load(HALVES, "narrowed", compiler=compiler).launch((64, 1, 1), (64, 1, 1), (out, narrow, wide))
        same(out[:, 0], narrow.astype(np.float16))
        same(out[:, 1], wide.astype(np.float16))


@every_compiler
def test_every_half_becomes_the_float_it_is(compiler: Compiler) -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    out = np.zeros(1 << 16, np.float32)
    emulator.load(HALVES, "widened", compiler=compiler).launch((256, 1, 1), (256, 1, 1), (out, every))
    same(out, every.astype(np.float32))


@every_compiler
def test_bfloat16_rounds_to_nearest_even(compiler: Compiler) -> None:
    values = np.random.default_rng(6).integers(0, 1 << 32, 4096, np.uint32).view(np.float32)
    values = np.where(np.isnan(values), np.float32(0), values)

    def rounded(numbers: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        bits = numbers.view(np.uint32).astype(np.uint64)
        return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)

    out, wide = np.zeros((4096, 2), np.uint16), np.zeros(4096, np.float32)
    emulator.load(HALVES, "brain", compiler=compiler).launch((64, 1, 1), (64, 1, 1), (out, wide, values))
    once = (rounded(values).astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_array_equal(wide, once)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(out[:, 1], rounded(once * np.float32(3)))


PYTORCH = """#include <torch/extension.h>
#include <ATen/AccumulateType.h>
template <typename scalar_t, int n> C10_LAUNCH_BOUNDS_1(n)
__global__ void kernel(const scalar_t* x, const scalar_t* y, scalar_t* out, at::acc_type<scalar_t, true>* sums) {
    CUDA_KERNEL_LOOP(i, n) {
        out[4 * i] = x[i] * y[i];
        out[4 * i + 1] = x[i] / 3 - y[i];
        out[4 * i + 2] = -(x[i] + y[i]);
        out[4 * i + 3] = x[i] < y[i] ? x[i] : y[i];
        out[4 * i + 3] += scalar_t(1);
        sums[i] = x[i] * 1.5f + y[i];
    }
}
template <typename T> __global__ void bits(const T* x, unsigned short* out) {
    static_assert(at::ceil_div(9, 4) == at::cuda::ATenCeilDiv(3, 1), "");
    out[threadIdx.x] = x[threadIdx.x].x;
}
torch::Tensor run(torch::Tensor x) { at::cuda::CUDAGuard guard(x.device()); return x; }
"""


@pytest.mark.parametrize(("scalar", "dtype"), [("c10::Half", np.float16), ("at::BFloat16", ml_dtypes.bfloat16)])
def test_pytorchs_numbers_round_after_each_operation(scalar: str, dtype: Any, source: Path) -> None:
    x, y = np.random.default_rng(4).normal(size=(2, 64)).astype(dtype)
    out, sums = np.zeros((64, 4), np.uint16), np.zeros(64, np.float32)
    given = x.view(np.uint16), y.view(np.uint16)
    kernel_of(source, PYTORCH, f"kernel<{scalar}, 64>").launch(ONE, (64, 1, 1), (*given, out, sums))
    expected = np.stack((x * y, x / dtype(3) - y, -(x + y), np.minimum(x, y) + dtype(1)), axis=1)
    np.testing.assert_array_equal(out.view(dtype), expected)
    np.testing.assert_array_equal(sums, x.astype(np.float32) * np.float32(1.5) + y.astype(np.float32))
    kernel_of(source, PYTORCH, f"bits<{scalar}>").launch(ONE, (64, 1, 1), (given[0], out))
    np.testing.assert_array_equal(out.ravel()[:64], given[0])


ACCESSORS = """#include <torch/extension.h>
template <typename T>
__global__ void kernel(const torch::PackedTensorAccessor32<T, 2, torch::RestrictPtrTraits> x,
                       torch::headeronly::HeaderOnlyGenericPackedTensorAccessor<T, 1> sums) {
    const at::TensorAccessor<T, 1, at::RestrictPtrTraits, int32_t> row = x[threadIdx.x];
    for (int column = 0; column < x.size(1); column++) { sums[threadIdx.x] += row[column] * x[threadIdx.x][column]; }
}
template <typename T> __global__ void flat(const at::cuda::detail::TensorInfo<T, int> x, T* out) {
    out[threadIdx.x] = x.data[at::cuda::detail::IndexToOffset<T, int, -1>::get(threadIdx.x, x)];
}
void run(torch::Tensor x, torch::Tensor sums) {
    kernel<<<1, 8>>>(x.packed_accessor32<float, 2, torch::RestrictPtrTraits>(), sums.packed_accessor64<float, 1>());
}
"""


def test_pytorchs_accessors_of_tensors_are_arguments(source: Path) -> None:
    kernel, x, sums = kernel_of(source, ACCESSORS, "kernel<float>"), np.arange(24, dtype="f4"), np.zeros(8, "f4")
    four_rows = Pointing(np.array([0, 3 << 32 | 4, 1 << 32 | 6], "u8").tobytes(), {0: x})  # of three, 6 apart
    kernel.launch(ONE, (4, 1, 1), (four_rows, Pointing(np.array([0, 8, 1], "u8").tobytes(), {0: sums})))
    np.testing.assert_array_equal(sums[:4], (x.reshape(4, 6)[:, :3] ** 2).sum(axis=1))


def test_pytorchs_tensor_info_gives_the_place_of_an_element(source: Path) -> None:
    info, x, out = np.zeros(54, "i4"), np.arange(24, dtype="f4"), np.zeros(12, "f4")
    info[2:4], info[27:29], info[52] = (4, 3), (6, 1), 2  # sizes, strides, axes
    kernel_of(source, ACCESSORS, "flat<float>").launch(ONE, (12, 1, 1), (Pointing(info.tobytes(), {0: x}), out))
    np.testing.assert_array_equal(out, x.reshape(4, 6)[:, :3].ravel())


def test_pytorchs_headers_bring_what_a_source_uses_of_std(source: Path) -> None:
    text = "#include <ATen/ATen.h>\n__global__ void kernel(std::conditional_t<true, int, float>* out) {\n"
    out = np.zeros(1, np.int32)
    kernel_of(source, text + "*out = std::numeric_limits<int>::max(); }\n").launch(ONE, ONE, (out,))
    assert out[0] == np.iinfo(np.int32).max


@pytest.mark.parametrize("header", ["ATen/ATen.h", "vector"])
def test_a_header_of_host_code_brings_what_others_declare(header: str, source: Path) -> None:
    text = f"#include <{header}>\nstruct Hash {{ std::hash<int> of; typedef std::forward_iterator_tag tag; }};\n"
    out = np.zeros(1, np.float32)
    kernel_of(source, text + "__global__ void kernel(float* out) { *out = FLT_MAX; }\n").launch(ONE, ONE, (out,))
    assert out[0] == np.finfo(np.float32).max


def test_pytorchs_complex_numbers_are_pairs_of_numbers(source: Path) -> None:
    text = "#include <torch/extension.h>\nusing C = typename c10::complex<float>;\n"
    text += "__global__ void kernel(C* out, const C* x) { out[0] = x[0] * x[1] - x[1]; out[1] = x[0] / x[1]; }\n"
    x, out = np.array([3 + 2j, 1 - 1j], np.complex64), np.zeros(2, np.complex64)
    kernel_of(source, text).launch(ONE, ONE, (out.view(np.float32), x.view(np.float32)))
    np.testing.assert_allclose(out, [x[0] * x[1] - x[1], x[0] / x[1]])


def test_a_function_by_the_name_of_a_macro_of_pytorch_is_the_files(source: Path) -> None:
    text = "#include <ATen/ATen.h>\n"
    text += "template <typename T> __device__ T WARP_SHFL(T value, int lane) { return value + lane; }\n"
    out = np.zeros(1, np.int32)
    kernel_of(source, text + "__global__ void kernel(int* out) { *out = WARP_SHFL(2, 5); }\n").launch(ONE, ONE, (out,))
    assert out[0] == 7


def test_tuples_are_there_after_a_header_of_thrust_that_brings_them(source: Path) -> None:
    text = "#include <thrust/iterator/zip_iterator.h>\n__global__ void kernel(int* out) {\n"
    out = np.zeros(1, np.int32)
    kernel_of(source, text + "*out = thrust::get<1>(thrust::make_tuple(3, 4)); }\n").launch(ONE, ONE, (out,))
    assert out[0] == 4


def test_thrusts_complex_numbers_are_those_of_numpy(source: Path) -> None:
    text = """#include <thrust/complex.h>
    __global__ void kernel(float2* out, const float2* in) {
        const auto* z = reinterpret_cast<const thrust::complex<float>*>(in);
        auto* to = reinterpret_cast<thrust::complex<float>*>(out);
        to[0] = z[0] * thrust::conj(z[1]) + 2.0f;
        to[1] = z[0] / z[1] - thrust::exp(z[0]);
        to[2] = thrust::complex<float>(thrust::abs(z[0]), thrust::arg(z[1]));
        to[2] += thrust::sqrt(z[1]);
    }"""
    z, out = np.array([1 + 2j, -0.5 + 3j], np.complex64), np.zeros(3, np.complex64)
    kernel_of(source, text).launch(ONE, ONE, (out.view("V8"), z.view("V8")))
    expected = [z[0] * z[1].conj() + 2, z[0] / z[1] - np.exp(z[0]), abs(z[0]) + 1j * np.angle(z[1]) + np.sqrt(z[1])]
    np.testing.assert_allclose(out, expected, rtol=1e-5)


@every_compiler
def test_pairs_of_halves_are_shuffled_and_multiplied(compiler: Compiler) -> None:
    pairs, out = np.arange(64, dtype=np.float16).reshape(32, 2), np.zeros((32, 2), np.float16)
    emulator.load(HALVES, "pairs", compiler=compiler).launch(ONE, (32, 1, 1), (out, pairs, np.float16(0.5)))
    expected = pairs.reshape(16, 2, 2)[:, ::-1].reshape(32, 2) + np.array([1, 2], np.float16)
    np.testing.assert_array_equal(out, expected)


@every_compiler
def test_the_hosts_headers_are_there_and_leave_cudas_words_alone(compiler: Compiler) -> None:
    out, values = np.zeros(4, np.float32), np.full(4, 4, np.float32)
    loaded("host_headers", compiler=compiler).launch(ONE, (4, 1, 1), (out, values))
    np.testing.assert_allclose(out, 4 + 2 + 2 + 2 + 1 + 3 + 3 + 16 + np.pi, rtol=1e-6)


def test_an_output_that_nobody_writes_is_a_defect(source: Path) -> None:
    text = "__global__ void kernel(int* out, int* other, int n) { if (threadIdx.x < n) out[threadIdx.x] = -1; }\n"
    kernel = kernel_of(source, text)
    arrays = np.full(4, -1, np.int32), np.zeros(4, np.int32)
    kernel.launch(ONE, (4, 1, 1), (*arrays, np.int32(4)), outputs=(0,))  # writes what is there already
    with pytest.raises(KernelDefect, match=r"^unwritten output: no thread wrote to argument 2 \(other\)") as caught:
        kernel.launch(ONE, (4, 1, 1), (*arrays, np.int32(4)), outputs=(0, 1))
    assert caught.value.kind is DefectKind.UNWRITTEN_OUTPUT


@every_compiler
def test_a_function_that_ends_without_its_return_is_a_defect(compiler: Compiler, source: Path) -> None:
    text = (
        "__device__ int some(int n) {\n    if (n > 1) return n;\n}\n"
        "__global__ void kernel(int* out) { out[0] = some(out[0]); }\n"
    )
    kernel = kernel_of(source, text, compiler=compiler)
    out = np.full(1, 2, np.int32)
    kernel.launch(ONE, ONE, (out,))
    assert out[0] == 2
    with pytest.raises(KernelDefect, match=r"kernel\.cu:[123]: .*ends without `return`") as caught:
        kernel.launch(ONE, ONE, (np.zeros(1, np.int32),))
    assert caught.value.kind is DefectKind.FAULT


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ("int* wild = nullptr + out[0];\n wild[3] = 1;", r"kernel\.cu:2: .*an address outside all memory \(0xc\)"),
        ("memset(0, 0, out[0] + 4);", r"an address outside all memory \(0\)"),
    ],
)
def test_a_wild_address_is_a_defect(body: str, complaint: str, source: Path) -> None:
    text = f"__global__ void kernel(int* out) {{ {body} }}\n".replace("nullptr +", "(int*)(size_t)")
    for _ in range(2):  # the process goes on, and the next launch finds it whole
        with pytest.raises(KernelDefect, match=complaint):
            kernel_of(source, text).launch(ONE, (2, 1, 1), (np.zeros(1, np.int32),))


LONG = {
    "computes": "for (long long i = 0; i < 1ll << 40; ++i)\n        sum = sum * 5 + i;",
    "writes": "for (long long i = 0; i < 1ll << 40; ++i)\n        out[0] += 1;",
    "calls": "for (long long i = 0; i < 1ll << 40; ++i)\n        sum += (int)(100 * sinf(sum));",
    "meets": "for (long long i = 0; i < 1ll << 40; ++i)\n        __syncthreads();",
    "sleeps": "for (;;)\n        pause();",
}


@every_compiler
@pytest.mark.parametrize("body", LONG.values(), ids=LONG)
def test_a_launch_at_its_limit_is_not_decided_at_its_line(body: str, compiler: Compiler, source: Path) -> None:
    lines = (
        'extern "C" int pause();',
        "__global__ void kernel(int* out) {",
        "int sum = 0;",
        body,
        "out[0] = sum;",
        "}\n",
    )
    for text in ("\n".join(lines), "\n".join(lines).replace(body, "")):
        kernel = kernel_of(source, text, compiler=compiler)
        with pytest.raises(LaunchNotEnded) if body in text else nullcontext() as caught:
            kernel.launch(ONE, ONE, (np.zeros(1, np.int32),), limit_s=0.05)
        if caught:
            assert str(caught.value).startswith(("kernel.cu:4:", "kernel.cu:5:"))


def test_a_defect_before_the_limit_is_a_defect(source: Path) -> None:
    text = "__global__ void kernel(int* out) { out[0] = threadIdx.x; while (threadIdx.x == 63) out[1] += 1; }\n"
    with pytest.raises(KernelDefect) as caught:
        kernel_of(source, text).launch(ONE, (64, 1, 1), (np.zeros(2, np.int32),), limit_s=0.05)
    assert [each.kind for each in caught.value.defects] == [DefectKind.GLOBAL_RACE]


SPECIALISED = """template <class T> struct Of { int n; };
template <> struct Of<int> { gone n; };
__device__ int f(Of<int> of) { return of.n; }
"""


@pytest.mark.parametrize(
    ("text", "call", "complaint"),
    [
        ('\n#include "gone.cuh"\n', "", r"^kernel\.cu:2: gone\.cuh.*; add its folder to the stage's `include`"),
        ('#include "cuda_utils.cuh"\n', "", r"^kernel\.cu:1: cuda_utils\.cuh.*; add its folder to the stage's"),
        ("#include <cuda/annotated_ptr>\n", "", r"^kernel\.cu:1: .*; this part of libcu\+\+ is not emulated"),
        ("__global__ void k() {}\n__device__ void f() {\n    k<<<1, 2>>>();\n}\n", "f();",
         r"^kernel\.cu:3: .*; `k<<<\.\.\.>>>` is a launch: put it under `#ifndef PEAKGATE`"),
        ('__device__ void f(int* out) {\n    asm("mov.b32 %0, %1;" : "=r"(out[0]) : "r"(gone));\n}\n', "f(out);",
         r"^kernel\.cu:2: 'gone' was not declared in this scope$"),
        ("struct Of { gone first; int n; };\n__device__ int f(Of of) { return of.n; }\n", "out[0] = f(Of());",
         r"^kernel\.cu:1: 'gone' does not name a type$"),
        (SPECIALISED, "out[0] = f(Of<int>());", r"^kernel\.cu:2: 'gone' does not name a type$"),
    ],
    ids=["missing file", "named as CUDA's", "annotated pointer", "launch", "misspelt operand", "a type", "another"],
)  # fmt: skip
def test_what_cannot_be_compiled_is_one_line_with_what_to_do(
    text: str, call: str, complaint: str, source: Path
) -> None:
    with pytest.raises(KernelBuildError, match=complaint) as caught:
        kernel_of(source, f"{text}__global__ void kernel(int* out) {{ out[0] = 1; {call} }}\n")
    assert "\n" not in str(caught.value)


def test_all_missing_headers_are_named_at_once(source: Path) -> None:
    text = '#include "a.h"\n#ifdef _WIN32\n#include <windows.h>\n#endif\n#include <company/b.h>\n#include <cudaq/c.h>\n'
    with pytest.raises(KernelBuildError, match=r"^kernel\.cu:1: .*; also missing: company/b\.h, cudaq/c\.h; add its"):
        kernel_of(source, text + "__global__ void kernel(int* out) { out[0] = 1; }\n")


HOST_CLASSES = """
#include <iostream>
#include <string_view>
template <typename T, int D> class Array { T* p; public: void size(size_t n) { cudaMalloc(&p, n); } std::string s; };
template <typename T> using Vector = Array<T, 1>;
typedef Vector<float> Floats;
struct Named { std::string_view name; Floats values; };
constexpr Named NAMES[2] = {{"a"}, {"b"}};
constexpr int length(const Named& named) { return named.name.size(); }
void resize(Floats& values) { values.size(3); }
template <typename T> struct Shown {
    const T& v;
    Shown(const T& of) : v(of) {}
    friend std::ostream& operator<<(std::ostream& os, const Shown<T>& t) { return os << t.v; }
};
#define PRINTED(T) inline std::ostream& operator<<(std::ostream& os, const T& t) { os << Shown<int>(t.v); return os; }
#define VALUES(n) struct Value##n { int v; }; PRINTED(Value##n)
VALUES(2)
VALUES(4)
__global__ void kernel(int* out) { Value4 value{5}; out[0] = value.v; }
"""


def test_what_uses_a_class_of_host_code_is_left_out_with_it(source: Path) -> None:
    out = np.zeros(1, np.int32)
    kernel_of(source, HOST_CLASSES).launch(ONE, ONE, (out,))
    assert out[0] == 5


NVCC = """
#include <cuda_fp16.h>
#include <sm_32_intrinsics.h>
#ifndef __NVCC__
#include <of_another_compiler.h>
#endif
struct Field { int value; __device__ Field() {} __device__ ~Field() {} };
__global__ void kernel(int* out, unsigned* box) {
    __shared__ Field fields[2];
    fields[threadIdx.x].value = 3;
    const __half2_raw raw(__half2(1.0f, 2.0f));
    const cudaPitchedPtr rows{out, 8, 2, 1};
    if (threadIdx.x == 0) {
        static_cast<int*>(rows.ptr)[0] = std::sqrt(fields[0].value * 3.0f) + raw.y;
        __nv_atomic_store_n(box, 2u, ORDER, __NV_THREAD_SCOPE_DEVICE);
    } else {
        unsigned seen = 2;
        while (!__nv_atomic_compare_exchange_n(box, &seen, 9u, false, __NV_ATOMIC_ACQ_REL, __NV_ATOMIC_ACQUIRE)) {
            seen = 2;
        }
        out[1] = out[0] + __nv_atomic_fetch_add(box, 1, __NV_ATOMIC_RELAXED);
    }
}
"""


def test_what_nvcc_has_without_an_include_is_there(source: Path) -> None:
    out, box = np.zeros(2, np.int32), np.zeros(1, np.uint32)
    kernel_of(source, NVCC, defines=[("ORDER", "__NV_ATOMIC_RELEASE")]).launch(ONE, (2, 1, 1), (out, box))
    assert [*out, *box] == [0x4003, 0x4003 + 9, 10]
    with pytest.raises(KernelDefect) as caught:
        kernel_of(source, NVCC, defines=[("ORDER", "__NV_ATOMIC_RELAXED")]).launch(ONE, (2, 1, 1), (out, box))
    assert {defect.kind for defect in caught.value.defects} == {DefectKind.GLOBAL_RACE}


@pytest.mark.parametrize("compiler", [each for each in COMPILERS if each.is_gcc], ids=lambda each: each.name)
def test_local_arrays_beyond_a_stack_and_its_guard_are_a_fault(source: Path, compiler: Compiler) -> None:
    text = "__global__ void kernel(int* out) { int own[100000]; own[out[0] * 7] = 1; out[1] = own[out[0]]; }\n"
    with pytest.raises(KernelDefect) as caught:
        kernel_of(source, text, compiler=compiler).launch(ONE, ONE, (np.zeros(2, np.int32),))
    assert {defect.kind for defect in caught.value.defects} == {DefectKind.FAULT}


@every_compiler
def test_a_variable_that_another_file_defines_is_named(source: Path, compiler: Compiler) -> None:
    text = "namespace a { extern __constant__ int factor; }\n__global__ void kernel(int* out) { *out = a::factor; }\n"
    with pytest.raises(KernelBuildError, match=r"^`a::factor`: declared and used, but defined in none"):
        kernel_of(source, text, compiler=compiler)


@every_compiler
def test_a_function_may_be_named_as_a_dynamic_shared_array_is(source: Path, compiler: Compiler) -> None:
    text = (
        "struct Ring { int first; __device__ int memory(int at) const { return first + at; } };\n"
        "__global__ void kernel(int* out) {\n"
        "    extern __shared__ int memory[];\n"
        "    memory[0] = Ring{3}.memory(4);\n"
        "    out[0] = memory[0];\n}\n"
    )
    out = np.zeros(1, np.int32)
    kernel_of(source, text, compiler=compiler).launch(ONE, ONE, (out,), shared_bytes=4)
    assert out[0] == 7


@every_compiler
def test_new_takes_from_the_heap_of_malloc(source: Path, compiler: Compiler) -> None:
    text = "__global__ void kernel(int* out) { int* p = new int[2]; p[1] = 7; out[0] = p[%d]; delete[] p; }\n"
    out = np.zeros(1, np.int32)
    kernel_of(source, text % 1, compiler=compiler).launch(ONE, ONE, (out,))
    assert out[0] == 7
    with pytest.raises(KernelDefect):
        kernel_of(source, text % 40, compiler=compiler).launch(ONE, ONE, (out,))


def test_a_grid_wide_barrier_needs_a_cooperative_launch(source: Path) -> None:
    text = (
        "#include <cooperative_groups.h>\n__global__ void kernel() {\n    cooperative_groups::this_grid().sync();\n}\n"
    )
    with pytest.raises(
        KernelDefect, match=r"^kernel\.cu:3: divergent barrier: the grid is waited for in a launch that"
    ):
        kernel_of(source, text).launch(ONE, ONE, ())


def test_members_of_host_types_take_their_room_in_a_parameter(source: Path) -> None:
    text = (
        "#include <map>\n#include <string>\n#include <vector>\n"
        "struct Settings {\n  std::string name = {};\n private:\n  std::map<int, float> by; std::vector<int> of;\n"
        " public:\n  int n = 3;\n  void read(std::string from);\n};\n"
        "__global__ void kernel(int* out, Settings given) { out[0] = given.n; out[1] = __LINE__; }\n"
    )
    out, given = np.zeros(2, np.int32), np.zeros(28, np.int32)
    given[26] = 7  # behind 32, 48 and 24 bytes
    kernel_of(source, text).launch(ONE, ONE, (out, given.tobytes()))
    assert [*out] == [7, 12]


def test_host_code_can_be_kept_from_both_builds(source: Path) -> None:
    text = "#ifndef PEAKGATE\n#include <gone>\n#endif\n__global__ void kernel(int* out) { out[0] = 7; }\n"
    out = np.zeros(1, np.int32)
    kernel_of(source, text).launch(ONE, ONE, (out,))
    assert out[0] == 7


BESIDE = {
    "the time": "#include <time.h>\ninline void now() { time_t raw = time(nullptr); tm* at = localtime(&raw); }\n"
    "#define LOG() now()\nvoid host() { LOG(); }",
    "tuples": "#include <thrust/tuple.h>\n"
    "__device__ int third(thrust::tuple<int, float, int> t) { return thrust::get<2>(t); }",
    "function objects": "#include <thrust/functional.h>\n#include <numeric>\n"
    "__device__ int most(int a, int b) { return thrust::maximum<int>()(a, std::plus<int>()(a, b)); }",
    "a base of the host": "#include <vector>\nstruct Base { virtual void f(std::vector<int>& v) = 0; };\n"
    "struct Host : public Base { struct Of { int n = 1; }; void f(std::vector<int>& v) override { v.clear(); } };\n"
    "__device__ int one(Host::Of of) { return of.n; }",
    "a pointer by a macro": "#include <memory>\n#define OWNED(T, name) std::shared_ptr<T[]> name\n"
    "struct Reader { OWNED(int, table); };",
    "an alias of the runtime's": "#include <cuda_runtime.h>\ntypedef cudaError_t error_type;\n"
    "struct S { error_type e; };",
    "streams after their names": "#include <iosfwd>\n#include <sstream>\n"
    "std::ostream& operator<<(std::ostream& to, const dim3& d) { return to << d.x; }",
    "functions of the driver": "#include <driver_functions.h>",
    "processes": "#include <sys/syscall.h>\n#include <unistd.h>\n#define LOG() pid()\n"
    "inline int pid() { static int kept = getpid(); return kept + syscall(SYS_gettid); }\n"
    "struct Timer { Timer() { LOG(); } };",
    "pointers of Thrust": "#include <thrust/device_ptr.h>\n#include <thrust/random.h>\n"
    "template <typename T> inline T* raw(thrust::device_ptr<T> p) { return thrust::raw_pointer_cast(p); }\n"
    "template <typename T> __host__ __device__ inline T* raw(T* p) { return thrust::raw_pointer_cast(p); }",
    "prototypes of built-ins": "#define __device_builtin__\n"
    "extern __device__ __device_builtin__ void __syncthreads(void);\nextern __device__ void __threadfence(void);\n"
    "__device__ void met() { __syncthreads(); }",
    "bits by a conversion": "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"
    "__device__ __half same(__half x) { return __half(__half_raw(x)); }\n"
    "__device__ __nv_bfloat16 narrow(__half x) { return __nv_bfloat16(x); }",
    "a hash of its own": "#include <unordered_map>\nstruct Key { int a; };\nnamespace std {\n"
    "template <> struct hash<Key> { size_t operator()(const Key& k) const { return std::hash<int>()(k.a); } };\n}",
    "CUB's host code": "#include <cub/util_type.cuh>\n#include <cub/device/device_scan.cuh>\n"
    "#include <thrust/device_reference.h>",
    "tags of iterators": "#include <iterator>\nstruct It { using iterator_category = std::forward_iterator_tag; };",
    "locks": "#include <shared_mutex>\nclass Lock { std::shared_mutex m; public: void lock() { m.lock(); } };",
    "a function that returns a struct": "#include <stdlib.h>\nstruct S { int n; };\n"
    "struct S* made() { return (struct S*) calloc(1, sizeof(struct S)); }",
    "a constant member of the host's": "template <typename T> struct Buffer { T* p;\n"
    "void get(T* to) const { cudaMemcpy(to, p, sizeof(T), cudaMemcpyDeviceToHost); } };\n"
    "struct Matrix { Buffer<int> of; void get(int* to) const { of.get(to); } };\n"
    "__device__ int first(Matrix m) { return m.of.p[0]; }",
    "headers of Thrust": "#include <thrust/iterator/permutation_iterator.h>\n#include <thrust/complex.h>\n"
    "void transform(thrust::device_vector<thrust::complex<float>>& v);",
    "a function of another file": 'extern "C" int far(int n);\nint near(int n) { return far(n); }\n'
    "struct Held { int n; int at() { return near(n); } };\n__device__ int of(Held held) { return held.n; }",
    "host code by macros": "#define RUN(name) void run_##name(int* x) { \\\n  of_no_header(x); }\nRUN(a)\nRUN(b)\n",
    "a namespace that each branch closes": "namespace a {\n#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 300\n"
    "void old(torch::Tensor x);\n}\n#else\n__global__ void other(int* x) {}\ntorch::Tensor run(torch::Tensor x) {\n"
    "  return x; }\n}\n#endif",
    "what no rule knows": "#include <locale>\nclass Words : public std::locale { int n; public:\n"
    "Words(int); int at() { return of_no_header(n); } };\n"
    "struct Held { int n;\nint at() { return of_no_header(n); } };\n"
    "int counted() { return Words(1).at() + of_no_header(2); }\nstatic int kept = of_no_header(3);\n"
    "__device__ int one(Held of) { return of.n; }",
    "a member that calls the host": "template <typename T> T* made(size_t n) { T* p; cudaMalloc(&p, n); return p; }\n"
    "template <typename T> struct Allocator { T* operator()(size_t n) const { return made<T>(n); } };",
}


@pytest.mark.parametrize("beside", BESIDE.values(), ids=BESIDE)
def test_what_stands_beside_a_kernel_does_not_keep_it_from_running(beside: str, source: Path) -> None:
    source.write_text(f"{beside}\n__global__ void kernel(float* out) {{ out[threadIdx.x] = 1; }}\n")
    out = np.zeros(1, np.float32)
    emulator.load(source, "kernel").launch((1, 1, 1), (1, 1, 1), (out,))
    assert out[0] == 1


@pytest.mark.parametrize(
    "text",
    [
        "template <class T> struct Of {\n    static __device__ T f(T x) { return gone + x; }\n};\n",
        (
            "template <class T> struct Of { __device__ T f(T x); };\n"
            "template <class T> __device__ T Of<T>::f(T x) { return gone + x; }\n"
            "__device__ int g() { return Of<int>().f(1); }\n"
        ),
        "__device__ int first() { return gone(); }\n__device__ int second() { return first(); }\n",
        "constexpr int checked(int n) { return n < 0 ? throw gone(n) : n; }\n",
        "__device__ float* tile() { __shared__ float values[13000]; return values; }\n",
        "__device__ void names(int kernel) {}\n__device__ int g(int kernel) { return gone; }\n",
    ],
)
def test_functions_that_a_kernel_does_not_call_may_fail(text: str, source: Path) -> None:
    out = np.zeros(1, np.int32)
    kernel_of(source, f"{text}__global__ void kernel(int* out) {{ out[0] = 1; }}\n").launch(ONE, ONE, (out,))
    assert out[0] == 1


def test_a_call_of_a_function_that_fails_does_not_take_another(source: Path) -> None:
    text = "__device__ int f(double x) { return 2; }\n__device__ int f(int x) { return gone; }\n"
    with pytest.raises(KernelBuildError, match=r"^kernel\.cu:2: 'gone' was not declared in this scope$"):
        kernel_of(source, f"{text}__global__ void kernel(int* out) {{ out[0] = f(1); }}\n")


def test_headers_of_the_system_do_not_keep_a_kernel_from_running(source: Path) -> None:
    out = np.zeros(1, np.int32)
    text = """#include <sys/socket.h>
#include <sys/un.h>
#include <poll.h>
#include <unistd.h>
ssize_t sent(int to) { struct msghdr message = {}; return sendmsg(to, &message, 0); }
inline std::once_flag once;
__global__ void kernel(int* out) { out[0] = fpclassify(0.0f) == FP_ZERO; }
"""
    kernel_of(source, text).launch(ONE, ONE, (out,))
    assert out[0] == 1


def test_a_type_keeps_its_name_behind_its_alignment(source: Path) -> None:
    out = np.zeros(1, np.int32)
    text = """template <class T> struct __align__(2 * sizeof(T)) Pair { T a, b; };
template <class T> struct __align__(2 * sizeof(T)) Held { std::vector<c10::Storage> held; };
__global__ void kernel(int* out) { Pair<int> pair = {1, 2}; out[0] = pair.a + pair.b; }
"""
    kernel_of(source, text).launch(ONE, ONE, (out,))
    assert out[0] == 3


@every_compiler
def test_members_may_be_named_as_the_index_of_a_thread(compiler: Compiler, source: Path) -> None:
    text = """struct Record {
    uint3 threadIdx;
    dim3 blockDim;
    __device__ Record(uint3 threadIdx, dim3 blockDim) : threadIdx(threadIdx), blockDim(blockDim) {}
};
__global__ void kernel(int* out) {
    const Record record(threadIdx, blockDim);
    out[blockIdx.x * blockDim.x + threadIdx.x] = record.threadIdx.x + 10 * record.blockDim.x;
}
"""
    out = np.zeros(8, np.int32)
    kernel_of(source, text, compiler=compiler).launch((2, 1, 1), (4, 1, 1), (out,))
    assert out.tolist() == [40, 41, 42, 43, 40, 41, 42, 43]


@every_compiler
def test_a_member_may_be_named_as_a_type_that_its_class_used(compiler: Compiler, source: Path) -> None:
    text = """struct Of { int n; };
struct Uses { Of first; using Of = long; Of second; };
__global__ void kernel(int* out) { out[0] = sizeof(Uses::second); }
"""
    out = np.zeros(1, np.int32)
    kernel_of(source, text, compiler=compiler).launch(ONE, ONE, (out,))
    assert out[0] == 8
