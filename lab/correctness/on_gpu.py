"""PyTorch's kernels on a GPU as variants of the study, and right kernels on outputs of 16 million elements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import cupy
import numpy as np
import torch

from peakgate.device import elements
from peakgate.device.expected import exact_inputs
from peakgate.family import TOLERANCES
from peakgate.judge.correctness import bound_of, compare
from peakgate.judge.magnitudes import Rounded, estimated
from peakgate.spec.dtypes import unit_of_sums

functional = torch.nn.functional
Made = Callable[..., torch.Tensor]


def _there(array: Any) -> torch.Tensor:
    """A NumPy array on the GPU, bfloat16 by its bits."""
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).cuda().view(torch.bfloat16)
    return torch.from_numpy(np.ascontiguousarray(array)).cuda()


def _here(tensor: torch.Tensor, like: np.dtype[Any]) -> Any:
    tensor = tensor.contiguous()
    return tensor.view(torch.int16).cpu().numpy().view(like) if tensor.dtype is torch.bfloat16 else tensor.cpu().numpy()


def _kind(
    compute: Made, *, products: bool = False, short_sums: bool = False
) -> Callable[[Sequence[Any], str], dict[str, dict[str, Any]]]:
    """The library's result as a variant; with ``products`` in float32 also on TF32 tensor cores, as a mutant.

    ``short_sums``: of 16-bit types the library adds in that type, which is a mutant.
    """

    def run(given: Sequence[Any], dtype: str) -> dict[str, dict[str, Any]]:
        tensors = [_there(each) for each in given]
        torch.backends.cuda.matmul.fp32_precision = "ieee"
        found: dict[str, dict[str, Any]] = {"variant": {}, "mutant": {}}
        lossy = short_sums and given[0].dtype.itemsize == 2
        found["mutant" if lossy else "variant"]["PyTorch"] = _here(compute(*tensors), given[0].dtype)
        if products and dtype == "float32":
            torch.backends.cuda.matmul.fp32_precision = "tf32"
            found["mutant"]["TF32 tensor cores"] = _here(compute(*tensors), given[0].dtype)
            torch.backends.cuda.matmul.fp32_precision = "ieee"
        return found

    return run


def _attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return functional.scaled_dot_product_attention(q[None, None], k[None, None], v[None, None])[0, 0]


KERNELS = {
    "gemm": _kind(torch.matmul, products=True),
    "gemm_mixed": _kind(torch.matmul, products=True),
    "softmax": _kind(lambda x: torch.softmax(x, 1)),
    "row_sums": _kind(lambda x: x.sum(1)),
    "layer_norm": _kind(lambda x, weight: functional.layer_norm(x, (x.shape[1],), weight)),
    "attention": _kind(_attention),
    "scan": _kind(lambda x: torch.cumsum(x, 1), short_sums=True),
    "gelu": _kind(lambda x: functional.gelu(x, approximate="tanh")),
}


def _softmax(x: Any) -> Any:
    powers = cupy.exp(x - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def _norm(x: Any) -> Any:
    centred = x - x.mean(axis=1, keepdims=True)
    return centred / cupy.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5)


LARGE: tuple[tuple[str, tuple[tuple[int, int], ...], Made, Callable[..., Any]], ...] = (
    ("product 4096", ((4096, 4096), (4096, 4096)), torch.matmul, lambda a, b: a @ b),
    ("product 1024x1024x16384", ((1024, 16384), (16384, 1024)), torch.matmul, lambda a, b: a @ b),
    ("softmax 4096", ((4096, 4096),), lambda x: torch.softmax(x, 1), _softmax),
    ("layer norm 4096", ((4096, 4096),), lambda x: functional.layer_norm(x, (x.shape[1],)), _norm),
    ("row sums 262144x512", ((262144, 512),), lambda x: x.sum(1), lambda x: x.sum(axis=1)),
    ("row sums 4096x65536", ((4096, 65536),), lambda x: x.sum(1), lambda x: x.sum(axis=1)),
    ("scan 4096", ((4096, 4096),), lambda x: torch.cumsum(x, 1), lambda x: cupy.cumsum(x, axis=1)),
    ("exp of 3 x", ((4096, 4096),), lambda x: torch.exp(3 * x), lambda x: cupy.exp(3 * x)),
)


def large() -> Iterator[dict[str, Any]]:
    """Each kernel's largest error over its bound on normal inputs whose rows differ in magnitude by up to 2**10."""
    torch.backends.cuda.matmul.fp32_precision = "ieee"
    for name, shapes, compute, reference in LARGE:
        for dtype in ("float32", "float16", "bfloat16"):
            generator = torch.Generator("cuda").manual_seed(7)
            tensors = [torch.randn(shape, device="cuda", generator=generator) for shape in shapes]
            tensors[0] = tensors[0] * 2.0 ** -(torch.arange(shapes[0][0], device="cuda") % 11)[:, None]
            tensors = [tensor.to(getattr(torch, dtype)) for tensor in tensors]
            out = compute(*tensors)
            exact = exact_inputs([cupy.from_dlpack(tensor.float()) for tensor in tensors])
            yield _judged(name, dtype, cupy.from_dlpack(out.float()), exact, reference)
            del tensors, out, exact
            cupy.get_default_memory_pool().free_all_blocks()


def _judged(name: str, dtype: str, found: Any, exact: Sequence[Any], reference: Callable[..., Any]) -> dict[str, Any]:
    wanted = reference(*exact)
    bound = bound_of(TOLERANCES[dtype], dtype, "float64")
    rounded = Rounded(TOLERANCES[dtype], unit_of_sums(dtype))
    seconds = []

    def magnitudes() -> Iterator[Any]:
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        (size,) = estimated(cupy, lambda moved: [reference(*moved)], exact, [wanted], [rounded])
        end.record()
        end.synchronize()
        seconds.append(cupy.cuda.get_elapsed_time(start, end) / 1e3)
        yield size

    result = compare(cupy, found, wanted, bound, magnitudes=magnitudes, compared=elements.compared)
    row = {"kernel": name, "type": dtype, "elements": found.size, "error_over_bound": result.ratio}
    return row | {"estimate_ms": 1e3 * seconds[0] if seconds else "", "right": result.right}
