"""One call of a user's function: the arrays it uses, those it changes, and its outputs.

An immutable argument, such as a JAX array, is exchanged: each call gets a new array, made by DLPack on memory owned
here. So its elements can change between calls like those of other arrays, and the framework waits for the stream that
writes them. No framework is imported here.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from peakgate.base.errors import Code, PeakgateError, defined_at, described, raised_at
from peakgate.base.formatting import shown
from peakgate.base.ranks import ALONE, Ranks
from peakgate.callables.arrays import (
    R,
    arrays_in,
    comparable,
    copy_of,
    differs,
    dtype_name,
    fill,
    framework,
    gpu_of,
    here,
    move,
    nbytes,
    numeric,
    on_gpu,
    overlap,
    plain,
    renew,
    restore,
    settled,
    subclass_of_arrays,
    visible_arrays,
)
from peakgate.callables.unchanged import unchanged
from peakgate.measure.patterns import of_type
from peakgate.spec import dtypes
from peakgate.spec.case import Array
from peakgate.spec.dtypes import BITS

ALIGNMENT_BYTES = 64
"""XLA copies host memory that is not aligned to this."""


@dataclass(frozen=True, slots=True)
class Exchanged:
    """An argument's elements in memory owned here; ``dtype`` if that has the bits of a type that NumPy lacks."""

    storage: Array
    namespace: Any
    dtype: str | None

    def array(self) -> Any:
        """A new array of the framework on that memory, in the order of the current stream."""
        made = self.namespace.from_dlpack(self.storage)
        return made if self.dtype is None else made.view(self.dtype)


@dataclass
class Exchange:
    """The exchanged arrays of a call's arguments, each once."""

    _known: dict[int, tuple[object, Exchanged]] = field(default_factory=dict)

    def put(self, value: Any) -> Any:
        """Replace each exchanged array in nested tuples, lists and dicts by an ``Exchanged``."""
        if framework(value) != "exchanged":
            return in_members(value, self.put)
        if id(value) not in self._known:
            name = dtype_name(value)
            storage = plain(value).copy() if on_gpu(value) else _aligned(plain(value))
            made = Exchanged(storage, value.__array_namespace__(), name if name in BITS else None)
            self._known[id(value)] = (value, made)
        return self._known[id(value)][1]

    @property
    def storages(self) -> list[Array]:
        """The memory of all exchanged arrays."""
        return [made.storage for _, made in self._known.values()]


def given(value: Any) -> Any:
    """The inverse of ``Exchange.put``: replace each ``Exchanged`` by a new array of its framework."""
    return value.array() if isinstance(value, Exchanged) else in_members(value, given)


def _gathered(value: Any) -> Any:
    """Copy the arrays of other GPUs in nested tuples, lists and dicts to the current GPU."""
    return in_members(value, _gathered) if framework(value) is None else here(value)


def in_members(value: Any, change: Any) -> Any:
    """A plain tuple, list or dict with ``change`` applied to its members; anything else unchanged."""
    if type(value) in (tuple, list):
        return type(value)(change(member) for member in value)
    if type(value) is dict:
        return {key: change(member) for key, member in value.items()}
    return value


def _aligned(array: Array) -> Array:
    room = np.empty(array.nbytes + ALIGNMENT_BYTES, np.uint8)
    start = -room.ctypes.data % ALIGNMENT_BYTES
    made = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    made[...] = array
    return made


class NotAnArray(Exception):
    """A result contains a subclass of a framework's array; the message names its type."""


class OtherKeys(Exception):
    """A result's dictionary has other keys than the reference's; the message names them."""


