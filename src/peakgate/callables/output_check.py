"""Checks what a callable gives: at its first call, when and after it was timed, and on other inputs."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from peakgate.base.errors import Code, PeakgateError
from peakgate.base.formatting import counted
from peakgate.callables.arrays import comparable, copy_of, here, restore, wait_for
from peakgate.callables.call import Call, OtherKeys, Typed, typed
from peakgate.callables.settings import Given
from peakgate.device.interface import TimedLaunch
from peakgate.judge.correctness import Deviation, ExpectedOutputs, NothingCompared, bound_of, compare, on_host
from peakgate.judge.magnitudes import Rounded, by_evaluations
from peakgate.session.outcome import Proof, WrongResult
from peakgate.spec.case import Array
from peakgate.spec.dtypes import unit_of_sums
from peakgate.spec.groups import TOLERANCES

_SEED = 20_261_121


class OutputCheck:
    """Checks a callable's outputs at its first call, when and after it was timed, and on other inputs.

    One call and what its reference gives for its arguments as they are at the start; a reference must be given.
    """

    def __init__(self, call: Call, given: Given) -> None:
        """Compute the reference; to be done before the callable runs for the first time."""
        self._call, self._given = call, given
        self.tolerance = 0.0
        """The largest that an output was compared with."""
        self._expected = call.expected(given.reference)

    def first(self) -> Proof:
        """Check the first run; WrongResult where an output is wrong or the run changed what the reference reads.

        PeakgateError where nothing can be told: the run changes no array, and the arrays held the right result before.
        """
        told = bool(self.outputs()) or self._find_outputs()
        if not told and not self.outputs() and all(map(self._holds, self._expected)):
            raise PeakgateError(
                "nothing is compared: the call changes no array, and its arrays hold the reference's result already; "
                "expected other contents in the arrays that it writes",
                Code.BENCHMARK_TEST,
            )
        proof = self.check("")
        self._refuse_changed_inputs()
        return proof

    def check(self, when: str) -> Proof:
        """How right the newest run is; WrongResult, its message begun by ``when``."""
        return self._compare(self._expected, when)

    def outputs(self) -> list[Any]:
        """The arrays and numbers of the newest call that are to be compared."""
        try:
            return self._call.outputs(self._given.outputs)
        except OtherKeys as error:
            if self._given.outputs is None:
                raise WrongResult(str(error)) from None
            raise PeakgateError(f"outputs {error}; name them alike", Code.BENCHMARK_TEST) from None

    def timed(self, launch: TimedLaunch) -> Deviation:
        """Compare a call that was timed with the reference for the arrays as they are, which are as it found them."""
        original = self._call.saved
        try:
            expected = self._now()
            self._call.remember()
            proof = self._compare(expected, f"{launch.where}: ", launch.outputs)
        finally:
            self._call.saved = original
        return Deviation(proof.error, proof.ratio or 0.0, None)

    def on_fresh_inputs(self, run: Callable[[], None]) -> str:
        """Check a run with other elements in its inputs, which get theirs back; how that went, for the record."""
        call = self._call
        if not self._given.fresh:
            return "not checked on fresh inputs"
        call.rewind_all()
        original = call.saved
        try:
            if not call.renewed(_SEED):
                return "not checked on fresh inputs, none could be changed"
            expected = self._now()
            if not _differ(expected, self._expected):
                call.renewed(_SEED + 1, redraw=True)
                expected = self._now()
            call.remember()
            run()
            self._compare(expected, "on fresh inputs: ")
        finally:
            call.saved = original
            call.rewind_all()
        return "checked on fresh inputs"

    def _compare(self, expected: Sequence[Typed], when: str, given: Sequence[Any] | None = None) -> Proof:
        outputs = typed(self.outputs() if given is None else given, expected)
        if len(outputs) != len(expected):
            raise WrongResult(
                f"{when}{counted(len(outputs), 'output')}, but the reference gives {len(expected)}; "
                "outputs= names the arrays that are written"
            )
        worst = Proof(0.0, 0, 0.0)
        weights = ExpectedOutputs([each.array for each in expected], [cache(partial(self._magnitudes, expected))])
        for index, (output, wanted) in enumerate(zip(outputs, expected, strict=True)):
            allowed = self._tolerance(output.dtype)
            self.tolerance = max(self.tolerance, allowed)
            xp, found, reference = _alike(output.array, wanted.array)
            if found.shape != reference.shape:
                raise WrongResult(f"{when}output {index} has shape {found.shape}, expected {reference.shape}")
            bound = bound_of(allowed, output.dtype, wanted.dtype, atol=self._given.atol, rtol=self._given.rtol)
            magnitudes = partial(weights.magnitudes_of, index)
            pairs = all(each.dtype.startswith("complex") for each in (output, wanted))
            result = compare(xp, found, reference, bound, magnitudes=magnitudes, pairs=pairs)
            if result.mismatch is not None:
                raise WrongResult(f"{when}output {index}{result.mismatch}")
            if result.blank:
                raise NothingCompared
            worst = Proof(max(worst.error, result.error), 0, max(worst.ratio or 0.0, result.ratio))
        if not any(each.array.size for each in outputs):
            raise PeakgateError(
                "nothing is compared: the callable and its reference give no element; expected at least one, or no "
                "reference",
                Code.BENCHMARK_TEST,
            )
        return worst

    def _magnitudes(self, expected: Sequence[Typed]) -> list[Array | None]:
        """The magnitudes of the reference's values, estimated where the call's arrays are as they were for them."""
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
            return by_evaluations(xp, values, rounded, moved, share)
        finally:
            call.saved, call.result = kept, result
            for array, elements in zip(call.arrays, after, strict=True):
                restore(array, elements)

    def _tolerance(self, dtype: str) -> float:
        if self._given.tolerance is not None:
            return self._given.tolerance
        return TOLERANCES.get(dtype, 0.0)

    def _find_outputs(self) -> bool:
        """Run once on other elements: an array that held the result already, as after a warm-up, changes then.

        Whether the reference's result does.
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
        """Whether one of the call's arrays equals a result of the reference."""
        for array in self._call.arrays:
            xp, held, expected = _alike(comparable(here(array)), wanted.array)
            if held.shape == expected.shape and bool(xp.array_equal(held, expected)):
                return True
        return False

    def _run(self) -> None:
        """Run once. Copies and references are made on other streams than the callable's, which need not wait."""
        wait_for(self._call.arrays)
        self._call.run()
        wait_for(self._call.arrays)

    def _refuse_changed_inputs(self) -> None:
        """An array that the reference reads must not be changed, unless the test names it as an output."""
        call = self._call
        suspects = call.undeclared_changes(self._given.outputs)
        if not suspects:
            return
        result, changed = call.result, call.changed
        after = {index: copy_of(call.arrays[index]) for index in changed}
        for index in suspects:
            call.rewind_all()
            call.changed = tuple(at for at in range(len(call.arrays)) if at != index)
            renewed = call.renewed(_SEED)
            call.changed = changed
            if renewed and _differ(self._now(), self._expected):
                call.rewind_all()
                raise WrongResult(
                    f"changes an array that its reference reads (number {index} of those it uses); "
                    "an operation in place names it: outputs=lambda x: x"
                )
        call.rewind_all()
        for index, elements in after.items():
            restore(call.arrays[index], elements)
        call.result = result

    def _now(self) -> list[Typed]:
        """The reference's result for the arrays as they are, which stay so."""
        kept = self._call.saved
        try:
            self._call.remember()
            return self._call.expected(self._given.reference)
        finally:
            self._call.saved = kept


def _alike(output: Array, wanted: Array) -> tuple[Any, Array, Array]:
    """Two arrays in one module, and that module: the GPU's where they are of two and it holds both."""
    if output.dtype.kind == "O" or wanted.dtype.kind == "O":
        output, wanted = on_host(output), on_host(wanted)
    if isinstance(output, np.ndarray) and isinstance(wanted, np.ndarray):
        return np, output, wanted
    xp = importlib.import_module("cupy")
    return xp, xp.asarray(output), xp.asarray(wanted)


def _differ(some: Sequence[Typed], others: Sequence[Typed]) -> bool:
    return len(some) != len(others) or any(
        one.array.shape != other.array.shape or bool((one.array != other.array).any())
        for one, other in zip(some, others, strict=True)
    )
