"""Tensor maps: how the TMA unit of a GPU (compute capability 9.0) sees a buffer of a case."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from peakgate.core import dtypes

DATA_TYPES = {
    "bool": 0, "int8": 0, "uint8": 0, "float8_e4m3fn": 0, "float8_e5m2": 0, "int16": 1, "uint16": 1, "uint32": 2,
    "int32": 3, "uint64": 4, "int64": 5, "float16": 6, "float32": 7, "float64": 8, "bfloat16": 9,
}  # fmt: skip
"""The CUtensorMapDataType of elements; where CUDA has none of that name, the one of unsigned integers of their size."""
FIRST_CAPABILITY = (9, 0)
"""The first compute capability that has tensor maps."""
SWIZZLES, L2_PROMOTIONS = (0, 32, 64, 128), (0, 64, 128, 256)
"""Bytes, in the order of CUtensorMapSwizzle and of CUtensorMapL2promotion."""
_MOST_AXES, _LARGEST_SIDE, _UNIT_BYTES = 5, 256, 16
_LARGEST_EXTENT, _LARGEST_STRIDE_BYTES = 1 << 32, 1 << 40


@dataclass(frozen=True, slots=True)
class TensorMapArgument:
    """A kernel argument ``const __grid_constant__ CUtensorMap``: a map of the case's argument number ``of``, a buffer.

    ``box`` is what one copy moves, in elements: a side for each axis of the buffer, the contiguous one last.
    ``swizzle`` is the span in bytes within which units of 16 bytes are permuted in shared memory, ``l2`` to how many
    bytes a read is widened in L2; 0: neither. The box steps by one element, nothing is interleaved, and what is
    outside the buffer reads as 0.
    """

    of: int
    box: tuple[int, ...]
    swizzle: Literal[0, 32, 64, 128] = 0
    l2: Literal[0, 64, 128, 256] = 128

    def seen(self, shape: tuple[int, ...], dtype: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The extents in elements of the axes that copies see, and the strides in bytes of all but the last."""
        return shape, strides_bytes(shape, dtype)

    def objection(self, shape: tuple[int, ...], dtype: str) -> str | None:
        """Why CUDA has no such map of a buffer, and what is expected; None where it has one."""
        if dtype not in DATA_TYPES:
            return f"of {dtype}; expected one of {', '.join(DATA_TYPES)}"
        shape, strides = self.seen(shape, dtype)
        axes, itemsize = len(shape), dtypes.storage(dtype).itemsize
        row_bytes, widest = self.box[-1] * itemsize if self.box else 0, self.swizzle or _LARGEST_SIDE * itemsize
        conditions = {
            f"of shape {shape}; expected 1 to {_MOST_AXES} axes of 1 to 2^32 elements": (
                1 <= axes <= _MOST_AXES and all(1 <= extent <= _LARGEST_EXTENT for extent in shape)
            ),
            f"with box {self.box} of shape {shape}; expected {axes} sides of 1 to {_LARGEST_SIDE} elements": (
                len(self.box) == axes and all(1 <= side <= _LARGEST_SIDE for side in self.box)
            ),
            f"with swizzle={self.swizzle!r}; expected one of {SWIZZLES}": self.swizzle in SWIZZLES,
            f"with l2={self.l2!r}; expected one of {L2_PROMOTIONS}": self.l2 in L2_PROMOTIONS,
            f"with rows of {row_bytes} bytes in its box; expected a multiple of {_UNIT_BYTES} up to {widest}": (
                row_bytes % _UNIT_BYTES == 0 and row_bytes <= widest
            ),
            f"of {dtype} {shape}, strides of {strides} bytes; expected multiples of {_UNIT_BYTES} below 2^40": (
                all(stride % _UNIT_BYTES == 0 and stride < _LARGEST_STRIDE_BYTES for stride in strides)
            ),
        }
        return next((objection for objection, holds in conditions.items() if not holds), None)


@dataclass(frozen=True, slots=True)
class StridedMapArgument(TensorMapArgument):
    """The same with ``axes`` of its own: of each the extent and the stride in elements, that of the last one 1.

    Copies then see the buffer as an array of any order of axes, each of them as often as the strides make them.
    """

    axes: tuple[tuple[int, int], ...] = ()

    def seen(self, shape: tuple[int, ...], dtype: str) -> tuple[tuple[int, ...], tuple[int, ...]]:  # noqa: ARG002
        """The extents and the strides in bytes that were given."""
        itemsize = dtypes.storage(dtype).itemsize
        return tuple(extent for extent, _ in self.axes), tuple(stride * itemsize for _, stride in self.axes[:-1])

    def objection(self, shape: tuple[int, ...], dtype: str) -> str | None:
        """As of any map; its axes have to lie in the buffer."""
        if not self.axes or self.axes[-1][1] != 1 or any(min(axis) < 1 for axis in self.axes):
            return f"with axes {self.axes}; expected (extent, stride) of each from 1 up, the last stride 1"
        reached = 1 + sum((extent - 1) * stride for extent, stride in self.axes)
        if reached > math.prod(shape):
            return f"with axes {self.axes}, which reach {reached} elements; expected at most those of shape {shape}"
        return TensorMapArgument.objection(self, shape, dtype)


def strides_bytes(shape: tuple[int, ...], dtype: str) -> tuple[int, ...]:
    """The strides of a buffer's axes but the last, in its own order."""
    itemsize = dtypes.storage(dtype).itemsize
    return tuple(math.prod(shape[axis + 1 :]) * itemsize for axis in range(len(shape) - 1))