@dataclass
class Call:
    """A function with its arguments.

    ``arrays`` are the visible arrays that it uses, ``saved`` their elements before the first run, ``changed`` the
    indices of those that a run changes, known after ``learn``, ``left`` the arrays that keep their elements between
    calls, with the reason. ``result`` is what the last run returned, ``raised`` what the function raised, ``host_us``
    the time that the function took on the host. ``note`` is what ``prepare`` does, as a phrase; empty if nothing.

    Of several ``ranks`` each has such a call. All of them run it, and its reference, equally often: in both they may
    wait for each other.
    """

    note: ClassVar[str] = ""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    arrays: list[Any] = field(init=False)
    saved: list[Any] = field(init=False)
    left: Mapping[int, str] = field(init=False)
    changed: tuple[int, ...] = ()
    result: Any = None
    raised: BaseException | None = None
    host_us: float = 0.0
    ranks: Ranks = ALONE
    _layout: Any = None
    """The layout of the reference's result: dictionaries are compared by key, in its order."""

    def __post_init__(self) -> None:
        exchange = Exchange()
        self._arguments = exchange.put((self.args, self.kwargs))
        self.arrays = visible_arrays(self.function, self.args, self.kwargs) + exchange.storages
        self.left = unchanged(self.arrays)
        self.remember()

    def elsewhere(self, gpus: Sequence[int]) -> int | None:
        """The index of a GPU not in ``gpus`` that holds an array; None if there is none."""
        return next((at for at in map(gpu_of, self.arrays) if at not in (None, *gpus)), None)

    @property
    def nbytes(self) -> tuple[int, ...]:
        return tuple(map(nbytes, self.arrays))

    def prepare(self) -> None:
        """Do what a launch needs and no timer counts; ``launch`` does it otherwise."""

    def run(self) -> None:
        """Call the function once on the arrays as they are, in all ranks; the current stream waits for its result."""
        self.ranks.all("a call")
        self.launch()

    def launch(self) -> None:
        """As ``run``, without asking the other ranks: within a batch or a trial."""
        args, kwargs = given(self._arguments)
        start = time.perf_counter()
        result = self.noted(self.function, *args, **kwargs)
        self.host_us = (time.perf_counter() - start) * 1e6
        empty = isinstance(result, list | tuple) and not result
        # No result: launches of Triton return the kernel, those of TileLang an empty list.
        self.result = None if empty or type(result).__module__.partition(".")[0] == "triton" else result
        self.noted(settled, self.result)

    def noted(self, function: Callable[..., R], *args: Any, **kwargs: Any) -> R:
        """A function's result; what it raises is kept in ``raised``."""
        try:
            return function(*args, **kwargs)
        except Exception as error:
            self.raised = error
            raise

    def output_name(self, index: int) -> str:
        """The phrase for an output in a message."""
        return f"output {index}"

    def remember(self) -> None:
        """Save the arrays' current elements as those that a run starts from."""
        self.saved = list(map(copy_of, self.arrays))

    def learn(self) -> None:
        """Note which arrays the run changed."""
        pairs = enumerate(zip(self.arrays, self.saved, strict=True))
        self.changed = tuple(index for index, (array, saved) in pairs if differs(array, saved))

    def rewind(self) -> None:
        """Restore the arrays that a run changes, in stream order."""
        for index in self.changed:
            restore(self.arrays[index], self.saved[index])

    def rewind_all(self) -> None:
        """Restore every array."""
        for array, saved in zip(self.arrays, self.saved, strict=True):
            restore(array, saved)

    def of_arguments(self, wanted: object, name: str) -> Any:
        """A value, or a function's result for the call's arguments; raises PeakgateError if the function fails."""
        if not callable(wanted):
            return wanted
        return evaluated(name, Code.BENCHMARK_TEST, wanted, given(self._arguments))

    def _referred(self, reference: object) -> list[Any]:
        """The reference's result for the call's arguments, which are all copied to the current GPU."""
        value = reference
        if callable(reference):
            self.ranks.all("its reference")
            value = evaluated("its reference", Code.REFERENCE, reference, _gathered(given(self._arguments)))
        self._layout = _layout(value)
        return _flat(value, _REFERENCE)

    def outputs(self, declared: object = None) -> list[Any]:
        """The outputs of the last run, arrays and numbers.

        ``declared`` (arrays, or a function of the arguments); else the function's result; else, if that is None, the
        keyword argument ``out``, or the arrays that the function changed. Raises OtherKeys if a dictionary's keys
        differ from the reference's.
        """
        if declared is not None:
            found = _flat(self.of_arguments(declared, "outputs"), _OUTPUTS, self._layout)
            if not callable(declared) and not all(map(framework, found)):
                raise PeakgateError(
                    f"outputs is {shown(declared)}; expected the arrays that the callable writes, or a function that "
                    "returns them",
                    Code.BENCHMARK_TEST,
                )
            return found
        if self.result is not None:
            return _flat(self.result, _CALLABLE, self._layout)
        if self.kwargs.get("out") is not None:
            return _flat(self.kwargs["out"], _CALLABLE, self._layout)
        return _flat([self.arrays[index] for index in self.changed], _CALLABLE)

    def undeclared_changes(self, declared: object = None) -> list[int]:
        """Indices of changed arrays not declared as outputs; none if the function returned None."""
        named = declared if declared is not None else self.kwargs.get("out")
        if named is None and self.result is None:
            return []
        outputs = [] if named is None else list(arrays_in(self.of_arguments(named, "outputs")))
        return [index for index in self.changed if not any(overlap(self.arrays[index], output) for output in outputs)]

    def expected(self, reference: object) -> list[Typed]:
        """A copy of the reference's result for the call's arguments; the arrays are restored."""
        values = self._referred(reference)
        found = typed([copy_of(value) if framework(value) else value for value in values])
        self.rewind_all()
        return found

    def share(self) -> float:
        """The relative perturbation for ``moved``: some units in the last place of the coarsest input type."""
        shares = {"bfloat16": 2.0**-5, "float16": 2.0**-8, "float32": 2.0**-12}
        return max((shares.get(dtype_name(array), 2.0**-20) for array in self.arrays), default=2.0**-20)

    def moved(self, reference: object, share: float, seed: int) -> list[Array]:
        """The reference's result with every real input perturbed by up to ``share``; ValueError if there is none."""
        try:
            moved = [move(array, share, seed + at) for at, array in enumerate(self.arrays)]
            if not self.ranks.any("perturbed inputs", any(moved)):
                raise ValueError("no argument can be perturbed")
            return [each.array for each in typed(self._referred(reference))]
        except PeakgateError as error:
            raise ValueError(str(error)) from error
        finally:
            self.rewind_all()

    def renewed(self, seed: int, *, redraw: bool = False) -> bool:
        """Replace the elements of arrays that the function only reads, except ``left``; False if none changed.

        Arrays of any rank count.
        """
        changed = [renew(array, seed + at, redraw=redraw) for at, array in self._read()]
        return self.ranks.any("other inputs", any(changed))

    def patterned(self, pattern: str, between: tuple[float, float] | None) -> bool:
        """Give the arrays that the function only reads, except ``left``, a pattern of data; False if none changed.

        ``between`` is the range of real numbers and integers, None for any of the types (``measure.patterns.of_type``).
        """
        changed = False
        for at, array in self._read():
            dtype = dtype_name(array)
            if dtype not in dtypes.KNOWN:
                continue
            held = dtypes.limits(dtype)
            if between is None or held.kind in ("complex", "bool"):
                changed |= fill(array, of_type(pattern, dtype, None, at))
                continue
            low, high = max(between[0], held.lowest), min(between[1], held.largest)
            if low < high:
                changed |= fill(array, of_type(pattern, dtype, (low, high), at))
        return self.ranks.any(f"inputs of the pattern {pattern!r}", changed)

    def _read(self) -> list[tuple[int, Any]]:
        """The arrays that the function only reads, except ``left``, each with its position."""
        return [(at, array) for at, array in enumerate(self.arrays) if at not in self.changed and at not in self.left]


