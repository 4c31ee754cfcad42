"""Warp, on arrays of PyTorch."""

import pytest
from doubling import DOUBLES, FLOATS, of_torch

torch = pytest.importorskip("torch")
warp = pytest.importorskip("warp")
warp.init()


@warp.kernel
def double(out: warp.array(dtype=float), x: warp.array(dtype=float)):
    at = warp.tid()
    out[at] = 2.0 * x[at] + 1.0


def of_warp():
    def call(out, x):
        stream = warp.stream_from_torch(torch.cuda.current_stream())
        warp.launch(double, dim=FLOATS, inputs=[warp.from_torch(out), warp.from_torch(x)], stream=stream)

    return call, *of_torch()


@DOUBLES
def bench_warp(gpu_benchmark):
    gpu_benchmark(*of_warp())
