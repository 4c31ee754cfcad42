"""Numba-CUDA; without a GPU its simulator (NUMBA_ENABLE_CUDASIM=1) on arrays of NumPy."""

import os

import numpy as np
import pytest

cuda = pytest.importorskip("numba.cuda")

SIMULATED = os.environ.get("NUMBA_ENABLE_CUDASIM") == "1"
N = 1 << 9 if SIMULATED else 1 << 24


@cuda.jit
def scale(out, x):
    at = cuda.grid(1)
    if at < x.size:
        out[at] = 2 * x[at]


@pytest.mark.peakgate(bytes=lambda out, x: 2 * x.nbytes, reference=lambda out, x: 2 * on_host(x))
def bench_scale(gpu_benchmark):
    x = np.arange(N, dtype=np.float32)
    out = np.zeros_like(x)
    if not SIMULATED:
        x, out = cuda.to_device(x), cuda.to_device(out)
    gpu_benchmark(lambda out, x: scale[x.size // 256, 256](out, x), out, x)


def on_host(x):
    return x if SIMULATED else x.copy_to_host()