@dataclass(frozen=True, slots=True)
class Typed:
    """An array for a comparison, and the name of the type in which its values were computed."""

    array: Array
    dtype: str


def typed(values: Sequence[Any], expected: Sequence[Typed] = ()) -> list[Typed]:
    """Outputs, or a reference's result, as comparable arrays on the current GPU or in host memory.

    An unknown type counts as the type that holds its values. A number counts as float64, an integer compared with
    ``expected`` integers as int64; an integer of more than 64 bits is an object array.
    """
    found = []
    for at, value in enumerate(values):
        array = comparable(here(value))
        rounds = at < len(expected) and dtypes.limits(expected[at].dtype).unit_roundoff > 0
        whole = array.dtype.kind in "biuO" and not rounds
        name = dtype_name(value) if framework(value) else "int64" if whole else "float64"
        found.append(Typed(array, name if name in dtypes.KNOWN else array.dtype.name))
    return found


def evaluated(name: str, code: Code, function: Callable[..., Any], arguments: tuple[Any, Any]) -> Any:
    """The result of a function in a test's settings for a call's arguments; raises PeakgateError if it fails."""
    args, kwargs = arguments
    try:
        return function(*args, **kwargs)
    except (PeakgateError, MemoryError):
        raise
    except (Exception, SystemExit) as error:
        if out_of_memory(error):
            raise
        defined = defined_at(function)
        place = Path(raised_at(error, Path(defined).parent) or defined).name
        raise PeakgateError(
            f"{name} fails{f' ({place})' if place else ''}: {described(error)}; it is called with the arguments of the "
            "callable",
            code,
        ) from error


