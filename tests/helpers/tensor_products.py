"""Products on tensor cores: what comes out of the roof kernels, by NumPy, and the family of one of cuBLAS."""

import numpy as np

from peakgate.family import In, Out, kernel
from peakgate.spec import dtypes


def is_product(case, sums, left, right):
    """Whether the sums are those of the products of the tiles, as far as the type's sums are exact.

    On 9.0 sums of products in fp8 are exact to some 13 bits.
    """
    a, b = (
        dtypes.decoded(np, array, buffer.dtype).astype("float64")
        for array, buffer in zip((left, right), case.inputs, strict=True)
    )
    wanted = (a @ b.T).reshape(len(a), -1, 4, 2).sum(axis=(1, 3))
    size = (np.abs(a) @ np.abs(b).T).reshape(len(a), -1, 4, 2).sum(axis=(1, 3))
    share = {"int8": 0.0, "fp8": 2.0**-12}.get(case.math, 2.0**-20)
    return bool((np.abs(sums - np.resize(wanted, sums.shape)) <= share * np.resize(size, sums.shape)).all())


def by_the_transpose(**sizes):
    """The family of cuBLAS's product of a bfloat16 matrix and the transpose of another."""
    return kernel(
        operation="cublas_bf16_nt",
        arguments=lambda m, n, k: [
            Out(m, n, dtype="bfloat16"),
            *(In(*of, dtype="bfloat16") for of in ((m, k), (n, k))),
        ],
        bytes=lambda m, n, k: 2 * (m * n + m * k + n * k),
        flops=lambda m, n, k: 2 * m * n * k,
        reference=lambda xp, a, b: a @ b.T,
        terms=lambda m, n, k: k,
        math="bf16",
        **sizes,
    )
