"""Arguments on the GPU that are no arrays: texture and surface objects by CuPy, tensor maps by the driver."""

from __future__ import annotations

from typing import Any

import numpy as np
from cupy.cuda import get_current_stream, runtime, texture
from peakgate.core.case import Array, Buffer
from peakgate.core.errors import Code, PeakgateError
from peakgate.core.tensor_maps import DATA_TYPES, L2_PROMOTIONS, SWIZZLES, TensorMapArgument
from peakgate.core.texels import Surface, TexelBuffer, Texture
from peakgate.device import driver

_LAYOUT = np.dtype([("opaque", np.uint64, (16,))])
_ALIGNMENT_BYTES = 128
"""Of a CUtensorMap; the driver writes to no place that is less aligned."""


def tensor_map(described: TensorMapArgument, buffer: Buffer, address: int) -> np.ndarray[Any, Any]:
    """The map of a buffer whose elements begin at an address: a CUtensorMap as an array without axes.

    PeakgateError where the driver refuses it.
    """
    room = np.zeros(_LAYOUT.itemsize + _ALIGNMENT_BYTES, np.uint8)
    start = -room.ctypes.data % _ALIGNMENT_BYTES
    found = room[start : start + _LAYOUT.itemsize].view(_LAYOUT).reshape(())
    extents, strides = described.seen(buffer.shape, buffer.dtype)
    status = driver.encode_tensor_map(
        found.ctypes.data,
        element_type=DATA_TYPES[buffer.dtype],
        address=address,
        # CUDA lists axes from the contiguous one on.
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
_LAYERED = 1
"""cudaArrayLayered, which CuPy does not name."""


class TexelObject:
    """The object through which a kernel sees ``array``: ``handle`` is its argument.

    CUDA keeps the texels in memory of its own, arranged for neighbours: ``fill`` copies them there, ``read_back`` what
    the kernel wrote to a surface. Linear memory is the array itself.
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
        # CuPy wants all channels of a row as one axis.
        self._rows = array.reshape(*array.shape[:-2], -1) if how.channels > 1 else array
        self.handle: Any = (
            texture.TextureObject(resource, _description(how, extent.dimensions))
            if isinstance(how, Texture)
            else texture.SurfaceObject(resource)
        )
        self.fill()

    def fill(self) -> None:
        """Copy the array to the object's texels, in stream order."""
        if self._texels is not None:
            self._texels.copy_from(self._rows, stream=get_current_stream())

    def read_back(self) -> None:
        """Copy a surface's texels to the array, in stream order."""
        if isinstance(self._seen_as, Surface):
            self._texels.copy_to(self._rows, stream=get_current_stream())


def _description(how: Texture, dimensions: int) -> Any:
    return texture.TextureDescriptor(
        [_ADDRESS[how.address]] * dimensions,
        runtime.cudaFilterModeLinear if how.linear else runtime.cudaFilterModePoint,
        runtime.cudaReadModeNormalizedFloat if how.normalized_read else runtime.cudaReadModeElementType,
        normalizedCoords=int(how.normalized_coords),
    )
