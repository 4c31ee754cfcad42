"""A benchmark test before it is called: its case, and its settings by its marker or the fixture's methods."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from peakgate.base.errors import Code, PeakgateError
from peakgate.base.formatting import counted, nearest, shown
from peakgate.base.ranks import launched
from peakgate.callables import FIXTURE, RANKS
from peakgate.spec.case import METRICS, STATES, Case, Launch, Stage, Tier, TunedChoice, Work, is_allowance
from peakgate.spec.fields import is_whole
from peakgate.spec.recorded import Metric, case_parts
from peakgate.spec.stage import MATH

if TYPE_CHECKING:  # needed once a test is called
    from peakgate.callables.call import Call

OPERATION = "callable"
"""The operation of a callable's case, which has no source file."""

MARKER = "peakgate"

LAUNCH = "-launch"
"""The end of the ids of cases whose time is the host's."""

PARTS_KEY = pytest.StashKey[tuple[str, ...]]()
"""The ids of the parts of a collected test."""

ANY_NUMBERS = "any"
"""The value of ``fresh`` for any numbers of the arrays' types."""


@dataclass(frozen=True, slots=True)
class Given:
    """The settings of a test: values, or functions of the callable's arguments.

    - ``bytes`` and ``flops``: the work of one call; ``math``: the type of its operations (``Work.math``);
      ``peak_tflops``: their peak if it is not that of a type.
    - ``reference``: the expected outputs. ``tolerance``: the allowed error relative to ``max(|ref|, magnitude)``,
      besides the type's rounding (``peakgate.judge.correctness``; None: by type); or instead NumPy's ``atol`` and
      ``rtol``.
    - ``outputs``: the arrays that the callable writes; ``stream``: the stream it works on.
    - ``fresh``: the other inputs on which the callable is checked. True: elements of its own arrays. ``(low, high)``:
      also the patterns of input data (``measure.patterns``) within this range; "any": the patterns, with any numbers of
      the types. False keeps the inputs' elements, and no other inputs are checked.
    - ``state``: the state of a timed call, one of ``peakgate.spec.case.STATES``. Several states make several tests.
    - ``metric``: what is timed, one of ``peakgate.spec.case.METRICS``. Several make several tests.
    - ``tuned``: the choice of a tuner that is not supported here, ``{"kernel": configuration}``.
    - ``parts``: the ids, or ends of ids, of the cases that it is made of; a part that it runs twice is named twice.
    - ``gpus``: the number of GPUs that it needs, 0 by default. Several numbers make several tests.
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
    fresh: object = True
    state: str = "cold"
    metric: Metric = "gpu"
    tuned: object = None
    parts: Sequence[str] = ()
    gpus: int = 0

    def choices(self, call: Call) -> tuple[TunedChoice, ...]:
        """The choices in ``tuned`` after a call; raises PeakgateError if it is not a mapping."""
        found = call.of_arguments(self.tuned, "tuned")
        if found is not None and not isinstance(found, Mapping):
            raise PeakgateError(
                f"tuned is {shown(found)}; expected {{'kernel': configuration}}, or a function that returns it",
                Code.BENCHMARK_TEST,
            )
        return tuple(TunedChoice(str(kernel), str(choice)) for kernel, choice in sorted((found or {}).items(), key=str))

    def work(self, call: Call) -> Work:
        """The work of one call; raises PeakgateError for an invalid number or type of operations."""
        if self.math is not None and self.math not in MATH:
            raise PeakgateError(f"math is {shown(self.math)}; expected one of {', '.join(MATH)}", Code.BENCHMARK_TEST)
        peak = self.peak_tflops
        if peak is not None and not (is_allowance(peak) and peak > 0):
            raise PeakgateError(f"peak_tflops is {shown(peak)}; expected a finite number above 0", Code.BENCHMARK_TEST)
        return Work(self._count("bytes", call), self._count("flops", call), self.peak_tflops, self.math)

    def refuse_invalid(self) -> None:
        """Raise PeakgateError for an invalid tolerance, for two bounds, or other inputs that cannot be drawn."""
        if not isinstance(self.fresh, bool) and self.fresh != ANY_NUMBERS and not _is_range(self.fresh):
            raise PeakgateError(
                f"fresh is {shown(self.fresh)}; expected True, False, {ANY_NUMBERS!r} or (low, high), two numbers",
                Code.BENCHMARK_TEST,
            )
        for name in ("tolerance", "atol", "rtol"):
            value = getattr(self, name)
            if not is_allowance(value) and (value is not None or name == "atol"):
                raise PeakgateError(
                    f"{name} is {shown(value)}; expected a finite number, 0 or more", Code.BENCHMARK_TEST
                )
        if self.tolerance is not None and (self.atol or self.rtol is not None):
            raise PeakgateError(
                "both tolerance and atol or rtol are given; expected one of these two bounds", Code.BENCHMARK_TEST
            )

    def _count(self, name: str, call: Call) -> int:
        value = call.of_arguments(getattr(self, name), name)
        whole = isinstance(value, int | np.integer) or (isinstance(value, float) and value.is_integer())
        if value is not None and (isinstance(value, bool) or not whole or not 0 <= value < 1 << 63):
            raise PeakgateError(
                f"{name} is {shown(value)}; expected a whole number, 0 to 2**63 - 1, or a function that returns one",
                Code.BENCHMARK_TEST,
            )
        return int(value or 0)


NAMES = tuple(field.name for field in fields(Given))


def given_by(node: pytest.Item) -> Given:
    """The settings of the nearest marker; raises PeakgateError for an unknown name, state, metric or number.

    So it does for several markers of one test, of which pytest calls one the nearest.
    """
    marker = node.get_closest_marker(MARKER)
    if marker is None:
        return Given()
    if sum(mark.name == MARKER for mark in node.own_markers) > 1:
        raise PeakgateError(
            f"{node.nodeid}: several of pytest.mark.{MARKER}; expected one, with all keywords", Code.BENCHMARK_TEST
        )
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
        ("metric", f"one of {', '.join(METRICS)}", lambda each: isinstance(each, str) and each in METRICS),
        ("gpus", "a whole number, 1 or more", lambda each: is_whole(each, 1)),
    ):
        several = _several(marker.kwargs.get(name, ()))
        alike = any(each in several[:at] for at, each in enumerate(several))
        if name in marker.kwargs and (not several or alike or not all(map(fits, several))):
            raise PeakgateError(
                f"{node.nodeid}: {name} is {shown(marker.kwargs[name])}; expected {one_of}, or a list of several that "
                "differ",
                Code.BENCHMARK_TEST,
            )
    parts = marker.kwargs.get("parts", ())
    if not isinstance(parts, list | tuple) or not all(isinstance(each, str) and each for each in parts):
        raise PeakgateError(
            f"{node.nodeid}: parts is {shown(parts)}; expected a list of ids, or ends of ids, of other cases",
            Code.BENCHMARK_TEST,
        )
    variant = getattr(node, "callspec").params[FIXTURE] if variants_of(marker) != PLAIN else PLAIN[0]  # noqa: B009
    state, gpus, metric = variant
    if gpus > 1 and (state != "cold" or marker.kwargs.get("stream") is not None):
        raise PeakgateError(
            f"{node.nodeid}: state={state!r} or a stream on several GPUs; expected neither: a test on several GPUs is "
            "measured cold, on the current stream of each",
            Code.BENCHMARK_TEST,
        )
    if metric == "launch" and (state != "cold" or gpus > 1):
        raise PeakgateError(
            f"{node.nodeid}: metric='launch' with state={state!r} or on several GPUs; expected neither: the "
            "time of the host is measured with one GPU, whatever its caches hold; give a test of its own",
            Code.BENCHMARK_TEST,
        )
    return Given(**{**marker.kwargs, "state": state, "gpus": gpus, "metric": metric})


def collects_garbage(node: pytest.Item) -> bool:
    """Whether garbage is collected while a test's calls are timed on the host: pytest-benchmark's ``disable_gc``."""
    marker = node.get_closest_marker("benchmark")
    by_default = node.config.getoption("benchmark_disable_gc", default=False)
    return not (by_default if marker is None else marker.kwargs.get("disable_gc", by_default))


PLAIN = (("cold", 0, "gpu"),)


def variants_of(marker: pytest.Mark | None) -> tuple[tuple[Any, Any, Any], ...]:
    """State, number of GPUs and metric of each test that a marker makes."""
    given = {"state": "cold", "gpus": 0, "metric": "gpu", **({} if marker is None else marker.kwargs)}
    several = (_several(given[name]) for name in ("gpus", "state", "metric"))
    return tuple((state, count, metric) for count, state, metric in itertools.product(*several))


def _is_range(given: object) -> bool:
    """Whether ``given`` is two finite numbers, the first below the second."""
    if not isinstance(given, tuple) or len(given) != 2:
        return False
    numbers = all(isinstance(each, int | float) and math.isfinite(each) for each in given)
    return numbers and bool(given[0] < given[1])


def _several(given: Any) -> tuple[Any, ...]:
    return tuple(given) if isinstance(given, tuple | list) else (given,)


def in_variants(metafunc: pytest.Metafunc) -> None:
    """Parametrize a benchmark test by number of GPUs, state and metric; its id ends with those that are not usual."""
    variants = variants_of(metafunc.definition.get_closest_marker(MARKER))
    labels = {_label(*variant) for variant in variants}
    if FIXTURE in metafunc.fixturenames and variants != PLAIN and len(labels) == len(variants) > 0:  # else: given_by
        ids = [_label(*variant) or pytest.HIDDEN_PARAM for variant in variants]
        metafunc.parametrize(FIXTURE, variants, ids=ids, indirect=True)


def _label(state: object, gpus: object, metric: object) -> str:
    """The end of a test's id: ``2gpu``, ``warm``, ``1gpu-launch``, or empty; ``2gpu-ranks`` in a process per GPU."""
    number = f"{gpus}gpu{RANKS if launched() else ''}"
    usual = ("cold", "gpu")
    return "-".join([*([number] if gpus else []), *(str(each) for each in (state, metric) if each not in usual)])


