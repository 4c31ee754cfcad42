import numpy as np

from peakgate.family import In, Out, Value, family, kernel


def some(xp, shape):
    mask = np.random.default_rng(5).random(shape) < 0.6
    mask[:, 0] = True
    return xp.asarray(mask)


def soft(xp, x):
    e = xp.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def log_soft(xp, x):
    d = x - x.max(axis=1, keepdims=True)
    return d - xp.log(xp.exp(d).sum(axis=1, keepdims=True))


def lse(xp, x):
    m = x.max(axis=1)
    return m + xp.log(xp.exp(x - m[:, None]).sum(axis=1))


def masked(xp, x, mask):
    x = xp.where(mask, x, -xp.inf)
    e = xp.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def entropy(xp, x, label):
    return -log_soft(xp, x)[xp.arange(len(label)), label]


SIZES = [(256, 4096)]


def rows(name, reference, dtype="float32", data=None, short=False, more=(), warps=False, **other):
    return kernel("soft.cu", name=name, entry=name,
                  arguments=lambda m, n: [Out(*((m,) if short else (m, n)), dtype=dtype), In(m, n, dtype=dtype, data=data), *(f(m, n) for f in more), *([Value(m)] if warps else []), Value(n)],
                  grid=lambda m, n: -(-m // 4) if warps else m, block=128, bytes=lambda m, n: 4 * m * n, reference=reference, sizes=SIZES, **other)


MASK = [lambda m, n: In(m, n, dtype="bool", data=some)]
LABEL = [lambda m, n: In(m, dtype="int32", data=(0, n))]
FAMILY = family(
    *(rows(name, soft) for name in ("three_pass", "no_max", "max_from_zero", "clamp_80", "online", "online_lazy")),
    rows("online_dropped", soft),
    rows("fast", soft, data=(-5, 5)),
    rows("log_soft", log_soft, data=(-50, 50)), rows("log_of_soft", log_soft),
    rows("lse", lse, short=True), rows("lse_direct", lse, short=True),
    rows("share", lambda xp, x: x / x.sum(axis=1, keepdims=True), data=(0.01, 1)),
    rows("share_positive", lambda xp, x: x / x.sum(axis=1, keepdims=True), data=(-0.5, 1.5)),
    rows("absmax", lambda xp, x: x / abs(x).max(axis=1, keepdims=True)), rows("absmax_recip", lambda xp, x: x / abs(x).max(axis=1, keepdims=True)),
    rows("soft_half", soft, "float16"), rows("soft_half_start", soft, "float16"),
    rows("masked", masked, more=MASK), rows("masked_1e4", masked, more=MASK),
    rows("entropy", entropy, short=True, more=LABEL), rows("entropy_eps", entropy, short=True, more=LABEL),
    rows("warp_rows", soft, warps=True),
)
