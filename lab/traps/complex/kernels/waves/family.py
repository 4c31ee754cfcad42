from peakgate.family import In, Out, Value, family, kernel


def each(name, reference, inputs=1, dtype="complex64", out=None, data=None, **more):
    return kernel("waves.cu", name=name, entry=name, arguments=lambda n: [Out(n, dtype=out or dtype), *(In(n, dtype=dtype, data=data) for _ in range(inputs)), Value(n)],
                  grid=lambda n: -(-n // 256), block=256, bytes=lambda n: 8 * (1 + inputs) * n, reference=reference, sizes=[1 << 19], **more)


def away_from_zero(xp, shape):
    turn = 2.399963 * xp.arange(shape[0])
    return ((1 + turn % 3) * xp.exp(1j * turn)).astype("complex64")


def strip(xp, shape):
    turn = 2.399963 * xp.arange(shape[0])
    return (turn % 40 - 20 + 1j * (turn % 17 - 8)).astype("complex64")


def quotient(name, **more):
    return each(name, lambda xp, a, b: a / b, 2, **more)


def fourier(name, **more):
    return kernel("waves.cu", name=name, entry=name, arguments=lambda n: [Out(n, 64, dtype="complex64"), In(n, 64, dtype="complex64"), Value(n)], grid=lambda n: n, block=64, bytes=lambda n: 1024 * n,
                  reference=lambda xp, x: xp.fft.fft(x, axis=1), **(more or {"terms": 64}), scale=lambda xp, x: xp.broadcast_to(xp.sqrt((abs(x) ** 2).sum(axis=1, keepdims=True)), x.shape), sizes=[1 << 13])


FAMILY = family(
    each("multiply", lambda xp, a, b: a * b, 2), each("multiply_lib", lambda xp, a, b: a * b, 2), each("multiply_conj", lambda xp, a, b: a * b.conj(), 2),
    quotient("divide_lib", data=away_from_zero), quotient("divide_smith", data=away_from_zero), quotient("divide_square"), quotient("divide_real"),
    *(each(name, lambda xp, x: abs(x), out="float32") for name in ("modulus", "modulus_lib", "modulus_square")),
    *(each(name, lambda xp, x: xp.angle(x), out="float32") for name in ("phase", "phase_ratio")),
    each("conjugate", lambda xp, x: x.conj()), each("exponential", lambda xp, x: xp.exp(x), data=strip),
    each("root", lambda xp, x: xp.sqrt(x)), each("root_cancels", lambda xp, x: xp.sqrt(x)), each("root_sign", lambda xp, x: xp.sqrt(x)),
    each("square_f64", lambda xp, x: x * x, dtype="complex128"), each("square_direct", lambda xp, x: x * x, dtype="complex128"),
    fourier("fourier_direct"), fourier("fourier_radix2"), fourier("fourier_table", tolerance=1e-5), fourier("fourier_skip"),
    kernel("waves.cu", name="inner", entry="inner", arguments=lambda m, n: [Out(m, dtype="complex64"), In(m, n, dtype="complex64"), In(m, n, dtype="complex64"), Value(n)], grid=lambda m, n: m, block=32,
           bytes=lambda m, n: 16 * m * n, reference=lambda xp, a, b: (a.conj() * b).sum(axis=1), terms=lambda m, n: n, sizes=[(256, 2048)]),
)
