"""One call of a user's function: the arrays that it uses, those that it changes, and its outputs."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from peakgate.base.errors import Code, PeakgateError, defined_at, described, raised_at
from peakgate.base.formatting import shown
from peakgate.base.ranks import ALONE, Ranks
from peakgate.callables.arrays import (
    R,
    arrays_in,
    copy_of,
    differs,
    dtype_name,
    fill,
    framework,
    gpu_of,
    largest,
    move,
    nbytes,
    overlap,
    real,
    renew,
    restore,
    settled,
    visible_arrays,
)
from peakgate.callables.unchanged import unchanged
from peakgate.callables.values import (
    CALLABLE,
    DECLARED,
    REFERENCE,
    Exchange,
    Typed,
    flat,
    gathered,
    given,
    layout_of,
    typed,
)
from peakgate.measure.patterns import of_type
from peakgate.spec import dtypes
from peakgate.spec.case import Array

LARGEST_FOR_ZERO = 256.0
"""Numbers for an array of zeros are below this, which every type can hold."""


@dataclass
class Call:
    """A function with its arguments.

    ``arrays`` are the visible arrays that it uses, ``saved`` their elements before the first run, ``changed`` the
    indices of those that a run changes, known after ``learn``, ``left`` the arrays that keep their elements between
    calls, with the reason; ``raised_from_zero`` those of zeros that get other numbers in ``renewed``. ``result`` is
    what the last run returned, ``raised`` what the function raised, ``host_us`` the time that the function took on the
    host. ``note`` is what ``prepare`` does, as a phrase; empty if nothing.

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
    raised_from_zero: Collection[int] = ()
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
            value = evaluated("its reference", Code.REFERENCE, reference, gathered(given(self._arguments)))
        self._layout = layout_of(value)
        return flat(value, REFERENCE)

    def outputs(self, declared: object = None) -> list[Any]:
        """The outputs of the last run, arrays and numbers.

        ``declared`` (arrays, or a function of the arguments); else the function's result; else, if that is None, the
        keyword argument ``out``, or the arrays that the function changed. Raises OtherKeys if a dictionary's keys
        differ from the reference's.
        """
        if declared is not None:
            found = flat(self.of_arguments(declared, "outputs"), DECLARED, self._layout)
            if not callable(declared) and not all(map(framework, found)):
                raise PeakgateError(
                    f"outputs is {shown(declared)}; expected the arrays that the callable writes, or a function that "
                    "returns them",
                    Code.BENCHMARK_TEST,
                )
            return found
        if self.result is not None:
            return flat(self.result, CALLABLE, self._layout)
        if self.kwargs.get("out") is not None:
            return flat(self.kwargs["out"], CALLABLE, self._layout)
        return flat([self.arrays[index] for index in self.changed], CALLABLE)

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
        read = self._read()
        sizes = [largest(array) for _, array in read if real(array)] if self.raised_from_zero else []
        scale = min((size for size in sizes if 0 < size < LARGEST_FOR_ZERO), default=1.0)
        changed = [
            renew(array, seed + at, redraw=redraw, added=scale if at in self.raised_from_zero else 0.0)
            for at, array in read
        ]
        return self.ranks.any("other inputs", any(changed))

    def zeros(self) -> list[int]:
        """The indices of real arrays that hold only zeros, except ``left``."""
        return [
            at for at, array in enumerate(self.arrays) if at not in self.left and real(array) and largest(array) == 0
        ]

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
