"""A small package of CuPy kernels."""

import cupy as cp

_SHIFT = cp.RawKernel(
    r"""
extern "C" __global__ void shift(float* out, const float* in, float by, int n)
{
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) {
        out[at] = in[at] + by;
    }
}""",
    "shift",
)
_CLAMP = cp.RawKernel(
    r"""
extern "C" __global__ void clamp(float* x, float low, float high, int n)
{
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) {
        x[at] = fminf(fmaxf(x[at], low), high);
    }
}""",
    "clamp",
)


def shift(x, by):
    """A new array: x + by."""
    out = cp.empty_like(x)
    _SHIFT((-(-x.size // 256),), (256,), (out, x, cp.float32(by), x.size))
    return out


def clamp(x, low, high):
    """Limit x in place."""
    _CLAMP((-(-x.size // 256),), (256,), (x, cp.float32(low), cp.float32(high), x.size))
