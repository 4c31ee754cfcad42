"""What must come out of a case: its reference function, saved arrays, or another kernel on the same arguments."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, cast

from peakgate import dtypes
from peakgate.case import Array, Buffer, Case, Reference
from peakgate.common.errors import PeakgateError
from peakgate.common.text import counted
from peakgate.device.interface import POISON, KernelFault, KernelLaunchable, Launchable
from peakgate.judge.correctness import Expected, unit_of_sums
from peakgate.judge.magnitudes import Rounded, estimated, of_row
from peakgate.measure.data import saved_array

OTHER_POISON = 0xA5
"""Of a reference kernel's outputs where bits are compared: what neither kernel writes must not look equal."""


_WIDE = {"f": "float64", "c": "complex128"}

PYTHON_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    NameError,
    TypeError,
    ValueError,
)
"""What a mistake in a reference function raises. A lack of memory and a fault of the device are others."""


class ReferenceFault(KernelFault):
    """A reference kernel that did not end well; its cause is that kernel's own fault."""


def expected(xp: Any, launchable: Launchable, prepare: Callable[[Case], KernelLaunchable]) -> Expected:
    """The OUT and INOUT buffers as they must be after a run, and the magnitudes that their bounds need.

    A reference function gets its inputs in float64 (complex128), where the case allows rounding; where it asks for
    equal values, as they are. ``prepare`` puts a reference kernel's arguments in place, with the same data as the
    launchable's. Raises ReferenceFault where that kernel fails, PeakgateError where there is no reference, a saved
    array does not fit, or the function raises an error of Python.
    """
    case = launchable.case
    if case.reference is None:
        raise PeakgateError(f"{case.id}: no reference; expected a function, saved arrays or another kernel's case")
    if callable(case.reference):
        return _of_function(xp, case, _values(xp, launchable.inputs, case.inputs), case.reference)
    if isinstance(case.reference, tuple):
        saved = [xp.asarray(array) for array in _saved(case, case.reference)]
        return Expected(saved, _of_rows(xp, saved))
    other = prepare(case.reference)
    other.poison = OTHER_POISON if case.exact else POISON
    try:
        other.run()
    except KernelFault as fault:
        raise ReferenceFault(f"its reference kernel {case.reference.stage.kernel}: {fault}") from fault
    outputs = computed(xp, other)
    return Expected(outputs, _of_rows(xp, outputs))


def computed(xp: Any, launchable: Launchable) -> list[Array]:
    """The values of the OUT and INOUT buffers as the last run left them, in argument order."""
    return _values(xp, launchable.outputs, launchable.case.outputs)


def _values(xp: Any, arrays: Sequence[Array], buffers: Sequence[Buffer]) -> list[Array]:
    return [dtypes.decoded(xp, array, buffer.dtype) for array, buffer in zip(arrays, buffers, strict=True)]


def exact_inputs(inputs: Sequence[Array]) -> list[Array]:
    """Inputs as a reference function gets them where rounding is allowed: every real number in float64."""
    return [array.astype(_WIDE[array.dtype.kind]) if array.dtype.kind in _WIDE else array for array in inputs]


def _of_function(xp: Any, case: Case, inputs: Sequence[Array], reference: Reference) -> Expected:
    def evaluated(given: Sequence[Array], function: Callable[..., Any] = reference) -> Any:
        try:
            return function(xp, given)
        except PYTHON_ERRORS as error:
            raise PeakgateError(_failing(case, given, error)) from error

    if case.exact:
        return Expected(evaluated(inputs))
    try:
        values = evaluated(exact_inputs(inputs))
    except MemoryError:  # in float64 they take up to four times the room
        values = evaluated(inputs)

    @cache
    def magnitudes() -> Sequence[Array | None]:
        if case.scale is not None:
            return cast("Sequence[Array | None]", evaluated(exact_inputs(inputs), case.scale))
        types = [buffer.dtype for buffer in case.outputs]
        rounded = [Rounded(*each) for each in zip(case.tolerances(len(values)), map(unit_of_sums, types), strict=True)]
        return estimated(xp, partial(reference, xp), exact_inputs(inputs), values, rounded)

    return Expected(values, magnitudes)


def _of_rows(xp: Any, values: Sequence[Array]) -> Callable[[], Sequence[Array | None]]:
    """Magnitudes where no function can be evaluated elsewhere: those of an element's row."""
    return cache(lambda: [of_row(xp, value) for value in values])


def _failing(case: Case, inputs: Sequence[Array], error: Exception) -> str:
    """Where a reference function failed, and what it was given: the constants come last."""
    folder = None if case.stage.source is None else case.stage.source.parent
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).parent == folder]
    where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    given = ", ".join(f"{array.dtype} {'x'.join(map(str, array.shape))}" for array in inputs)
    return (
        f"{case.id}: its reference fails{where}: {type(error).__name__}: {' '.join(str(error).split())}; "
        f"it is called with the array module and {given or 'no input'}"
    )


def _saved(case: Case, paths: Sequence[Path]) -> list[Array]:
    if len(paths) != len(case.outputs):
        saved, written = counted(len(paths), "saved array"), counted(len(case.outputs), "output")
        raise PeakgateError(f"{case.id}: {saved} given as the reference, the kernel has {written}")
    return [saved_array(path, buffer.shape, buffer.dtype) for path, buffer in zip(paths, case.outputs, strict=True)]
