import numpy as np

from peakgate.family import In, Out, Value, family, kernel


def coins(xp, shape):
    return xp.asarray(np.random.default_rng(shape[0]).random(shape) < 0.5)


def few(xp, shape):
    return xp.asarray(np.random.default_rng(shape[0]).random(shape) < 0.02)


def many(xp, shape):
    return ~few(xp, shape)


def each(name, reference, dtype="bool", inputs=1, data=None):
    return kernel("masks.cu", name=name, entry=name, arguments=lambda n: [Out(n, dtype="bool"), *(In(n, dtype=dtype, data=coins if dtype == "bool" else data) for _ in range(inputs)), Value(n)],
                  grid=lambda n: -(-n // 256), block=256, bytes=lambda n: 2 * n, reference=reference, sizes=[1 << 20])


def rows(name, reference, dtype="bool", data=None):
    return kernel("masks.cu", name=name, entry=name, arguments=lambda m, n: [Out(m, dtype="bool"), In(m, n, dtype=dtype, data=data), Value(m), Value(n)],
                  grid=lambda m, n: m, block=128, bytes=lambda m, n: m * n, reference=reference, sizes=[(512, 2048)])


def packed(name):
    return kernel("masks.cu", name=name, entry=name, arguments=lambda n: [Out(-(-n // 32), dtype="uint32"), In(n, dtype="int32"), Value(n)], grid=lambda n: -(-n // 256), block=256, bytes=lambda n: 4 * n,
                  reference=lambda xp, x: (xp.pad(x > 0, (0, -len(x) % 32)).reshape(-1, 32).astype("uint64") << xp.arange(32, dtype="uint64")).sum(axis=1).astype("uint32"), sizes=[1 << 20])


def compacted(test):
    def reference(xp, x):
        kept = test(x)
        order = xp.argsort(~kept, axis=1, kind="stable")
        count = kept.sum(axis=1)
        values = xp.take_along_axis(x, order, axis=1)
        return xp.where(xp.arange(x.shape[1]) < count[:, None], values, 0), count.astype("int32")
    return reference


def changes(x):
    kept = x == x
    kept[:, 1:] = x[:, 1:] != x[:, :-1]
    return kept


def compact(name, test, dtype="float32", data=None):
    return kernel("masks.cu", name=name, entry=name, arguments=lambda m, n: [Out(m, n, dtype=dtype), Out(m, dtype="int32"), In(m, n, dtype=dtype, data=data), Value(n)],
                  grid=lambda m, n: m, block=256, bytes=lambda m, n: 4 * m * n, reference=compacted(test), sizes=[(128, 4096)])


FAMILY = family(
    *(each(name, lambda xp, x: x > 0.25, "float32") for name in ("above", "above_byte", "above_bits")),
    *(each(name, lambda xp, x: x != 0, "int32") for name in ("nonzero", "nonzero_low")),
    kernel("masks.cu", name="nonzero_store", entry="nonzero_store", arguments=lambda n: [Out(n, dtype="bool"), In(n, dtype="uint8"), Value(n)], grid=lambda n: -(-n // 256), block=256, bytes=lambda n: 2 * n, reference=lambda xp, x: x != 0, sizes=[1 << 20]),
    each("both", lambda xp, a, b: a & b, inputs=2), each("differ_words", lambda xp, a, b: a ^ b, inputs=2),
    *(each(name, lambda xp, x: ~x) for name in ("invert", "invert_bits")),
    each("is_nan", lambda xp, x: xp.isnan(x), "float32"),
    *(each(name, lambda xp, a, b: a == b, "float32", 2) for name in ("equal_f32", "equal_bits")),
    *(each(name, lambda xp, a, b: a <= b, "float32", 2) for name in ("less_equal", "less_strict")),
    each("less_difference", lambda xp, a, b: a < b, "int32", 2),
    rows("any_rows", lambda xp, x: x.any(axis=1), data=few), rows("all_rows", lambda xp, x: x.all(axis=1), data=many),
    rows("all_rows_i32", lambda xp, x: x.all(axis=1), "int32"), rows("all_lanes", lambda xp, x: x.all(axis=1), "int32"),
    kernel("masks.cu", name="pack_bits", entry="pack_bits", arguments=lambda n: [Out(-(-n // 8), dtype="uint8"), In(n, dtype="bool", data=coins), Value(n)], grid=lambda n: -(-n // 2048), block=256, bytes=lambda n: n, reference=lambda xp, x: xp.packbits(x), sizes=[1 << 20]),
    packed("pack_ballot"), packed("pack_sign"),
    compact("keep_positive", lambda x: x > 0), compact("keep_int", lambda x: x > 0),
    *(compact(name, lambda x: x % 2 == 1, "int64") for name in ("keep_odd", "keep_odd_mod")), compact("keep_large", lambda x: x > 4294967295, "int64"),
    compact("unique_runs", changes, "int32", (0, 3)), compact("unique_runs_zero", changes, "int32", (-50, 50)),
)
