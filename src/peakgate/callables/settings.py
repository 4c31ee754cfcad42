"""What a benchmark test says of its callable: by its marker, or by the fixture's methods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pytest

from peakgate.base.errors import Code, PeakgateError
from peakgate.base.formatting import counted, nearest, shown
from peakgate.callables.call import Call
from peakgate.callables.naming import FIXTURE
from peakgate.spec.case import STATES, TunedChoice, Work, is_allowance
from peakgate.spec.fields import is_whole
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
    not known here chose, by kernel: ``{"kernel": configuration}``. ``gpus`` is the number of GPUs that it needs, 0
    by default; several numbers are as many tests.
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
