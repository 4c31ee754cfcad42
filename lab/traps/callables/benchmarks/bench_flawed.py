"""Callables with one defect each; every array is CuPy's on a GPU and NumPy's without one."""
import pytest

N = 1 << 16


def numbers(xp, *shape, low=-1.0, high=1.0, dtype="float32", seed=1):
    return xp.random.RandomState(seed).uniform(low, high, shape).astype(dtype)


def integers(xp, *shape, low=-1000, high=1000, dtype="int32", seed=2):
    return xp.random.RandomState(seed).randint(low, high, shape).astype(dtype)


def bench_softmax(gpu_benchmark):  # exp without the maximum
    xp = gpu_benchmark.xp

    def softmax(x):
        e = xp.exp(x)
        return e / e.sum(axis=1, keepdims=True)

    def exact(x):
        x = x.astype("float64")
        e = xp.exp(x - x.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    gpu_benchmark.expect(exact)(softmax, numbers(xp, 64, 300))


def bench_product(gpu_benchmark):  # a multiple of eight terms
    xp = gpu_benchmark.xp

    def product(a, b):
        k = a.shape[1] // 8 * 8
        return a[:, :k] @ b[:k]
    gpu_benchmark.expect(lambda a, b: a.astype("float64") @ b.astype("float64"), tolerance=1e-4)(product, numbers(xp, 65, 100), numbers(xp, 100, 33, seed=3))


def bench_rows(gpu_benchmark):  # sums in half
    gpu_benchmark.expect(lambda x: x.sum(axis=1, dtype="float64"), tolerance=1e-4)(lambda x: x.astype("float16").sum(axis=1, dtype="float32"), numbers(gpu_benchmark.xp, 100, 1000, low=0))


def bench_argmax(gpu_benchmark):  # last of ties
    gpu_benchmark.expect(lambda x: x.argmax(axis=1))(lambda x: x.shape[1] - 1 - x[:, ::-1].argmax(axis=1), numbers(gpu_benchmark.xp, 100, 300))


def bench_sort(gpu_benchmark):  # assumes values from 0 up
    xp = gpu_benchmark.xp
    gpu_benchmark.expect(lambda x: xp.sort(x, axis=1))(lambda x: xp.sort(x.view("uint32"), axis=1).view("int32"), integers(xp, 50, 400, low=0, high=2**30))


def bench_scan(gpu_benchmark):  # 32-bit sums
    xp = gpu_benchmark.xp
    gpu_benchmark.expect(lambda x: xp.cumsum(x, axis=1, dtype="int64"))(lambda x: xp.cumsum(x, axis=1, dtype="int32").astype("int64"), integers(xp, 50, 400))


def bench_distinct(gpu_benchmark):  # second largest, by masking all equal to the largest
    xp = gpu_benchmark.xp
    gpu_benchmark.expect(lambda x: xp.sort(x, axis=1)[:, -2])(lambda x: xp.where(x < x.max(axis=1, keepdims=True), x, -xp.inf).max(axis=1).astype("float32"), numbers(xp, 64, 200))


def bench_round(gpu_benchmark):  # ties upward
    xp = gpu_benchmark.xp
    gpu_benchmark.expect(lambda x: xp.clip(xp.rint(x * 16), -128, 127).astype("int8"))(lambda x: xp.clip(xp.floor(x * 16 + 0.5), -128, 127).astype("int8"), numbers(xp, N, low=-10, high=10))


def bench_memo(gpu_benchmark):  # the answer of the first call, by shape
    kept = {}

    def triple(x):
        if x.shape not in kept:
            kept[x.shape] = 3 * x
        return kept[x.shape].copy()
    gpu_benchmark.expect(lambda x: 3 * x)(triple, numbers(gpu_benchmark.xp, N))


def bench_memo_words(gpu_benchmark):  # the answer kept by the first and last word
    kept = {}

    def square(x):
        key = (float(x[0]), float(x[-1]))
        if key not in kept:
            kept[key] = x * x
        return kept[key].copy()
    gpu_benchmark.expect(lambda x: x * x)(square, numbers(gpu_benchmark.xp, N))


def bench_third(gpu_benchmark):  # every third call forgets the last element
    calls = []

    def increment(x):
        calls.append(1)
        y = x + 1
        if len(calls) % 3 == 0:
            y[-1] = x[-1]
        return y
    gpu_benchmark.expect(lambda x: x + 1)(increment, numbers(gpu_benchmark.xp, N))


def bench_variance(gpu_benchmark):  # E[x^2] - E[x]^2 in float
    gpu_benchmark.expect(lambda x: x.astype("float64").var(axis=1), tolerance=1e-4)(lambda x: (x * x).mean(axis=1) - x.mean(axis=1) ** 2, numbers(gpu_benchmark.xp, 64, 500, low=300, high=301))


def bench_norm(gpu_benchmark):  # squares overflow
    xp = gpu_benchmark.xp
    gpu_benchmark.expect(lambda a, b: xp.hypot(a.astype("float64"), b.astype("float64")))(lambda a, b: xp.sqrt(a * a + b * b), numbers(xp, N), numbers(xp, N, seed=4))


def bench_positive(gpu_benchmark):  # assumes positive row sums
    xp = gpu_benchmark.xp
    gpu_benchmark.expect(lambda x: x / x.sum(axis=1, keepdims=True, dtype="float64"), tolerance=1e-4)(lambda x: x / xp.maximum(x.sum(axis=1, keepdims=True), 1e-6), numbers(xp, 64, 200, low=0))


def bench_bytes(gpu_benchmark):  # keys cut to a byte
    xp = gpu_benchmark.xp
    gpu_benchmark.expect(lambda x: xp.bincount(x, minlength=512)[:512])(lambda x: xp.bincount(x & 255, minlength=512)[:512], integers(xp, N, low=0, high=256))


def bench_truth(gpu_benchmark):  # bytes taken for 0 and 1
    xp = gpu_benchmark.xp
    gpu_benchmark.expect(lambda x: (x != 0).sum(axis=1))(lambda x: x.sum(axis=1, dtype="int64"), integers(xp, 64, 300, low=0, high=2, dtype="uint8"))
