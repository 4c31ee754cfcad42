"""The arguments of a kernel: arrays, values, structs, arrays read as textures or surfaces, tensor maps of arrays."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Any, Literal

import numpy as np

from peakgate.base.errors import Code, PeakgateError
from peakgate.base.formatting import shown
from peakgate.spec import dtypes, fields
from peakgate.spec.dtypes import Array
from peakgate.spec.fields import Kind, check

Data = None | float | tuple[float, float] | Path | Callable[..., Array]
"""Contents of an input. None: random values in [-1, 1), integers in their whole range, with some equal neighbours,
zeros and limits; on edge-size problems also patterns (``peakgate.measure.data``). ``(low, high)``: random values in
[low, high). A number: that number. A path: the array that numpy.save wrote there. A function: ``data(xp, shape)``. The
array of a path or function has values, which are rounded to the type, or elements of a type that NumPy lacks, by
ml_dtypes or as they are stored (``peakgate.spec.dtypes.read``)."""


class Role(Enum):
    """A kernel's use of a buffer."""

    IN = "in"
    OUT = "out"
    INOUT = "inout"
    SCRATCH = "scratch"
    """Zeroed when allocated; the kernel leaves it ready for its next launch."""
    TEMP = "temp"
    """Written by one launch of a case and read by a later one: filled with noise like an output, never compared."""


_DATA = Kind(
    "None, a finite number, (low, high), a file of numpy.save, or a function",
    lambda value: (
        value is None
        or fields.FINITE.holds(value)
        or (isinstance(value, tuple) and len(value) == 2 and all(map(fields.FINITE.holds, value)))
        or fields.PATH.holds(value)
        or callable(value)
    ),
)
_VALUE = Kind(
    "a number, or True or False",
    lambda value: isinstance(value, int | float | complex | np.generic) and np.ndim(value) == 0,
)
_CHANNELS = {"channels": fields.whole(1, 4), "layered": fields.FLAG}
BUFFER_FIELDS: fields.Kinds = {
    "role": fields.instance(Role, "a Role"),
    "shape": fields.several(fields.whole(0, sys.maxsize)),
    "dtype": fields.WORD,
    "data": _DATA,
}
SCALAR_FIELDS: fields.Kinds = {"value": _VALUE, "dtype": fields.WORD}
TEXTURE_FIELDS: fields.Kinds = {
    "address": fields.one_of(("clamp", "border", "wrap", "mirror")),
    **dict.fromkeys(("linear", "normalized_coords", "normalized_read", "linear_memory"), fields.FLAG),
    **_CHANNELS,
}
SURFACE_FIELDS: fields.Kinds = _CHANNELS
MAP_AXES = fields.several(fields.tuple_of(fields.whole(0, sys.maxsize), fields.whole(0, sys.maxsize)))
MAP_FIELDS: fields.Kinds = {
    "of": fields.whole(-1, fields.MOST_VALUES),
    "box": fields.several(fields.whole(0, sys.maxsize)),
    **dict.fromkeys(("swizzle", "l2"), fields.whole(0, sys.maxsize)),
}


@dataclass(frozen=True, slots=True)
class Buffer:
    """A device array that a kernel receives as a pointer: row-major, ``shape`` in elements of type ``dtype``.

    Raises ValueError for an invalid shape or type, and for rows of an odd number of 4-bit elements.
    """

    role: Role
    shape: tuple[int, ...]
    dtype: str = "float32"
    data: Data = field(default=None, repr=False, hash=False)  # a function need not be hashable

    def __post_init__(self) -> None:
        check(self, BUFFER_FIELDS, "an array")
        try:
            too_large = self.nbytes > sys.maxsize
        except PeakgateError as error:
            raise ValueError(error.message) from None
        if too_large:
            raise ValueError(f"an array of shape {shown(self.shape)} has more bytes than can be addressed")

    @property
    def storage(self) -> tuple[tuple[int, ...], np.dtype[Any]]:
        """Shape and type of the array that holds the elements."""
        return dtypes.storage_shape(self.shape, self.dtype), dtypes.storage(self.dtype)

    @property
    def nbytes(self) -> int:
        shape, dtype = self.storage
        return math.prod(shape) * dtype.itemsize


@dataclass(frozen=True, slots=True)
class Scalar:
    """A kernel argument passed by value; raises ValueError if its type cannot represent the value."""

    value: float
    dtype: str = "int32"

    def __post_init__(self) -> None:
        check(self, SCALAR_FIELDS, "a value")
        try:
            value_of(self)
        except (PeakgateError, TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"a value {shown(self.value)} of dtype {self.dtype!r}: {error}") from None


@dataclass(frozen=True, slots=True)
class BufferAddress:
    """The value of a struct's pointer in a case: the address of the buffer that is argument number ``of``."""

    of: int

    def __post_init__(self) -> None:
        check(self, {"of": fields.whole(-1, fields.MOST_VALUES)}, "a pointer of a struct")


