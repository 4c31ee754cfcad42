"""The expected outputs of a case: by its reference function, saved arrays, or another kernel on the same arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from peakgate.base.errors import NOT_OF_A_PROJECT, Code, PeakgateError, RefusedSize, defined_at, described, raised_at
from peakgate.base.formatting import counted
from peakgate.device.interface import KernelFault, KernelLaunchable, Launchable, TimedLaunch
from peakgate.judge.correctness import ExpectedOutputs
from peakgate.judge.magnitudes import Rounded, estimated, exact_in_float32, of_row, with_rounding
from peakgate.measure.data import input_array, saved_array
from peakgate.measure.patterns import Patterned, largest_without_overflow
from peakgate.spec import dtypes
from peakgate.spec.case import Array, Buffer, Case, Reference
from peakgate.spec.dtypes import unit_of_sums

_WIDE = {"f": "float64", "c": "complex128"}


class ReferenceFault(KernelFault):
    """A reference kernel failed; the cause is its own fault."""


def expected(
    xp: Any, launchable: Launchable | TimedLaunch, prepare: Callable[[Case], KernelLaunchable]
) -> ExpectedOutputs:
    """The expected OUT and INOUT buffers after a launch, and the magnitudes for their bounds.

    A reference function gets its inputs in float64 (complex128) if the case allows rounding; if it requires equal
    values, unchanged. Integer outputs beside others that round are those for inputs in float32, in which a kernel
    decides how they round. ``prepare`` prepares a reference kernel, which gets the same inputs. Raises ReferenceFault
    if that kernel fails; PeakgateError without a reference, for a saved array of another shape, and if the function
    fails or does not return one array of the right shape per output.
    """
    case = launchable.case
    if case.reference is None:
        raise PeakgateError(
            f"{case.id}: no reference; expected a function, saved arrays or another kernel's case", Code.REFERENCE
        )
    if callable(case.reference):
        return _of_function(xp, case, _values(xp, launchable.inputs, case.inputs), case.reference)
    if isinstance(case.reference, tuple):
        if len(case.reference) != len(case.outputs):
            given, written = counted(len(case.reference), "saved array"), counted(len(case.outputs), "output")
            raise PeakgateError(f"{case.id}: {given} given as the reference, the kernel has {written}", Code.REFERENCE)
        files = zip(case.reference, case.outputs, strict=True)
        saved = [xp.asarray(saved_array(path, buffer.shape, buffer.dtype)) for path, buffer in files]
        return ExpectedOutputs(saved, _of_rows(xp, saved))
    other = prepare(case.reference)
    other.give(launchable.inputs)
    try:
        other.run()
    except KernelFault as fault:
        raise ReferenceFault(f"its reference kernel {case.reference.stage.kernel}: {fault}") from fault
    outputs = computed(xp, other)
    return ExpectedOutputs(outputs, _of_rows(xp, outputs))


def computed(xp: Any, launchable: Launchable | TimedLaunch) -> list[Array]:
    """The values of the OUT and INOUT buffers after the launch, in argument order; booleans as bytes."""
    values = _values(xp, launchable.outputs, launchable.case.outputs)
    return [value.view("uint8") if value.dtype.kind == "b" else value for value in values]


def _values(xp: Any, arrays: Sequence[Array], buffers: Sequence[Buffer]) -> list[Array]:
    return [dtypes.decoded(xp, array, buffer.dtype) for array, buffer in zip(arrays, buffers, strict=True)]


def exact_inputs(inputs: Sequence[Array]) -> list[Array]:
    """Inputs of a reference function if rounding is allowed: floating-point arrays in float64 or complex128."""
    return [array.astype(_WIDE[array.dtype.kind]) if array.dtype.kind in _WIDE else array for array in inputs]


def _of_function(xp: Any, case: Case, inputs: Sequence[Array], reference: Reference) -> ExpectedOutputs:
    def evaluated(given: Sequence[Array], function: Callable[..., Any] = reference) -> Any:
        try:
            with np.errstate(all="ignore"):  # inputs include numbers for which its operations overflow
                return function(xp, given)
        except (PeakgateError, RefusedSize, KernelFault, MemoryError, *NOT_OF_A_PROJECT):
            raise
        except BaseException as error:
            raise PeakgateError(_failing(case, function, given, error), Code.REFERENCE) from error

    if case.exact:
        return ExpectedOutputs(_fitting(case, evaluated(inputs)))
    try:
        values = _fitting(case, evaluated(exact_inputs(inputs)))
    except MemoryError:  # float64 takes up to four times the memory
        values = _fitting(case, evaluated(inputs))
    integers = [not dtypes.limits(buffer.dtype).unit_roundoff for buffer in case.outputs]
    if any(integers) and any(array.dtype.kind in _WIDE for array in inputs):
        narrow = [array.astype("float32") if array.dtype == "float16" else array for array in inputs]
        each = zip(integers, _fitting(case, evaluated(narrow)), values, strict=True)
        values = [in_float32 if integer else value for integer, in_float32, value in each]

    if case.scale is not None:
        scale = case.scale
        return ExpectedOutputs(
            values, [cache(lambda: _scaled(xp, case, evaluated(exact_inputs(inputs), scale), values))]
        )
    types = [buffer.dtype for buffer in case.outputs]
    rounded = [Rounded(*each) for each in zip(case.tolerances(len(values)), map(unit_of_sums, types), strict=True)]
    of_inputs = partial(reference, xp)

    patterns = [each.data if isinstance(each.data, Patterned) else None for each in case.inputs]

    def redrawn(seed: int) -> Sequence[Array]:
        plain = [replace(each, data=of.between) if of else each for each, of in zip(case.inputs, patterns, strict=True)]
        buffers = [*plain, *(buffer for _, buffer in case.stage.constants)]
        return exact_inputs(_values(xp, [input_array(xp, each, seed + at) for at, each in enumerate(buffers)], buffers))

    moved = cache(lambda: estimated(xp, of_inputs, exact_inputs(inputs), values, rounded))

    def with_neighbours() -> list[Array | None]:
        return moved().with_neighbours(xp, exact_in_float32(of_inputs, exact_inputs(inputs), values))

    around = cache(with_neighbours)

    def in_float32() -> Sequence[Array | None]:
        alike = any(pattern is not None and pattern.alike for pattern in patterns)
        return with_rounding(
            xp,
            of_inputs,
            exact_inputs(inputs),
            around(),
            rounded,
            redrawn=redrawn,
            overflows_beyond=largest_without_overflow(case),
            alike=alike,
        )

    return ExpectedOutputs(values, [cache(lambda: moved().alone(xp)), around, cache(in_float32)])


def _of_rows(xp: Any, values: Sequence[Array]) -> Sequence[Callable[[], Sequence[Array | None]]]:
    """Magnitudes without a reference function: the root mean square of an element's row."""
    return [cache(lambda: [of_row(xp, value) for value in values])]


