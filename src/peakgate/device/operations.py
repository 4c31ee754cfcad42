"""Reference implementations by libraries: memcpy, host link transfers, matrix products of cuBLAS and cuBLASLt.

cuBLASLt, which has products of 8-bit floats unlike cuBLAS, is called through its C interface. Enumeration values are
those in the headers of CUDA 12 and 13.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import cupy
import numpy as np

from peakgate.base.errors import Code, PeakgateError

_HOST_TO_DEVICE, _DEVICE_TO_HOST, _DEVICE_TO_DEVICE = 1, 2, 3  # cudaMemcpyKind
_OP_N, _OP_T = 0, 1  # cublasOperation_t: the operand itself, transposed
_DEFAULT_MATH, _PEDANTIC_MATH = 0, 2  # cublasMath_t
_BF16, _E4M3, _FP32 = 14, 28, 0  # cudaDataType
_SUMS_IN_FP32, _TENSOR_ALGORITHM = 68, 99  # cublasComputeType_t, cublasGemmAlgo_t
_TRANSPOSE_FIRST, _FAST_SUMS = 3, 25  # cublasLtMatmulDescAttributes_t
_MOST_WORKSPACE = 1  # cublasLtMatmulPreferenceAttributes_t

# The workspace of cuBLAS on compute capability 9.0.
_WORKSPACE_BYTES = 32 << 20


@dataclass(frozen=True, slots=True)
class Operation:
    """A launch on the current stream.

    ``collect`` copies the result to where it is checked (None: it is there). A launch that ``waits_for_host`` copies
    through the host before it returns and cannot be queued behind a blocking kernel. A ``movable`` one can be bound
    again, at no cost, to arrays at other offsets.
    """

    launch: Callable[[], None]
    collect: Callable[[], None] | None = None
    waits_for_host: bool = False
    movable: bool = False


def bind(name: str, arguments: Sequence[Any]) -> Operation:
    """The operation on these device arrays, the target first; raises PeakgateError for an unknown name."""
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
    # Not cupyx.empty_pinned: cupyx imports SciPy, which takes a sixth of a second.
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
    """C = A.B, or A.B^T with ``right_op`` transposed, all row-major.

    cuBLAS is column-major: the row-major product is the column-major product of exchanged operands, C^T = B^T.A^T.
    """
    product, left, right = arguments[:3]
    one, zero = ctypes.c_float(1), ctypes.c_float(0)
    of_right, of_left, of_product = (
        (ctypes.c_void_p(each.data.ptr), *of_type, each.shape[1]) for each in (right, left, product)
    )
    sizes = product.shape[1], left.shape[0], left.shape[1]
    scaled = (ctypes.byref(one), *of_right, *of_left, ctypes.byref(zero), *of_product)
    library, handle = _library("cublas"), ctypes.c_void_p(cupy.cuda.get_cublas_handle())

    def launch() -> None:  # every operation sets the math mode, since they share a handle
        _require_success(library.cublasSetMathMode(handle, math_mode), "cublasSetMathMode")
        _require_success(library[function](handle, right_op, _OP_N, *sizes, *scaled, *how), function)

    return Operation(launch, movable=True)


@cache
def _library(name: str) -> ctypes.CDLL:
    """The C interface of the cuBLAS that CuPy has loaded, or of its cuBLASLt."""
    cupy.cuda.get_cublas_handle()
    return ctypes.CDLL(f"lib{name}.so.{cupy.cuda.runtime.runtimeGetVersion() // 1000}")


def _require_success(status: int, call: str) -> None:
    if status != 0:
        raise RuntimeError(f"{call} returned status {status}")


class _Ranked(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t: an algorithm, and whether it can be used."""

    _fields_ = (
        ("algorithm", ctypes.c_uint64 * 8),
        ("workspace_bytes", ctypes.c_size_t),
        ("status", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


@dataclass(frozen=True, slots=True)
class _Plan:
    """The descriptors for products of one size, and the algorithm that cuBLASLt ranks first."""

    call: ctypes.c_void_p
    of_right: ctypes.c_void_p
    of_left: ctypes.c_void_p
    of_product: ctypes.c_void_p
    ranked: _Ranked
    workspace: Any


def _product_e4m3_nt(product: Any, left: Any, right: Any) -> Callable[[], None]:
    """A launch of C = A.B^T on the current stream: A m x k and B n x k in e4m3, C m x n in bfloat16, all row-major.

    In column-major order, that of the library, B is k x n and transposed, and A is k x m: C^T = B.A^T. Sums stay in the
    tensor cores (CUBLASLT_MATMUL_DESC_FAST_ACCUM). Raises PeakgateError if the library has no algorithm: rows must be
    multiples of 16 bytes and the compute capability 8.9 or higher.
    """
    rows, depth = left.shape
    plan = _plan(rows, right.shape[0], depth)
    pointers = [ctypes.c_void_p(each.data.ptr) for each in (right, left, product)]
    one, zero = ctypes.c_float(1), ctypes.c_float(0)

    def launch() -> None:
        _lt_call(
            "Matmul",
            _lt_handle(),
            plan.call,
            ctypes.byref(one),
            pointers[0],
            plan.of_right,
            pointers[1],
            plan.of_left,
            ctypes.byref(zero),
            pointers[2],
            plan.of_product,
            pointers[2],
            plan.of_product,
            ctypes.byref(plan.ranked),  # it begins with its algorithm
            ctypes.c_void_p(plan.workspace.ptr),
            ctypes.c_size_t(_WORKSPACE_BYTES),
            ctypes.c_void_p(cupy.cuda.get_current_stream().ptr),
        )

    return launch


@cache
def _plan(rows: int, columns: int, depth: int) -> _Plan:
    """The plan for a size, cached because arrays are bound at many offsets."""
    call = _created("MatmulDescCreate", _SUMS_IN_FP32, _FP32)
    _set("MatmulDesc", call, _TRANSPOSE_FIRST, ctypes.c_int32(_OP_T))
    _set("MatmulDesc", call, _FAST_SUMS, ctypes.c_int8(1))
    of_right, of_left, of_product = (
        _created("MatrixLayoutCreate", dtype, ctypes.c_uint64(down), ctypes.c_uint64(across), ctypes.c_int64(down))
        for dtype, down, across in ((_E4M3, depth, columns), (_E4M3, depth, rows), (_BF16, columns, rows))
    )
    preference = _created("MatmulPreferenceCreate")
    _set("MatmulPreference", preference, _MOST_WORKSPACE, ctypes.c_uint64(_WORKSPACE_BYTES))
    ranked, count = _Ranked(), ctypes.c_int()
    status = _library("cublasLt").cublasLtMatmulAlgoGetHeuristic(
        _lt_handle(),
        call,
        of_right,
        of_left,
        of_product,
        of_product,
        preference,
        1,
        ctypes.byref(ranked),
        ctypes.byref(count),
    )
    if status or not count.value:
        raise PeakgateError(
            f"cuBLASLt has no algorithm for e4m3 {rows} x {columns} x {depth} on this GPU (status {status}); rows of a "
            "multiple of 16 elements and compute capability 8.9 are needed",
            Code.OPERATION,
        )
    return _Plan(call, of_right, of_left, of_product, ranked, cupy.cuda.alloc(_WORKSPACE_BYTES))


def _set(of: str, target: ctypes.c_void_p, attribute: int, value: Any) -> None:
    _lt_call(f"{of}SetAttribute", target, attribute, ctypes.byref(value), ctypes.c_size_t(ctypes.sizeof(value)))


def _created(what: str, *arguments: Any) -> ctypes.c_void_p:
    made = ctypes.c_void_p()
    _lt_call(what, ctypes.byref(made), *arguments)
    return made


@cache
def _lt_handle() -> ctypes.c_void_p:
    return _created("Create")


def _lt_call(function: str, *arguments: Any) -> None:
    _require_success(_library("cublasLt")[f"cublasLt{function}"](*arguments), f"cublasLt{function}")


_OPERATIONS: dict[str, Callable[[Sequence[Any]], Operation]] = {
    "memcpy": _memcpy,
    "h2d_pageable": partial(_host_to_device, pinned=False),
    "h2d_pinned": partial(_host_to_device, pinned=True),
    "d2h_pageable": partial(_device_to_host, pinned=False),
    "d2h_pinned": partial(_device_to_host, pinned=True),
    # FP32: pedantic math excludes TF32 and other approximations.
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
    # C = A.B^T of e4m3 in bfloat16, by the algorithm that cuBLASLt ranks first; all row-major.
    "cublaslt_e4m3_nt": lambda arguments: Operation(_product_e4m3_nt(*arguments[:3]), movable=True),
}
