from peakgate.family import In, Out, Value, family, kernel


def line(name, reference, dtype="float32", **more):
    return kernel("stencils.cu", name=name, entry=name, arguments=lambda n: [Out(n, dtype=dtype), In(n, dtype=dtype), Value(n)], grid=lambda n: -(-n // 256), block=256,
                  bytes=lambda n: 8 * n, reference=reference, sizes=[1 << 20], **more)


def image(name, reference, dtype="float32", data=None, **more):
    return kernel("stencils.cu", name=name, entry=name, arguments=lambda m, n: [Out(m, n, dtype=dtype), In(m, n, dtype=dtype, data=data), Value(m), Value(n)], grid=lambda m, n: (-(-n // 32), -(-m // 8)), block=(32, 8),
                  bytes=lambda m, n: 2 * m * n, reference=reference, sizes=[(1024, 1024)], **more)


def conv5(xp, x, tap):
    p = xp.pad(x, 2)
    return sum(tap[k] * p[k:k + len(x)] for k in range(5))


def laplace(xp, x):
    p = xp.pad(x, 1)
    return p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4 * x


def windows(xp, x, radius, mode="edge"):
    p = xp.pad(x, radius, mode=mode)
    return [p[y:y + x.shape[0], c:c + x.shape[1]] for y in range(2 * radius + 1) for c in range(2 * radius + 1)]


G = [1, 4, 7, 4, 1, 4, 16, 26, 16, 4, 7, 26, 41, 26, 7, 4, 16, 26, 16, 4, 1, 4, 7, 4, 1]


def box(xp, x):
    return (sum(windows(xp, x.astype("int32"), 1)) // 9).astype("uint8")


def gauss(xp, x):
    return ((sum(g * w for g, w in zip(G, windows(xp, x.astype("int32"), 2))) + 136) // 273).astype("uint8")


def pool(xp, x):
    best = x
    for w in windows(xp, x, 1):
        best = xp.maximum(best, w)
    return best


def edges(xp, x):
    p = xp.pad(x, ((0, 1), (0, 1)), mode="edge")
    return xp.hypot(p[:-1, 1:] - x, p[1:, :-1] - x)


def median(xp, x):
    p = xp.pad(x, 1, mode="edge")
    return xp.sort(xp.stack([p[:-2], p[1:-1], p[2:]]), axis=0)[1]


def life(xp, x):
    alive = (x != 0).astype("int32")
    w = windows(xp, alive, 1, "constant")
    s = sum(w) - alive
    return ((s == 3) | ((s == 2) & (alive == 1))).astype("uint8")


TAPS = dict(constants={"tap": In(5)}, terms=5)
FAMILY = family(
    line("conv5", conv5, **TAPS), line("conv5_tile", conv5, **TAPS), line("conv5_halo", conv5, **TAPS),
    line("ring", lambda xp, x: 0.25 * xp.roll(x, 1) + 0.5 * x + 0.25 * xp.roll(x, -1)),
    image("laplace", laplace), image("laplace_f64", laplace, "float64"), image("laplace_rows", laplace),
    *(image(name, box, "uint8") for name in ("box3_u8", "box3_recip", "box3_approx")),
    image("gauss5", gauss, "uint8"), image("gauss5_u16", gauss, "uint8"),
    image("pool3", pool), image("pool3_zero", pool), image("pool3_i8", pool, "int8"), image("pool3_i8_pad", pool, "int8"),
    image("edges_half", edges, "float16", data=(-1000, 1000)), image("edges_square", edges, "float16", data=(-1000, 1000)),
    line("median3", median, "int32"), line("median3_sum", median, "int32"),
    image("life", life, "uint8", data=(0, 2)), image("life_bytes", life, "uint8"),
    line("difference", lambda xp, x: xp.append(x[1:] - x[:-1], xp.zeros(1))),
    image("absdiff", lambda xp, x: abs(x.astype("int32") - xp.pad(x, ((0, 0), (0, 1)), mode="edge")[:, 1:]).astype("uint8"), "uint8"),
)