def _fitting(case: Case, found: Any) -> Sequence[Array]:
    """The arrays of a reference function; raises PeakgateError unless there is one of the right shape per output."""
    several = isinstance(found, tuple | list) or bool(getattr(found, "shape", ()))
    given = [getattr(each, "shape", each) for each in found] if several else [found]
    wanted = [buffer.shape for buffer in case.outputs]
    if given == wanted:
        return cast("Sequence[Array]", found)
    place = Path(defined_at(cast("Callable[..., Any]", case.reference)))
    raise PeakgateError(
        f"{case.id}: its reference{f' ({place.name})' if place.name else ''} gives {_shapes(given)}, the outputs are "
        f"{_shapes(wanted)}; correct the reference, or the shapes of the outputs in its arguments",
        Code.REFERENCE,
    )


def _shapes(given: Sequence[object]) -> str:
    """Shapes of arrays, or other values, in one line."""
    return ", ".join(f"an array {each}" if isinstance(each, tuple) else str(each)[:80] for each in given) or "nothing"


def _scaled(xp: Any, case: Case, found: Any, values: Sequence[Array]) -> Sequence[Array | None]:
    """The magnitudes of a scale function; raises PeakgateError unless each is None or fits its output.

    Magnitudes must be finite wherever the output is, since an infinite one would make every element right.
    """
    several = isinstance(found, tuple | list) or bool(getattr(found, "shape", ()))
    given = found if several else [found]
    place = Path(defined_at(cast("Callable[..., Any]", case.scale)))
    its = f"{case.id}: its scale{f' ({place.name})' if place.name else ''} gives "
    if len(given) != len(values):
        raise PeakgateError(f"{its}{counted(len(given), 'array')}; expected {len(values)}, or None", Code.REFERENCE)
    for each, value in zip(given, values, strict=True):
        if each is None:
            continue
        try:
            array = xp.asarray(each)
            fits = np.broadcast_shapes(array.shape, value.shape) == value.shape
        except (ValueError, TypeError):
            fits = False
        if not fits or array.dtype.kind not in ("biufc" if value.dtype.kind == "c" else "biuf"):
            wanted = f"expected numbers that broadcast to {value.shape}, or None"
            raise PeakgateError(f"{its}{_shapes([getattr(each, 'shape', each)])}; {wanted}", Code.REFERENCE)
        if bool(xp.isfinite(array.sum(dtype="float64"))):  # so all are: one pass, since this runs for each launch
            continue
        endless = xp.isfinite(value) & ~xp.isfinite(array)
        if bool(endless.any()):
            raise PeakgateError(
                f"{its}{counted(int(endless.sum()), 'element')} infinite or NaN; expected finite numbers",
                Code.REFERENCE,
            )
    return cast("Sequence[Array | None]", given)


def _failing(case: Case, function: Callable[..., Any], inputs: Sequence[Array], error: BaseException) -> str:
    """The message for a reference or scale function that failed: its line and its arguments."""
    folder = None if case.stage.source is None else case.stage.source.parent
    place = Path(raised_at(error, folder) or defined_at(function))
    what = "its scale fails" if function is case.scale else "its reference fails"
    given = ", ".join(f"{array.dtype} {'x'.join(map(str, array.shape))}" for array in inputs)
    return (
        f"{case.id}: {what}{f' ({place.name})' if place.name else ''}: {described(error)}; it is called "
        f"with the array module and {given or 'no input'}"
    )
