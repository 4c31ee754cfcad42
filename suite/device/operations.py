"""Reference implementations of the device itself: its memcpy, the host link, the vendor's matrix products."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import cupy
import numpy as np
from peakgate.core.errors import Code, PeakgateError
from peakgate.device import cublas_lt

_HOST_TO_DEVICE, _DEVICE_TO_HOST, _DEVICE_TO_DEVICE = 1, 2, 3  # cudaMemcpyKind
_OP_N, _OP_T = 0, 1  # cublasOperation_t: the operand as it is, transposed
_DEFAULT_MATH, _PEDANTIC_MATH = 0, 2  # cublasMath_t
_BF16, _SUMS_IN_FP32, _TENSOR_ALGORITHM = 14, 68, 99  # cudaDataType, cublasComputeType_t, cublasGemmAlgo_t


@dataclass(frozen=True, slots=True)
class Operation:
    """A launch on the current stream.

    ``collect`` puts the result where it can be checked (None: it is there). A launch that ``waits_for_host`` copies
    through the host before it returns; it cannot be queued behind a blocking kernel. One that is ``movable`` may be
    bound again, at no cost, to arrays at other offsets.
    """

    launch: Callable[[], None]
    collect: Callable[[], None] | None = None
    waits_for_host: bool = False
    movable: bool = False


def bind(name: str, arguments: Sequence[Any]) -> Operation:
    """The operation of that name on these device arrays, the target first; PeakgateError where there is none."""
    operation = _OPERATIONS.get(name)
    if operation is None:
        raise PeakgateError(
            f"no operation of the GPU is named {name!r}; expected one of {', '.join(_OPERATIONS)}", Code.OPERATION
        )
    return operation(arguments)


def _copy(target: int, origin: int, nbytes: int, kind: int) -> None:
    cupy.cuda.runtime.memcpyAsync(target, origin, nbytes, kind, cupy.cuda.get_current_stream().ptr)


def _memcpy(arguments: Sequence[Any]) -> Operation:
    target, origin = arguments[:2]
    copy = partial(_copy, target.data.ptr, origin.data.ptr, origin.nbytes, _DEVICE_TO_DEVICE)
    return Operation(copy, movable=True)


def _host_to_device(arguments: Sequence[Any], *, pinned: bool) -> Operation:
    target, origin = arguments[:2]
    host = _host_array(origin, pinned=pinned)
    host[...] = cupy.asnumpy(origin)

    def launch() -> None:
        _copy(target.data.ptr, host.ctypes.data, host.nbytes, _HOST_TO_DEVICE)

    return Operation(launch, waits_for_host=not pinned)


def _device_to_host(arguments: Sequence[Any], *, pinned: bool) -> Operation:
    target, origin = arguments[:2]
    host = _host_array(origin, pinned=pinned)

    def launch() -> None:
        _copy(host.ctypes.data, origin.data.ptr, host.nbytes, _DEVICE_TO_HOST)

    return Operation(launch, collect=lambda: target.set(host), waits_for_host=not pinned)


def _host_array(like: Any, *, pinned: bool) -> np.ndarray[Any, Any]:
    # Not cupyx.empty_pinned: cupyx imports SciPy, a sixth of a second of every run's start.
    room = cupy.cuda.alloc_pinned_memory(like.nbytes) if pinned else bytearray(like.nbytes)
    host: np.ndarray[Any, Any] = np.frombuffer(room, like.dtype, like.size).reshape(like.shape)
    host.view(np.uint8).fill(0)  # first touch: no page fault falls into a sample
    return host


def _product(
    arguments: Sequence[Any],
    function: str,
    math_mode: int,
    right_op: int,
    *,
    of_type: Sequence[int] = (),
    how: Any = (),
) -> Operation:
    """C = A.B, or A.B^T where the right operand is transposed, all three row-major.

    cuBLAS is column-major: the row-major product is the column-major product of the operands exchanged, C^T = B^T.A^T.
    """
    product, left, right = arguments[:3]
    one, zero = ctypes.c_float(1), ctypes.c_float(0)
    of_right, of_left, of_product = (
        (ctypes.c_void_p(each.data.ptr), *of_type, each.shape[1]) for each in (right, left, product)
    )
    sizes = product.shape[1], left.shape[0], left.shape[1]
    scaled = (ctypes.byref(one), *of_right, *of_left, ctypes.byref(zero), *of_product)
    return _cublas_call(function, math_mode, right_op, _OP_N, *sizes, *scaled, *how)


def _cublaslt_e4m3_nt(arguments: Sequence[Any]) -> Operation:
    """C = A.B^T of e4m3 in bfloat16, by the algorithm that cuBLASLt ranks first; all three are row-major."""
    return Operation(cublas_lt.product_nt(*arguments[:3]), movable=True)


def _cublas_call(function: str, math_mode: int, *arguments: Any) -> Operation:
    """A call of cuBLAS in a math mode, which operations that share the handle set for themselves."""
    library, handle = _cublas(), ctypes.c_void_p(cupy.cuda.get_cublas_handle())

    def launch() -> None:
        _require_success(library.cublasSetMathMode(handle, math_mode), "cublasSetMathMode")
        _require_success(library[function](handle, *arguments), function)

    return Operation(launch, movable=True)


@cache
def _cublas() -> ctypes.CDLL:
    """The cuBLAS that CuPy has loaded, by its C interface."""
    cupy.cuda.get_cublas_handle()
    major = cupy.cuda.runtime.runtimeGetVersion() // 1000
    return ctypes.CDLL(f"libcublas.so.{major}")


def _require_success(status: int, call: str) -> None:
    if status != 0:
        raise RuntimeError(f"{call} returned status {status}")


_OPERATIONS: dict[str, Callable[[Sequence[Any]], Operation]] = {
    "memcpy": _memcpy,
    "h2d_pageable": partial(_host_to_device, pinned=False),
    "h2d_pinned": partial(_host_to_device, pinned=True),
    "d2h_pageable": partial(_device_to_host, pinned=False),
    "d2h_pinned": partial(_device_to_host, pinned=True),
    # Strict FP32: pedantic math keeps TF32 and other shortcuts out.
    "cublas_sgemm": partial(_product, function="cublasSgemm_v2", math_mode=_PEDANTIC_MATH, right_op=_OP_N),
    # In bfloat16 with float32 sums, by the algorithm that cuBLAS chooses.
    "cublas_bf16_nt": partial(
        _product,
        function="cublasGemmEx",
        math_mode=_DEFAULT_MATH,
        right_op=_OP_T,
        of_type=(_BF16,),
        how=(_SUMS_IN_FP32, _TENSOR_ALGORITHM),
    ),
    "cublaslt_e4m3_nt": _cublaslt_e4m3_nt,
}
