"""Compares every element of an output with its reference; each element has its own error bound.

``|out - ref| <= tolerance * max(|ref|, magnitude) + u * |ref| + smallest``, where ``magnitude`` is the size of the
terms summed into the element, ``u`` the unit roundoff of the output's type and ``smallest`` its smallest normal number.
The bound of an element does not depend on other elements. The comparison runs in the array module of the device.

+0 and -0 are equal. NaN is right if the reference is NaN, with any payload. Booleans are compared as stored bytes, 0
or 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from peakgate.base.errors import Code, PeakgateError
from peakgate.base.formatting import counted
from peakgate.spec import dtypes
from peakgate.spec.case import Array, Case

_ROWS_AT_A_TIME_BYTES, _ROWS_ON_GPU_BYTES = 1 << 20, 1 << 29
"""Differences are computed in slices of about this size in float64: on the host so that they stay in the caches, on a
GPU so that a 16384 x 16384 product needs no second copy."""

_ON_HOST_ELEMENTS = 1 << 22
"""Up to this many elements are described on the host, where CuPy need not compile kernels for it."""

_FLUSHED = ("float32", "float64", "complex64", "complex128", "bfloat16")
_SATURATING = ("float8_e4m3fn", "float8_e5m2", "float4_e2m1fn")
"""Types that saturate: larger numbers convert to the largest finite value, the default of CUDA."""

_FEW_TIES = 0.05
"""At most this share of wrong integers may be ties that a kernel rounds the other way."""

_LOST_BY_NUMBERS_NEAR_1 = (2.0**-30, 2.0**4)
"""The error of a function in which numbers near 1 cancel, such as ``1 + erf(x)``, in units of the sums' roundoff:
the least is the error of such a reference in float64."""

_AXES = {1: ("element",), 2: ("row", "column"), 3: ("plane", "row", "column")}


MagnitudeWays = Callable[[], Iterable[Array | None]]
"""Yields increasing magnitudes of the terms summed into each element, computed lazily; None for |ref|.

Each is broadcastable to the output. An element with an infinite magnitude, or with NaN where its reference is not
finite, is not judged."""


@dataclass(frozen=True, slots=True)
class ExpectedOutputs:
    """The expected OUT and INOUT buffers of a case, in argument order.

    ``magnitudes`` are functions that return the magnitude of each output, later ones larger. One is called only if an
    element exceeds the bound by |ref| and by the earlier ones.
    """

    values: Sequence[Array]
    magnitudes: Sequence[Callable[[], Sequence[Array | None]]] = ()

    def magnitudes_of(self, position: int) -> Iterator[Array | None]:
        """The magnitudes of one output."""
        for magnitudes in self.magnitudes:
            with np.errstate(all="ignore"):  # squares of numbers beyond 1e154
                found = magnitudes()[position]
            yield found


@dataclass(frozen=True, slots=True)
class ErrorBound:
    """The bound of an element's error: ``absolute + relative * |ref| + weighted * max(|ref|, magnitude)``.

    All zero requires equal values. ``largest`` is the largest finite value of the output's type: a larger reference
    becomes infinity, or that value if the type ``saturates``. ``tolerance`` is the given one, for the message.
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

    def passes_zeros(self, largest: float) -> bool:
        """Whether an output of zeros would be right for a reference of up to ``largest``, which is not all zeros."""
        return largest > 0 and (largest <= self.absolute or self.relative + self.weighted >= 1)


@dataclass(frozen=True, slots=True)
class Largest:
    """Maxima over an output's elements, NaN if any is: ``|out - ref| / bound``, ``|out - ref|`` and ``|ref|``."""

    ratio: float
    difference: float
    reference: float


@dataclass(frozen=True, slots=True)
class WrongElement:
    """The worst element of a wrong output, by its bound; ``wrong`` of the output's ``elements`` are wrong.

    ``largest_difference`` is the largest of any element with a finite reference.
    """

    index: tuple[int, ...]
    found: float
    expected: float
    wrong: int
    elements: int
    output: int = 0
    largest_difference: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True)
class Deviation:
    """The errors of a case's outputs.

    ``ratio`` is the largest ``|out - ref| / bound`` of an element, at most 1 if all are right. ``error`` is the largest
    ``max|out - ref| / max|ref|`` of an output, for the run file; 0 if equal values are required. ``mismatch`` describes
    a wrong output: the number and place of wrong elements, and the worst; None if all are right. ``worst`` is that
    element. ``blank``: no element could be judged, or an output of zeros would be right too. ``one``: the number that
    every element of every reference on the host is; None if there are several, or no elements.
    """

    error: float
    ratio: float
    mismatch: str | None
    worst: WrongElement | None = None
    blank: bool = False
    one: complex | None = None

    @property
    def right(self) -> bool:
        return self.mismatch is None


class NothingCompared(PeakgateError):
    """An output of NaN or of zeros would be right: the reference is NaN everywhere, or smaller than the bound.

    ``which`` names the output.
    """

    def __init__(self, which: str) -> None:
        super().__init__(
            f"nothing is compared in {which}: the reference is NaN everywhere, overflows in float32, or is nowhere "
            "larger than its bound, so that zeros would be right; expected some larger numbers: give the inputs "
            "numbers that the operation supports (of a kernel data=(low, high)), a smaller atol, or a tolerance for "
            "each output",
            Code.REFERENCE,
        )


