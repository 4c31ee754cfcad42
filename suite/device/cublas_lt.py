"""A matrix product of 8-bit floats by cuBLASLt, through its C interface: cuBLAS itself has none.

Numbers of enumerations are those of ``cublasLt.h`` and ``library_types.h`` of CUDA 12 and 13.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import cupy
from peakgate.core.errors import Code, PeakgateError

_BF16, _E4M3, _FP32 = 14, 28, 0  # cudaDataType
_SUMS_IN_FP32 = 68  # cublasComputeType_t
_TRANSPOSED = 1  # cublasOperation_t
_TRANSPOSE_FIRST, _FAST_SUMS = 3, 25  # cublasLtMatmulDescAttributes_t
_MOST_WORKSPACE = 1  # cublasLtMatmulPreferenceAttributes_t
_WORKSPACE_BYTES = 32 << 20
"""What cuBLAS itself takes on compute capability 9.0."""


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
    """What the library needs to multiply matrices of one size, and the algorithm that it ranks first."""

    call: ctypes.c_void_p
    of_right: ctypes.c_void_p
    of_left: ctypes.c_void_p
    of_product: ctypes.c_void_p
    ranked: _Ranked
    workspace: Any


def product_nt(product: Any, left: Any, right: Any) -> Callable[[], None]:
    """A launch of C = A.B^T on the current stream: A m x k and B n x k in e4m3, C m x n in bfloat16, all row-major.

    In columns, as the library counts, B is k x n, to be transposed, and A k x m as it is: C^T = B.A^T. Sums stay in the
    tensor cores (CUBLASLT_MATMUL_DESC_FAST_ACCUM). PeakgateError where the library has no algorithm for such matrices:
    their rows begin on multiples of 16 bytes, and the GPU's compute capability is 8.9 or higher.
    """
    rows, depth = left.shape
    plan = _plan(rows, right.shape[0], depth)
    pointers = [ctypes.c_void_p(each.data.ptr) for each in (right, left, product)]
    one, zero = ctypes.c_float(1), ctypes.c_float(0)

    def launch() -> None:
        _call(
            "Matmul",
            _handle(),
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
    """The plan of a size, kept as long as the process lives: arrays are bound at many places."""
    call = _created("MatmulDescCreate", _SUMS_IN_FP32, _FP32)
    _set("MatmulDesc", call, _TRANSPOSE_FIRST, ctypes.c_int32(_TRANSPOSED))
    _set("MatmulDesc", call, _FAST_SUMS, ctypes.c_int8(1))
    of_right, of_left, of_product = (
        _created("MatrixLayoutCreate", dtype, ctypes.c_uint64(down), ctypes.c_uint64(across), ctypes.c_int64(down))
        for dtype, down, across in ((_E4M3, depth, columns), (_E4M3, depth, rows), (_BF16, columns, rows))
    )
    preference = _created("MatmulPreferenceCreate")
    _set("MatmulPreference", preference, _MOST_WORKSPACE, ctypes.c_uint64(_WORKSPACE_BYTES))
    ranked, count = _Ranked(), ctypes.c_int()
    status = _library().cublasLtMatmulAlgoGetHeuristic(
        _handle(),
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
    _call(f"{of}SetAttribute", target, attribute, ctypes.byref(value), ctypes.c_size_t(ctypes.sizeof(value)))


def _created(what: str, *arguments: Any) -> ctypes.c_void_p:
    made = ctypes.c_void_p()
    _call(what, ctypes.byref(made), *arguments)
    return made


@cache
def _library() -> ctypes.CDLL:
    """The cuBLASLt that the cuBLAS of CuPy has loaded."""
    cupy.cuda.get_cublas_handle()
    return ctypes.CDLL(f"libcublasLt.so.{cupy.cuda.runtime.runtimeGetVersion() // 1000}")


@cache
def _handle() -> ctypes.c_void_p:
    return _created("Create")


def _call(function: str, *arguments: Any) -> None:
    if status := _library()[f"cublasLt{function}"](*arguments):
        raise RuntimeError(f"cublasLt{function} returned status {status}")
