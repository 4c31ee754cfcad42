"""One kernel over block shapes, without a family: its .cu is loaded, launched and compared here."""

import numpy as np
import pytest


@pytest.mark.parametrize("block", [(32, 8), (16, 16), (8, 32)], ids=lambda block: "{}x{}".format(*block))
def test_naive_transpose(block, matrix, load_kernel, gpu_benchmark):
    kernel = load_kernel("kernels/transpose/03_naive_row.cu", "naive_row")
    out, side = gpu_benchmark.xp.empty_like(matrix), matrix.shape[0]
    grid = (side // block[0], side // block[1])
    gpu_benchmark.work(bytes=2 * matrix.nbytes).expect(lambda out, given, nx, ny: given.T)
    gpu_benchmark(kernel, grid, block, (out, matrix, np.int32(side), np.int32(side)))
