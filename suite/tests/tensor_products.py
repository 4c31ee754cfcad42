"""What comes out of the roof kernels of the tensor cores, by NumPy."""

import numpy as np
from peakgate.core import dtypes


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
