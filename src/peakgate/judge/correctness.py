"""Is every element of an output right? Each is compared with a bound of its own, before anything is timed.

``|out - ref| <= tolerance * max(|ref|, magnitude) + u * |ref| + smallest`` where ``magnitude`` says how large the
numbers are that were summed into the element, ``u`` is the unit roundoff of the output's type and ``smallest`` its
smallest normal number. The bound of one element does not depend on how large others are. The array module of the
device that computed the output compares.

Zeros of either sign are equal, and NaN is right where the reference is NaN, whatever its payload. Of truth values the
stored byte is compared: 0 or 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from peakgate.base.errors import Code, PeakgateError
from peakgate.base.formatting import counted
from peakgate.spec import dtypes
from peakgate.spec.case import Array, Case

_ROWS_AT_A_TIME_BYTES, _ROWS_ON_GPU_BYTES = 1 << 20, 1 << 29
"""Differences are taken in slices of about this size in float64: on the host so that they stay in its caches, on a GPU
so that a 16384 x 16384 product needs no second copy."""

_ON_HOST_ELEMENTS = 1 << 22
"""So many are looked at one by one on the host."""

_FLUSHED = ("float32", "float64", "complex64", "complex128", "bfloat16")
_SATURATING = ("float8_e4m3fn", "float8_e5m2")
"""Types whose conversions give the largest finite value for a larger number, as CUDA's do by default."""

_AXES = {1: ("element",), 2: ("row", "column"), 3: ("plane", "row", "column")}


MagnitudeWays = Callable[[], Iterable[Array | None]]
"""Ever larger magnitudes of the terms summed into each element, made when asked for; None where |ref| suffices.

Each is broadcastable to the output. Nothing is known of an element whose magnitude is infinite, or is NaN where its
reference is not finite."""


@dataclass(frozen=True, slots=True)
class ExpectedOutputs:
    """The OUT and INOUT buffers of a case as they must be, in argument order.

    ``magnitudes`` are ways to the magnitude of each, the later ones larger: a way is asked only where an element is off
    by more than |ref| and the ways before it allow.
    """

    values: Sequence[Array]
    magnitudes: Sequence[Callable[[], Sequence[Array | None]]] = ()

    def magnitudes_of(self, position: int) -> Iterator[Array | None]:
        """Those of one output."""
        for magnitudes in self.magnitudes:
            yield magnitudes()[position]


@dataclass(frozen=True, slots=True)
class ErrorBound:
    """How far an element may be off: ``absolute + relative * |ref| + weighted * max(|ref|, magnitude)``.

    All zero asks for equal values. ``largest`` is the largest finite value of the output's type: a larger reference is
    infinite in it, or where it ``saturates`` that value. ``tolerance`` is what it was made of, for the message.
    """

    absolute: float = 0.0
    relative: float = 0.0
    weighted: float = 0.0
    largest: float = math.inf
    saturates: bool = False
    tolerance: float = 0.0

    @property
    def exact(self) -> bool:
        return not (self.absolute or self.relative or self.weighted)


@dataclass(frozen=True, slots=True)
class Largest:
    """Over all elements of an output, NaN where any is: ``|out - ref| / bound``, ``|out - ref|`` and ``|ref|``."""

    ratio: float
    difference: float
    reference: float


@dataclass(frozen=True, slots=True)
class WrongElement:
    """The worst element of a wrong output, by its bound; ``wrong`` of the output's ``elements`` are wrong."""

    index: tuple[int, ...]
    found: float
    expected: float
    wrong: int
    elements: int
    output: int = 0


@dataclass(frozen=True, slots=True)
class Deviation:
    """How far a case's outputs are from their references.

    ``ratio`` is the largest ``|out - ref| / bound`` of an element, at most 1 where all are right. ``error`` is the
    largest ``max|out - ref| / max|ref|`` of an output, for the record; 0 where equal values are asked for.
    ``mismatch`` says of a wrong output how many elements are wrong, where they are and which is the worst, None when
    everything is right; ``worst`` has that element. ``blank`` where nothing is known of any element.
    """

    error: float
    ratio: float
    mismatch: str | None
    worst: WrongElement | None = None
    blank: bool = False

    @property
    def right(self) -> bool:
        return self.mismatch is None


class NothingCompared(PeakgateError):
    """A reference that is NaN everywhere: whatever is NaN there would be right."""

    def __init__(self) -> None:
        super().__init__(
            "nothing is compared: the reference is NaN everywhere, or overflows in float32; expected some numbers; "
            "give the inputs a range that the operation can bear, data=(low, high)",
            Code.REFERENCE,
        )


