"""Calls of the NVIDIA driver through its library, with the standard library only, so that set-up can use it."""

from __future__ import annotations

import ctypes
import re
import uuid
from collections.abc import Sequence
from functools import cache
from pathlib import Path

_CAPABILITY_MAJOR, _CAPABILITY_MINOR = 75, 76  # CUdevice_attribute
_LIMIT_PERSISTING_L2_BYTES = 6  # CUlimit

CUBLAS_WHEELS = ("nvidia-cublas", "nvidia-cublas-cu12")


def cuda_driver_version() -> int | None:
    """The CUDA version that the driver supports, 13000 for 13.0; None without a driver."""
    driver = _library()
    if driver is None:
        return None
    found = ctypes.c_int()
    return found.value if driver.cuDriverGetVersion(ctypes.byref(found)) == 0 else None


def gpu_count() -> int:
    """The number of GPUs visible to this process; 0 without a driver."""
    driver = _library()
    count = ctypes.c_int()
    if driver is None or driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return 0
    return count.value


def named_gpus(choice: str) -> tuple[int, ...]:
    """The CUDA indices that a ``--device`` names, 0 for ``auto`` and ``gpu``; none for ``cpu`` and any other text."""
    match = re.fullmatch(r"auto|gpu(?::(\d+(?:,\d+)*))?", choice)
    return () if match is None else tuple(map(int, (match[1] or "0").split(",")))


def cuda_extra() -> str | None:
    """The pip extra for the installed driver: ``cuda12``, ``cuda13``, or None without a usable GPU.

    CuPy's CUDA 13 packages need a driver that supports 13.0; the two must never be installed together.
    """
    supported = cuda_driver_version()
    if supported is None or supported < 12000 or gpu_count() == 0:
        return None
    return "cuda13" if supported >= 13000 else "cuda12"


def slug(name: str) -> str:
    """A GPU's name as a folder name: ``NVIDIA H200`` is ``nvidia-h200``."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "unknown-gpu"


def gpu_name(index: int) -> str:
    """The name of the GPU with this CUDA index, which must exist."""
    return _text("cuDeviceGetName", index)


def gpu_uuid(index: int) -> str | None:
    """The UUID of a GPU, ``GPU-...`` as nvidia-smi prints it; None if there is no such GPU."""
    if (found := _device(index)) is None:
        return None
    driver, device = found
    raw = (ctypes.c_ubyte * 16)()
    if driver.cuDeviceGetUuid_v2(ctypes.byref(raw), device) != 0:
        return None
    return f"GPU-{uuid.UUID(bytes=bytes(raw))}"


def driver_version() -> str | None:
    """The version line of the loaded kernel driver; None without one."""
    try:
        return Path("/proc/driver/nvidia/version").read_text(encoding="utf-8").partition("\n")[0]
    except OSError:
        return None


def persisting_l2_bytes() -> int:
    """The size of the L2 set aside for persisting lines in the current context; 0 without a driver or context."""
    driver = _library()
    reserved = ctypes.c_size_t()
    if driver is None or driver.cuCtxGetLimit(ctypes.byref(reserved), _LIMIT_PERSISTING_L2_BYTES) != 0:
        return 0
    return reserved.value


def reset_persisting_l2() -> None:
    """Reset all persisting lines of the L2 to normal (cuCtxResetPersistingL2Cache).

    Does nothing on a GPU without persisting L2 (before compute capability 8.0).
    """
    driver = _library()
    if driver is not None:
        driver.cuCtxResetPersistingL2Cache()


def load_function(handle: int) -> bool:
    """Load a kernel's code onto the GPU before its first launch (cuFuncLoad); whether that succeeded.

    False with a driver before CUDA 12.4, which lacks the function.
    """
    driver = _library()
    try:
        return driver is not None and bool(driver.cuFuncLoad(ctypes.c_void_p(handle)) == 0)
    except AttributeError:
        return False


def graph_nodes(handle: int) -> int | None:
    """The number of nodes of the CUDA graph with this handle; None if the driver does not report it."""
    driver, count = _library(), ctypes.c_size_t()
    if driver is None or driver.cuGraphGetNodes(ctypes.c_void_p(handle), None, ctypes.byref(count)) != 0:
        return None
    return count.value


def pci_bus_id(index: int) -> str:
    """The PCI bus id of the GPU with this CUDA index, which must exist: ``0000:1b:00.0``."""
    return _text("cuDeviceGetPCIBusId", index)


def retain_context(index: int) -> bool:
    """Retain this process's primary context on the GPU with this CUDA index; whether that succeeded."""
    if (found := _device(index)) is None:
        return False
    driver, device = found
    return bool(driver.cuDevicePrimaryCtxRetain(ctypes.byref(ctypes.c_void_p()), device) == 0)


