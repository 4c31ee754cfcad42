"""TileLang."""

import pytest
from doubling import BLOCK, DOUBLES, FLOATS, of_torch

tilelang = pytest.importorskip("tilelang")
import tilelang.language as T  # noqa: E402, N812


@tilelang.jit
def doubling(n, block):
    @T.prim_func
    def double(x: T.Tensor((n,), "float32"), out: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, block), threads=256) as at:
            for i in T.Parallel(block):
                out[at * block + i] = x[at * block + i] * 2.0 + 1.0

    return double


def of_tilelang():
    double = doubling(FLOATS, BLOCK)
    return lambda out, x: double(x, out), *of_torch()


@DOUBLES
def bench_tilelang(gpu_benchmark):
    gpu_benchmark(*of_tilelang())
