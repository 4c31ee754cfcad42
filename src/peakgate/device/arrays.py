"""The arrays of one case on the GPU: placement, guards after them, textures and surfaces, sets at random offsets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import cupy
import numpy as np
from cupy.cuda import get_current_stream, runtime, texture

from peakgate.device import elements
from peakgate.device.caches import Draw
from peakgate.device.interface import KernelFault
from peakgate.measure import refill
from peakgate.spec.arguments import Surface, TexelBuffer, Texture
from peakgate.spec.case import Array, Buffer, Case, Role

if TYPE_CHECKING:  # it imports this module
    from peakgate.device.gpu import GpuDevice

LaunchFunction = Callable[[], None]

# The range of an out-of-bounds block of 1024 threads that write one float each.
GUARD_BYTES = 4096

# Up to this size each launch of a batch has its own arrays, so that nothing is queued between samples: kernels that
# change contents there evict instructions of the timed kernel, which cost an unrolled SGEMM of side 256 4 of 50 µs.
# This size is 128 pages, whose address translations stay cached.
APART_BYTES = 256 << 20

# Share of the free memory for copies of outputs that are compared, unless they are smaller than this.
COPIED_SHARE, SMALL_COPY_BYTES = 0.25, 32 << 20


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


class GpuRefiller:
    """Redraws arrays on a GPU, in stream order."""

    fill = staticmethod(elements.refill)
    change = staticmethod(elements.change)
    empty_like = staticmethod(cupy.empty_like)

    @staticmethod
    def copy(target: Array, origin: Array) -> None:
        """Copy on the device."""
        target.data.copy_from_device_async(origin.data, target.nbytes, get_current_stream())


@dataclass(frozen=True, slots=True)
class Guard:
    """Noise after an array, which detects a write just past its end even in free memory.

    CUDA reports an access outside of its allocations only if nothing is mapped there, and CuPy's pool maps more than it
    hands out. There is no guard before the array, which would change its alignment. ``position`` is the argument's, for
    the message; ``noise`` is the initial content of ``memory``.
    """

    position: int
    memory: Array
    noise: Array

    def damage(self) -> str | None:
        """A description of the bytes written past the end; None if there are none. Waits for the device."""
        hit = np.flatnonzero(cupy.asnumpy(self.memory) != self.noise)
        if not hit.size:
            return None
        return f"wrote past the end of argument {self.position + 1}, at bytes {hit[0] + 1} to {hit[-1] + 1} after it"


def refuse_damage(guards: Sequence[Guard]) -> None:
    """Raise KernelFault if a launch wrote past the end of an array."""
    for guard in guards:
        if damage := guard.damage():
            raise KernelFault(damage)


def room_for(outputs: Iterable[Any]) -> int | None:
    """How many copies of a launch's outputs fit in memory, at least one; None if they are small."""
    copied_bytes = sum(output.nbytes for output in outputs if hasattr(output, "nbytes"))
    if copied_bytes <= SMALL_COPY_BYTES:
        return None
    free_bytes = runtime.memGetInfo()[0] + cupy.get_default_memory_pool().free_bytes()
    return max(1, int(COPIED_SHARE * free_bytes / copied_bytes))


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


@dataclass(frozen=True, slots=True)
class ArraySet:
    """One placement of a case's arrays, by argument position, with guards, contents and a launch on them."""

    arrays: Mapping[int, Array]
    guards: Sequence[Guard]
    contents: refill.Contents
    launch: LaunchFunction


