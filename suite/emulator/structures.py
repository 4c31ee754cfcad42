"""The runtime's C structures, as ctypes sees them; the headers say what the fields mean."""

from __future__ import annotations

import ctypes


class Uint3(ctypes.Structure):
    """``uint3``."""

    _fields_ = (("x", ctypes.c_uint32), ("y", ctypes.c_uint32), ("z", ctypes.c_uint32))

    def triple(self) -> tuple[int, int, int]:
        """As Python has it."""
        return (self.x, self.y, self.z)


class Parameter(ctypes.Structure):
    """``PeakgateParameter`` of runtime_api.h."""

    _fields_ = (
        ("size", ctypes.c_uint32),
        ("is_pointer", ctypes.c_uint32),
        ("points_to_const", ctypes.c_uint32),
        ("element_size", ctypes.c_uint32),
        ("element_is_floating", ctypes.c_uint32),
        ("element_is_scalar", ctypes.c_uint32),
    )


class ReportStructure(ctypes.Structure):
    """``Report`` of runtime.h."""

    _fields_ = (
        ("kind", ctypes.c_int32),
        ("count", ctypes.c_int32),
        ("address", ctypes.c_uint64),
        ("other_address", ctypes.c_uint64),
        ("thread", Uint3),
        ("block", Uint3),
        ("other_thread", Uint3),
        ("has_other_thread", ctypes.c_int32),
        ("message", ctypes.c_char * 200),
    )


class BufferStructure(ctypes.Structure):
    """``Buffer`` of runtime.h."""

    _fields_ = (
        ("device", ctypes.c_void_p),
        ("host", ctypes.c_void_p),
        ("size", ctypes.c_uint64),
        ("argument", ctypes.c_int32),
        ("writable", ctypes.c_int32),
        ("is_output", ctypes.c_int32),
        ("floating_size", ctypes.c_int32),
        ("not_finite", ctypes.c_uint64),
        ("unwritten", ctypes.c_uint64),
        ("first_unwritten", ctypes.c_uint64),
    )


class SlotStructure(ctypes.Structure):
    """``Slot`` of runtime.h."""

    _fields_ = (
        ("value", ctypes.c_void_p),
        ("holder", ctypes.POINTER(BufferStructure)),
        ("offset", ctypes.c_uint64),
        ("target", ctypes.POINTER(BufferStructure)),
    )


class TextureStructure(ctypes.Structure):
    """``Texture`` of runtime.h."""

    _fields_ = (
        ("buffer", ctypes.POINTER(BufferStructure)),
        ("dimensions", ctypes.c_int32),
        ("size", ctypes.c_int32 * 3),
        ("layers", ctypes.c_int32),
        ("channels", ctypes.c_int32),
        ("channel_bytes", ctypes.c_int32),
        ("kind", ctypes.c_int32),
        ("address", ctypes.c_int32),
        ("linear", ctypes.c_int32),
        ("normalized_coordinates", ctypes.c_int32),
        ("normalized_values", ctypes.c_int32),
        ("is_surface", ctypes.c_int32),
    )


class TensorMapStructure(ctypes.Structure):
    """``TensorMap`` of runtime.h."""

    _fields_ = (
        ("buffer", ctypes.POINTER(BufferStructure)),
        ("axes", ctypes.c_int32),
        ("element_bytes", ctypes.c_int32),
        ("extents", ctypes.c_uint64 * 5),
        ("strides", ctypes.c_uint64 * 5),
        ("box", ctypes.c_int32 * 5),
        ("swizzle", ctypes.c_int32),
    )


class VariableStructure(ctypes.Structure):
    """``Variable`` of runtime.h."""

    _fields_ = (("start", ctypes.c_uint64), ("size", ctypes.c_uint64), ("name", ctypes.c_char_p))


class LaunchStructure(ctypes.Structure):
    """``Launch`` of runtime.h."""

    _fields_ = (
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("call", ctypes.c_void_p),
        ("arguments", ctypes.c_void_p),
        ("buffers", ctypes.c_void_p),
        ("buffer_count", ctypes.c_int32),
        ("schedule", ctypes.c_uint32),
        ("shared_bytes", ctypes.c_uint32),
        ("stall_ms", ctypes.c_int32),
        ("cooperative", ctypes.c_int32),
        ("access_budget", ctypes.c_int64),
        ("dynamic_shared", ctypes.c_void_p),
        ("textures", ctypes.c_void_p),
        ("texture_count", ctypes.c_int32),
        ("trace_block", ctypes.c_uint32 * 3),
        ("trace", ctypes.c_void_p),
        ("trace_room", ctypes.c_uint64),
        ("traced", ctypes.c_void_p),
        ("guards", ctypes.c_void_p),
        ("guard_count", ctypes.c_int32),
        ("slots", ctypes.c_void_p),
        ("slot_count", ctypes.c_int32),
        ("variable_count", ctypes.c_int32),
        ("variables", ctypes.c_void_p),
        ("tensor_maps", ctypes.c_void_p),
        ("tensor_map_count", ctypes.c_int32),
    )