@dataclass(frozen=True, slots=True)
class Struct:
    """A struct passed by value: the values of its members, and their names and types in order.

    Members are laid out as in C++, each aligned to its type. The value of a member of type ``pointer`` is an array, as
    ``In``, ``Out`` and ``InOut`` give it, or None for a null pointer; that of one of type ``struct`` is a Struct. A
    tuple of values is an array. Raises ValueError if a type cannot represent its value.
    """

    values: tuple[Member | tuple[Member, ...], ...]
    members: tuple[tuple[str, str], ...]

    def __post_init__(self) -> None:
        check(self, STRUCT_FIELDS, "a struct")
        try:
            for value, (name, dtype) in zip(self.values, self.members, strict=True):
                if dtype in dtypes.PACKED:
                    dtypes.scalar_type(dtype)
                kind = _BY_TYPE.get(dtype, _VALUE)
                check({name: value}, {name: fields.several(kind) if isinstance(value, tuple) else kind})
            self.as_numpy()
        except (PeakgateError, TypeError, ValueError, OverflowError) as error:
            given = f"{shown(self.members)} with the values {shown(self.values)}"
            raise ValueError(f"a struct of {given}: {error}") from None

    def layout(self) -> np.dtype[Any]:
        """The members at their offsets, addresses as integers; raises ValueError for structs of several layouts."""
        described: list[Any] = []
        for value, (name, dtype) in zip(self.values, self.members, strict=True):
            several = value if isinstance(value, tuple) else (value,)
            kinds = {each.layout() if isinstance(each, Struct) else _STORED.get(dtype, dtype) for each in several}
            if len(kinds) != 1:
                raise ValueError(f"{name} is {shown(value)}; expected one or more of one layout")
            described.append((name, kinds.pop(), (len(several),)) if isinstance(value, tuple) else (name, kinds.pop()))
        return np.dtype(described, align=True)

    def as_numpy(self, addresses: Mapping[int, int] | None = None) -> np.void:
        """The struct as the kernel gets it; ``addresses`` are those of the buffers by argument number, by default 0."""
        packed = np.zeros(1, self.layout())
        packed[0] = self._stored(addresses or {})
        found: np.void = packed[0]
        return found

    def _stored(self, addresses: Mapping[int, int]) -> tuple[Any, ...]:
        def stored(value: Any, dtype: str) -> Any:
            if isinstance(value, tuple):
                return [stored(each, dtype) for each in value]
            if isinstance(value, Struct):
                return value._stored(addresses)  # noqa: SLF001  (of its own class)
            if dtype == "pointer":
                return addresses.get(value.of, 0) if isinstance(value, BufferAddress) else 0
            return dtypes.scalar(value, dtype) if dtype in dtypes.BITS else value

        return tuple(stored(value, dtype) for value, (_, dtype) in zip(self.values, self.members, strict=True))

    def pointers(self) -> dict[int, tuple[str, Buffer | BufferAddress]]:
        """By byte offset, each pointer that is not null: its name, such as ``inner.rows[1]``, and what it points to."""
        found: dict[int, tuple[str, Buffer | BufferAddress]] = {}
        places: Mapping[str, Any] = self.layout().fields or {}
        for value, (name, _) in zip(self.values, self.members, strict=True):
            several = value if isinstance(value, tuple) else (value,)
            kind, begin = places[name][:2]
            for at, each in enumerate(several):
                path = f"{name}[{at}]" if isinstance(value, tuple) else name
                offset = begin + at * (kind.itemsize // len(several))
                if isinstance(each, Buffer | BufferAddress):
                    found[offset] = path, each
                elif isinstance(each, Struct):
                    inner = each.pointers().items()
                    found |= {offset + inside: (f"{path}.{of}", target) for inside, (of, target) in inner}
        return found

    def placed(self, position: Callable[[Buffer], int]) -> Struct:
        """The struct with addresses in place of arrays; ``position`` gives an array's number among the arguments."""

        def found(value: Any) -> Any:
            if isinstance(value, tuple):
                return tuple(map(found, value))
            if isinstance(value, Buffer):
                return BufferAddress(position(value))
            return value.placed(position) if isinstance(value, Struct) else value

        return replace(self, values=found(self.values))


Member = None | float | Buffer | BufferAddress | Struct
"""The value of a struct's member, or of one of its elements."""

_STORED = {**dtypes.BITS, "pointer": "uint64"}
_BY_TYPE = {
    "pointer": Kind(
        "an array that is neither texture nor surface, or None",
        lambda value: value is None or type(value) in (Buffer, BufferAddress),
    ),
    "struct": fields.instance(Struct, "a Struct"),
}
_MEMBER = _VALUE | _BY_TYPE["pointer"] | _BY_TYPE["struct"]
STRUCT_FIELDS: fields.Kinds = {
    "values": fields.several(_MEMBER | fields.several(_MEMBER)),
    "members": fields.several(fields.tuple_of(fields.IDENTIFIER, fields.WORD)),
}

TEXEL_FIELDS: fields.Kinds = {
    "seen_as": Kind("a Texture or a Surface", lambda value: type(value) in (Texture, Surface))
}
TEXEL_TYPES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "float16", "float32")
"""The types that a texel's channels may have."""


