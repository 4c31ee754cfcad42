"""The marker of a benchmark test, the case that it becomes, and the check of its outputs."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache, partial
from typing import Any

import numpy as np
import pytest

from peakgate.base.errors import Code, PeakgateError
from peakgate.base.text import counted, nearest, shown
from peakgate.callables.arrays import copy_of, restore, wait_for
from peakgate.callables.call import Call, OtherKeys, Typed, typed
from peakgate.device.interface import TimedLaunch
from peakgate.judge.correctness import Check, ExpectedOutputs, NothingCompared, bound_of, compare, on_host
from peakgate.judge.magnitudes import Rounded, by_evaluations
from peakgate.run.results import FIXTURE
from peakgate.run.session import Proof, WrongResult
from peakgate.spec.case import STATES, Array, TunedChoice, Work, is_allowance
from peakgate.spec.dtypes import unit_of_sums
from peakgate.spec.fields import is_whole
from peakgate.spec.groups import TOLERANCES
from peakgate.spec.work import MATH

MARKER = "peakgate"


@dataclass(frozen=True, slots=True)
class Given:
    """The settings of a test, by marker or by the fixture's methods: values, or functions of the callable's arguments.

    ``bytes`` and ``flops`` are the work of one call, ``math`` the type whose peak its operations have (``Work.math``),
    ``peak_tflops`` that peak where it is no type's.
    ``reference`` gives the expected outputs. ``tolerance`` is how far an element may be off, relative to
    ``max(|ref|, magnitude)``, besides its type's rounding (``peakgate.judge.correctness``; None: by type); ``atol`` and
    ``rtol`` in its place are NumPy's.
    ``outputs`` names the arrays that the callable writes, ``stream`` the stream it works on. ``fresh`` False keeps the
    inputs as they are: they are not checked again with other elements. ``state`` is what a timed call finds, one of
    ``peakgate.spec.case.STATES``; several states are as many tests (``variants_of``). ``tuned`` is what a tuner that is
    not known here chose, by kernel: ``{"kernel": configuration}``. ``gpus`` is on how many GPUs it works, 0 where none
    is given; several numbers are as many tests.
    """

    bytes: object = None
    flops: object = None
    peak_tflops: float | None = None
    math: str | None = None
    reference: object = None
    tolerance: float | None = None
    atol: float = 0.0
    rtol: float | None = None
    outputs: object = None
    stream: object = None
    fresh: bool = True
    state: str = "cold"
    tuned: object = None
    gpus: int = 0

    def choices(self, call: Call) -> tuple[TunedChoice, ...]:
        """What ``tuned`` gives after a call; PeakgateError for what is no mapping."""
        found = call.of_arguments(self.tuned, "tuned")
        if found is not None and not isinstance(found, Mapping):
            raise PeakgateError(
                f"tuned is {shown(found)}; expected {{'kernel': configuration}}, or a function that gives it",
                Code.BENCHMARK_TEST,
            )
        return tuple(TunedChoice(str(kernel), str(choice)) for kernel, choice in sorted((found or {}).items(), key=str))

    def work(self, call: Call) -> Work:
        """The work of one call; PeakgateError for what is no whole number, and for an unknown type of operations."""
        if self.math is not None and self.math not in MATH:
            raise PeakgateError(f"math is {shown(self.math)}; expected one of {', '.join(MATH)}", Code.BENCHMARK_TEST)
        peak = self.peak_tflops
        if peak is not None and not (is_allowance(peak) and peak > 0):
            raise PeakgateError(f"peak_tflops is {shown(peak)}; expected a finite number above 0", Code.BENCHMARK_TEST)
        return Work(self._count("bytes", call), self._count("flops", call), self.peak_tflops, self.math)

    def refuse_allowances(self) -> None:
        """PeakgateError where an element may not be off by what is given."""
        for name in ("tolerance", "atol", "rtol"):
            value = getattr(self, name)
            if not is_allowance(value) and (value is not None or name == "atol"):
                raise PeakgateError(
                    f"{name} is {shown(value)}; expected a finite number from 0 up", Code.BENCHMARK_TEST
                )

    def _count(self, name: str, call: Call) -> int:
        value = call.of_arguments(getattr(self, name), name)
        whole = isinstance(value, int | np.integer) or (isinstance(value, float) and value.is_integer())
        if value is not None and (isinstance(value, bool) or not whole or not 0 <= value < 1 << 63):
            raise PeakgateError(
                f"{name} is {shown(value)}; expected a whole number from 0 up of 63 bits, or a function that gives one",
                Code.BENCHMARK_TEST,
            )
        return int(value or 0)


NAMES = tuple(field.name for field in fields(Given))


def given_by(node: pytest.Item) -> Given:
    """The settings of the nearest marker; PeakgateError for an unknown name or state."""
    marker = node.get_closest_marker(MARKER)
    if marker is None:
        return Given()
    for name in marker.kwargs:
        if name not in NAMES:
            raise PeakgateError(
                f"{node.nodeid}: pytest.mark.{MARKER} got {name!r}{nearest(name, NAMES)}; expected one of "
                f"{', '.join(NAMES)}",
                Code.BENCHMARK_TEST,
            )
    if marker.args:
        raise PeakgateError(
            f"{node.nodeid}: pytest.mark.{MARKER} takes keywords only: {', '.join(NAMES)}", Code.BENCHMARK_TEST
        )
    for name, one_of, fits in (
        ("state", f"one of {', '.join(STATES)}", lambda each: isinstance(each, str) and each in STATES),
        ("gpus", "a whole number from 1 up", lambda each: is_whole(each, 1)),
    ):
        several = _several(marker.kwargs.get(name, ()))
        alike = any(each in several[:at] for at, each in enumerate(several))
        if name in marker.kwargs and (not several or alike or not all(map(fits, several))):
            raise PeakgateError(
                f"{node.nodeid}: {name} is {shown(marker.kwargs[name])}; expected {one_of}, or a list of several that "
                "differ",
                Code.BENCHMARK_TEST,
            )
    state, gpus = getattr(node, "callspec").params[FIXTURE] if variants_of(marker) != PLAIN else PLAIN[0]  # noqa: B009
    if gpus > 1 and (state != "cold" or marker.kwargs.get("stream") is not None):
        raise PeakgateError(
            f"{node.nodeid}: on several GPUs it is measured cold and on the current stream of each; "
            f"expected neither state={state!r} nor a stream",
            Code.BENCHMARK_TEST,
        )
    return Given(**{**marker.kwargs, "state": state, "gpus": gpus})


PLAIN = (("cold", 0),)


def variants_of(marker: pytest.Mark | None) -> tuple[tuple[Any, Any], ...]:
    """State and number of GPUs of each test that a marker asks for."""
    given = {"state": "cold", "gpus": 0, **({} if marker is None else marker.kwargs)}
    return tuple((state, count) for count in _several(given["gpus"]) for state in _several(given["state"]))


def _several(given: Any) -> tuple[Any, ...]:
    return tuple(given) if isinstance(given, tuple | list) else (given,)


def in_variants(metafunc: pytest.Metafunc) -> None:
    """Make a benchmark test one for each number of GPUs and state; those given, but for cold, end its id."""
    variants = variants_of(metafunc.definition.get_closest_marker(MARKER))
    labels = {_label(*variant) for variant in variants}
    if FIXTURE in metafunc.fixturenames and variants != PLAIN and len(labels) == len(variants) > 0:  # else: given_by
        ids = [_label(*variant) or pytest.HIDDEN_PARAM for variant in variants]
        metafunc.parametrize(FIXTURE, variants, ids=ids, indirect=True)


def _label(state: object, gpus: object) -> str:
    """How the id of a test ends that is in this state and on so many GPUs: ``2gpu``, ``warm``."""
    return "-".join([*([f"{gpus}gpu"] if gpus else []), *([] if state == "cold" else [str(state)])])


def too_few(needed: int, of_run: int, here: int) -> str | None:
    """Why a test cannot run that needs so many GPUs, in one line; None where it can.

    ``of_run`` are those of the run, ``here`` those that the driver offers.
    """
    if needed <= of_run:
        return None
    needs = f"needs {counted(needed, 'GPU')}"
    if needed > here:
        return f"{needs}, {here or 'none'} {'is' if here < 2 else 'are'} here"
    return f"{needs}, this run has {of_run or 'none'}; give --device gpu:{','.join(map(str, range(needed)))}"


_SEED = 20_261_121


class Proving:
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
        """Check the first run; WrongResult where an output is wrong or the run changed what the reference reads."""
        if not self.outputs():
            self._find_outputs()
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

    def timed(self, launch: TimedLaunch) -> Check:
        """Compare a call that was timed with the reference for the arrays as they are, which are as it found them."""
        original = self._call.saved
        try:
            expected = self._now()
            self._call.remember()
            proof = self._compare(expected, f"{launch.where}: ", launch.outputs)
        finally:
            self._call.saved = original
        return Check(proof.error, proof.ratio or 0.0, None)

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

    def _find_outputs(self) -> None:
        """Run once on other elements: an array that held the result already, as after a warm-up, changes then."""
        call, original = self._call, self._call.saved
        if not self._given.fresh or not call.renewed(_SEED):
            return
        call.remember()
        self._run()
        call.learn()
        call.saved = original
        call.rewind_all()
        self._run()

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
