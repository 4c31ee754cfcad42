"""Tensor maps of arrays on a GPU, encoded by the driver."""

from __future__ import annotations

from typing import Any

import numpy as np

from peakgate.base.errors import Code, PeakgateError
from peakgate.device import driver
from peakgate.spec.arguments import DATA_TYPES, L2_PROMOTIONS, SWIZZLES, TensorMapArgument
from peakgate.spec.case import Buffer

_LAYOUT = np.dtype([("opaque", np.uint64, (16,))])

# Alignment of a CUtensorMap; the driver refuses a lower one.
_ALIGNMENT_BYTES = 128


def encoded(described: TensorMapArgument, buffer: Buffer, address: int) -> np.ndarray[Any, Any]:
    """The CUtensorMap of a buffer at an address, as a zero-dimensional array; raises PeakgateError if refused."""
    room = np.zeros(_LAYOUT.itemsize + _ALIGNMENT_BYTES, np.uint8)
    start = -room.ctypes.data % _ALIGNMENT_BYTES
    found = room[start : start + _LAYOUT.itemsize].view(_LAYOUT).reshape(())
    extents, strides = described.seen(buffer.shape, buffer.dtype)
    status = driver.encode_tensor_map(
        found.ctypes.data,
        element_type=DATA_TYPES[buffer.dtype],
        address=address,
        # CUDA lists the contiguous axis first.
        extents=extents[::-1],
        strides_bytes=strides[::-1],
        box=described.box[::-1],
        swizzle=SWIZZLES.index(described.swizzle),
        l2_promotion=L2_PROMOTIONS.index(described.l2),
    )
    if status:
        raise PeakgateError(
            f"a tensor map of {buffer.dtype} {buffer.shape}, box {described.box}, swizzle {described.swizzle}: the "
            f"driver refuses it (CUDA error {status}); see the family's TensorMap",
            Code.ARGUMENTS,
        )
    return found
