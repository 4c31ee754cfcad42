from peakgate.family import In, Out, Temp, Value, family, kernel, launch

GRID = lambda m, n, k: (-(-n // 16), -(-m // 16))
COMMON = dict(bytes=lambda m, n, k: 2 * (m * n + m * k + n * k), flops=lambda m, n, k: 2 * m * n * k, sizes=[(512, 512, 512)])


def mm(name, dtype="float32", out=None, reference=lambda xp, a, b: a @ b, terms=True, data=None, **more):
    return kernel("mm.cu", name=name, entry=name, arguments=lambda m, n, k: [Out(m, n, dtype=out or dtype), In(m, k, dtype=dtype, data=data), In(k, n, dtype=dtype, data=data), Value(m), Value(n), Value(k)],
                  reference=reference, grid=GRID, block=(16, 16), **({"terms": lambda m, n, k: k} if terms else {}), **COMMON, **more)


def integers(name, dtype, out):
    return mm(name, dtype, out, lambda xp, a, b: a.astype(out) @ b.astype(out), terms=False)


def split(name):
    return kernel("mm.cu", name=name, arguments=lambda m, n, k: {"C": Out(m, n), "A": In(m, k), "B": In(k, n), "m": Value(m), "n": Value(n), "k": Value(k), "P": Temp(4, m, n)},
                  launches=[launch(name, "P A B m n k", grid=lambda m, n, k: (-(-n // 16), -(-m // 16), 4), block=(16, 16)), launch("split_sum", "C P m n", grid=GRID, block=(16, 16))],
                  reference=lambda xp, a, b: a @ b, terms=lambda m, n, k: k, **COMMON)


FAMILY = family(
    *(mm(name) for name in ("naive", "tiled_f32", "corner", "quads_of_k", "first_zero", "skip_small")),
    mm("tiled_f64", "float64"),
    integers("tiled_i64", "int64", "int64"), integers("tiled_i8", "int8", "int32"), integers("dot4_i8", "int8", "int32"), integers("i8_pairs", "int8", "int32"),
    integers("tiled_i16", "int16", "int64"), integers("i16_int", "int16", "int64"),
    mm("half_float", "float16"), mm("half_sums", "float16", data=(0, 1)), mm("half_to_float", "float16", "float32"), mm("half_products", "float16", "float32", terms=False, tolerance=2e-3),
    mm("bf16_float", "bfloat16"), mm("bf16_bytes", "bfloat16", terms=False),
    mm("e4m3_float", "float8_e4m3fn", "float32"), mm("e4m3_half", "float8_e4m3fn", "float32"),
    mm("complex4", "complex64"), mm("complex3", "complex64"),
    split("split_part"), split("split_floor"),
)
