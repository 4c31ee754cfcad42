"""Describes texture and surface objects to the emulator's runtime."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np
from peakgate.device.emulator.structures import Buffer, Texture
from peakgate.texels import TexelBuffer
from peakgate.texels import Texture as Sampling

_KINDS = {"u": 0, "i": 1, "f": 2}
_ADDRESS = {"wrap": 0, "clamp": 1, "mirror": 2, "border": 3}


@dataclass(frozen=True, slots=True)
class TexelArray:
    """An array given for a texture or surface object; ``described`` says how the kernel sees it."""

    array: np.ndarray[Any, Any]
    described: TexelBuffer


def fill(texture: Texture, given: TexelArray, buffer: Buffer) -> int:
    """Describe the object whose texels are in ``buffer``; its address, which is the kernel's argument."""
    how, texels, dtype = given.described.seen_as, given.described.texels, given.array.dtype
    texture.buffer = ctypes.pointer(buffer)
    texture.dimensions = texels.dimensions
    texture.size[:] = (texels.width, texels.height or 1, texels.depth or 1)
    texture.layers = texels.layers
    texture.channels, texture.channel_bytes, texture.kind = how.channels, dtype.itemsize, _KINDS[dtype.kind]
    texture.is_surface = not isinstance(how, Sampling)
    if isinstance(how, Sampling):
        texture.address = _ADDRESS[how.address]
        texture.linear = how.linear
        texture.normalized_coordinates, texture.normalized_values = how.normalized_coords, how.normalized_read
        if how.linear_memory:
            texture.dimensions = 0
    return ctypes.addressof(texture)
