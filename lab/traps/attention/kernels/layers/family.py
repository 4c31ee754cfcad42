import math

from peakgate.family import In, Out, Value, family, kernel


def rows(name, reference, dtype="float32", data=None, **more):
    return kernel("layers.cu", name=name, entry=name, arguments=lambda m, n: [Out(m, n, dtype=dtype), In(m, n, dtype=dtype, data=data), Value(n)], grid=lambda m, n: m, block=128,
                  bytes=lambda m, n: 4 * m * n, reference=reference, sizes=[(256, 4096)], **more)


def norm(xp, x):
    d = x - x.mean(axis=1, keepdims=True)
    return d / xp.sqrt((d * d).mean(axis=1, keepdims=True) + 1e-5)


def rms(xp, x):
    return x / xp.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-6)


def softmax(xp, s):
    e = xp.exp(s - s.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def attention(xp, q, k, v):
    return softmax(xp, q @ k.T / 8) @ v


def causal(xp, q, k, v):
    s = q @ k.T / 8
    i = xp.arange(len(q))
    return softmax(xp, xp.where(i[None, :] <= i[:, None], s, -xp.inf)) @ v


def attend(name, dtype="float32", data=None, **more):
    def arguments(m, k):
        if k > 2048:
            raise ValueError("at most 2048 keys")
        return [Out(m, 64, dtype=dtype), *(In(r, 64, dtype=dtype, data=data) for r in (m, k, k)), Value(k)]
    return kernel("layers.cu", name=name, entry=name, arguments=arguments, grid=lambda m, k: m, block=128,
                  bytes=lambda m, k: 512 * (m + k), reference=attention, sizes=[(256, 2048)], edges=[(1, 1), (3, 31), (2, 66), (5, 127), (4, 129), (2, 300)], **more)


def causes(name, data):
    return kernel("layers.cu", name=name, entry=name, arguments=lambda n: [Out(n, 64), *(In(n, 64, data=data) for _ in range(3)), Value(n)], grid=lambda n: n, block=128,
                  bytes=lambda n: 1024 * n, reference=causal, sizes=[1024], edges=[1, 3, 31, 33, 129], tolerance=1e-4)


def rotated(xp, x, a):
    u, v = x[:, 0], x[:, 1]
    return xp.stack([u * xp.cos(a) - v * xp.sin(a), u * xp.sin(a) + v * xp.cos(a)], axis=1)


def rope(name, data):
    return kernel("layers.cu", name=name, entry=name, arguments=lambda n: [Out(n, 2), In(n, 2), In(n, data=data), Value(n)], grid=lambda n: -(-n // 256), block=256, bytes=lambda n: 20 * n, reference=rotated,
                  scale=lambda xp, x, a: xp.broadcast_to(xp.sqrt((x * x).sum(axis=1, keepdims=True)), x.shape), sizes=[1 << 19])


FAMILY = family(
    rows("norm_two_pass", norm, data=(-10, 10), tolerance=1e-4), rows("norm_welford", norm, data=(50, 60), tolerance=1e-3), rows("norm_moments", norm, data=(500, 501), tolerance=1e-3),
    rows("norm_eps_outside", norm, data=(-10, 10), tolerance=1e-4), rows("norm_bessel", norm, tolerance=1e-4),
    rows("rms_float", rms, data=(-1000, 1000)), rows("rms_half", rms, "float16"), rows("rms_square", rms, "float16"), rows("rms_bf16", rms, "bfloat16", data=(-100, 100)), rows("rms_cached", rms, "bfloat16"),
    attend("attention_f32", data=(-2, 2), tolerance=1e-4), attend("attention_half", "float16", data=(-2, 2), tolerance=2e-3), attend("attention_two_pass", data=(-1, 1), tolerance=1e-4),
    attend("attention_capped", data=(-4, 4), tolerance=1e-4), attend("attention_no_max", data=(-8, 8), tolerance=1e-3), attend("attention_half_score", "float16", data=(-60, 60), tolerance=2e-3), attend("attention_pairs", data=(-1, 1), tolerance=1e-4),
    causes("causal", (-2, 2)), causes("causal_mask", (-10, 10)),
    rope("rope", (-1000, 1000)), rope("rope_fast", (-100000, 100000)),
    kernel("layers.cu", name="glu", entry="glu", arguments=lambda n: [Out(n), In(n, data=(-60, 60)), In(n), Value(n)], grid=lambda n: -(-n // 256), block=256, bytes=lambda n: 12 * n, reference=lambda xp, a, b: a / (1 + xp.exp(-a)) * b, sizes=[1 << 20]),
)