def out_of_memory(error: BaseException) -> bool:
    """Whether an error of any framework means that memory is full."""
    return isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"


def _layout(value: object) -> Any:
    """The structure of nested tuples, lists and mappings, as lists and dictionaries with None for any other value."""
    if framework(value) is None and isinstance(value, Mapping):
        return {key: _layout(member) for key, member in value.items()}
    return [_layout(member) for member in value] if isinstance(value, tuple | list) else None


@dataclass(frozen=True, slots=True)
class _Source:
    """The source of arrays and numbers as a phrase, and the error code if they cannot be compared."""

    returns: str
    code: Code


_CALLABLE = _Source("the callable returns", Code.TYPE)
_REFERENCE = _Source("its reference returns", Code.REFERENCE)
_OUTPUTS = _Source("outputs returns", Code.BENCHMARK_TEST)


def _flat(value: object, source: _Source, layout: Any = None) -> list[Any]:
    """The arrays and numbers in nested tuples, lists and mappings, in order; mappings in the order of ``layout``.

    Raises PeakgateError for values that cannot be compared, NotAnArray if a callable returns an array subclass.
    """
    if framework(value) is None and isinstance(value, Mapping):
        like = layout if isinstance(layout, dict) else dict.fromkeys(value)
        if like.keys() != value.keys():
            raise OtherKeys(f"gives the keys {_names(value)}, but the reference gives {_names(like)}")
        return [leaf for key, inner in like.items() for leaf in _flat(value[key], source, inner)]
    if isinstance(value, tuple | list):
        inner = layout if isinstance(layout, list) and len(layout) == len(value) else [None] * len(value)
        return [leaf for member, its in zip(value, inner, strict=True) for leaf in _flat(member, source, its)]
    if (problem := _incomparable(value)) is None:
        return [value]
    if source is _CALLABLE and subclass_of_arrays(value):
        raise NotAnArray(problem.removeprefix("a "))
    raise PeakgateError(
        f"{source.returns} {problem}; expected arrays of numbers, or numbers, alone or in tuples, lists and "
        "dictionaries",
        source.code,
    )


def _incomparable(value: Any) -> str | None:
    """A phrase for a value that is neither a number nor an array of numbers; None for one that is."""
    if framework(value):
        return None if numeric(value) else f"an array of type {dtype_name(value)}"
    if isinstance(value, int):
        return None if abs(value) <= sys.float_info.max else "an integer of more than 1024 bits"
    kind = type(value)
    if isinstance(value, float | complex) or (
        kind.__module__ == "numpy" and isinstance(value, np.generic | np.ndarray) and numeric(value)
    ):
        return None
    if value is None:
        return "None"
    return f"a {kind.__qualname__}" if kind.__module__ == "builtins" else f"a {kind.__module__}.{kind.__qualname__}"


def _names(keys: Iterable[object]) -> str:
    return ", ".join(f"{key!r:.40}" for key in keys) or "none"
