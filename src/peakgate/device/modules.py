"""The machine code of the modules that the driver loads in this process, as CUPTI reports it.

CUPTI's C interface is called directly: cupti-python 13.4 passes an image to its callbacks as text, which ends the
process at the first one that is not.
"""

from __future__ import annotations

import atexit
import ctypes
import importlib.util
from typing import Any

from peakgate.compile.kernel_code import kernel_code
from peakgate.device import driver

_RESOURCE = 3  # CUPTI_CB_DOMAIN_RESOURCE
_LOADED, _UNLOADING = 6, 7  # CUPTI_CBID_RESOURCE_MODULE_LOADED, CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING


class _Module(ctypes.Structure):
    """``CUpti_ModuleResourceData``."""

    _fields_ = (("number", ctypes.c_uint32), ("size", ctypes.c_size_t), ("image", ctypes.c_void_p))


class _Resource(ctypes.Structure):
    """``CUpti_ResourceData``."""

    _fields_ = (
        ("context", ctypes.c_void_p),
        ("handle", ctypes.c_void_p),
        ("module", ctypes.POINTER(_Module)),
    )


_Callback = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.POINTER(_Resource)
)  # CUpti_CallbackFunc


class Modules:
    """The images of the modules that are loaded now, by CUPTI's number."""

    def __init__(self, cupti: ctypes.CDLL) -> None:
        self._cupti, self._subscriber = cupti, ctypes.c_void_p()
        self._images: dict[int, bytes] = {}
        self._noted = _Callback(self._note)  # CUPTI keeps its address

    def follow(self) -> bool:
        """Follow this process's modules from now on; False if CUPTI refuses, as it does beside another tool."""
        if self._cupti.cuptiSubscribe(ctypes.byref(self._subscriber), self._noted, None) != 0:
            return False
        atexit.register(self.stop)  # the driver unloads modules after Python has ended
        enabled = (
            self._cupti.cuptiEnableCallback(1, self._subscriber, _RESOURCE, each) for each in (_LOADED, _UNLOADING)
        )
        return not any(enabled)

    def stop(self) -> None:
        """Follow them no longer: nothing is known from here on."""
        self._images.clear()
        self._cupti.cuptiUnsubscribe(self._subscriber)
        atexit.unregister(self.stop)

    def _note(self, _of_user: int, _domain: int, event: int, resource: Any) -> None:
        module = resource.contents.module.contents
        if event == _LOADED and module.image:
            self._images[module.number] = ctypes.string_at(module.image, module.size)
        elif event == _UNLOADING:
            self._images.pop(module.number, None)

    def code(self, kernel: str) -> str | None:
        """The digest of a kernel's machine code; None if no module has it, or if modules have different code."""
        section = f".text.{kernel}\0".encode()
        images = [image for image in tuple(self._images.values()) if section in image]
        codes = {kernel_code(image, frozenset([kernel])).get(kernel) for image in images}
        return codes.pop() if len(codes) == 1 else None


_followed: list[Modules | None] = []
"""Those of this process, None if they are not followed; empty before ``follow``."""


def follow(index: int) -> None:
    """Follow the modules of this process, unless that has begun.

    Nothing is followed without cupti-python, if CUPTI refuses, or if the GPU with this CUDA index has a context
    already: modules that nobody saw may have kernels of the same names.
    """
    if not _followed:
        _followed.append(None if driver.has_context(index) else _begun())


def _begun() -> Modules | None:
    if importlib.util.find_spec("cupti") is None:
        return None
    try:
        from cuda.pathfinder import load_nvidia_dynamic_lib  # noqa: PLC0415  (needed by cupti-python)

        found = Modules(ctypes.CDLL(load_nvidia_dynamic_lib("cupti").abs_path))
    except (ImportError, RuntimeError, OSError):
        return None
    return found if found.follow() else None


def stop() -> None:
    """Follow no modules any longer, in a run that has no use for them."""
    for found in filter(None, _followed):
        found.stop()
    _followed[:] = [None]


def loaded_code(kernel: str) -> str | None:
    """The digest of the machine code that all loaded kernels of this name have; None if they differ or are unknown."""
    return next((found.code(kernel) for found in filter(None, _followed)), None)
