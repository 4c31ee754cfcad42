"""Warp, on its CPU device without a GPU."""

import numpy as np
import pytest

wp = pytest.importorskip("warp")

wp.config.quiet = True
wp.init()
DEVICE = "cuda:0" if wp.is_cuda_available() else "cpu"
N = 1 << 24 if wp.is_cuda_available() else 1 << 12


@wp.kernel
def scale(out: wp.array(dtype=float), x: wp.array(dtype=float)):
    at = wp.tid()
    out[at] = 2.0 * x[at]


@wp.kernel
def lengths(out: wp.array(dtype=float), x: wp.array(dtype=wp.vec3)):
    at = wp.tid()
    out[at] = wp.length(x[at])


@pytest.mark.peakgate(bytes=lambda out, x: 8 * x.size, reference=lambda out, x: 2 * x.numpy())
def bench_scale(gpu_benchmark):
    x = wp.array(np.arange(N, dtype=np.float32), device=DEVICE)
    gpu_benchmark(lambda out, x: wp.launch(scale, x.size, [out, x], device=DEVICE), wp.zeros_like(x), x)


@pytest.mark.peakgate(bytes=lambda out, x: 16 * x.size, reference=lambda out, x: np.linalg.norm(x.numpy(), axis=1))
def bench_lengths(gpu_benchmark):
    x = wp.array(np.random.default_rng(0).normal(size=(N // 4, 3)).astype(np.float32), dtype=wp.vec3, device=DEVICE)
    out = wp.zeros(x.size, dtype=float, device=DEVICE)
    gpu_benchmark(lambda out, x: wp.launch(lengths, x.size, [out, x], device=DEVICE), out, x)
