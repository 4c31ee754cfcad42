"""JAX: a compiled expression, and a kernel in Pallas."""

import pytest
from doubling import DOUBLES, FLOATS

jax = pytest.importorskip("jax")
from jax.experimental import pallas as pl  # noqa: E402


def jitted():
    return jax.jit(lambda x: 2 * x + 1), jax.numpy.linspace(0, 1, FLOATS, dtype="float32")


def pallas():
    def double(x, out):
        out[...] = 2 * x[...] + 1

    block = pl.BlockSpec((1024,), lambda at: (at,))
    shape = jax.ShapeDtypeStruct((FLOATS,), "float32")
    call = pl.pallas_call(double, out_shape=shape, grid=(FLOATS // 1024,), in_specs=[block], out_specs=block)
    return jax.jit(call), jax.numpy.linspace(0, 1, FLOATS, dtype="float32")


@pytest.mark.parametrize("made", [jitted, pallas], ids=lambda made: made.__name__)
@DOUBLES
def bench_jax(gpu_benchmark, made):
    gpu_benchmark(*made())