Compared = Callable[[Array, Array, ErrorBound, Array | None], Largest | None]
"""A device's own way to the largest differences; None where it has none for these arrays."""


def bound_of(tolerance: float, found: str, wanted: str, *, atol: float = 0.0, rtol: float | None = None) -> ErrorBound:
    """The bound of an output of type ``found`` against a reference of type ``wanted``, both as NumPy names them.

    With ``atol`` or ``rtol`` it is ``atol + rtol * |ref|`` as in numpy.isclose. A reference that is no more precise
    than the output, another kernel's or a framework's, has errors of its own: the bound doubles. Integers have no
    rounding: their bound is ``tolerance * max|ref|``, which ``check`` fills in.
    """
    if atol or rtol is not None:
        return ErrorBound(absolute=atol, relative=rtol or 0.0)
    if tolerance == 0 or dtypes.limits(found).unit_roundoff == 0:
        return ErrorBound(tolerance=tolerance)
    limits = dtypes.limits(found)
    unit = limits.unit_roundoff
    own = dtypes.limits(wanted).unit_roundoff
    doubled = 2.0 if own >= unit else 1.0
    # Of float32 and float64 a GPU may flush subnormal numbers to zero, of shorter types it keeps them.
    smallest = limits.smallest_normal if found in _FLUSHED else limits.smallest_step
    return ErrorBound(
        doubled * smallest,
        unit + own,
        doubled * tolerance,
        largest=limits.largest,
        saturates=found in _SATURATING,
        tolerance=tolerance,
    )


def check(
    xp: Any, case: Case, outputs: Sequence[Array], expected: ExpectedOutputs, compared: Compared | None = None
) -> Deviation:
    """Compare every output with its reference, each by the tolerance of its own type.

    Outputs are filled with noise before the launch, so an element the kernel never wrote is wrong as well. What
    ``compared`` does not find right is compared with ``xp``, which says where. NothingCompared where it is right and
    a reference is NaN everywhere.
    """
    if len(outputs) != len(expected.values):
        raise ValueError(
            f"{case.id}: {counted(len(outputs), 'output')}, but the reference gives {len(expected.values)}"
        )
    worst, blank = Deviation(0.0, 0.0, None), False
    tolerances = case.tolerances(len(outputs))
    types = [buffer.dtype for buffer in case.outputs] or [output.dtype.name for output in outputs]
    for position, (found, value) in enumerate(zip(outputs, expected.values, strict=True)):
        wanted = value.view("uint8") if value.dtype.kind == "b" else value  # as ``computed`` gives truth values
        if found.shape != wanted.shape:
            raise ValueError(f"{case.id}: output {position} is {found.shape}, its reference {wanted.shape}")
        bound = bound_of(tolerances[position], types[position], wanted.dtype.name, atol=case.atol, rtol=case.rtol)
        magnitudes = partial(expected.magnitudes_of, position)
        result = compare(xp, found, wanted, bound, magnitudes=magnitudes, compared=compared)
        worst = Deviation(max(worst.error, result.error), max(worst.ratio, result.ratio), None)
        if result.worst is not None:
            element = replace(result.worst, output=position)
            return Deviation(result.error, result.ratio, f"output {position}{result.mismatch}", element)
        blank = blank or result.blank
    if blank:
        raise NothingCompared
    return worst


def compare(
    xp: Any,
    found: Array,
    wanted: Array,
    bound: ErrorBound,
    *,
    magnitudes: MagnitudeWays = lambda: (),
    compared: Compared | None = None,
    pairs: bool = False,
) -> Deviation:
    """Compare one output with its reference; ``magnitudes`` are asked where |ref| alone does not make it right.

    ``pairs``: neighbours along the last axis are the parts of complex numbers.
    """
    if not found.size:
        return Deviation(0.0, 0.0, None)
    if bound.tolerance and bound.exact:  # integers: the same absolute step everywhere
        bound = replace(bound, absolute=bound.tolerance * float(xp.abs(wanted).max()))

    def weights() -> Iterator[Array | None]:
        yield None
        if bound.weighted:
            yield from (magnitude for magnitude in magnitudes() if magnitude is not None)

    weight, result = None, None
    for weight in weights():
        quick = compared(found, wanted, bound, weight) if compared else None
        if quick is not None and quick.ratio <= 1 and math.isfinite(quick.reference):
            error = 0.0 if bound.exact else quick.difference / (quick.reference or 1.0)
            blank = weight is not None and bool(xp.isinf(weight).all())
            return Deviation(error, quick.ratio, None, blank=blank)
        if quick is None:
            result = _element_by_element(xp, found, wanted, bound, weight, pairs=pairs)
            if result.right:
                return result
    if result is not None:
        return result
    if found.size <= _ON_HOST_ELEMENTS:  # where CuPy compiles what follows for seconds
        weight = None if weight is None else on_host(weight)
        return _element_by_element(np, on_host(found), on_host(wanted), bound, weight, pairs=pairs)
    return _element_by_element(xp, found, wanted, bound, weight, pairs=pairs)


