"""What a benchmark test says of its callable, and the case that it is."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from pathlib import PurePosixPath

import numpy as np
import pytest
from peakgate.case import Case, Launch, Stage, Tier, Work
from peakgate.common.errors import PeakgateError
from peakgate.common.text import nearest
from peakgate.device.call import Call

MARKER = "peakgate"
OPERATION = "callable"
"""What stands for the source of a case that has none of ours."""

_FORBIDDEN = re.compile(r"[^A-Za-z0-9_.-]")


@dataclass(frozen=True, slots=True)
class Given:
    """What a test says, by marker or by the fixture's methods: values, or functions of the callable's arguments.

    ``bytes`` and ``flops`` are the work of one call, ``peak_tflops`` the peak of its operations where it is not FP32's.
    ``reference`` gives the expected outputs. ``tolerance`` is how far an element may be off, relative to
    ``max(|ref|, magnitude)``, besides its type's rounding (``peakgate.judge.correctness``; None: by type); ``atol`` and
    ``rtol`` in its place are NumPy's.
    ``outputs`` names the arrays that the callable writes, ``stream`` the stream it works on. ``fresh`` False keeps the
    inputs as they are: they are not checked again with other elements.
    """

    bytes: object = None
    flops: object = None
    peak_tflops: float | None = None
    reference: object = None
    tolerance: float | None = None
    atol: float = 0.0
    rtol: float | None = None
    outputs: object = None
    stream: object = None
    fresh: bool = True

    def work(self, call: Call) -> Work:
        """The work of one call; PeakgateError for what is no whole number."""
        return Work(self._count("bytes", call), self._count("flops", call), self.peak_tflops)

    def _count(self, name: str, call: Call) -> int:
        value = call.of_arguments(getattr(self, name))
        whole = isinstance(value, int | np.integer) or (isinstance(value, float) and value.is_integer())
        if value is not None and (isinstance(value, bool) or not whole or value < 0):
            raise PeakgateError(f"{name} is {value!r}; expected a whole number from 0 up, or a function that gives one")
        return int(value or 0)


NAMES = tuple(field.name for field in fields(Given))


def given_by(node: pytest.Item) -> Given:
    """What the nearest marker says; PeakgateError for a name that is unknown."""
    marker = node.get_closest_marker(MARKER)
    if marker is None:
        return Given()
    for name in marker.kwargs:
        if name not in NAMES:
            raise PeakgateError(
                f"{node.nodeid}: pytest.mark.{MARKER} got {name!r}{nearest(name, NAMES)}; known are {', '.join(NAMES)}"
            )
    if marker.args:
        raise PeakgateError(f"{node.nodeid}: pytest.mark.{MARKER} takes keywords only: {', '.join(NAMES)}")
    return Given(**marker.kwargs)


def case_parts(nodeid: str) -> tuple[str, str, str]:
    """File, test and parameters of a test in the alphabet of case ids.

    ``a/bench_b.py::T::test_c[1-d]`` is ``a-bench_b``, ``T.test_c`` and ``1-d``.
    """
    path, _, test = nodeid.partition("::")
    name, _, parameters = test.partition("[")
    file = "-".join(PurePosixPath(path).with_suffix("").parts).replace(".", "_")
    parts = (file, name.replace("::", "."), parameters.removesuffix("]"))
    spelled = [_FORBIDDEN.sub("_", part) for part in parts]
    return spelled[0], spelled[1], spelled[2]


def case_of(nodeid: str) -> Case:
    """The case of a benchmark test, without what only its call provides: its work, its arrays."""
    file, test, parameters = case_parts(nodeid)
    return Case(
        family=file,
        stage=Stage(test, "a benchmark test", operation=OPERATION),
        launch=Launch((1, 1, 1), (1, 1, 1)),
        arguments=(),
        work=Work(0),
        reference=None,  # it takes the arguments of the callable
        size=parameters,
        tier=Tier.GATE,
    )
