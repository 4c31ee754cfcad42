"""Triton, and Gluon, its lower level."""

import pytest
from doubling import BLOCK, DOUBLES, FLOATS, of_torch

triton = pytest.importorskip("triton")
gluon = pytest.importorskip("triton.experimental.gluon")
import triton.language as tl  # noqa: E402
from triton.experimental.gluon import language as gl  # noqa: E402


@triton.jit
def by_triton(out, x, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(out + at, 2 * tl.load(x + at) + 1)


@gluon.jit
def by_gluon(out, x, block: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    at = gl.program_id(0) * block + gl.arange(0, block, layout=layout)
    gl.store(out + at, 2 * gl.load(x + at) + 1)


def of_triton():
    return lambda out, x: by_triton[(FLOATS // BLOCK,)](out, x, BLOCK), *of_torch()


def of_gluon():
    return lambda out, x: by_gluon[(FLOATS // BLOCK,)](out, x, BLOCK), *of_torch()


@pytest.mark.parametrize("made", [of_triton, of_gluon], ids=lambda made: made.__name__)
@DOUBLES
def bench_triton(gpu_benchmark, made):
    gpu_benchmark(*made())
