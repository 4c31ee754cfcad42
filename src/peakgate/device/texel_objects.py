"""Texture and surface objects on the GPU, made by CuPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from cupy.cuda import get_current_stream, runtime, texture

from peakgate.spec.arguments import Surface, TexelBuffer, Texture
from peakgate.spec.case import Array

_KINDS = {
    "u": runtime.cudaChannelFormatKindUnsigned,
    "i": runtime.cudaChannelFormatKindSigned,
    "f": runtime.cudaChannelFormatKindFloat,
}
_ADDRESS = {
    "wrap": runtime.cudaAddressModeWrap,
    "clamp": runtime.cudaAddressModeClamp,
    "mirror": runtime.cudaAddressModeMirror,
    "border": runtime.cudaAddressModeBorder,
}

# cudaArrayLayered, which CuPy does not export.
_LAYERED = 1


class TexelObject:
    """A texture or surface object for ``array``; ``handle`` is the kernel argument.

    The texels are in a separate CUDA array: ``fill`` copies the array there, ``read_back`` copies a surface back.
    Linear memory is the array itself.
    """

    def __init__(self, buffer: TexelBuffer, array: Array) -> None:
        self._seen_as = buffer.seen_as
        self._texels: Any = None
        how, extent, dtype = buffer.seen_as, buffer.texels, np.dtype(buffer.dtype)
        bits = [8 * dtype.itemsize if channel < how.channels else 0 for channel in range(4)]
        channels = texture.ChannelFormatDescriptor(*bits, _KINDS[dtype.kind])
        if isinstance(how, Texture) and how.linear_memory:
            resource = texture.ResourceDescriptor(
                runtime.cudaResourceTypeLinear, arr=array, chDesc=channels, sizeInBytes=array.nbytes
            )
        else:
            flags = runtime.cudaArraySurfaceLoadStore if isinstance(how, Surface) else runtime.cudaArrayDefault
            flags |= _LAYERED if how.layered else 0
            depth = extent.layers or extent.depth
            self._texels = texture.CUDAarray(channels, extent.width, extent.height, depth, flags)
            resource = texture.ResourceDescriptor(runtime.cudaResourceTypeArray, cuArr=self._texels)
        # CuPy requires all channels of a row in one axis.
        self._rows = array.reshape(*array.shape[:-2], -1) if how.channels > 1 else array
        self.handle: Any
        if isinstance(how, Texture):
            read = texture.TextureDescriptor(
                [_ADDRESS[how.address]] * extent.dimensions,
                runtime.cudaFilterModeLinear if how.linear else runtime.cudaFilterModePoint,
                runtime.cudaReadModeNormalizedFloat if how.normalized_read else runtime.cudaReadModeElementType,
                normalizedCoords=int(how.normalized_coords),
            )
            self.handle = texture.TextureObject(resource, read)
        else:
            self.handle = texture.SurfaceObject(resource)
        self.fill()

    def fill(self) -> None:
        """Copy the array to the object's texels, in stream order."""
        if self._texels is not None:
            self._texels.copy_from(self._rows, stream=get_current_stream())

    def read_back(self) -> None:
        """Copy a surface's texels to the array, in stream order."""
        if isinstance(self._seen_as, Surface):
            self._texels.copy_to(self._rows, stream=get_current_stream())