def too_few(needed: int, of_run: int, here: int, ranks: int = 1) -> str | None:
    """Why a test that needs ``needed`` GPUs cannot run, in one line; None if it can.

    ``of_run`` is the number of GPUs of the run, ``here`` that of the machine. Of several ``ranks`` each has one.
    """
    if ranks > 1:
        declared = f"needs {counted(needed, 'GPU')}" if needed else "declares no gpus="
        return None if needed == ranks else f"{declared}, and {ranks} processes run it, with a GPU each"
    if needed <= of_run:
        return None
    needs = f"needs {counted(needed, 'GPU')}"
    if needed > here:
        return f"{needs}, {here or 'none'} {'is' if here < 2 else 'are'} here"
    return f"{needs}, this run has {of_run or 'none'}; give --device gpu:{','.join(map(str, range(needed)))}"


def case_of(nodeid: str, state: str = "cold", gpus: int = 1, metric: Metric = "gpu") -> Case:
    """The case of a benchmark test, without its work and arrays, which only the call provides.

    A ``state`` other than cold, or the metric launch, is the last of the test's parameters; a number of GPUs is part of
    the size.
    """
    file, test, parameters = case_parts(nodeid)
    if state != "cold":
        parameters = parameters.removesuffix(state).removesuffix("-")
    if metric != "gpu":
        parameters = parameters.removesuffix(metric).removesuffix("-")
    return Case(
        family=file,
        stage=Stage(test, "a benchmark test", operation=OPERATION),
        launch=Launch((1, 1, 1), (1, 1, 1)),
        arguments=(),
        work=Work(0),
        reference=None,  # a callable's reference takes the callable's arguments
        size=parameters,
        tier=Tier.GATE,
        state=state,
        gpus=gpus,
        metric=metric,
    )


