"""Checks the arguments of a launch against the kernel's parameters and converts them for the runtime."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from peakgate_emulator.binary import BufferStructure, Parameter, SlotStructure, TensorMapStructure, TextureStructure
from peakgate_emulator.errors import ArgumentsError

MAX_ARGUMENTS = 64


@dataclass(frozen=True, slots=True)
class TexelView:
    """How a kernel sees an array of texels, through a texture object or, with ``is_surface``, a surface object.

    ``shape`` is that of the array: layers, depth, height, width and channels, those that exist. For a texture
    ``address`` is wrap, clamp, mirror or border; ``linear`` interpolates; coordinates and values may be normalized;
    ``linear_memory`` is fetched by index.
    """

    shape: tuple[int, ...]
    width: int
    height: int = 0
    depth: int = 0
    layers: int = 0
    channels: int = 1
    dimensions: int = 1
    is_surface: bool = False
    address: str = "clamp"
    linear: bool = False
    normalized_coordinates: bool = False
    normalized_values: bool = False
    linear_memory: bool = False


@dataclass(frozen=True, slots=True)
class TexelArray:
    """An array passed as a texture or surface object; ``described`` says how the kernel sees it."""

    array: np.ndarray[Any, Any]
    described: TexelView


@dataclass(frozen=True, slots=True)
class Pointing:
    """A struct, by value or in an array, or an array of pointers; ``pointers`` are the targets by byte offset.

    A kernel may write to a target that is writable. ``names`` are those of pointers in messages, such as ``rows[1]``.
    """

    value: np.ndarray[Any, Any] | np.generic | bytes
    pointers: Mapping[int, np.ndarray[Any, Any] | Pointing]
    names: Mapping[int, str] = field(default_factory=dict)


Place = int | tuple[int, ...]
"""Which array of a launch: the position of its argument, behind it the byte offsets of pointers that lead to it."""


@dataclass(frozen=True, slots=True)
class TileView:
    """A tensor map's description of its array: extents in elements, strides in bytes except the last axis's, the box.

    Axes are in NumPy's order, slowest first. ``swizzle`` is the pattern's width in bytes, 0 for none.
    """

    extents: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int = 0


@dataclass(frozen=True, slots=True)
class TileArray:
    """An array passed by a tensor map, elements as they are stored. Copies write to it if it is writable."""

    array: np.ndarray[Any, Any]
    described: TileView


GivenArgument = np.ndarray[Any, Any] | np.generic | int | bytes | TexelArray | TileArray | Pointing | None
"""An array for a pointer, None or an integer 0 of 8 bytes for a null pointer, a NumPy scalar for a value; a Python
integer for an integer of any size that holds it; for a struct by value a structured scalar, or its bytes; for a
texture, surface or tensor map a TexelArray or TileArray; for a value or an array that contains pointers a Pointing."""

_OBJECT_BYTES = _POINTER_BYTES = 8
_MAP_BYTES, _MAP_ALIGNMENT, _MAP_MARK = 128, 64, 0x70614D726F736E65
_KINDS = {"u": 0, "i": 1, "f": 2}
UNSET = np.array([0xFEFEFEFE, 0xFBFBFBFB, 0x7B7B7B7B], np.uint32)
"""Words of variables that are not set (``-ftrivial-auto-var-init``), of absent lanes (``warp.cpp``) and of results that
CUB leaves undefined (``cuda_cub.h``)."""

_NONFINITE = {
    "float64": (8, 0x7FF0000000000000),
    "float32": (4, 0x7F800000),
    "float16": (2, 0x7C00),
    "bfloat16": (2, 0x7F80),
    "float8_e5m2": (1, 0x7C),
    "float8_e4m3fn": (1, 0x7F),
}
"""By floating-point type: its bytes, and the bits that are all set only in its NaNs and infinities."""
_FORMATS = {
    0xA5: ("float16", "__half", "fu"),
    0x78: ("bfloat16", "__nv_bfloat16", "u"),
    0x34: ("float8_e4m3fn", "__nv_fp8_e4m3", "u"),
    0x25: ("float8_e5m2", "__nv_fp8_e5m2", "u"),
    0x08: ("float8_e8m0fnu", "__nv_fp8_e8m0", "u"),
}
"""By ``element_format``: the type's name, its name in CUDA, and the kinds of arrays of its size that can store it."""

_OF_SIZE = {
    (4, True): ("float32",),
    (8, True): ("float64",),
    (1, False): ("int8", "uint8", "bool"),
    **{(size, False): (f"int{8 * size}", f"uint{8 * size}") for size in (2, 4, 8)},
}
"""NumPy's types by bytes, and whether they are floating-point types."""

_ADDRESS = {"wrap": 0, "clamp": 1, "mirror": 2, "border": 3}