@dataclass(frozen=True, slots=True)
class Texture:
    """How a kernel reads a buffer through a ``cudaTextureObject_t``; the fields are those of ``cudaTextureDesc``.

    ``address`` is the address mode of every dimension; ``wrap`` and ``mirror`` need ``normalized_coords``, coordinates
    in [0, 1). ``linear`` interpolates between texels, which needs floats. ``normalized_read`` converts 8- and 16-bit
    integers to floats in [0, 1] or [-1, 1]. Several ``channels`` are the buffer's last axis. ``layered``: its first
    axis is that of the layers. ``linear_memory`` is read by ``tex1Dfetch`` and has no address mode.
    """

    address: Literal["clamp", "border", "wrap", "mirror"] = "clamp"
    linear: bool = False
    normalized_coords: bool = False
    normalized_read: bool = False
    channels: int = 1
    layered: bool = False
    linear_memory: bool = False

    def __post_init__(self) -> None:
        check(self, TEXTURE_FIELDS, "a texture")


@dataclass(frozen=True, slots=True)
class Surface:
    """A buffer that a kernel accesses through a ``cudaSurfaceObject_t``; the fields are those of a texture."""

    channels: int = 1
    layered: bool = False

    def __post_init__(self) -> None:
        check(self, SURFACE_FIELDS, "a surface")


@dataclass(frozen=True, slots=True)
class Texels:
    """The extents of a texture or surface in texels; 0 if it lacks that dimension. It has depth or layers, not both."""

    width: int
    height: int
    depth: int
    layers: int

    @property
    def dimensions(self) -> int:
        """The number of coordinates, without the layer."""
        return 1 + bool(self.height) + bool(self.depth)


@dataclass(frozen=True, slots=True)
class TexelBuffer(Buffer):
    """A buffer passed as a texture or surface object; raises PeakgateError if CUDA does not support it."""

    seen_as: Texture | Surface = Texture()

    def __post_init__(self) -> None:
        Buffer.__post_init__(self)
        check(self, TEXEL_FIELDS, "an array")
        how = self.seen_as
        layers, dimensions = _split(self.shape, how)
        if self.dtype not in TEXEL_TYPES:
            raise PeakgateError(
                f"a texture or surface of {self.dtype}: expected one of {', '.join(TEXEL_TYPES)}", Code.TEXELS
            )
        if how.channels not in (1, 2, 4) or (how.channels > 1 and self.shape[-1] != how.channels):
            raise PeakgateError(
                f"a texture or surface of {how.channels} channels and shape {self.shape}: "
                "expected 1, 2 or 4 channels, where more than one as the last axis",
                Code.TEXELS,
            )
        if not 1 <= len(dimensions) <= 3 or (layers and len(dimensions) != 2) or math.prod(self.shape) == 0:
            raise PeakgateError(
                f"a texture or surface of shape {self.shape}: expected 1 to 3 dimensions, 2 beside layers, none empty",
                Code.TEXELS,
            )
        if isinstance(how, Texture):
            bits = 8 * np.dtype(self.dtype).itemsize
            integers = np.dtype(self.dtype).kind in "iu"
            if how.normalized_read and not (integers and bits <= 16):
                raise PeakgateError(
                    f"a texture of {self.dtype} with normalized_read: expected integers of 8 or 16 bits", Code.TEXELS
                )
            if how.linear and integers and not how.normalized_read:
                raise PeakgateError(
                    f"a texture of {self.dtype} with linear filtering: expected floats, or normalized_read", Code.TEXELS
                )
            if how.address in ("wrap", "mirror") and not how.normalized_coords:
                raise PeakgateError(
                    f"a texture with address {how.address!r}: expected normalized_coords with it", Code.TEXELS
                )
            if how.linear_memory and (
                len(dimensions) > 1 or how.linear or how.normalized_coords or how.address != "clamp"
            ):
                raise PeakgateError(
                    "a texture of linear memory: expected one dimension, and neither filter nor address mode",
                    Code.TEXELS,
                )

    @property
    def texels(self) -> Texels:
        """The extents in texels."""
        layers, dimensions = _split(self.shape, self.seen_as)
        width, height, depth = (*reversed(dimensions), 0, 0)[:3]
        return Texels(width, height, depth, layers)