def named_parts(whole: str, parts: Sequence[str], known: Collection[str], *, complete: bool) -> tuple[str, ...]:
    """The ids of a case's ``parts``, which are ids or ends of ids, in order and as often as they are given.

    ``known`` are the ids of the cases with the metric of ``whole``; an end need not repeat ``-launch``. Raises
    PeakgateError for a name that fits several, or none if ``known`` is ``complete``, else that name is kept.
    """
    others = {case_id.removesuffix(LAUNCH): case_id for case_id in known if case_id != whole}
    found = []
    for part in parts:
        end = part.removesuffix(LAUNCH)
        fitting = [each for each in others if each == end or each.endswith((f".{end}", f"-{end}"))]
        fitting = [end] if end in fitting else fitting
        if len(fitting) > 1:
            raise PeakgateError(
                f"{whole}: parts has {part!r}, the end of the ids of {counted(len(fitting), 'case')}, {fitting[0]} and "
                f"{fitting[1]} among them; give more of the id",
                Code.BENCHMARK_TEST,
            )
        if not fitting and complete:
            names = [*others, *(each.partition(".")[2] for each in others)]
            raise PeakgateError(
                f"{whole}: parts has {part!r}{nearest(end, names)}; expected the id, or the end of the id, of another "
                "case with the same metric",
                Code.BENCHMARK_TEST,
            )
        found.append(others[fitting[0]] if fitting else part)
    return tuple(found)
