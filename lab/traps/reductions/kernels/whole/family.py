from peakgate.family import In, Out, Temp, Value, family, kernel, launch


def passes(name, first, last, out, dtype, reference, inputs=1, temp=False, **more):
    names = ["a", "b"][:inputs]
    if temp:
        launches = [launch(first, " ".join(["part", *names, "n"]), grid=32, block=256), launch(last, "out part", grid=1, block=32 if last == "final_dot" else 1)]
    else:
        launches = [launch(first, "out", grid=1, block=1), launch(last, " ".join(["out", *names, "n"]), grid=32, block=256)]
    return kernel("whole.cu", name=name, arguments=lambda n: {"out": Out(1, dtype=out), **{k: In(n, dtype=dtype) for k in names}, "n": Value(n), **({"part": Temp(32, dtype=out)} if temp else {})},
                  launches=launches, bytes=lambda n: 4 * n, reference=reference, sizes=[1 << 20], **more)


def int_sum(name):
    return passes(name, "clear64", name, "int64", "int32", lambda xp, a: a.sum(dtype="int64", keepdims=True))


def count(name):
    return passes(name, "clear_zero", name, "int32", "float32", lambda xp, a: (a > 0).sum(keepdims=True).astype("int32"))


FAMILY = family(
    int_sum("sum_i32"), int_sum("sum_i32_thread"),
    passes("sum_f64", "partial_f64", "final_f64", "float64", "float64", lambda xp, a: a.sum(keepdims=True), temp=True, terms=lambda n: n),
    passes("dot_f32", "partial_dot", "final_dot", "float32", "float32", lambda xp, a, b: (a * b).sum(keepdims=True), 2, temp=True, terms=lambda n: n),
    passes("max_i32", "clear_max", "max_i32", "int32", "int32", lambda xp, a: a.max(keepdims=True), min_capability="8.0"),
    count("count_positive"), count("count_sign"),
)