class CaseArrays:
    """The arrays of one case: ``prepared`` at fixed addresses, and sets at random offsets.

    ``prepared`` are the arrays by argument position, ``buffers`` their specifications, ``pristine`` the contents of IN
    and INOUT buffers before a launch, ``texels`` the textures and surfaces. Another build of the kernel, sampled
    interleaved with the one whose arrays are ``beside``, shares these arrays except SCRATCH, which belongs to each
    kernel. ``whole[0]``: whether inputs are redrawn completely for each launch, shared by both builds.
    """

    def __init__(self, device: GpuDevice, case: Case, beside: CaseArrays | None = None) -> None:
        self.case = case
        self._device = device
        self.whole: list[bool] = beside.whole if beside else [True]
        self.buffers = {at: argument for at, argument in enumerate(case.arguments) if isinstance(argument, Buffer)}
        self.pristine = {
            at: device.data.input(buffer, at)
            for at, buffer in self.buffers.items()
            if buffer.role in (Role.IN, Role.INOUT)
        }
        scratch = [at for at, buffer in self.buffers.items() if buffer.role is Role.SCRATCH]
        common = {at: array for at, array in beside.prepared.items() if at not in scratch} if beside else {}
        rooms = {at: cupy.empty(size, np.uint8) for at, size in self._sizes_bytes().items() if at not in common}
        placed, self.guards = self._placed(rooms, device.draw)
        self.prepared: dict[int, Array] = {at: common[at] if at in common else placed[at] for at in self.buffers}
        self.guards += [guard for guard in (beside.guards if beside else ()) if guard.position in common]
        for at in scratch:
            self.prepared[at].fill(0)
        self.restore_inputs()
        self.texels: Mapping[int, TexelObject] = (
            beside.texels
            if beside
            else {
                at: TexelObject(buffer, self.prepared[at])
                for at, buffer in self.buffers.items()
                if isinstance(buffer, TexelBuffer)
            }
        )

    @property
    def inputs(self) -> Sequence[Array]:
        """The contents of IN and INOUT buffers before a launch, and the constants."""
        return [*self.pristine.values(), *self._device.data.constants(self.case)]

    def outputs(self, arrays: Mapping[int, Array]) -> Sequence[Array]:
        """The OUT and INOUT buffers among these arrays, in argument order."""
        return refill.outputs_of(self.buffers, arrays)

    def restore_inputs(self) -> None:
        """Copy the pristine inputs to the prepared arrays, in stream order."""
        for at, pristine in self.pristine.items():
            GpuRefiller.copy(self.prepared[at], pristine)

    def fill_outputs(self) -> None:
        """Fill the prepared OUT and TEMP arrays with noise, in stream order."""
        noise, draw = self._device.data.noise, self._device.draw
        elements.refill(
            [
                (self.prepared[at], noise(buffer.dtype, draw), draw(refill.SEEDS))
                for at, buffer in self.buffers.items()
                if buffer.role in (Role.OUT, Role.TEMP)
            ]
        )

    def fill_texels(self) -> None:
        """Copy arrays to the memory of textures and surfaces, in stream order."""
        for each in self.texels.values():
            each.fill()

    def read_texels(self) -> None:
        """Copy surfaces back to their arrays, in stream order."""
        for each in self.texels.values():
            each.read_back()

    def contents(self, draw: Draw) -> refill.Contents:
        """New ``Contents`` of the buffers."""
        return refill.Contents(GpuRefiller(), self.buffers, self._pools, self.pristine, draw)

    def change(self, contents: refill.Contents) -> None:
        """Draw contents for the next launch of a batch, in stream order."""
        contents.next(whole=self.whole[0])
        self.fill_texels()

    def copy_outputs(self, arrays: Mapping[int, Array], copies: Sequence[Array]) -> None:
        """Copy the outputs among these arrays, in stream order."""
        self.read_texels()
        for copy, output in zip(copies, self.outputs(arrays), strict=True):
            GpuRefiller.copy(copy, output)

    def moved(
        self, launches: int, draw: Draw, bind: Callable[[Mapping[int, Array]], LaunchFunction]
    ) -> list[ArraySet] | None:
        """Array sets at new random offsets: one for each of ``launches``, or a single one for large arrays.

        None if even one set is too large to be placed at random. Textures and surfaces are not moved, and SCRATCH is
        shared by all launches. Of several sets a random one has guards. ``bind`` returns a launch on a set's arrays.
        """
        sizes = {at: size for at, size in self._sizes_bytes().items() if at not in self.texels}
        once = {at: size for at, size in sizes.items() if self.buffers[at].role is Role.SCRATCH}
        own = {at: size for at, size in sizes.items() if at not in once}
        apart = launches * sum(own.values()) + sum(once.values()) <= APART_BYTES and not self.texels
        count = launches if apart else 1
        places = self._device.data.places([*once.values(), *(list(own.values()) * count)], draw) if sizes else None
        if places is None:
            return None
        shared = dict(zip(once, places, strict=False))
        found: list[ArraySet] = []
        guarded = draw(count)
        for index in range(count):
            first = len(once) + index * len(own)
            rooms = dict(zip(own, places[first : first + len(own)], strict=True)) | ({} if index else shared)
            arrays, guards = self._placed(rooms, draw, guarded=index == guarded)
            stay = found[0].arrays if found else self.prepared
            arrays = {at: arrays.get(at, stay[at]) for at in self.buffers}
            guards += [guard for guard in self.guards if guard.position in self.texels]
            found.append(ArraySet(arrays, guards, self.contents(draw), bind(arrays)))
        return found

    def _sizes_bytes(self) -> dict[int, int]:
        """The size of each buffer, including the guard after buffers that a kernel may write."""
        guarded = self._device.guarded
        return {
            at: buffer.nbytes + (GUARD_BYTES if guarded and buffer.role is not Role.IN else 0)
            for at, buffer in self.buffers.items()
        }

    def _placed(
        self, rooms: Mapping[int, Array], draw: Draw, *, guarded: bool = True
    ) -> tuple[dict[int, Array], list[Guard]]:
        """The arrays of some buffers in the given memory, by argument position, and new guards after them."""
        arrays, guards = {}, []
        for at, room in rooms.items():
            nbytes, (shape, dtype) = self.buffers[at].nbytes, self.buffers[at].storage
            arrays[at] = cupy.ndarray(shape, dtype, room.data)
            behind = room[nbytes:]
            if behind.size and guarded:
                every = self._device.data.guard_noise(self._device.draw)
                first = draw(every.size - behind.size)
                noise = every[first : first + behind.size]
                stream, kind = get_current_stream(), runtime.memcpyHostToDevice
                runtime.memcpyAsync(behind.data.ptr, noise.ctypes.data, noise.nbytes, kind, stream.ptr)
                guards.append(Guard(at, behind, noise))
        return arrays, guards

    @cached_property
    def _pools(self) -> dict[int, Array]:
        """The pools that fill the buffers, by argument position; buffers that keep their contents have none."""
        device, data = self._device, self._device.data
        return refill.pools(
            self.case,
            lambda dtype: data.noise(dtype, device.draw),
            lambda pool, at: data.input(pool, at + device.secret),
        )
