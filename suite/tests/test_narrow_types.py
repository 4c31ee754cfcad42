"""Kernels of bfloat16, 8-bit floats and 4-bit integers, right and wrong, from their families through the commands."""

import json
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
from peakgate.check import digests
from peakgate.cli import main
from peakgate.core.case import Scale
from peakgate.core.catalogue import module_at, problems
from peakgate.device.cpu import CpuDevice, CpuLaunchable
from peakgate.device.expected import computed, expected
from peakgate.judge.correctness import check
from peakgate.measure.data import inputs_of

HEAD = "from peakgate.family import In, Out, Value, kernel, launch\n"
KERNELS = {
    "scale": (
        """#include <cuda_bf16.h>
extern "C" __global__ void scale(__nv_bfloat16* out, const __nv_bfloat16* x, const __nv_bfloat16* y,
                                 __nv_bfloat16 factor, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { out[i] = __hfma(factor, x[i], y[i]); }
}
""",
        """FAMILY = kernel(
    "scale.cu", block=64, grid=lambda n: -(-n // 64), bytes=lambda n: 6 * n, sizes=[1 << 26], edges=[1, 1000],
    arguments=lambda n: [Out(n, dtype="bfloat16"), In(n, dtype="bfloat16"), In(n, dtype="bfloat16", data=(-4, 4)),
                         Value(1.5, "bfloat16"), Value(n)],
    reference=lambda xp, x, y: 1.5 * x + y,
)
""",
    ),
    "softmax": (
        """#include <cuda_bf16.h>
extern "C" __global__ void softmax(__nv_bfloat16* out, const __nv_bfloat16* in, int columns) {
    __shared__ float partial[64];
    const __nv_bfloat16* row = in + (size_t)blockIdx.x * columns;
    float sum = 0.0f;
    for (int c = threadIdx.x; c < columns; c += 64) { sum += expf(__bfloat162float(row[c])); }
    partial[threadIdx.x] = sum;
    __syncthreads();
    for (int half = 32; half > 0; half /= 2) {
        if (threadIdx.x < half) { partial[threadIdx.x] += partial[threadIdx.x + half]; }
        __syncthreads();
    }
    for (int c = threadIdx.x; c < columns; c += 64) {
        out[(size_t)blockIdx.x * columns + c] = __float2bfloat16(expf(__bfloat162float(row[c])) / partial[0]);
    }
}
""",
        """def softmax(xp, x):
    powers = xp.exp(x.astype("float64"))
    return powers / powers.sum(axis=1, keepdims=True)
FAMILY = kernel(
    "softmax.cu", block=64, grid=lambda r, c: r, bytes=lambda r, c: 4 * r * c, sizes=[(8192, 1024)],
    edges=[(1, 1), (3, 130)], reference=softmax,
    arguments=lambda r, c: [Out(r, c, dtype="bfloat16"), In(r, c, dtype="bfloat16"), Value(c)],
)
""",
    ),
    "dequant": (
        """#include <cuda_fp8.h>
extern "C" __global__ void dequant(float* out, const __nv_fp8_e4m3* in, float scale, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { out[i] = scale * static_cast<float>(in[i]); }
}
""",
        """FAMILY = kernel(
    "dequant.cu", block=64, grid=lambda n: -(-n // 64), bytes=lambda n: 5 * n, sizes=[1 << 26], edges=[1, 1000],
    arguments=lambda n: [Out(n), In(n, dtype="float8_e4m3fn"), Value(0.5), Value(n)],
    reference=lambda xp, x: 0.5 * x,
)
""",
    ),
    "quant": (
        """#include <cuda_fp8.h>
extern "C" __global__ void quant(__nv_fp8_e4m3* out, const float* in, float scale, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { out[i].__x = __nv_cvt_float_to_fp8(in[i] / scale, __NV_SATFINITE, __NV_E4M3); }
}
extern "C" __global__ void naive(__nv_fp8_e4m3* out, const float* in, float scale, int n) {
    for (int i = 0; i < n; ++i) { out[i] = __nv_fp8_e4m3(in[i] / scale); }
}
""",
        """FAMILY = kernel(
    "quant.cu", block=64, grid=lambda n: -(-n // 64), bytes=lambda n: 5 * n, sizes=[1 << 26], edges=[1, 1000],
    arguments=lambda n: [Out(n, dtype="float8_e4m3fn"), In(n, data=(-100, 100)), Value(0.125), Value(n)],
    reference=lambda xp, x: xp.clip(x / 0.125, -448, 448),
)
""",
    ),
    "unpack": (
        """#include <cstdint>
extern "C" __global__ void unpack(float* out, const uint8_t* weights, const float* scales, int rows, int columns) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < rows * columns / 2) {
        const int low = weights[at] & 15, high = weights[at] >> 4;
        const float scale = scales[2 * at / columns];
        out[2 * at] = scale * static_cast<float>(low - (low & 8) * 2);
        out[2 * at + 1] = scale * static_cast<float>(high - (high & 8) * 2);
    }
}
""",
        """FAMILY = kernel(
    "unpack.cu", block=64, grid=lambda r, c: -(-r * c // 128), bytes=lambda r, c: 9 * r * c // 2 + 4 * r,
    arguments=lambda r, c: [Out(r, c), In(r, c, dtype="int4"), In(r), Value(r), Value(c)],
    reference=lambda xp, weights, scales: weights * scales[:, None], sizes=[(4096, 4096)],
)
""",
    ),
}
WRONG = {
    "the bits of another 16-bit float": ("scale", "__hfma(factor, x[i], y[i])", "(&factor)[0] * x[i]"),
    "a missing barrier": ("softmax", "        __syncthreads();\n    }\n    for", "    }\n    for"),
    "the other 8-bit float": ("dequant", "__nv_fp8_e4m3", "__nv_fp8_e5m2"),
    "no saturation": ("quant", "__NV_SATFINITE", "__NV_NOSAT"),
    "a missing sign": ("unpack", "low - (low & 8) * 2", "low"),
    "swapped halves": (
        "unpack",
        "low = weights[at] & 15, high = weights[at] >> 4",
        "low = weights[at] >> 4, high = 15",
    ),
    "an element that nothing writes": ("quant", "if (i < n)", "if (i < n - 1)"),
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "peakgate.toml").write_text("")
    return tmp_path / "kernels"


