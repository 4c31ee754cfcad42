"""TileLang on arrays of PyTorch."""

import pytest

torch = pytest.importorskip("torch")
tilelang = pytest.importorskip("tilelang")
import tilelang.language as T  # noqa: E402, N812  (as its users write it)

ROWS, COLUMNS, BLOCK = 4096, 4096, 128


def add_program():
    @T.prim_func
    def add(
        x: T.Tensor((ROWS, COLUMNS), "float32"),
        y: T.Tensor((ROWS, COLUMNS), "float32"),
        out: T.Tensor((ROWS, COLUMNS), "float32"),
    ):
        with T.Kernel(COLUMNS // BLOCK, ROWS // BLOCK, threads=128) as (bx, by):
            for i, j in T.Parallel(BLOCK, BLOCK):
                out[by * BLOCK + i, bx * BLOCK + j] = (
                    x[by * BLOCK + i, bx * BLOCK + j] + y[by * BLOCK + i, bx * BLOCK + j]
                )

    return add


@pytest.mark.peakgate(bytes=lambda x, y: 3 * x.nbytes, reference=lambda x, y: x + y)
def bench_add(gpu_benchmark):
    kernel = tilelang.compile(add_program(), out_idx=-1)
    x = torch.randn(ROWS, COLUMNS, device="cuda")
    gpu_benchmark(kernel, x, torch.randn_like(x))