def _split(shape: tuple[int, ...], how: Texture | Surface) -> tuple[int, tuple[int, ...]]:
    """The number of layers, or 0, and the extents in texels, the slowest dimension first."""
    places = shape[:-1] if how.channels > 1 else shape
    return (places[0], places[1:]) if how.layered and places else (0, places)


def seen_as(buffer: Buffer, other: Buffer) -> Buffer:
    """The buffer, passed to the kernel in the same way as ``other``: as pointer, texture or surface."""
    plain = (buffer.role, buffer.shape, buffer.dtype, buffer.data)
    return TexelBuffer(*plain, other.seen_as) if isinstance(other, TexelBuffer) else Buffer(*plain)


DATA_TYPES = {
    "bool": 0, "int8": 0, "uint8": 0, "float8_e4m3fn": 0, "float8_e5m2": 0, "int16": 1, "uint16": 1, "uint32": 2,
    "int32": 3, "uint64": 4, "int64": 5, "float16": 6, "float32": 7, "float64": 8, "bfloat16": 9,
}  # fmt: skip
"""The CUtensorMapDataType by type; a type that CUDA lacks uses that of unsigned integers of its size."""
FIRST_CAPABILITY = (9, 0)
"""The first compute capability with tensor maps."""
SWIZZLES, L2_PROMOTIONS = (0, 32, 64, 128), (0, 64, 128, 256)
"""Bytes, in the order of CUtensorMapSwizzle and of CUtensorMapL2promotion."""
_MOST_AXES, _LARGEST_SIDE, _UNIT_BYTES = 5, 256, 16
_LARGEST_EXTENT, _LARGEST_STRIDE_BYTES = 1 << 32, 1 << 40


@dataclass(frozen=True, slots=True)
class TensorMapArgument:
    """A kernel argument ``const __grid_constant__ CUtensorMap``: a map of the buffer that is argument number ``of``.

    ``box`` is the box of one copy in elements: a side per axis of the buffer, the contiguous axis last. ``swizzle`` is
    the span in bytes within which 16-byte units are permuted in shared memory, ``l2`` the L2 promotion of reads in
    bytes; 0 for none. Element strides are 1, there is no interleave, and elements outside the buffer read as 0.
    """

    of: int
    box: tuple[int, ...]
    swizzle: Literal[0, 32, 64, 128] = 0
    l2: Literal[0, 64, 128, 256] = 128

    def __post_init__(self) -> None:
        check(self, MAP_FIELDS, "a tensor map")

    def seen(self, shape: tuple[int, ...], dtype: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The extents of the map's axes in elements, and the strides in bytes of all but the last."""
        return shape, strides_bytes(shape, dtype)

    def objection(self, shape: tuple[int, ...], dtype: str) -> str | None:
        """Why CUDA does not support this map of a buffer, and what is expected; None if it does."""
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
    """A tensor map with its own ``axes``: extent and stride of each in elements, the last stride 1.

    So copies may see the buffer's axes in another order, split or overlapping.
    """

    axes: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        TensorMapArgument.__post_init__(self)
        check(self, {"axes": MAP_AXES}, "a tensor map")

    def seen(self, shape: tuple[int, ...], dtype: str) -> tuple[tuple[int, ...], tuple[int, ...]]:  # noqa: ARG002
        """The extents, and the strides in bytes, of ``axes``."""
        itemsize = dtypes.storage(dtype).itemsize
        return tuple(extent for extent, _ in self.axes), tuple(stride * itemsize for _, stride in self.axes[:-1])

    def objection(self, shape: tuple[int, ...], dtype: str) -> str | None:
        """The same; also if its axes reach beyond the buffer."""
        if not self.axes or self.axes[-1][1] != 1 or any(min(axis) < 1 for axis in self.axes):
            return f"with axes {self.axes}; expected (extent, stride) of each from 1 up, the last stride 1"
        reached = 1 + sum((extent - 1) * stride for extent, stride in self.axes)
        if reached > math.prod(shape):
            return f"with axes {self.axes}, which reach {reached} elements; expected at most those of shape {shape}"
        return TensorMapArgument.objection(self, shape, dtype)


def strides_bytes(shape: tuple[int, ...], dtype: str) -> tuple[int, ...]:
    """The strides in bytes of a buffer's axes, in order, without the last."""
    itemsize = dtypes.storage(dtype).itemsize
    return tuple(math.prod(shape[axis + 1 :]) * itemsize for axis in range(len(shape) - 1))


Argument = Buffer | Scalar | Struct | TensorMapArgument


def value_of(argument: Scalar | Struct, addresses: Mapping[int, int] | None = None) -> np.generic:
    """The NumPy value of a scalar or struct; ``addresses`` are those of the buffers, by argument number."""
    if isinstance(argument, Struct):
        return argument.as_numpy(addresses)
    return dtypes.scalar(argument.value, argument.dtype)