def write(folder, name, kernel=None, family=None):
    (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / name / f"{name}.cu").write_text(kernel or KERNELS[name][0])
    (folder / name / "family.py").write_text(HEAD + (family or KERNELS[name][1]))


def checked(tmp_path):
    code = main(["check", "--jobs", "1"])
    return code, json.loads((tmp_path / ".peakgate" / "out" / "check.json").read_text())


def test_right_kernels_of_every_narrow_type_are_clean_and_right(folder, tmp_path):
    for name in KERNELS:
        write(folder, name)
    code, verdict = checked(tmp_path)
    assert (code, len(verdict["kernels"])) == (0, len(KERNELS))
    done = subprocess.run(
        [sys.executable, "-m", "peakgate", "bench", "--device", "cpu"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    bench = json.loads((tmp_path / ".peakgate" / "out" / "bench.json").read_text())
    assert bench["verdicts"] == {"NO_FLOOR": len(KERNELS)}


@pytest.mark.parametrize("mistake", WRONG)
def test_a_wrong_kernel_is_found(folder, tmp_path, mistake):
    name, right, wrong = WRONG[mistake]
    text = KERNELS[name][0]
    assert right in text
    write(folder, name, text.replace(right, wrong))
    assert checked(tmp_path)[0] == 1


RAW_HALVES = (
    "__half2float(__half(__nv_cvt_fp8_to_halfraw(in[i].__x, __NV_E4M3)))",
    "__half2float(__half2(__nv_cvt_fp8x2_to_halfraw2(in[i].__x, __NV_E4M3)).x)",
)


@pytest.mark.parametrize("value", RAW_HALVES)
def test_a_half_is_made_of_raw_bits(folder, tmp_path, value):
    write(folder, "dequant", KERNELS["dequant"][0].replace("static_cast<float>(in[i])", value))
    assert checked(tmp_path)[0] == 0


def test_a_reference_is_given_values_and_outputs_are_compared_as_values(folder):
    write(folder, "unpack")
    case = problems()[0]
    weights, scales = inputs_of(np, case)
    assert (weights.dtype, weights.shape) == (np.int8, case.inputs[0].shape)
    launchable = CpuLaunchable(case)
    assert launchable.inputs[0].dtype == np.uint8
    assert np.allclose(expected(np, launchable, CpuLaunchable).values[0], weights * scales[:, None], rtol=1e-6)


def test_a_reference_kernel_gives_its_values(folder, tmp_path):
    by_kernel = 'reference=launch("naive", grid=1, block=1)'
    family = KERNELS["quant"][1].replace("reference=lambda xp, x: xp.clip(x / 0.125, -448, 448)", by_kernel)
    write(folder, "quant", family=family)
    assert checked(tmp_path)[0] == 0
    write(folder, "quant", KERNELS["quant"][0].replace("in[i] / scale, __NV", "in[i] * scale, __NV"), family)
    assert checked(tmp_path)[0] == 1


@pytest.mark.parametrize("form", ["float32", "bfloat16", "uint16"])
def test_saved_arrays_of_bfloat16_are_inputs_and_expected_results(folder, tmp_path, form):
    values = (np.arange(100) / 16).astype("float32")
    (folder / "scale").mkdir(parents=True)
    for name, saved in (("x", values), ("out", 2.5 * values)):
        own = saved.astype(ml_dtypes.bfloat16)
        array = saved if form == "float32" else own if form == "bfloat16" else own.view("uint16")
        np.save(folder / "scale" / f"{name}.npy", array)
    family = KERNELS["scale"][1].replace("edges=[1, 1000]", "edges=[100]").replace("data=(-4, 4)", 'data="x.npy"')
    family = family.replace('In(n, dtype="bfloat16")', 'In(n, dtype="bfloat16", data="x.npy")')
    write(folder, "scale", family=family.replace("reference=lambda xp, x, y: 1.5 * x + y", 'reference="out.npy"'))
    assert checked(tmp_path)[0] == 0
    np.save(folder / "scale" / "out.npy", 3 * values)
    assert checked(tmp_path)[0] == 1


@pytest.mark.parametrize("name", ["scale", "quant"])
def test_recorded_outputs_agree_with_the_same_problem_and_no_other(folder, name):
    write(folder, name)
    device = CpuDevice()
    case = problems()[-1]
    recorded = digests.record(device, [case]).problems[case.id].outputs
    launchable = device.prepare(case)
    launchable.run()

    def found():
        return tuple(digests.described_output(case, output) for output in digests.output_values(launchable))

    assert found() == recorded
    launchable.outputs[0].view(np.uint8)[...] = 0x40
    assert found() != recorded


def test_what_a_kernel_writes_is_decoded(folder):
    write(folder, "quant")
    launchable = CpuLaunchable(problems()[-1])
    launchable.run()
    (values,) = computed(np, launchable)
    assert values.dtype == np.float32
    assert np.abs(values).max() == 448


@pytest.mark.parametrize(
    ("old", "new", "reported"),
    [
        ('Out(n, dtype="bfloat16")', 'Out(n, dtype="bfloat")', "did you mean 'bfloat16'"),
        ('Out(n, dtype="bfloat16")', 'Out(n, dtype="float8_e4m3")', "float8_e4m3fn"),
        ('Value(1.5, "bfloat16")', 'Value(1, "int4")', "half a byte"),
    ],
)
def test_a_type_that_is_none_is_one_line_with_the_family(folder, capsys, old, new, reported):
    write(folder, "scale", family=KERNELS["scale"][1].replace(old, new))
    assert main(["check", "--jobs", "1"]) == 3
    complaint = next(line for line in capsys.readouterr().out.splitlines() if reported in line)
    assert "family.py:" in complaint


def test_sizes_whose_rows_are_no_whole_bytes_are_left_out(folder):
    write(folder, "unpack")
    shapes = [case.inputs[0].shape for case in problems()]
    assert shapes
    assert all(columns % 2 == 0 for _, columns in shapes)


def test_a_product_by_cublas_has_a_twin_in_the_emulator(tmp_path):
    (tmp_path / "family.py").write_text(
        HEAD
        + """FAMILY = kernel(
    operation="cublas_bf16_nt", math="bf16", small_sizes=[(3, 5, 4), (33, 17, 8)], terms=lambda m, n, k: k,
    arguments=lambda m, n, k: [
        Out(m, n, dtype="bfloat16"), In(m, k, dtype="bfloat16"), In(n, k, dtype="bfloat16"),
    ],
    bytes=lambda m, n, k: 2 * (m * n + m * k + n * k), flops=lambda m, n, k: 2 * m * n * k,
    reference=lambda xp, a, b: a @ b.T,
)
"""
    )
    for case in module_at(tmp_path / "family.py").FAMILY.cases(Scale.SMALL):
        launchable = CpuLaunchable(case)
        launchable.run()
        wanted = expected(np, launchable, CpuDevice().prepare)
        assert check(np, case, computed(np, launchable), wanted).mismatch is None
