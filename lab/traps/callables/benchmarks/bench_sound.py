"""Callables that are right; every array is CuPy's on a GPU and NumPy's without one."""
import pytest

N = 1 << 16


def numbers(xp, *shape, low=-1.0, high=1.0, dtype="float32", seed=1):
    return xp.random.RandomState(seed).uniform(low, high, shape).astype(dtype)


def integers(xp, *shape, low=-1000, high=1000, dtype="int32", seed=2):
    return xp.random.RandomState(seed).randint(low, high, shape).astype(dtype)


@pytest.mark.peakgate(reference=lambda x: 2 * x)
def bench_double(gpu_benchmark):
    gpu_benchmark(lambda x: x + x, numbers(gpu_benchmark.xp, N))


def bench_softmax(gpu_benchmark):
    xp = gpu_benchmark.xp

    def softmax(x):
        e = xp.exp(x - x.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    def exact(x):
        x = x.astype("float64")
        e = xp.exp(x - x.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    gpu_benchmark.expect(exact)(softmax, numbers(xp, 64, 300, low=-5, high=5))


@pytest.mark.peakgate(reference=lambda a, b: a.astype("float64") @ b.astype("float64"), tolerance=1e-4)
def bench_product(gpu_benchmark):
    xp = gpu_benchmark.xp
    gpu_benchmark(lambda a, b: a @ b, numbers(xp, 65, 70), numbers(xp, 70, 33, seed=3))


@pytest.mark.peakgate(reference=lambda x: x.sum(axis=1, dtype="float64"), tolerance=1e-4)
def bench_rows(gpu_benchmark):
    gpu_benchmark(lambda x: x.sum(axis=1), numbers(gpu_benchmark.xp, 100, 1000))


@pytest.mark.peakgate(reference=lambda x: x.argmax(axis=1))
def bench_argmax(gpu_benchmark):
    gpu_benchmark(lambda x: x.argmax(axis=1), integers(gpu_benchmark.xp, 100, 300, low=0, high=20))


def bench_sort(gpu_benchmark):
    xp = gpu_benchmark.xp
    gpu_benchmark.expect(lambda x: xp.sort(x, axis=1))(lambda x: -xp.sort(-x, axis=1)[:, ::-1], integers(xp, 50, 400))


def bench_scan(gpu_benchmark):
    xp = gpu_benchmark.xp
    gpu_benchmark.expect(lambda x: xp.cumsum(x, axis=1, dtype="int64"))(lambda x: xp.cumsum(x.astype("int64"), axis=1), integers(xp, 50, 400))


def bench_gelu(gpu_benchmark):
    xp = gpu_benchmark.xp
    k = (2 / 3.141592653589793) ** 0.5

    def gelu(x):
        return 0.5 * x * (1 + xp.tanh(k * (x + 0.044715 * x * x * x)))

    gpu_benchmark.expect(lambda x: gelu(x.astype("float64")), tolerance=1e-4)(gelu, numbers(xp, N, low=-3, high=3))


def bench_clip(gpu_benchmark):
    xp = gpu_benchmark.xp
    gpu_benchmark.expect(lambda x: xp.clip(xp.rint(x * 16), -128, 127).astype("int8"))(lambda x: xp.minimum(xp.maximum(xp.rint(x * 16), -128), 127).astype("int8"), numbers(xp, N, low=-10, high=10))


@pytest.mark.peakgate(reference=lambda x: x.T)
def bench_turn(gpu_benchmark):
    gpu_benchmark(lambda x: x.T.copy(), numbers(gpu_benchmark.xp, 129, 65))


def bench_in_place(gpu_benchmark):
    def halve(x):
        x *= 0.5
    gpu_benchmark.expect(lambda x: x / 2, outputs=lambda x: x)(halve, numbers(gpu_benchmark.xp, N))


def bench_variance(gpu_benchmark):
    def variance(x):
        d = x - x.mean(axis=1, keepdims=True)
        return (d * d).mean(axis=1)
    gpu_benchmark.expect(lambda x: x.astype("float64").var(axis=1), tolerance=1e-4)(variance, numbers(gpu_benchmark.xp, 64, 500))


def bench_spectrum(gpu_benchmark):
    xp = gpu_benchmark.xp
    gpu_benchmark.expect(lambda x: xp.fft.ifft(xp.fft.fft(x.astype("complex128"), axis=1), axis=1).real, atol=1e-6, rtol=1e-5)(lambda x: xp.fft.ifft(xp.fft.fft(x, axis=1), axis=1).real.astype("float32"), numbers(xp, 32, 64))


def bench_mask(gpu_benchmark):
    xp = gpu_benchmark.xp
    gpu_benchmark.expect(lambda x, y: xp.where(x > y, x, y))(lambda x, y: xp.maximum(x, y), numbers(xp, N), numbers(xp, N, seed=5))


def bench_outputs(gpu_benchmark):
    xp = gpu_benchmark.xp

    def extremes(low, high, x):
        low[...] = x.min(axis=1)
        high[...] = x.max(axis=1)
    gpu_benchmark.expect(lambda low, high, x: (x.min(axis=1), x.max(axis=1)), outputs=lambda low, high, x: (low, high))(extremes, xp.zeros(64, "float32"), xp.zeros(64, "float32"), numbers(xp, 64, 200))


def bench_popcount(gpu_benchmark):
    xp = gpu_benchmark.xp

    def swar(v):
        v = v - ((v >> 1) & 0x55555555)
        v = (v & 0x33333333) + ((v >> 2) & 0x33333333)
        v = (v + (v >> 4)) & 0x0F0F0F0F
        return ((v * 0x01010101) & 0xFFFFFFFF) >> 24
    gpu_benchmark.expect(lambda x: sum((x >> k) & 1 for k in range(32)))(swar, integers(xp, N, low=0, high=2**31 - 1, dtype="int64"))
