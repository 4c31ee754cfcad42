"""Checks a callable's outputs at its first call, during and after timing, and on fresh inputs."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np

from peakgate.base.errors import Code, PeakgateError
from peakgate.base.formatting import counted
from peakgate.callables.arrays import arrays_in, copy_of, displace, dtype_name, overlap, renew, restore, wait_for
from peakgate.callables.call import Call
from peakgate.callables.settings import Given
from peakgate.callables.values import OtherKeys, Typed, typed
from peakgate.device.interface import TimedLaunch
from peakgate.judge.correctness import Deviation, ExpectedOutputs, NothingCompared, bound_of, compare, on_host
from peakgate.judge.magnitudes import Rounded, by_evaluations
from peakgate.measure.patterns import PATTERNS
from peakgate.session.outcome import Proof, WrongResult
from peakgate.spec import dtypes
from peakgate.spec.case import Array
from peakgate.spec.dtypes import unit_of_sums
from peakgate.spec.groups import TOLERANCES

_SEED = 20_261_121

_REAL_PART = {"complex64": "float32", "complex128": "float64"}

_STORED = ": a stored result is not excluded"


class OutputCheck:
    """Compares a callable's outputs with its reference; ``given.reference`` must not be None."""

    def __init__(self, call: Call, given: Given) -> None:
        """Compute the reference for the arguments as they are; call it before the callable's first run."""
        self._call, self._given = call, given
        self.tolerance = 0.0
        """The largest tolerance that an output was compared with."""
        self._expected = call.expected(given.reference)
        call.raised_from_zero = self._zeros_read()
        self._not_zero: set[int] = set()
        """The outputs whose reference was not zero in all that was compared."""
        self._right_before = given.outputs is not None and self._are_right(self._expected)
        """Whether the outputs that the test names were right before each checked call, which so wrote none of them."""

    def first(self) -> Proof:
        """Check the first run, and a second one on what the first left in arrays that the reference does not read.

        Raises WrongResult if an output is wrong or an input of the reference was changed, PeakgateError if nothing can
        be checked: the run changes no array, and the arrays already held the result.
        """
        conclusive = not self._call.ranks.any("outputs not found", not self.outputs()) or self._find_outputs()
        if not conclusive and not self.outputs() and all(map(self._holds, self._expected)):
            raise PeakgateError(
                "nothing is compared: the call changes no array, and its arrays hold the reference's result already; "
                "expected other contents in the arrays that it writes",
                Code.BENCHMARK_TEST,
            )
        proof = self.check("")
        self._refuse_changed_inputs()
        self._check_second_call()
        return proof

    def check(self, when: str) -> Proof:
        """The proof of the last run; raises WrongResult with ``when`` before its message."""
        return self._compare(self._expected, when)

    def outputs(self) -> list[Any]:
        """The arrays and numbers of the last call to compare."""
        try:
            return self._call.outputs(self._given.outputs)
        except OtherKeys as error:
            if self._given.outputs is None:
                raise WrongResult(str(error)) from None
            raise PeakgateError(f"outputs {error}; expected the same keys", Code.BENCHMARK_TEST) from None

    def timed(self, launch: TimedLaunch) -> Deviation:
        """Compare a timed call with the reference for the current arrays, which are those that the call found."""
        original = self._call.saved
        try:
            expected = self._now()
            self._call.remember()
            proof = self._compare(expected, f"{launch.where}: ", launch.outputs)
        finally:
            self._call.saved = original
        return Deviation(proof.error, proof.ratio or 0.0, None)

    def on_fresh_inputs(self, run: Callable[[], None]) -> str:
        """Check runs with other elements in its inputs, then restore these; a phrase for the run file.

        Raises NothingCompared if it reads arrays, and its reference was zero here and before.
        """
        checked, call = self._on_other_inputs(run), self._call
        seen = {index for each in call.ranks.all("outputs that are not zero", [*self._not_zero]) for index in each}
        if not seen and len(call.changed) < len(call.arrays):
            raise NothingCompared("its outputs")
        if not call.ranks.any("outputs that were not right before", not self._right_before):
            raise PeakgateError(
                "nothing is compared: outputs gives the reference's result before the call; expected the arrays that "
                "it writes, with other contents",
                Code.BENCHMARK_TEST,
            )
        zero = [call.output_name(index) for index in range(len(self._expected)) if index not in seen]
        return f"{checked}, {' and '.join(zero)} zero in all that was compared" if zero else checked

    def _on_other_inputs(self, run: Callable[[], None]) -> str:
        call = self._call
        if not self._given.fresh:
            return f"not checked on fresh inputs{_STORED}"
        if not callable(self._given.reference):
            return f"not checked on fresh inputs, its reference is a value{_STORED}"
        call.rewind_all()
        original = call.saved
        try:
            if not call.renewed(_SEED):
                return f"not checked on fresh inputs, none could be changed{_STORED}"
            expected = self._now()
            if call.ranks.any("an unchanged result", not _differ(expected, self._expected)):
                call.renewed(_SEED + 1, redraw=True)
                expected = self._now()
            call.remember()
            self._right_before = self._right_before and self._are_right(expected)
            run()
            self._compare(expected, "on fresh inputs: ")
            given = self._given.fresh
            for pattern in () if given is True else PATTERNS:
                call.saved = original
                call.rewind_all()
                if call.patterned(pattern, given if isinstance(given, tuple) else None):
                    expected = self._now()
                    call.remember()
                    self._right_before = self._right_before and self._are_right(expected)
                    run()
                    self._compare(expected, f"on inputs of the pattern {pattern!r}: ")
        finally:
            call.saved = original
            call.rewind_all()
        return f"checked on fresh inputs{'' if given is True else ' and on patterns of input data'}"

    def _compare(self, expected: Sequence[Typed], when: str, given: Sequence[Any] | None = None) -> Proof:
        outputs = typed(self.outputs() if given is None else given, expected)
        if len(outputs) != len(expected):
            none = "" if outputs else ": the callable returns no array and changes none"
            raise WrongResult(
                f"{when}{counted(len(outputs), 'output')}{none}, but the reference gives {len(expected)}; "
                "outputs= names the arrays that are written"
            )
        worst = Proof(0.0, 0, 0.0)
        weights = ExpectedOutputs([each.array for each in expected], [cache(partial(self._magnitudes, expected))])
        for index, (returned, wanted) in enumerate(zip(outputs, expected, strict=True)):
            output = self._as_computed(returned, wanted)
            allowed = self._tolerance(output.dtype)
            self.tolerance = max(self.tolerance, allowed)
            xp, found, reference = _alike(output.array, wanted.array)
            if found.shape != reference.shape:
                shapes = ("one element" if each == (1,) else f"shape {each}" for each in (found.shape, reference.shape))
                raise WrongResult(f"{when}{self._call.output_name(index)} has {', expected '.join(shapes)}")
            self._refuse_shorter(output, wanted, f"{when}{self._call.output_name(index)}")
            bound = bound_of(allowed, output.dtype, wanted.dtype, atol=self._given.atol, rtol=self._given.rtol)
            magnitudes = partial(weights.magnitudes_of, index)
            pairs = all(each.dtype.startswith("complex") for each in (output, wanted))
            if self._call.ranks.size > 1:  # if one rank needs the magnitudes, the reference is evaluated in all
                right = compare(xp, found, reference, bound, pairs=pairs).right
                if self._call.ranks.any("magnitudes", bound.weighted and not right):
                    next(weights.magnitudes_of(index))
            result = compare(xp, found, reference, bound, magnitudes=magnitudes, pairs=pairs)
            if result.mismatch is not None:
                name = f"{when}{self._call.output_name(index)}"
                coarsest = self._coarsest_input()
                if output.dtype == wanted.dtype == "float64" and self._shorter_inputs() and not self._bound_given:
                    shorter = bound_of(TOLERANCES[coarsest], coarsest, wanted.dtype)
                    if compare(xp, found, reference, shorter, magnitudes=magnitudes).right:
                        raise PeakgateError(
                            f"{name} is float64 and its inputs are shorter: it is right as {coarsest}, and not as "
                            f"float64{result.mismatch}; expected tolerance=, which says what is meant",
                            Code.BENCHMARK_TEST,
                        )
                raise WrongResult(f"{name}{result.mismatch}")
            if result.blank:
                raise NothingCompared(self._call.output_name(index))
            if bool((reference != 0).any()):
                self._not_zero.add(index)
            worst = Proof(max(worst.error, result.error), 0, max(worst.ratio or 0.0, result.ratio))
        if not any(each.array.size for each in outputs):
            raise PeakgateError(
                "nothing is compared: the callable and its reference give no element; expected at least one, or no "
                "reference",
                Code.BENCHMARK_TEST,
            )
        return worst

    def _refuse_shorter(self, output: Typed, wanted: Typed, name: str) -> None:
        """Raise WrongResult if an output rounds more than its reference and all real inputs, and no bound is given.

        Its bound would be that of the type that the callable chose. With integer inputs alone float32 is fine enough.
        """
        if self._bound_given:
            return
        read = self._read_types()
        coarsest = max(dtypes.limits(each).unit_roundoff for each in (wanted.dtype, *(_rounding(read) or ["float32"])))
        if dtypes.limits(output.dtype).unit_roundoff > coarsest:
            raise WrongResult(
                f"{name} is {output.dtype}, its reference {wanted.dtype}, inputs {', '.join(_rounding(read) or read)}; "
                f"if that is meant, tolerance= states its error, or the reference gives {output.dtype} too"
            )

    @property
    def _bound_given(self) -> bool:
        return self._given.tolerance is not None or bool(self._given.atol) or self._given.rtol is not None

    def _as_computed(self, output: Typed, wanted: Typed) -> Typed:
        """An output with the type of its arithmetic, where that of its elements does not tell.

        A number of Python is as coarse as the coarsest real input. An output of float64 beside a shorter reference and
        shorter inputs alone is as coarse as the reference.
        """
        if output.untyped and dtypes.limits(wanted.dtype).unit_roundoff and self._read_types():
            return replace(output, dtype=self._coarsest_input())
        shorter = wanted.dtype in ("float32", "float16", "bfloat16")
        if output.dtype == "float64" and shorter and self._shorter_inputs():
            return replace(output, dtype=wanted.dtype)
        return output

    def _shorter_inputs(self) -> bool:
        """Whether there are real inputs, all shorter than float64."""
        real_ones = _rounding(self._read_types())
        return bool(real_ones) and not {"float64", "complex128"}.intersection(real_ones)

    def _coarsest_input(self) -> str:
        """The real type of the most roundoff among inputs, float32 if they are integers.

        Not 8-bit floats, whose intermediate results are in longer types: at most bfloat16.
        """
        real_ones = [_REAL_PART.get(each, each) for each in _rounding(self._read_types())]
        units = {dtypes.limits(each).unit_roundoff: each for each in real_ones}
        coarsest = units[max(units)] if units else "float32"
        return min(coarsest, "bfloat16", key=lambda each: dtypes.limits(each).unit_roundoff)

    def _read_types(self) -> list[str]:
        """The names of the types of the arrays that the call only reads."""
        return sorted({dtype_name(array) for at, array in enumerate(self._call.arrays) if at not in self._call.changed})

    def _magnitudes(self, expected: Sequence[Typed]) -> list[Array | None]:
        """The magnitudes of the reference's values, estimated on the arrays that the reference had."""
        values = [each.array for each in expected]
        xp: Any = np if all(isinstance(value, np.ndarray) for value in values) else importlib.import_module("cupy")
        call, kept = self._call, self._call.saved
        after = [copy_of(array) for array in call.arrays]
        result = call.result
        try:
            call.rewind_all()
            share = call.share()
            rounded = [Rounded(self._tolerance(each.dtype), unit_of_sums(each.dtype)) for each in expected]
            moved = partial(call.moved, self._given.reference, share)
            return by_evaluations(xp, values, rounded, moved, share).with_neighbours(xp)
        finally:
            call.saved, call.result = kept, result
            for array, elements in zip(call.arrays, after, strict=True):
                restore(array, elements)

    def _tolerance(self, dtype: str) -> float:
        if self._given.tolerance is not None:
            return self._given.tolerance
        return TOLERANCES.get(dtype, 0.0)

    def _find_outputs(self) -> bool:
        """Run once on other elements to find outputs that already held the result, such as after a warm-up.

        Returns whether the reference's result is different for these elements.
        """
        call, original = self._call, self._call.saved
        if not self._given.fresh or not call.renewed(_SEED):
            return False
        call.remember()
        changes = _differ(self._now(), self._expected)
        self._run()
        call.learn()
        call.saved = original
        call.rewind_all()
        self._run()
        return changes

    def _holds(self, wanted: Typed) -> bool:
        """Whether one of the call's arrays is right by the given result of the reference."""
        return any(self._is_right(own, wanted) for own in typed(self._call.arrays, [wanted] * len(self._call.arrays)))

    def _are_right(self, expected: Sequence[Typed]) -> bool:
        """Whether the outputs as they are now, without a call, are right by the given result of the reference."""
        try:
            found = typed(self.outputs(), expected)
        except PeakgateError:  # there are none yet
            return False
        return len(found) == len(expected) and all(map(self._is_right, found, expected))

    def _is_right(self, own: Typed, wanted: Typed) -> bool:
        xp, held, expected = _alike(own.array, wanted.array)
        allowed = self._tolerance(own.dtype)
        bound = bound_of(allowed, own.dtype, wanted.dtype, atol=self._given.atol, rtol=self._given.rtol)
        return held.shape == expected.shape and compare(xp, held, expected, bound).right

    def _run(self) -> None:
        """Run once; synchronize, since the callable may not wait for the streams of copies and references."""
        wait_for(self._call.arrays)
        self._call.run()
        wait_for(self._call.arrays)

    def _refuse_changed_inputs(self) -> None:
        """Raise WrongResult if the call changes an array that its reference reads and that is not a declared output."""
        call = self._call
        own = call.undeclared_changes(self._given.outputs)
        suspects = sorted({index for each in call.ranks.all("changed arrays", own) for index in each})
        if not suspects:
            return
        result, changed = call.result, call.changed
        after = {index: copy_of(call.arrays[index]) for index in changed}
        for index in suspects:
            call.rewind_all()
            call.changed = tuple(at for at in range(len(call.arrays)) if at != index)
            renewed = call.renewed(_SEED)
            call.changed = changed
            if renewed and _differ(self._now(), self._expected) and index in own:
                call.rewind_all()
                raise WrongResult(
                    f"changes an array that its reference reads (number {index} of those it uses); "
                    "an operation in place names it: outputs=lambda x: x"
                )
        call.rewind_all()
        for index, elements in after.items():
            restore(call.arrays[index], elements)
        call.result = result

    def _zeros_read(self) -> Collection[int]:
        """The arrays of zeros that the reference reads, from its results with ones in their place.

        No other element can be drawn from them. Those that it does not read may be outputs, or a workspace that each
        call has to find cleared.
        """
        call = self._call
        found = sorted({at for each in call.ranks.all("arrays of zeros", call.zeros()) for at in each})
        if not found or not self._given.fresh or not callable(self._given.reference):
            return ()

        def with_numbers(which: Collection[int]) -> list[Typed] | None:
            call.rewind_all()
            for at in which:
                renew(call.arrays[at], _SEED + at, added=1.0)
            try:
                return self._now()
            except PeakgateError:  # they are no input
                return None

        try:
            result = with_numbers(found)
            said = call.ranks.all(
                "a result for other numbers than zeros", None if result is None else _differ(result, self._expected)
            )
            if result is None or None in said or not any(said):
                return ()
            without = ((at, with_numbers([each for each in found if each != at])) for at in found)
            return {
                at for at, less in without if call.ranks.any("another result", less is None or _differ(less, result))
            }
        finally:
            call.rewind_all()

    def _check_second_call(self) -> None:
        """Run again, on what the first run left in the arrays that it changed and that the reference does not read.

        There the reference's result is the same, and so is that of a callable which does not add to its outputs or
        leave out elements of them. Elements of outputs are in other places, unless arrays have to keep theirs. Other
        arrays hold what a call finds in a program: a workspace may have flags or counters for the next call.
        """
        call = self._call
        changed = sorted({at for each in call.ranks.all("changed arrays", call.changed) for at in each})
        if not changed or not callable(self._given.reference):
            return
        outputs = list(arrays_in(self.outputs())) if self._given.fresh else []
        for at in call.changed:
            if at not in call.left and any(overlap(call.arrays[at], output) for output in outputs):
                displace(call.arrays[at])
        unread = changed
        if self._reads():
            if len(changed) == 1:
                return
            found = {at: copy_of(call.arrays[at]) for at in changed}
            unread = [at for at in changed if not self._reads_of(found, [at])]
            if not unread or self._reads_of(found, unread):
                for at, elements in found.items():
                    restore(call.arrays[at], elements)
                return
        self._run()
        self._compare(
            self._expected,
            f"in a second call, on what the first left in {counted(len(unread), 'array')} that its reference does not "
            f"read (number {', '.join(map(str, unread))} of those it uses): ",
        )

    def _reads_of(self, found: Mapping[int, Any], which: Sequence[int]) -> bool:
        """``_reads`` with the given elements in some arrays, and those at the start in all others."""
        self._call.rewind_all()
        for at in which:
            restore(self._call.arrays[at], found[at])
        return self._reads()

    def _reads(self) -> bool:
        """Whether the reference's result for the current arrays, which are kept, is another one than at the start."""
        try:
            other = _differ(self._now(), self._expected)
        except PeakgateError:  # it fails on them
            other = True
        return self._call.ranks.any("another result of the reference", other)

    def _now(self) -> list[Typed]:
        """The reference's result for the current arrays, which are kept."""
        kept = self._call.saved
        try:
            self._call.remember()
            return self._call.expected(self._given.reference)
        finally:
            self._call.saved = kept


def _alike(output: Array, wanted: Array) -> tuple[Any, Array, Array]:
    """The array module of a comparison and both arrays in it: CuPy if one is on the GPU, except for objects."""
    if output.dtype.kind == "O" or wanted.dtype.kind == "O":
        output, wanted = on_host(output), on_host(wanted)
    if isinstance(output, np.ndarray) and isinstance(wanted, np.ndarray):
        return np, output, wanted
    xp = importlib.import_module("cupy")
    return xp, xp.asarray(output), xp.asarray(wanted)


def _rounding(types: Sequence[str]) -> list[str]:
    """The known types among these that round."""
    return [each for each in types if each in dtypes.KNOWN and dtypes.limits(each).unit_roundoff]


def _differ(some: Sequence[Typed], others: Sequence[Typed]) -> bool:
    """Whether results differ in number, shape or an element; NaN is equal to NaN."""
    return len(some) != len(others) or any(
        one.shape != other.shape or bool(((one != other) & ((one == one) | (other == other))).any())  # noqa: PLR0124
        for one, other in ((each.array, beside.array) for each, beside in zip(some, others, strict=True))
    )
