"""Which arrays keep their elements between calls, because other elements would not be a valid input.

An autograd graph of PyTorch that was built before the call has saved arrays or values computed from them: with other
elements it fails or ignores them. Such graphs are found from the tensors that Python's garbage collector tracks. Sorted
integers may be offsets, or keys of a binary search, and other integers their lengths: with other values a correct
kernel could access memory out of bounds. All numbers down to zero are none of these, but a permutation. From equal
integers or booleans no other ones can be drawn.
"""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from math import prod
from typing import Any

from peakgate.base.formatting import counted
from peakgate.callables.arrays import arrays_in, at_home, comparable, dtype_name, framework, overlap

AUTOGRAD, IN_ORDER, BESIDE = "of a graph of autograd", "of integers in order", "of few integers beside such"
EQUAL = "of equal integers or booleans"


def unchanged(arrays: Sequence[Any]) -> Mapping[int, str]:
    """The arrays that keep their elements, by index, each with the reason."""
    torch: Any = sys.modules.get("torch")
    in_graphs = list(_in_graphs(torch)) if any(framework(array) == "torch" for array in arrays) else []
    integers = {at: array for at, array in enumerate(arrays) if dtype_name(array).startswith(("int", "uint"))}
    found = {at: EQUAL if _equal(array) else IN_ORDER for at, array in integers.items() if _in_order(array)}
    longest = max((prod(arrays[at].shape) for at in found), default=0)
    found |= {at: BESIDE for at, array in integers.items() if at not in found and 0 < prod(array.shape) <= longest}
    found |= {at: EQUAL for at, array in enumerate(arrays) if dtype_name(array) == "bool" and _equal(array)}
    for at, array in enumerate(arrays):
        if any(overlap(array, each) for each in in_graphs):
            found[at] = AUTOGRAD
    for at, array in enumerate(arrays):  # views of what is left
        reasons = [reason for other, reason in found.items() if overlap(array, arrays[other])]
        if reasons:
            found.setdefault(at, reasons[0])
    return found


def described(reasons: Mapping[int, str]) -> str:
    """A phrase for the run file: how many arrays were left unchanged, and why; empty if none."""
    found = [f"{counted(count, 'array')} {reason}" for reason, count in Counter(reasons.values()).items()]
    return f"left as they are: {', '.join(found)}" if found else ""


@at_home
def _equal(value: Any) -> bool:
    """Whether there are several elements, all equal."""
    flat = comparable(value).reshape(-1)
    return flat.size > 1 and bool((flat == flat[:1]).all())


@at_home
def _in_order(value: Any) -> bool:
    """Whether there are several elements and all, or those of each row, are sorted up or down; not n - 1 to 0."""
    array = comparable(value)
    flat = array.reshape(-1)
    if array.size > 1 and flat[0] == array.size - 1 and bool((flat[:-1] == flat[1:] + 1).all()):
        return False
    rows = [flat] + ([array] if array.ndim > 1 and array.shape[-1] > 1 else [])
    neighbours = [(each[..., :-1], each[..., 1:]) for each in rows] if array.size > 1 else []
    return any(bool((before <= behind).all()) or bool((before >= behind).all()) for before, behind in neighbours)


def _in_graphs(torch: Any) -> Iterator[Any]:
    """The tensors of all autograd graphs: results, saved tensors, and leaves that accumulate gradients."""
    if gc.get_freeze_count():  # gc.get_objects leaves out frozen objects
        gc.unfreeze()
    tensors = [each for each in gc.get_objects() if issubclass(type(each), torch.Tensor)]
    ends = [each for each in tensors if each.grad_fn is not None]
    yield from _strided(ends)
    met: set[Any] = set()
    ahead = [each.grad_fn for each in ends]
    while ahead:
        node = ahead.pop()
        if node is None or node in met:
            continue
        met.add(node)
        ahead += [following for following, _ in node.next_functions]
        for name in dir(node):
            if name.startswith("_saved_") or name in ("variable", "saved_tensors"):
                with suppress(RuntimeError):  # the graph was freed, or a saved tensor has changed
                    yield from _strided(getattr(node, name))


def _strided(value: object) -> Iterator[Any]:
    return (each for each in arrays_in(value) if framework(each) == "torch")