Compared = Callable[[Array, Array, ErrorBound, Array | None], Largest | None]
"""A device's own computation of the largest differences; returns None for arrays that it does not support."""


def bound_of(tolerance: float, found: str, wanted: str, *, atol: float = 0.0, rtol: float | None = None) -> ErrorBound:
    """The bound of an output of type ``found`` against a reference of type ``wanted``.

    With ``atol`` or ``rtol`` it is ``atol + rtol * |ref|`` as in numpy.isclose. If the reference is not more precise
    than the output, such as that of another kernel or framework, it has rounding errors too: the bound doubles.
    Integers have no rounding: their bound is ``tolerance * max|ref|``, which ``compare`` fills in.
    """
    if atol or rtol is not None:
        return ErrorBound(absolute=atol, relative=rtol or 0.0)
    if tolerance == 0 or dtypes.limits(found).unit_roundoff == 0:
        return ErrorBound(tolerance=tolerance)
    limits = dtypes.limits(found)
    unit = limits.unit_roundoff
    own = dtypes.limits(wanted).unit_roundoff
    doubled = 2.0 if own >= unit else 1.0
    # A GPU may flush subnormal numbers to zero in float32 and float64; it keeps those of shorter types.
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
    """Compare every output with its reference, each by its own tolerance.

    Outputs are filled with noise before the launch, so an element that the kernel did not write is wrong. An output
    that ``compared`` does not find right is compared again with ``xp``, which describes the wrong elements. Raises
    NothingCompared if all are right, and of some output anything, or zeros, would be.
    """
    if len(outputs) != len(expected.values):
        raise ValueError(
            f"{case.id}: {counted(len(outputs), 'output')}, but the reference gives {len(expected.values)}"
        )
    worst, blank = Deviation(0.0, 0.0, None), None
    tolerances = case.tolerances(len(outputs))
    types = [buffer.dtype for buffer in case.outputs] or [output.dtype.name for output in outputs]
    for position, (found, value) in enumerate(zip(outputs, expected.values, strict=True)):
        wanted = value.view("uint8") if value.dtype.kind == "b" else value  # as ``computed`` returns booleans
        if found.shape != wanted.shape:
            raise ValueError(f"{case.id}: output {position} is {found.shape}, its reference {wanted.shape}")
        bound = bound_of(tolerances[position], types[position], wanted.dtype.name, atol=case.atol, rtol=case.rtol)
        magnitudes = partial(expected.magnitudes_of, position)
        result = compare(xp, found, wanted, bound, magnitudes=magnitudes, compared=compared)
        worst = Deviation(max(worst.error, result.error), max(worst.ratio, result.ratio), None)
        if result.worst is not None:
            element = replace(result.worst, output=position)
            mismatch = f"output {position}{result.mismatch}"
            if _rounded_the_other_way(element, types[position], [buffer.dtype for buffer in case.inputs]):
                mismatch += "; none is off by more than 1: where the exact number is halfway between two integers, "
                mismatch += "atol=1 allows both, or with several outputs a tolerance for each"
            return Deviation(result.error, result.ratio, mismatch, element)
        if blank is None and result.blank:
            blank = position
    if blank is not None:
        raise NothingCompared(f"output {blank}")
    return replace(worst, one=_one_number(expected.values) if xp is np else None)


def _one_number(values: Sequence[Array]) -> complex | None:
    firsts = [value.flat[0].item() for value in values if value.size]
    return firsts[0] if firsts and all(bool((value == firsts[0]).all()) for value in values) else None


def refuse_one_number(case: Case, met: Collection[complex | None]) -> None:
    """Raise PeakgateError if ``met``, ``one`` of a build's problems, is a single number, though there are inputs."""
    (one,) = met if len(met) == 1 else (None,)
    if one is not None and case.inputs:
        raise PeakgateError(
            f"its reference is {one:g} in every element of every edge-size problem, so that a kernel which "
            "only writes that number would be right; expected inputs for which it differs, data=(low, high) or a "
            "function",
            Code.REFERENCE,
        )


