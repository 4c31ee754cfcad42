from peakgate.family import In, Out, Value, family, kernel

EDGES = [(1, 1), (3, 31), (5, 33), (2, 127), (2, 129), (3, 500), (1, 1000)]


def rows(name, reference, dtype="float32", out=None, columns=None, **more):
    return kernel("order.cu", name=name, entry=name,
                  arguments=lambda m, n: [Out(m, *([columns] if columns == 4 else [n] if columns is None else []), dtype=out or dtype), In(m, n, dtype=dtype), *([Value(m)] if columns == 4 else []), Value(n)],
                  grid=lambda m, n: -(-m // 128) if columns == 4 else m, block=128 if columns == 4 else 256,
                  bytes=lambda m, n: 2 * m * n, reference=reference, sizes=[(512, 1024)], edges=[e for e in EDGES if e[1] > 1 or columns != 4], **more)


def ordered(name, dtype="float32"):
    return rows(name, lambda xp, x: xp.sort(x, axis=1), dtype)


def arguments_of(name, dtype="float32"):
    return rows(name, lambda xp, x: xp.argsort(x, axis=1, kind="stable").astype("int32"), dtype, "int32")


def top(name):
    return rows(name, lambda xp, x: -xp.sort(-x, axis=1)[:, :4], columns=4)


def median(name):
    return rows(name, lambda xp, x: xp.sort(x, axis=1)[:, x.shape[1] // 2], columns=0)


def search(name):
    return kernel("order.cu", name=name, entry=name, arguments=lambda n: [Out(n, dtype="int32"), In(64, dtype="int32", data=lambda xp, shape: 3 * xp.arange(64, dtype="int32")), In(n, dtype="int32", data=(-5, 200)), Value(n)],
                  grid=lambda n: -(-n // 256), block=256, bytes=lambda n: 8 * n, reference=lambda xp, table, x: xp.searchsorted(table, x, side="right" if name == "search_any" else "left").astype("int32"), sizes=[1 << 20])


FAMILY = family(
    ordered("sort_f32"), ordered("sort_f32_pad"), ordered("sort_i32", "int32"), ordered("sort_u64", "uint64"), ordered("sort_i64", "int64"), ordered("sort_i8", "int8"),
    ordered("rank_f32"), ordered("rank_f32_distinct"), ordered("rank_u64_high", "uint64"), ordered("rank_i64_difference", "int64"), ordered("rank_half", "float16"),
    arguments_of("argsort"), arguments_of("argsort_reversed"), arguments_of("argsort_i16", "int16"), arguments_of("argsort_i32_packed", "int32"),
    top("top4"), top("top4_below"), top("top4_start"),
    rows("top4_index", lambda xp, x: xp.argsort(-x, axis=1, kind="stable")[:, :4].astype("int32"), out="int32", columns=4),
    median("median"), median("median_distinct"), search("search_left"), search("search_any"),
)
