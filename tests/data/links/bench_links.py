"""An all-reduce and an all-gather of NCCL between the GPUs of one host, and a copy from one to another."""

import numpy as np
import pytest

FLOATS = 1 << 25


def on_each(gpu_benchmark, make):
    """What a function of CuPy and a GPU's index makes on each of the test's GPUs."""
    cp, made = gpu_benchmark.xp, []
    for gpu in gpu_benchmark.gpus:
        with cp.cuda.Device(gpu):
            made.append(make(cp, gpu))
    return made


def numbers(cp, gpu):
    """Other numbers on each GPU."""
    return cp.random.default_rng(gpu).random(FLOATS, "float32")


def collective(gpu_benchmark, call):
    """A function that has all GPUs take part in one call of NCCL, each on its current stream."""
    cp, nccl = gpu_benchmark.xp, pytest.importorskip("cupy.cuda.nccl")
    if not nccl.available:
        pytest.skip("CuPy does not find NCCL: pip install nvidia-nccl-cu13")
    communicators = nccl.NcclCommunicator.initAll(list(gpu_benchmark.gpus))

    def run(out, x):
        nccl.groupStart()
        for communicator, target, source in zip(communicators, out, x, strict=True):
            with target.device:
                call(nccl, communicator, source, target, cp.cuda.get_current_stream().ptr)
        nccl.groupEnd()

    return run


def all_reduce(nccl, communicator, source, target, stream):
    """The sum of all sources into each target."""
    arrays = source.data.ptr, target.data.ptr, source.size, nccl.NCCL_FLOAT32
    communicator.allReduce(*arrays, nccl.NCCL_SUM, stream)


def all_gather(nccl, communicator, source, target, stream):
    """All sources, one after another, into each target."""
    communicator.allGather(source.data.ptr, target.data.ptr, source.size, nccl.NCCL_FLOAT32, stream)


# What a GPU has to send is by https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md
@pytest.mark.peakgate(
    gpus=(1, 2, 4, 8),
    bytes=lambda _, x: 2 * (len(x) - 1) * x[0].nbytes // len(x),
    reference=lambda _, x: [sum(x)] * len(x),
)
def bench_all_reduce(gpu_benchmark):
    """Sum an array of each GPU, with the result on all."""
    out = on_each(gpu_benchmark, lambda cp, _: cp.zeros(FLOATS, "float32"))
    gpu_benchmark(collective(gpu_benchmark, all_reduce), out, on_each(gpu_benchmark, numbers))


@pytest.mark.peakgate(
    gpus=(1, 2, 4, 8),
    bytes=lambda _, x: (len(x) - 1) * x[0].nbytes,
    reference=lambda _, x: [np.concatenate(x)] * len(x),
)
def bench_all_gather(gpu_benchmark):
    """Put an array of each GPU one after another, with the result on all."""
    count = len(gpu_benchmark.gpus) * FLOATS
    out = on_each(gpu_benchmark, lambda cp, _: cp.zeros(count, "float32"))
    gpu_benchmark(collective(gpu_benchmark, all_gather), out, on_each(gpu_benchmark, numbers))


@pytest.mark.peakgate(gpus=2, bytes=lambda _, x: x.nbytes, reference=lambda _, x: x)
def bench_peer_copy(gpu_benchmark):
    """Copy an array to another GPU, on the stream of the one that has it."""
    x, out = on_each(gpu_benchmark, numbers)
    gpu_benchmark(lambda out, x: out.data.copy_from_device_async(x.data, x.nbytes), out, x)
