"""JAX: compiled, differentiated, in bfloat16, and Pallas."""

import pytest

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402

ON_GPU = jax.default_backend() == "gpu"
N = (1 << 26) if ON_GPU else (1 << 14)


def inputs(n=N, dtype="float32"):
    return (jnp.arange(n) % 1000 - 500).astype(dtype) / 250


@pytest.mark.peakgate(bytes=lambda x: 2 * x.nbytes, reference=lambda x: x + 1)
def bench_add(gpu_benchmark):
    gpu_benchmark(jax.jit(lambda x: x + 1), inputs())


@pytest.mark.peakgate(reference=lambda x: (x / 2, {"sum": x.sum()}))
def bench_pytree(gpu_benchmark):
    gpu_benchmark(jax.jit(lambda x: (0.5 * x, {"sum": jnp.sum(x)})), inputs(1 << 12))


@pytest.mark.peakgate(reference=lambda x: 2 * x)
def bench_grad(gpu_benchmark):
    gpu_benchmark(jax.jit(jax.grad(lambda x: (x * x).sum())), inputs(N // 16))


@pytest.mark.peakgate(bytes=lambda x: 2 * x.nbytes, reference=lambda x: 2 * x)
def bench_bfloat16(gpu_benchmark):
    gpu_benchmark(jax.jit(lambda x: x + x), inputs(dtype="bfloat16"))


def add_one(x_ref, o_ref):
    o_ref[...] = x_ref[...] + 1


@pytest.mark.peakgate(bytes=lambda x: 2 * x.nbytes, reference=lambda x: x + 1)
def bench_pallas(gpu_benchmark):
    block = pl.BlockSpec((1024,), lambda i: (i,))
    shape = jax.ShapeDtypeStruct((N,), jnp.float32)
    call = pl.pallas_call(add_one, shape, grid=(N // 1024,), in_specs=[block], out_specs=block, interpret=not ON_GPU)
    gpu_benchmark(jax.jit(call), inputs())
