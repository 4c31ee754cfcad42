"""A family of one kernel in a few lines, as ``peakgate.family`` offers it."""

import json

import pytest
from peakgate.cli import main

SOFTMAX = """
template <typename T, int THREADS>
__global__ void softmax(T* out, const T* in, int columns) {
    __shared__ T partial[THREADS];
    const T* row = in + (size_t)blockIdx.x * columns;
    T sum = 0;
    for (int c = threadIdx.x; c < columns; c += THREADS) {
        sum += exp(row[c]);
    }
    partial[threadIdx.x] = sum;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            partial[threadIdx.x] += partial[threadIdx.x + half];
        }
        __syncthreads();
    }
    for (int c = threadIdx.x; c < columns; c += THREADS) {
        out[(size_t)blockIdx.x * columns + c] = exp(row[c]) / partial[0];
    }
}
"""
SOFTMAX_FAMILY = """
from peakgate.family import In, Out, Value, kernel
FAMILY = kernel(
    "softmax.cu", entry="softmax<float, 128>", block=128,
    arguments=lambda rows, columns: [Out(rows, columns), In(rows, columns), Value(columns)],
    grid=lambda rows, columns: rows,
    bytes=lambda rows, columns: 2 * 4 * rows * columns,
    reference=lambda xp, x: xp.exp(x.astype("float64")) / xp.exp(x.astype("float64")).sum(axis=1, keepdims=True),
    sizes=[(8192, 1024)],
)
"""
HISTOGRAM = """
__constant__ int weight[2];
__global__ void histogram(int* bins, const int* index, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        atomicAdd(&bins[index[i]], weight[i % 2]);
    }
}
"""
HISTOGRAM_FAMILY = """
from peakgate.family import In, InOut, Value, kernel
def counted(xp, bins, index, weight):
    out = bins.copy()
    for parity in (0, 1):
        out += xp.bincount(index[parity::2], minlength=64).astype("int32") * weight[parity]
    return out
FAMILY = kernel(
    "histogram.cu", block=64, grid=lambda n: -(-n // 64),
    arguments=lambda n: [InOut(64, dtype="int32", data=0), In(n, dtype="int32", data=(0, 64)), Value(n)],
    constants={"weight": In(2, dtype="int32", data=lambda xp, shape: xp.array([1, 3], "int32"))},
    bytes=lambda n: 4 * n, reference=counted, sizes=[1 << 24],
)
"""


@pytest.fixture
def check(tmp_path, monkeypatch):
    """Check a family of one kernel in a project of its own; exit code and verdict."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "peakgate.toml").write_text("")

    def run(name, kernel, family):
        folder = tmp_path / "kernels" / name
        folder.mkdir(parents=True)
        (folder / f"{name}.cu").write_text(kernel)
        (folder / "family.py").write_text(family)
        code = main(["check", "--jobs", "1"])
        return code, json.loads((tmp_path / ".peakgate" / "out" / "check.json").read_text())

    return run


def test_a_template_kernel_takes_a_family_of_thirteen_lines_and_is_clean(check):
    code, verdict = check("softmax", SOFTMAX, SOFTMAX_FAMILY)
    assert (code, verdict["kernels"][0]["kernel"]) == (0, "softmax.softmax")
    assert len(SOFTMAX_FAMILY.strip().splitlines()) <= 15


def test_a_deleted_barrier_of_a_template_kernel_is_found(check):
    code, verdict = check("softmax", SOFTMAX.replace("        __syncthreads();\n", "", 1), SOFTMAX_FAMILY)
    assert code == 1
    assert verdict["kernels"][0]["defects"][0]["kind"] == "shared race"


def test_indices_stay_in_their_range_and_constants_are_filled(check):
    assert check("histogram", HISTOGRAM, HISTOGRAM_FAMILY)[0] == 0


def test_a_kernel_that_is_wrong_is_found_by_the_reference(check):
    code, verdict = check("histogram", HISTOGRAM.replace("weight[i % 2]", "weight[0]"), HISTOGRAM_FAMILY)
    assert code == 1
    assert "wrong result" in verdict["kernels"][0]["defects"][0]["what"]


def test_options_and_include_folders_of_the_project_reach_every_kernel(check, tmp_path):
    (tmp_path / "headers").mkdir()
    (tmp_path / "headers" / "bins.h").write_text("#define BINS 64\n")
    (tmp_path / "peakgate.toml").write_text('include = ["headers"]\noptions = ["--define-macro=STEP=2"]\n')
    kernel = '#include "bins.h"\n' + HISTOGRAM.replace("% 2", "% STEP")
    assert check("histogram", kernel, HISTOGRAM_FAMILY)[0] == 0
