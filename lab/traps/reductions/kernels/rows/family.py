from peakgate.family import In, Out, Value, family, kernel


def rows(name, reference, dtype="float32", out=None, data=None, **more):
    return kernel("rows.cu", name=name, entry=name,
                  arguments=lambda m, n: [Out(m, dtype=out or dtype), In(m, n, dtype=dtype, data=data), Value(n)],
                  grid=lambda m, n: m, block=128, bytes=lambda m, n: m * n, reference=reference, sizes=[(256, 8192)], **more)


def total(name, **more):
    return rows(name, lambda xp, x: x.sum(axis=1), terms=lambda m, n: n, **more)


def highest(name):
    return rows(name, lambda xp, x: x.max(axis=1))


def argmax(name):
    return rows(name, lambda xp, x: x.argmax(axis=1).astype("int32"), out="int32")


def variance(name, **more):
    return rows(name, lambda xp, x: x.var(axis=1), **more)


def norm(name):
    return rows(name, lambda xp, x: xp.linalg.norm(x, axis=1))


def mean(name, dtype, **more):
    return rows(name, lambda xp, x: x.mean(axis=1), dtype, **more)


FAMILY = family(
    *(total(name) for name in ("sum_tree", "sum_shuffle", "sum_vec4", "sum_vec4_whole", "sum_registers", "sum_kahan")),
    highest("max_inf"), highest("max_flt_min"), highest("max_lowest_1e4"),
    argmax("argmax_first"), argmax("argmax_lanes"),
    rows("argmin_packed", lambda xp, x: x.argmin(axis=1).astype("int32"), out="int32"),
    variance("variance_two_pass", data=(-100, 100)), variance("variance_moments", data=(1000, 1001), tolerance=1e-3),
    variance("variance_shifted", data=(1000, 1001), tolerance=1e-4),
    norm("norm_squares"), norm("norm_double"), norm("norm_scaled"),
    mean("mean_bf16", "bfloat16"), mean("mean_bf16_partial", "bfloat16", data=(0, 2)),
    mean("sum_half", "float16"), mean("mean_half_sum", "float16", data=(0, 20)),
    *(rows(name, lambda xp, x: abs(x.astype("int32")).max(axis=1), "int8", "int32") for name in ("absmax_i8", "absmax_i8_byte")),
)
