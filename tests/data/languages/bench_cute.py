"""CuTe DSL, and QuACK, which is written in it."""

import pytest
from doubling import DOUBLES, FLOATS, of_torch

torch = pytest.importorskip("torch")
cute = pytest.importorskip("cutlass.cute")
import cutlass  # noqa: E402
from cuda.bindings.driver import CUstream  # noqa: E402
from cutlass.cute.runtime import from_dlpack  # noqa: E402


@cute.kernel
def double(out: cute.Tensor, x: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    at = block * 256 + thread
    out[at] = x[at] * cutlass.Float32(2) + cutlass.Float32(1)


@cute.jit
def launch(out: cute.Tensor, x: cute.Tensor, stream: CUstream):
    double(out, x).launch(grid=(FLOATS // 256, 1, 1), block=(256, 1, 1), stream=stream)


def stream():
    return CUstream(torch.cuda.current_stream().cuda_stream)


def of_cute():
    arrays = of_torch()
    compiled = cute.compile(launch, *map(from_dlpack, arrays), stream())

    def call(*arrays):
        compiled(*map(from_dlpack, arrays), stream())

    return call, *arrays


def of_quack():
    softmax = pytest.importorskip("quack.softmax")
    return softmax.softmax_fwd, torch.randn(1 << 15, 4096, device="cuda", dtype=torch.bfloat16)


@DOUBLES
def bench_cute(gpu_benchmark):
    gpu_benchmark(*of_cute())


@pytest.mark.peakgate(bytes=lambda x: 2 * x.nbytes, reference=lambda x: torch.softmax(x.double(), 1))
def bench_quack(gpu_benchmark):
    gpu_benchmark(*of_quack())
