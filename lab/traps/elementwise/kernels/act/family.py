import math

import numpy as np

from peakgate.family import In, InOut, Out, Value, family, kernel


def erf(xp, x):
    host = x.get() if hasattr(x, "get") else x
    return xp.asarray(np.vectorize(math.erf, otypes=[float])(host))


def erfc(xp, x):
    host = x.get() if hasattr(x, "get") else x
    return xp.asarray(np.vectorize(math.erfc, otypes=[float])(host))


def with_nans(xp, shape):
    x = np.random.default_rng(7).normal(size=shape).astype("float32")
    x.reshape(-1)[::13] = np.nan
    return xp.asarray(x)


COMMON = dict(grid=lambda n: -(-n // 256), block=256, sizes=[1 << 20])


def unary(name, reference, data=None, **more):
    return kernel("act.cu", name=name, entry=name, arguments=lambda n: [Out(n), In(n, data=data), Value(n)],
                  bytes=lambda n: 8 * n, reference=reference, **COMMON, **more)


def binary(name, reference, **more):
    return kernel("act.cu", name=name, entry=name, arguments=lambda n: [Out(n), In(n), In(n), Value(n)],
                  bytes=lambda n: 12 * n, reference=reference, **COMMON, **more)


def in_place(name):
    return kernel("act.cu", name=name, entry=name, arguments=lambda n: [InOut(n), Value(n)],
                  bytes=lambda n: 8 * n, reference=lambda xp, x: 1.5 * x, grid=lambda n: -(-n // 1024), block=256, sizes=[1 << 20])


def gelu(xp, x):
    return 0.5 * x * (1 + erf(xp, x / math.sqrt(2)))


FAMILY = family(
    unary("gelu_erf", gelu, data=(-6, 6)),
    unary("gelu_erfc", lambda xp, x: 0.5 * x * erfc(xp, -x / math.sqrt(2)), data=(-4, 4)),
    unary("gelu_tanh", lambda xp, x: 0.5 * x * (1 + xp.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))), data=(-5, 5)),
    unary("silu", lambda xp, x: x / (1 + xp.exp(-x)), data=(-80, 80)),
    unary("silu_fast", lambda xp, x: x / (1 + xp.exp(-x)), data=(-20, 20)),
    unary("softplus", lambda xp, x: xp.logaddexp(0, x)),
    unary("softplus_direct", lambda xp, x: xp.logaddexp(0, x)),
    unary("one_minus_cos", lambda xp, x: 1 - xp.cos(x), data=(-8, 8)),
    unary("versine", lambda xp, x: 1 - xp.cos(x), data=(-3, 3)),
    unary("relu_keeps_nan", lambda xp, x: xp.maximum(x, 0), data=with_nans),
    unary("relu_fmax", lambda xp, x: xp.maximum(x, 0)),
    unary("tanh_lib", lambda xp, x: xp.tanh(x)),
    unary("tanh_expm1", lambda xp, x: xp.tanh(x)),
    unary("tanh_by_exp", lambda xp, x: xp.tanh(x)),
    unary("sigmoid", lambda xp, x: 1 / (1 + xp.exp(-x)), data=(-60, 60)),
    unary("sigmoid_ratio", lambda xp, x: 1 / (1 + xp.exp(-x))),
    unary("log1p_lib", lambda xp, x: xp.log1p(x), data=(0, 1000)),
    unary("log_of_one_plus", lambda xp, x: xp.log1p(x), data=(0, 1)),
    unary("expm1_lib", lambda xp, x: xp.expm1(x), data=(-20, 20)),
    unary("exp_minus_one", lambda xp, x: xp.expm1(x), data=(-2, 2)),
    unary("rsqrt_fast", lambda xp, x: 1 / xp.sqrt(x), data=(0.001, 1000)),
    binary("hypot_lib", lambda xp, a, b: xp.hypot(a, b)),
    binary("hypot_squares", lambda xp, a, b: xp.hypot(a, b)),
    binary("lerp", lambda xp, a, b: a + 0.25 * (b - a)),
    binary("mix_memo", lambda xp, a, b: 3 * a + b),
    unary("scale_turns", lambda xp, x: 1.5 * x),
    in_place("scale_vec4"),
    in_place("scale_vec4_cases"),
    binary("max_by_bits", lambda xp, a, b: xp.maximum(a, b)),
    binary("max_by_key", lambda xp, a, b: xp.maximum(a, b)),
)
