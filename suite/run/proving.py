"""Whether a callable's outputs are right: at its first call, when it was timed, afterwards, and on other inputs."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from peakgate.case import Array, Case
from peakgate.common.text import counted
from peakgate.device.arrays import copy_of, restore
from peakgate.device.call import Call, detached
from peakgate.family import TOLERANCES
from peakgate.judge.correctness import check
from peakgate.run.given import Given
from peakgate.run.session import Proof, WrongResult

_OTHER_TOLERANCES = {"complex128": 1e-12}
_SEED = 20_261_121


class Proving:
    """One call and what its reference gives for its arguments as they are at the start; a reference must be given."""

    def __init__(self, call: Call, given: Given, case: Case) -> None:
        """Compute the reference; to be done before the callable runs for the first time."""
        self._call, self._given, self._case = call, given, case
        self.tolerance = 0.0
        """The largest that an output was compared with."""
        self._expected = call.expected(given.reference)

    def first(self) -> Proof:
        """Check the first run; WrongResult where an output is wrong or the run changed what the reference reads."""
        error = self.check("")
        self._refuse_changed_inputs()
        return Proof(error, 0)

    def check(self, when: str) -> float:
        """The largest relative error of the newest run; WrongResult, its message begun by ``when``."""
        return self._compare(self._expected, when)

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

    def _compare(self, expected: Sequence[Array], when: str) -> float:
        outputs = detached(self._call.outputs(self._given.outputs))
        if len(outputs) != len(expected):
            raise WrongResult(
                f"{when}{counted(len(outputs), 'output')}, but the reference gives {len(expected)}; "
                "outputs= names the arrays that are written"
            )
        worst = 0.0
        for index, ((output, dtype), wanted) in enumerate(zip(outputs, expected, strict=True)):
            allowed = self._tolerance(dtype)
            self.tolerance = max(self.tolerance, allowed)
            error, wrong = compare(replace(self._case, tolerance=allowed), output, wanted)
            if wrong is not None:
                raise WrongResult(f"{when}{wrong.replace('output 0', f'output {index}', 1)}")
            worst = max(worst, error)
        return worst

    def _tolerance(self, dtype: str) -> float:
        if self._given.tolerance is not None:
            return self._given.tolerance
        return (TOLERANCES | _OTHER_TOLERANCES).get(dtype, 0.0)

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

    def _now(self) -> list[Array]:
        """The reference's result for the arrays as they are, which stay so."""
        kept = self._call.saved
        try:
            self._call.remember()
            return self._call.expected(self._given.reference)
        finally:
            self._call.saved = kept


def compare(case: Case, output: Array, wanted: Array) -> tuple[float, str | None]:
    """The relative error of one output, and its first wrong element in words; None where it is right.

    Infinities and NaN must stand where the reference has them. Arrays of two modules are compared on the GPU.
    """
    xp: Any = np
    if not (isinstance(output, np.ndarray) and isinstance(wanted, np.ndarray)):
        xp = importlib.import_module("cupy")
        output, wanted = xp.asarray(output), xp.asarray(wanted)
    if output.shape != wanted.shape:
        return np.inf, f"output 0 has shape {output.shape}, expected {wanted.shape}"
    if output.size == 0:
        return 0.0, None
    if wanted.dtype.kind == "f" and output.dtype.kind == "f":
        same = (xp.isnan(wanted) & xp.isnan(output)) | (xp.isinf(wanted) & (wanted == output))
        output, wanted = xp.where(same, 0, output), xp.where(same, 0, wanted)
    result = check(xp, case, [output], [wanted])
    return result.error, result.mismatch


def _differ(some: Sequence[Array], others: Sequence[Array]) -> bool:
    return len(some) != len(others) or any(
        one.shape != other.shape or bool((one != other).any()) for one, other in zip(some, others, strict=True)
    )
