"""Buffers that a kernel receives as a texture object or as a surface object instead of a pointer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from peakgate.core.case import Buffer
from peakgate.core.errors import Code, PeakgateError

TEXEL_TYPES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "float16", "float32")
"""The types that a texel's channels may have."""


@dataclass(frozen=True, slots=True)
class Texture:
    """How a kernel reads a buffer through a ``cudaTextureObject_t``; the fields are those of ``cudaTextureDesc``.

    ``address``: what lies outside, in every dimension; ``wrap`` and ``mirror`` need ``normalized_coords``, coordinates
    from 0 to 1. ``linear`` interpolates between texels, which needs floats. ``normalized_read`` turns integers of 8 and
    16 bits into floats from 0, or -1, to 1. With more than one of ``channels`` they are the buffer's last axis.
    ``layered``: its first axis are layers. ``linear_memory`` is what ``tex1Dfetch`` reads: it has no address mode.
    """

    address: Literal["clamp", "border", "wrap", "mirror"] = "clamp"
    linear: bool = False
    normalized_coords: bool = False
    normalized_read: bool = False
    channels: int = 1
    layered: bool = False
    linear_memory: bool = False


@dataclass(frozen=True, slots=True)
class Surface:
    """A buffer that a kernel reads and writes through a ``cudaSurfaceObject_t``; the fields as those of a texture."""

    channels: int = 1
    layered: bool = False


@dataclass(frozen=True, slots=True)
class Texels:
    """How many texels there are; 0 for what the object does not have. It has depth or layers, not both."""

    width: int
    height: int
    depth: int
    layers: int

    @property
    def dimensions(self) -> int:
        """Of the coordinates, without the layer."""
        return 1 + bool(self.height) + bool(self.depth)


@dataclass(frozen=True, slots=True)
class TexelBuffer(Buffer):
    """A buffer that a kernel receives as an object. PeakgateError for what CUDA has no such object for."""

    seen_as: Texture | Surface = Texture()

    def __post_init__(self) -> None:
        Buffer.__post_init__(self)
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
            self._check_texture(how, len(dimensions))

    def _check_texture(self, how: Texture, dimensions: int) -> None:
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
        if how.linear_memory and (dimensions > 1 or how.linear or how.normalized_coords or how.address != "clamp"):
            raise PeakgateError(
                "a texture of linear memory: expected one dimension, and neither filter nor address mode", Code.TEXELS
            )

    @property
    def texels(self) -> Texels:
        """How many texels there are."""
        layers, dimensions = _split(self.shape, self.seen_as)
        width, height, depth = (*reversed(dimensions), 0, 0)[:3]
        return Texels(width, height, depth, layers)


def _split(shape: tuple[int, ...], how: Texture | Surface) -> tuple[int, tuple[int, ...]]:
    """The layers, or 0, and the dimensions of a texel's place, the slowest first."""
    places = shape[:-1] if how.channels > 1 else shape
    return (places[0], places[1:]) if how.layered and places else (0, places)


def seen_as(buffer: Buffer, other: Buffer) -> Buffer:
    """The buffer, received by the kernel as ``other`` is."""
    plain = (buffer.role, buffer.shape, buffer.dtype, buffer.data)
    return TexelBuffer(*plain, other.seen_as) if isinstance(other, TexelBuffer) else Buffer(*plain)