class Arguments:
    """The arguments of a launch in the runtime's structures; keeps the memory alive that they point to.

    An array given twice is one buffer. Raises ArgumentsError if the arguments do not fit the parameters.
    """

    def __init__(self, kernel: str, parameters: Sequence[Parameter], given: Sequence[GivenArgument]) -> None:
        if len(given) != len(parameters):
            raise ArgumentsError(
                f"{kernel}: {len(given)} argument{'' if len(given) == 1 else 's'} given, expected {len(parameters)}"
            )
        if len(given) > MAX_ARGUMENTS:
            raise ArgumentsError(f"{kernel}: {len(given)} arguments given, expected at most {MAX_ARGUMENTS}")
        self.buffers = (BufferStructure * MAX_ARGUMENTS)()
        self.buffer_count = 0
        self.slots = (SlotStructure * MAX_ARGUMENTS)()
        self.slot_count = 0
        self.pointers = (ctypes.c_void_p * (len(given) + 1))()
        self.textures = (TextureStructure * (len(given) + 1))()
        self.texture_count = 0
        self.tensor_maps = (TensorMapStructure * (len(given) + 1))()
        self.tensor_map_count = 0
        self._scalars: list[ctypes.Array[ctypes.c_char]] = []
        self._maps: list[np.ndarray[Any, Any]] = []
        self._by_place: dict[Place, BufferStructure] = {}
        self._arrays: dict[Place, np.ndarray[Any, Any]] = {}
        self._outputs: list[tuple[int, np.ndarray[Any, Any]]] = []
        self.named: list[tuple[int, str]] = []
        """The argument and name of each pointer in a value or an array; the runtime counts them from MAX_ARGUMENTS."""
        for place, (value, parameter) in enumerate(zip(given, parameters, strict=True)):
            where = f"{kernel}: argument {place}"
            if isinstance(value, Pointing):
                self.pointers[place] = self._pointing(where, place, value, parameter)
            elif isinstance(value, TexelArray):
                self.pointers[place] = self._object(where, place, value, parameter)
            elif isinstance(value, TileArray):
                self.pointers[place] = self._tensor_map(where, place, value, parameter)
            elif parameter.is_pointer and _is_null(value):
                self.pointers[place] = self._kept(bytes(_POINTER_BYTES))
            elif parameter.is_pointer:
                self.pointers[place] = self._buffer(where, place, value, parameter)
            else:
                self.pointers[place] = self._scalar(where, value, parameter)

    @property
    def nbytes(self) -> int:
        return sum(buffer.size for buffer in self.buffers[: self.buffer_count])

    def expect_written(self, places: Iterable[Place]) -> None:
        """Mark outputs: a launch reports their bytes that are read before they are written, or never written."""
        for place in places:
            self._by_place[place].is_output = 1
            self._outputs.append((self._by_place[place].argument, self._arrays[place]))

    def unwritten(self) -> list[tuple[int, int, int, int]]:
        """For each incomplete output: argument, bytes, how many of them the launch did not write, and the first."""
        known = self.buffers[: self.buffer_count]
        return [(part.argument, part.size, part.unwritten, part.first_unwritten) for part in known if part.unwritten]

    def unset(self) -> list[tuple[int, int]]:
        """Argument and byte of the first number in each output that is what no thread has set; see ``UNSET``."""
        found = []
        for argument, array in self._outputs:
            if array.dtype.kind not in "fiu" or array.dtype.itemsize not in (4, 8):
                continue
            words = np.isin(array.reshape(-1).view(np.uint32), UNSET).reshape(array.size, -1)
            if (places := np.flatnonzero(words.all(axis=1))).size:
                found.append((argument, int(places[0]) * array.dtype.itemsize))
        return found

    def report_nonfinite(self, types: Mapping[Place, str]) -> None:
        """Mark arrays, given the types of their elements: a launch reports each NaN or infinity written to them."""
        for place, dtype in types.items():
            buffer = self._by_place[place]
            if dtype in _NONFINITE and buffer.writable:
                buffer.floating_size, buffer.not_finite = _NONFINITE[dtype]

    def _buffer(self, where: str, place: int, value: object, parameter: Parameter) -> int:
        array = _array(where, value)
        if parameter.element_is_scalar:
            _check_dtype(where, array.dtype, parameter.element_size, parameter)
        elif parameter.element_format in _FORMATS:
            _check_format(where, array.dtype, parameter)
        return ctypes.addressof(self._known(where, place, array, writable=not parameter.points_to_const))

    def _pointing(self, where: str, place: int, given: Pointing, parameter: Parameter) -> int:
        """A value or an array that contains pointers."""
        if parameter.is_pointer:
            return ctypes.addressof(self._holder(where, place, given))
        stored = self._scalar(where, given.value, parameter)
        self._point(where, place, given, parameter.size, value=stored)
        return stored

    def _holder(self, where: str, place: Place, given: np.ndarray[Any, Any] | Pointing) -> BufferStructure:
        """The buffer of an array that may contain pointers to others."""
        array = _array(where, given.value if isinstance(given, Pointing) else given)
        buffer = self._known(where, place, array, writable=bool(array.flags.writeable))
        if isinstance(given, Pointing):
            self._point(where, place, given, array.nbytes, holder=buffer)
        return buffer

    def _point(
        self,
        where: str,
        place: Place,
        given: Pointing,
        size: int,
        *,
        value: int = 0,
        holder: BufferStructure | None = None,
    ) -> None:
        for offset, target in given.pointers.items():
            if not 0 <= offset <= size - _POINTER_BYTES:
                raise ArgumentsError(f"{where}: a pointer at byte {offset} given, expected one within {size} bytes")
            way = place if isinstance(place, tuple) else (place,)
            self.named.append((way[0], given.names.get(offset, "")))
            buffer = self._holder(where, (*way, offset), target)
            if self.slot_count == MAX_ARGUMENTS:
                raise ArgumentsError(f"{where}: more than {MAX_ARGUMENTS} pointers given in values and arrays")
            slot = self.slots[self.slot_count]
            slot.value, slot.offset, slot.target = value, offset, ctypes.addressof(buffer)
            if holder is not None:
                slot.holder = ctypes.addressof(holder)
            self.slot_count += 1

    def _object(self, where: str, place: int, value: TexelArray, parameter: Parameter) -> int:
        """A texture or surface object, which the kernel takes as an integer of 8 bytes."""
        integer = parameter.element_is_scalar and not parameter.is_pointer and not parameter.element_is_floating
        if not integer or parameter.size != _OBJECT_BYTES:
            raise ArgumentsError(f"{where}: a texture or surface given, the kernel takes no object there")
        given, described = value.array, value.described
        if given.shape != described.shape:
            raise ArgumentsError(f"{where}: texels of shape {given.shape} given, expected {described.shape}")
        buffer = self._known(where, place, given, writable=described.is_surface)
        described_at = _describe(self.textures[self.texture_count], value, buffer)
        self.texture_count += 1
        return self._scalar(where, np.uint64(described_at), parameter)

    def _tensor_map(self, where: str, place: int, given: TileArray, parameter: Parameter) -> int:
        """A ``CUtensorMap``, by value or by a pointer to global memory; it contains a TensorMapStructure's address."""
        array, described = given.array, given.described
        if (parameter.element_size if parameter.is_pointer else parameter.size) != _MAP_BYTES:
            raise ArgumentsError(f"{where}: a tensor map given, the kernel takes none there")
        tensor_map = self.tensor_maps[self.tensor_map_count]
        self.tensor_map_count += 1
        buffer = self._known(where, place, array, writable=bool(array.flags.writeable))
        tensor_map.buffer = ctypes.addressof(buffer)
        extents, strides, axes = described.extents, described.strides, len(described.extents)
        tensor_map.axes, tensor_map.element_bytes = axes, array.itemsize
        tensor_map.extents[:axes] = extents[::-1]
        tensor_map.strides[:axes] = (array.itemsize, *strides[::-1])
        tensor_map.box[:axes] = described.box[::-1]
        tensor_map.swizzle = described.swizzle
        room = np.zeros((_MAP_BYTES + _MAP_ALIGNMENT) // 8, np.uint64)
        words = room[-room.ctypes.data % _MAP_ALIGNMENT // 8 :][: _MAP_BYTES // 8]
        words[:2] = _MAP_MARK, ctypes.addressof(tensor_map)
        self._maps.append(words)
        if not parameter.is_pointer:
            return words.ctypes.data
        held = self._known(where, place, words, writable=False)
        self._by_place[place], self._arrays[place] = buffer, array
        return ctypes.addressof(held)

    def _known(self, where: str, place: Place, value: np.ndarray[Any, Any], *, writable: bool) -> BufferStructure:
        """The buffer of an array; the same one if the array was given before."""
        if not value.flags.c_contiguous:
            raise ArgumentsError(f"{where}: array of strides {value.strides} given, expected a C-contiguous one")
        if writable and not value.flags.writeable:
            raise ArgumentsError(f"{where}: read-only array given for a pointer to non-const")
        address = value.ctypes.data
        for known in self.buffers[: self.buffer_count]:
            if (known.host, known.size) == (address, value.nbytes):
                known.writable |= writable
                self._by_place[place] = known
                self._arrays[place] = value
                return known
            if value.nbytes and known.host < address + value.nbytes and address < known.host + known.size:
                number = known.argument
                other = number if number < MAX_ARGUMENTS else self.named[number - MAX_ARGUMENTS][0]
                raise ArgumentsError(f"{where}: array overlaps argument {other}; give the same array or separate ones")
        if self.buffer_count == MAX_ARGUMENTS:
            raise ArgumentsError(f"{where}: more than {MAX_ARGUMENTS} arrays given")
        buffer = self.buffers[self.buffer_count]
        buffer.host, buffer.size, buffer.writable = address, value.nbytes, writable
        buffer.argument = place if isinstance(place, int) else MAX_ARGUMENTS + len(self.named) - 1  # the last one named
        self._by_place[place] = buffer
        self._arrays[place] = value
        self.buffer_count += 1
        return buffer

    def _scalar(self, where: str, value: object, parameter: Parameter) -> int:
        if isinstance(value, bytes) and not parameter.element_is_scalar:
            value = np.void(value)
        if isinstance(value, int) and parameter.element_is_scalar and not parameter.element_is_floating:
            bits = 8 * parameter.size
            if not -(1 << bits - 1) <= value < 1 << bits:
                raise ArgumentsError(f"{where}: {value} given, expected an integer of {parameter.size} bytes")
            return self._kept((value % (1 << bits)).to_bytes(parameter.size, "little"))
        if not isinstance(value, np.generic):
            raise ArgumentsError(f"{where}: {type(value).__name__} given for a value, expected a NumPy scalar")
        if parameter.element_is_scalar:
            _check_dtype(where, value.dtype, parameter.size, parameter, value=value)
        elif value.nbytes != parameter.size:
            raise ArgumentsError(f"{where}: {value.nbytes} bytes given, expected {parameter.size}")
        return self._kept(value.tobytes())

    def _kept(self, content: bytes) -> int:
        """Address at which a value is kept for the launch."""
        stored = ctypes.create_string_buffer(content, len(content))
        self._scalars.append(stored)
        return ctypes.addressof(stored)


def _array(where: str, value: object) -> np.ndarray[Any, Any]:
    """The argument for a pointer, checked to be an array."""
    if not isinstance(value, np.ndarray):
        raise ArgumentsError(f"{where}: {type(value).__name__} given for a pointer, expected a NumPy array")
    return value


def _is_null(value: object) -> bool:
    """Whether the argument is a null pointer: None, or 0 as an integer of a pointer's size, as on a GPU."""
    whole = isinstance(value, int) or (isinstance(value, np.integer) and value.nbytes == _POINTER_BYTES)
    return value is None or (whole and value == 0)


def _describe(texture: TextureStructure, given: TexelArray, buffer: BufferStructure) -> int:
    """Fill in the object whose texels are in ``buffer``; returns its address, which is the kernel's argument."""
    how, dtype = given.described, given.array.dtype
    texture.buffer = ctypes.addressof(buffer)
    texture.dimensions = 0 if how.linear_memory else how.dimensions
    texture.size[:] = (how.width, how.height or 1, how.depth or 1)
    texture.layers = how.layers
    texture.channels, texture.channel_bytes, texture.kind = how.channels, dtype.itemsize, _KINDS[dtype.kind]
    texture.is_surface = how.is_surface
    texture.address = _ADDRESS[how.address]
    texture.linear = how.linear
    texture.normalized_coordinates, texture.normalized_values = how.normalized_coordinates, how.normalized_values
    return ctypes.addressof(texture)


def _check_dtype(
    where: str, dtype: np.dtype[Any], size: int, parameter: Parameter, *, value: np.generic | None = None
) -> None:
    floating = bool(parameter.element_is_floating)
    if dtype.itemsize != size or np.issubdtype(dtype, np.floating) != floating:
        types = _OF_SIZE.get((size, floating), (f"an integer type of {size} bytes",))
        likely = "bool" if "bool" in types and value in (0, 1) else types[0]
        raise ArgumentsError(
            f"{where}: {dtype} given, expected {_either(types)}", value_type=None if value is None else likely
        )


def _either(types: Sequence[str]) -> str:
    """``int8, uint8 or bool``."""
    return " or ".join(filter(None, (", ".join(types[:-1]), types[-1])))


def _check_format(where: str, dtype: np.dtype[Any], parameter: Parameter) -> None:
    """Refuse an array whose elements cannot be the parameter's; those of types that NumPy lacks are stored as bits."""
    name, in_cuda, kinds = _FORMATS[parameter.element_format]
    if dtype.itemsize != parameter.element_size or dtype.kind not in f"{kinds}iV":
        raise ArgumentsError(f"{where}: {dtype} given, expected {name}, the type of {in_cuda}")
