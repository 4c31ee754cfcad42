"""CUB's reductions and scans of a warp and a block; storage that is used again too early is a race."""

import numpy as np
import pytest
from peakgate import emulator
from peakgate.emulator import DefectKind, KernelBuildError, KernelDefect

SOURCE = """
#include <cub/cub.cuh>
constexpr int THREADS = 96, ITEMS = 4;
struct Product { __device__ int operator()(int a, int b) const { return a * b % 251; } };

__global__ void sums(int* out, const int* in, int n) {
    using Block = cub::BlockReduce<int, THREADS>;
    using Warp = cub::WarpReduce<int>;
    __shared__ typename Block::TempStorage storage;
    __shared__ typename Warp::TempStorage of_warp[3];
    int items[ITEMS];
    cub::BlockLoad<int, THREADS, ITEMS, cub::BLOCK_LOAD_STRIPED>().Load(in, items, n, 0);
    const int sum = Block(storage).Sum(items);
    __syncthreads();
    const int most = Block(storage).Reduce(items[0], cub::Max());
    __syncthreads();
    const int product = Block(storage).Reduce(items[0], Product(), 7);
    const int warp = Warp(of_warp[threadIdx.x / 32]).Sum(items[0]);
    if (threadIdx.x == 0) out[0] = sum, out[1] = most, out[2] = product;
    if (threadIdx.x % 32 == 0) out[3 + threadIdx.x / 32] = warp;
}

__global__ void scans(int* out, const int* in, int n) {
    using Block = cub::BlockScan<int, THREADS, cub::BLOCK_SCAN_WARP_SCANS>;
    using Warp = cub::WarpScan<int, 16>;
    __shared__ typename Block::TempStorage storage;
    __shared__ typename Warp::TempStorage of_warp[6];
    int items[ITEMS], total, of_half;
    cub::BlockLoad<int, THREADS, ITEMS, cub::BLOCK_LOAD_WARP_TRANSPOSE>().Load(in, items);
    Warp(of_warp[threadIdx.x / 16]).InclusiveSum(in[threadIdx.x], of_half);
    Block(storage).ExclusiveSum(items, items, total);
    cub::BlockStore<int, THREADS, ITEMS>().Store(out, items, n);
    out[n + threadIdx.x] = of_half;
    if (threadIdx.x == 0) out[n + THREADS] = total;
}

__global__ void again(int* out, const int* in, int n) {
    using Block = cub::BlockReduce<int, THREADS>;
    __shared__ typename Block::TempStorage storage;
    const int sum = Block(storage).Sum(in[threadIdx.x]);
    const int more = Block(storage).Sum(in[threadIdx.x] + 1);
    if (threadIdx.x == 0) out[0] = sum + more;
}
"""
LINES = SOURCE.splitlines()
N = 96 * 4


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    path = tmp_path_factory.mktemp("cub") / "blocks.cu"
    path.write_text(SOURCE)
    return path


def launched(source, name):
    given = np.random.default_rng(7).integers(0, 100, N).astype("int32")
    out = np.zeros(N + 97, "int32")
    emulator.load(source, name).launch((1, 1, 1), (96, 1, 1), (out, given, np.int32(N)))
    return out, given


def test_reductions_fold_the_values_of_a_block_of_some_and_of_a_warp(source):
    out, given = launched(source, "sums")
    product = 1
    for value in given[:7].tolist():
        product = product * value % 251
    assert out[:3].tolist() == [given.sum(), given[:96].max(), product]
    assert (out[3:6] == given[:96].reshape(3, 32).sum(axis=1)).all()


def test_scans_give_the_sum_of_what_comes_before_and_the_total(source):
    out, given = launched(source, "scans")
    assert (out[:N] == np.cumsum(given) - given).all()
    assert (out[N : N + 96] == given[:96].reshape(6, 16).cumsum(axis=1).ravel()).all()
    assert out[N + 96] == given.sum()


def test_storage_that_is_used_again_without_a_barrier_is_a_race_between_the_two_lines(source):
    with pytest.raises(KernelDefect) as caught:
        launched(source, "again")
    defect = caught.value.defects[0]
    first = next(number for number, line in enumerate(LINES, 1) if "const int sum = Block(storage).Sum(in[" in line)
    assert defect.kind is DefectKind.SHARED_RACE
    assert (defect.other_location, defect.location) == (f"blocks.cu:{first}", f"blocks.cu:{first + 1}")


def test_what_of_cub_is_not_emulated_names_its_line(tmp_path):
    (tmp_path / "sorted.cu").write_text(
        "#include <cub/cub.cuh>\n__global__ void sorted(int* out) {\n    cub::BlockRadixSort<int, 128, 4> sort;\n}\n"
    )
    with pytest.raises(KernelBuildError, match=r"^sorted\.cu:3: .*; this part of CUB is not emulated"):
        emulator.load(tmp_path / "sorted.cu", "sorted")
