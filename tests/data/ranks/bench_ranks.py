"""Benchmark tests of two ranks that exchange arrays over a socket: each result needs what the other rank has."""

import os
import pickle
import socket

import numpy as np
import pytest

from peakgate.base import ranks  # noqa: F401  (for the tests that are added)

RANK = int(os.environ.get("RANK", "0"))


@pytest.fixture(scope="session")
def both():
    """A function that returns the arrays of both ranks, from this one's: a collective."""
    address = f"\0bench-ranks-{os.environ['MASTER_PORT']}"
    if RANK == 0:
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(address)
            listening.listen()
            other, _ = listening.accept()
    else:
        other = socket.socket(socket.AF_UNIX)
        while other.connect_ex(address):
            pass
    with other, other.makefile("rb") as received:

        def exchange(own):
            other.sendall(pickle.dumps(own))
            found = pickle.load(received)
            return [own, found] if RANK == 0 else [found, own]

        yield exchange


def numbers():
    return np.random.default_rng(RANK).standard_normal(64).astype("float32")


@pytest.mark.peakgate(gpus=2, bytes=lambda x: x.nbytes, fresh=(-1, 1))
def bench_right_sum(gpu_benchmark, both):
    gpu_benchmark.expect(lambda x: sum(each.astype("float64") for each in both(x)), fresh=(-1, 1))
    gpu_benchmark(lambda x: sum(both(x)), numbers())


@pytest.mark.peakgate(gpus=2)
def bench_right_copy(gpu_benchmark, both):
    def copy(x):
        x[:] = both(x)[0]  # on rank 0 nothing changes

    gpu_benchmark.expect(lambda x: both(x)[0], outputs=lambda x: x)
    gpu_benchmark(copy, numbers())


@pytest.mark.peakgate(gpus=2)
def bench_right_cancellation(gpu_benchmark, both):
    large = np.float32(1e4 * RANK)  # only rank 1 needs the magnitude of the terms
    x = np.array([large, 0.1, 0.2, -large], "float32")
    gpu_benchmark.expect(lambda x: sum(both(x)[RANK].astype("float64")))
    gpu_benchmark(lambda x: np.cumsum(both(x)[RANK])[-1:], x)


@pytest.mark.peakgate(gpus=2)
def bench_wrong_in_rank_1(gpu_benchmark, both):
    gpu_benchmark.expect(lambda x: sum(both(x)))
    gpu_benchmark(lambda x: sum(both(x)) + RANK, numbers())


@pytest.mark.peakgate(gpus=2)
def bench_wrong_in_rank_0(gpu_benchmark, both):
    gpu_benchmark.expect(lambda x: sum(both(x)))
    gpu_benchmark(lambda x: sum(both(x)) * (2 - RANK), numbers())


@pytest.mark.peakgate(gpus=2)
def bench_wrong_assertion(gpu_benchmark, both):
    assert gpu_benchmark(both, numbers()) is None or RANK == 0


@pytest.mark.peakgate(gpus=2)
def bench_wrong_setting(gpu_benchmark, both):
    gpu_benchmark.work(bytes=-RANK)
    gpu_benchmark(both, numbers())


@pytest.mark.peakgate(gpus=4)
def bench_other_number(gpu_benchmark, both):
    gpu_benchmark(both, numbers())


def bench_other_form(gpu_benchmark, both):
    gpu_benchmark(both, numbers())


@pytest.mark.peakgate(gpus=2)
def bench_other_skip(gpu_benchmark, both):
    pytest.skip("not here")