def _element_by_element(
    xp: Any, found: Array, wanted: Array, bound: ErrorBound, magnitude: Array | None, *, pairs: bool
) -> Deviation:
    parts = pairs or found.dtype.kind == "c" or wanted.dtype.kind == "c"
    if pairs:
        magnitude = None if magnitude is None else xp.broadcast_to(magnitude, found.shape)
        found, wanted, magnitude = (
            None if each is None else each.reshape(*each.shape[:-1], -1, 2) for each in (found, wanted, magnitude)
        )
    elif found.dtype.kind == "c" or wanted.dtype.kind == "c":
        complex_type = f"complex{max(64, 8 * found.dtype.itemsize) if found.dtype.kind == 'c' else 128}"
        found, wanted = _as_parts(xp.asarray(found, complex_type)), _as_parts(xp.asarray(wanted, "complex128"))
        magnitude = None if magnitude is None else xp.abs(magnitude)[..., None]
    magnitude = None if magnitude is None else xp.broadcast_to(magnitude, found.shape)
    slice_bytes = _ROWS_AT_A_TIME_BYTES if xp is np else _ROWS_ON_GPU_BYTES
    step = max(1, slice_bytes // (8 * math.prod(found.shape[1:])))
    ratio = difference = reference = 0.0
    worst: tuple[int, ...] = ()
    judged = False
    wrong, flags = 0, [np.zeros(length, bool) for length in (found.shape[:-1] if parts else found.shape)]
    for start in range(0, found.shape[0], step):
        rows = slice(start, start + step)
        bad, ratios, sizes, differences, known = _rows_compared(
            xp, found[rows], wanted[rows], bound, None if magnitude is None else magnitude[rows]
        )
        reference = max(reference, float(sizes.max()))
        judged = judged or bool(known.any())
        bad = bad.any(axis=-1) if parts else bad
        count = int(bad.sum())
        largest = float(ratios.max())
        if largest > ratio:
            place = [int(axis) for axis in xp.unravel_index(xp.argmax(ratios), ratios.shape)]
            worst = (place[0] + start, *place[1:])
        ratio, difference = max(ratio, largest), max(difference, float(differences.max()))
        wrong += count
        for axis in range(bad.ndim) if count else ():
            others = tuple(each for each in range(bad.ndim) if each != axis)
            some = on_host(bad.any(axis=others) if others else bad)
            flags[axis][rows if axis == 0 else slice(None)] |= some
    error = difference / (reference or 1.0)
    if not wrong:
        return Deviation(error, ratio, None, blank=not judged)
    said = _describe(found, wanted, worst, wrong, _where_wrong(flags, wrong), parts=parts)
    element = WrongElement(worst, float(found[worst]), float(wanted[worst]), wrong, found.size // (2 if parts else 1))
    if bound.exact:
        return Deviation(math.inf, math.inf, said, element)
    allowed = _allowed(np, bound, abs(float(wanted[worst])), None if magnitude is None else float(magnitude[worst]))
    off = abs(float(found[worst]) - float(wanted[worst]))
    if not math.isnan(off):
        said += f", off by {off:.3g}, allowed {allowed:.3g}"
        said += f" (tolerance {bound.tolerance:.3g})" if bound.tolerance else ""
    if bound.weighted and error <= bound.tolerance and math.isfinite(off):
        said += (
            f"; compared with the largest element, as before 0.3, its error is {error:.3g} and passes: "
            "an element's bound no longer depends on larger ones"
        )
    return Deviation(error, ratio, said, element)


def _rows_compared(
    xp: Any, found: Array, wanted: Array, bound: ErrorBound, magnitude: Array | None
) -> tuple[Array, Array, Array, Array, Array]:
    """Which elements are wrong, ``|out - ref| / bound``, ``|ref|``, ``|out - ref|``, and which elements are judged.

    The ratio of a wrong one is infinite. Judged are those with a finite bound whose reference is no NaN.
    """
    with np.errstate(all="ignore"):
        output, reference = found.astype("float64"), wanted.astype("float64")
        if bound.saturates:
            reference = xp.clip(reference, -bound.largest, bound.largest)
        sizes, differences = xp.abs(reference), xp.abs(output - reference)
        allowed = _allowed(xp, bound, sizes, magnitude)
        same = found == wanted if bound.exact else output == reference
        if not bound.exact:
            # A number beyond the type's range, by no more than its bound.
            same |= xp.isinf(output) & (xp.sign(output) == xp.sign(reference)) & (sizes + allowed >= bound.largest)
        finite = xp.isfinite(sizes)
        unbounded = finite & xp.isinf(allowed)
        if magnitude is not None:
            unbounded |= ~finite & xp.isnan(magnitude)
        same |= (xp.isnan(output) & xp.isnan(reference)) | unbounded
        ratios = xp.where(same, 0.0, differences / allowed)
        bad = ~(ratios <= 1.0)  # NaN too
        ratios = xp.where(xp.isnan(ratios), math.inf, ratios)
        known = ~xp.isnan(reference) & ~unbounded
        return bad, ratios, xp.where(finite, sizes, 0.0), xp.where(same | ~finite, 0.0, differences), known


def _allowed(xp: Any, bound: ErrorBound, sizes: Any, magnitude: Any) -> Any:
    """How far elements of these sizes may be off, as `ErrorBound` says."""
    scale = sizes if magnitude is None else xp.fmax(sizes, magnitude)
    return bound.absolute + bound.relative * sizes + bound.weighted * scale


def _as_parts(array: Array) -> Array:
    """Complex numbers as their real and imaginary parts along a last axis."""
    contiguous = array.copy()
    return contiguous.view(contiguous.real.dtype).reshape(*array.shape, 2)


def on_host(array: Array) -> np.ndarray[Any, Any]:
    """An array of either module in the host's memory."""
    return array if isinstance(array, np.ndarray) else np.asarray(array.get())


def _describe(found: Array, wanted: Array, index: tuple[int, ...], wrong: int, where: str, *, parts: bool) -> str:
    """The worst element in words, of a complex one the part that is; how many are wrong where it is not alone."""
    at, elements = ", ".join(map(str, index[:-1] if parts else index)), found.size // (2 if parts else 1)
    part = (" (real part)", " (imaginary part)")[index[-1]] if parts else ""
    one = f" [{at}] is {_number(found[index])}, expected {_number(wanted[index])}{part}"
    return one if wrong == 1 else f": {wrong} of {elements} elements are wrong, {where}; the worst{one}"


def _number(value: Any) -> str:
    """One element in words, an integer with all of its digits."""
    return f"{float(value):.9g}" if getattr(getattr(value, "dtype", None), "kind", "O") in "fb" else str(value)


def _where_wrong(flags: Sequence[np.ndarray[Any, Any]], wrong: int) -> str:
    """The place of ``wrong`` elements in words, by the indices that occur along each axis: ``flags[axis][index]``.

    "every element of row 7", "in the last 3 columns", "in rows 32 to 63 and columns 0 to 31".
    """
    names = _AXES.get(len(flags)) or tuple(f"index along axis {axis}" for axis in range(len(flags)))
    places = [_along(name, each) for name, each in zip(names, flags, strict=True)]
    described = " and ".join(place for place in places if place)
    full = wrong == math.prod(int(each.sum()) for each in flags)
    if not described:
        return "all of them" if full else "spread over the whole output"
    return f"all of {described}" if full else f"in {described}"


def _along(name: str, flags: np.ndarray[Any, Any]) -> str:
    """The indices along one axis; empty where they are spread over all of it."""
    at, length = np.flatnonzero(flags), flags.size
    first, last, count = int(at[0]), int(at[-1]), at.size
    if count == 1:
        return "" if length == 1 else f"{name} {first}"
    steps = np.unique(np.diff(at))
    if count == length or (steps.size > 1 and 4 * count > length):
        return ""
    if steps.size > 1:
        return f"{count} {name}s between {first} and {last}"
    if steps[0] > 1:
        return f"{name}s {first} to {last} in steps of {steps[0]}"
    if first == 0:
        return f"the first {count} {name}s"
    return f"the last {count} {name}s" if last == length - 1 else f"{name}s {first} to {last}"