def has_context(index: int) -> bool:
    """Whether this process has a primary context on the GPU with this CUDA index (cuDevicePrimaryCtxGetState)."""
    if (found := _device(index)) is None:
        return False
    driver, device = found
    flags, active = ctypes.c_uint(), ctypes.c_int()
    driver.cuDevicePrimaryCtxGetState(device, ctypes.byref(flags), ctypes.byref(active))
    return bool(active.value)


def destroy_context(index: int) -> bool:
    """Destroy this process's primary context on the GPU with this CUDA index; whether that succeeded.

    Everything that the process has on the GPU is destroyed too, and must not be used or freed afterwards.
    """
    found = _device(index)
    return found is not None and bool(found[0].cuDevicePrimaryCtxReset_v2(found[1]) == 0)


def gpu_capability(index: int) -> tuple[int, int] | None:
    """The compute capability of the GPU with this CUDA index; None when there is no such GPU."""
    if (found := _device(index)) is None:
        return None
    driver, device = found
    values = [ctypes.c_int(), ctypes.c_int()]
    for value, attribute in zip(values, (_CAPABILITY_MAJOR, _CAPABILITY_MINOR), strict=True):
        driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, device)
    return values[0].value, values[1].value


def encode_tensor_map(
    target: int,
    *,
    element_type: int,
    address: int,
    extents: Sequence[int],
    strides_bytes: Sequence[int],
    box: Sequence[int],
    swizzle: int,
    l2_promotion: int,
) -> int:
    """Write a CUtensorMap to the address ``target`` (cuTensorMapEncodeTiled); the driver's status, 0 for success.

    The contiguous axis comes first and has no stride. No interleave, element strides of 1, elements outside are 0.
    """
    driver, axes = _library(), len(extents)
    assert driver is not None, "there is no GPU without a driver"
    status: int = driver.cuTensorMapEncodeTiled(
        ctypes.c_void_p(target),
        element_type,
        axes,
        ctypes.c_void_p(address),
        (ctypes.c_uint64 * axes)(*extents),
        (ctypes.c_uint64 * axes)(*strides_bytes),
        (ctypes.c_uint32 * axes)(*box),
        (ctypes.c_uint32 * axes)(*([1] * axes)),
        0,
        swizzle,
        l2_promotion,
        0,
    )
    return status


def cublas_version() -> str | None:
    """The version of the installed cuBLAS wheel; None if the library comes from elsewhere.

    It identifies cuBLAS kernels in place of a fingerprint of machine code.
    """
    from importlib import metadata  # noqa: PLC0415  (slow, only for cuBLAS)

    for wheel in CUBLAS_WHEELS:
        try:
            return metadata.version(wheel)
        except metadata.PackageNotFoundError:
            continue
    return None


def library_behind(operation: str) -> str:
    """The library of an operation (``operations.py``), with its version.

    A cuBLAS that is not a wheel belongs to the machine, and is the same for all processes of one environment.
    """
    if operation.startswith("cublas"):
        return f"cuBLAS {cublas_version() or 'of the machine'}"
    found = re.search(r"\d+\.\d+[.\d]*", driver_version() or "")
    return f"driver {found[0] if found else 'of the machine'}"


def _text(function: str, index: int) -> str:
    """The text that a driver function writes about the GPU with this CUDA index; ValueError if there is no such GPU."""
    if (found := _device(index)) is None:
        raise ValueError(f"no GPU with index {index}")
    driver, device = found
    text = ctypes.create_string_buffer(256)
    driver[function](text, len(text), device)
    return text.value.decode()


def _device(index: int) -> tuple[ctypes.CDLL, ctypes.c_int] | None:
    """The driver and its handle of the GPU with this CUDA index; None when there is no such GPU."""
    driver, device = _library(), ctypes.c_int()
    if driver is None or driver.cuInit(0) != 0 or driver.cuDeviceGet(ctypes.byref(device), index) != 0:
        return None
    return driver, device


@cache
def _library() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