def _rounded_the_other_way(element: WrongElement, dtype: str, inputs: Sequence[str]) -> bool:
    """Whether few integers of real inputs are wrong, all by one, as where a kernel rounds a tie differently."""
    return (
        dtypes.limits(dtype).kind in ("int", "uint")
        and any(dtypes.limits(each).kind == "float" for each in inputs)
        and element.largest_difference == 1
        and element.wrong <= max(1, _FEW_TIES * element.elements)
    )


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
    """Compare one output with its reference; ``magnitudes`` are computed only if it is wrong by |ref| alone.

    ``pairs``: neighbours along the last axis are the real and imaginary parts of complex numbers.
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
            # The sum first, whose kernel is compiled anyway.
            unbounded = weight is not None and not bool(xp.isfinite(weight.sum(dtype="float64")))
            blank = bound.passes_zeros(quick.reference) or (unbounded and bool(xp.isinf(weight).all()))
            return Deviation(error, quick.ratio, None, blank=blank)
        if quick is None:
            result = _element_by_element(xp, found, wanted, bound, weight, pairs=pairs)
            if result.right:
                return result
    if result is not None:
        return result
    if found.size <= _ON_HOST_ELEMENTS:  # CuPy would compile kernels for seconds
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
        return Deviation(error, ratio, None, blank=not judged or bound.passes_zeros(reference))
    mismatch = _describe(found, wanted, worst, wrong, _where_wrong(flags, wrong), parts=parts)
    elements = found.size // (2 if parts else 1)
    element = WrongElement(
        worst, float(found[worst]), float(wanted[worst]), wrong, elements, largest_difference=difference
    )
    if bound.exact:
        return Deviation(math.inf, math.inf, mismatch, element)
    allowed = _allowed(np, bound, abs(float(wanted[worst])), None if magnitude is None else float(magnitude[worst]))
    off = abs(float(found[worst]) - float(wanted[worst]))
    if not math.isnan(off):
        mismatch += f", off by {off:.3g}, allowed {allowed:.3g}"
        mismatch += f" (tolerance {bound.tolerance:.3g})" if bound.tolerance else ""
    if bound.weighted and error <= bound.tolerance and math.isfinite(off):
        mismatch += f"; relative to the largest element the error is {error:.3g}, but each element has its own bound"
        least, most = (each * dtypes.unit_of_sums(found.dtype.name) for each in _LOST_BY_NUMBERS_NEAR_1)
        if least <= off <= most and off <= abs(float(wanted[worst])):
            mismatch += "; if numbers near 1 cancel in it, as 1 + erf(x) in a GELU, see `peakgate help tolerance`"
    return Deviation(error, ratio, mismatch, element)


def _rows_compared(
    xp: Any, found: Array, wanted: Array, bound: ErrorBound, magnitude: Array | None
) -> tuple[Array, Array, Array, Array, Array]:
    """Which elements are wrong, ``|out - ref| / bound``, ``|ref|``, ``|out - ref|``, and which elements are judged.

    The ratio is infinite if it would be NaN. Elements with a finite bound and a reference that is not NaN are judged.
    """
    with np.errstate(all="ignore"):
        output, reference = found.astype("float64"), wanted.astype("float64")
        if bound.saturates:
            reference = xp.clip(reference, -bound.largest, bound.largest)
        sizes, differences = xp.abs(reference), xp.abs(output - reference)
        allowed = _allowed(xp, bound, sizes, magnitude)
        same = found == wanted if bound.exact else output == reference
        if not bound.exact:
            # Infinity is right if the bound reaches beyond the type's range.
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
    """The bound of elements whose references have these sizes; see ``ErrorBound``."""
    scale = sizes if magnitude is None else xp.fmax(sizes, magnitude)
    return bound.absolute + bound.relative * sizes + bound.weighted * scale


def _as_parts(array: Array) -> Array:
    """Complex numbers as their real and imaginary parts along a last axis."""
    contiguous = array.copy()
    return contiguous.view(contiguous.real.dtype).reshape(*array.shape, 2)


def on_host(array: Array) -> np.ndarray[Any, Any]:
    """A NumPy or CuPy array in host memory."""
    return array if isinstance(array, np.ndarray) else np.asarray(array.get())


def _describe(found: Array, wanted: Array, index: tuple[int, ...], wrong: int, where: str, *, parts: bool) -> str:
    """A phrase for the worst element (of a complex one its wrong part), and the number of wrong ones if several."""
    at, elements = ", ".join(map(str, index[:-1] if parts else index)), found.size // (2 if parts else 1)
    part = (" (real part)", " (imaginary part)")[index[-1]] if parts else ""
    one = f" [{at}] is {_number(found[index])}, expected {_number(wanted[index])}{part}"
    return one if wrong == 1 else f": {wrong} of {elements} elements are wrong, {where}; the worst{one}"


def _number(value: Any) -> str:
    """The text of one element; integers with all digits."""
    return f"{float(value) + 0.0:.9g}" if getattr(getattr(value, "dtype", None), "kind", "O") in "fb" else str(value)


def _where_wrong(flags: Sequence[np.ndarray[Any, Any]], wrong: int) -> str:
    """A phrase for the place of ``wrong`` elements; ``flags[axis][index]`` tells whether any is at that index.

    "all of row 7", "in the last 3 columns", "in rows 32 to 63 and columns 0 to 31".
    """
    names = _AXES.get(len(flags)) or tuple(f"axis-{axis} position" for axis in range(len(flags)))
    places = [_along(name, each) for name, each in zip(names, flags, strict=True)]
    described = " and ".join(place for place in places if place)
    full = wrong == math.prod(int(each.sum()) for each in flags)
    if not described:
        return "all of them" if full else "spread over the whole output"
    return f"all of {described}" if full else f"in {described}"


def _along(name: str, flags: np.ndarray[Any, Any]) -> str:
    """A phrase for the indices along one axis; empty if they are spread over all of it."""
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
