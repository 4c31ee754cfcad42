"""One call of a user's function: the arrays it uses, what it changes in them, and what it gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from peakgate.core import dtypes
from peakgate.core.case import Array
from peakgate.device.arrays import (
    arrays_in,
    comparable,
    copy_of,
    differs,
    dtype_name,
    framework,
    gpu_of,
    move,
    nbytes,
    overlap,
    renew,
    restore,
    settled,
    visible_arrays,
)
from peakgate.device.exchange import Exchange, given


class NotAnArray(Exception):
    """A result that holds something else than plain arrays and numbers; the message names its type."""


@dataclass
class Call:
    """A function with its arguments.

    ``arrays`` are those it can be seen to use, ``saved`` their elements before the first run, ``changed`` the indices
    of those that a run changes, known after ``learn``. ``result`` is what the newest run returned.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    arrays: list[Any] = field(init=False)
    saved: list[Any] = field(init=False)
    changed: tuple[int, ...] = ()
    result: Any = None

    def __post_init__(self) -> None:
        exchange = Exchange()
        self._arguments = exchange.put((self.args, self.kwargs))
        self.arrays = visible_arrays(self.function, self.args, self.kwargs) + exchange.storages
        self.remember()

    def elsewhere(self, gpu: int) -> int | None:
        """Another GPU than this one that holds an array; None where there is none."""
        return next((at for at in map(gpu_of, self.arrays) if at not in (None, gpu)), None)

    @property
    def nbytes(self) -> tuple[int, ...]:
        return tuple(map(nbytes, self.arrays))

    def run(self) -> None:
        """Call the function once, on the arrays as they are; the current stream waits for what it gives."""
        args, kwargs = given(self._arguments)
        self.result = self.function(*args, **kwargs)
        settled(self.result)

    def remember(self) -> None:
        """Take the arrays as they are for what a run starts from."""
        self.saved = list(map(copy_of, self.arrays))

    def learn(self) -> None:
        """Note which arrays the run changed."""
        pairs = enumerate(zip(self.arrays, self.saved, strict=True))
        self.changed = tuple(index for index, (array, saved) in pairs if differs(array, saved))

    def rewind(self) -> None:
        """Put back what a run changes, in stream order."""
        for index in self.changed:
            restore(self.arrays[index], self.saved[index])

    def rewind_all(self) -> None:
        """Put back every array."""
        for array, saved in zip(self.arrays, self.saved, strict=True):
            restore(array, saved)

    def of_arguments(self, wanted: object) -> Any:
        """A value, or what a function gives for the call's arguments."""
        if not callable(wanted):
            return wanted
        args, kwargs = given(self._arguments)
        return wanted(*args, **kwargs)

    def outputs(self, declared: object = None) -> list[Any]:
        """The arrays and numbers that the newest run gave.

        What the user declared (arrays, or a function of the arguments), else the keyword argument ``out``, else what
        the function returned, else, where it returned None, the arrays that it changed.
        """
        if declared is not None:
            return _flat(self.of_arguments(declared))
        if self.result is not None:
            return _flat(self.result)
        if self.kwargs.get("out") is not None:
            return _flat(self.kwargs["out"])
        return [self.arrays[index] for index in self.changed]

    def undeclared_changes(self, declared: object = None) -> list[int]:
        """The changed arrays that the caller did not name as outputs; none where the function returned None."""
        named = declared if declared is not None else self.kwargs.get("out")
        if named is None and self.result is None:
            return []
        outputs = [] if named is None else list(arrays_in(self.of_arguments(named)))
        return [index for index in self.changed if not any(overlap(self.arrays[index], output) for output in outputs)]

    def expected(self, reference: object) -> list[Typed]:
        """The reference's result for the call's arguments, in memory of its own; the arrays are as before."""
        values = _flat(self.of_arguments(reference))
        found = typed([copy_of(value) if framework(value) else value for value in values])
        self.rewind_all()
        return found

    def share(self) -> float:
        """How far the call's real inputs move for ``moved``: some steps of the coarsest type."""
        shares = {"bfloat16": 2.0**-5, "float16": 2.0**-8, "float32": 2.0**-12}
        return max((shares.get(dtype_name(array), 2.0**-20) for array in self.arrays), default=2.0**-20)

    def moved(self, reference: object, share: float, seed: int) -> list[Array] | None:
        """The reference's result where every real input moves by up to ``share`` of itself; None where none can."""
        try:
            if not any([move(array, share, seed + at) for at, array in enumerate(self.arrays)]):  # noqa: C419  (all)
                return None
            return [each.array for each in typed(_flat(self.of_arguments(reference)))]
        finally:
            self.rewind_all()

    def renewed(self, seed: int, *, redraw: bool = False) -> bool:
        """Give what the function reads other elements; False where nothing could be changed."""
        read = [(index, array) for index, array in enumerate(self.arrays) if index not in self.changed]
        return any([renew(array, seed + index, redraw=redraw) for index, array in read])  # noqa: C419  (every one of them)


@dataclass(frozen=True, slots=True)
class Typed:
    """An array that can be compared, and the name of the type that its values were computed in."""

    array: Array
    dtype: str


def typed(values: Sequence[Any]) -> list[Typed]:
    """Outputs, or what a reference gave, as arrays that can be compared.

    Elements of a type that is not known here count as those of the type that holds their values.
    """
    found = []
    for value in values:
        array = comparable(value)
        name = dtype_name(value) if framework(value) else "float64"
        found.append(Typed(array, name if name in dtypes.KNOWN else array.dtype.name))
    return found


def _flat(value: object) -> list[Any]:
    """Arrays and numbers in nested tuples, lists and mappings, in order."""
    if framework(value) is not None or isinstance(value, bool | int | float | complex):
        return [value]
    if isinstance(value, dict):
        return [leaf for member in value.values() for leaf in _flat(member)]
    if isinstance(value, tuple | list):
        return [leaf for member in value for leaf in _flat(member)]
    if type(value).__module__ == "numpy":
        return [value]
    kind = type(value)
    raise NotAnArray(f"{kind.__module__}.{kind.__qualname__}")
