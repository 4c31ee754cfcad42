"""The records of a case: stage, work, launch, case and family.

A *stage* is one kernel file and its lesson. A *case* is a stage on one problem with one launch shape: the unit that is
proven, timed, compared with a floor and compared between runs. It is plain data, usable without a GPU.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, get_args

from peakgate.base.errors import Code, PeakgateError
from peakgate.base.formatting import one_line, shown
from peakgate.base.verdict import Judgement, Verdict
from peakgate.spec import dtypes, fields
from peakgate.spec.arguments import (
    FIRST_CAPABILITY,
    Argument,
    Buffer,
    BufferAddress,
    Data,
    Role,
    Scalar,
    Struct,
    TensorMapArgument,
)
from peakgate.spec.dtypes import Array
from peakgate.spec.fields import Kind, check, is_number, several, tuple_of
from peakgate.spec.recorded import ARITHMETIC_ROOFS, ID_PATTERN, Metric, Tier
from peakgate.spec.recorded import TunedChoice as TunedChoice  # noqa: PLC0414  (tuning takes it from here)
from peakgate.spec.stage import MATH_OF_INPUTS, KernelLaunch, Launch, Stage, Work

__all__ = [  # the records that a family.py imports
    "Argument",
    "Array",
    "Buffer",
    "BufferAddress",
    "Case",
    "Data",
    "Family",
    "KernelLaunch",
    "Launch",
    "Magnitudes",
    "Reference",
    "RefusedCase",
    "Role",
    "Scalar",
    "Scale",
    "Sized",
    "Stage",
    "Struct",
    "TensorMapArgument",
    "Tier",
    "Work",
]

Reference = Callable[[Any, Sequence[Array]], Sequence[Array]]
"""``reference(xp, inputs) -> expected``: exact or float64, written against the array module ``xp``.

``inputs`` are the values of the IN and INOUT buffers before the launch, in argument order; ``expected`` are those of
the OUT and INOUT buffers after it, in argument order and of any type.
"""

Magnitudes = Callable[[Any, Sequence[Array]], Sequence[Array | None]]
"""``scale(xp, inputs) -> magnitudes``: for each output an array, broadcastable to it, of the magnitude of the terms
summed into each element, such as ``sqrt(sum of the squared terms)``; None for ``|ref|``. ``inputs`` are those of the
reference."""

STATES = ("cold", "warm", "graph")
"""The state in which a launch is timed. cold: after a flush of the L2. warm: right after the same launch on the same
arrays. graph: as one of many equal launches in a captured CUDA graph."""

METRICS: tuple[Metric, ...] = get_args(Metric)

CASE_SCHEMA = 1
"""``peakgate_schema`` of a run file; incremented when the meaning of a field changes."""


def is_allowance(value: object) -> bool:
    """Whether a value is a valid tolerance: a finite number, 0 or more."""
    return is_number(value, 0, sys.float_info.max)


class Scale(Enum):
    """The device for which problems are sized: BENCH for a GPU, SMALL for the emulator."""

    BENCH = "bench"
    SMALL = "small"


@dataclass(frozen=True, slots=True)
class Case:
    """One stage on one problem with one launch shape.

    ``size``, ``block`` and ``variant`` are labels that make the id, with family and stage. ``sequence`` has the
    launches if one run of the case is several, one after another on one stream and timed together; ``launch`` is then
    the first. ``reference`` is the expected result: a function, the files that numpy.save wrote for each output, or a
    case of another kernel on the same arguments; None for a kernel without one (``unchecked``), and for a benchmark
    test, whose callable has its own. ``roof`` names the measured roof with which the case is compared. ``predicted``
    has a model's predictions, by their name in the run file. ``state`` is one of STATES, ``metric`` one of METRICS; two
    of them are two cases. With several ``gpus`` the bytes of a callable are those that each GPU has to send over its
    links. ``parts`` are the ids of the cases that it is made of, repeated for a part that it runs several times.

    The bound of an element's error is ``tolerance * max(|ref|, magnitude)`` plus the rounding of the output's type
    (``judge.correctness``). ``tolerance`` is one number for all floating-point outputs, or one per output; 0 requires
    equal values, as do integer outputs beside floating-point ones. ``scale(xp, inputs)`` returns the magnitude of each
    output's terms (None: ``|ref|``); without it magnitudes are estimated. With ``atol`` or ``rtol`` the bound is
    ``atol + rtol * |ref|`` instead.
    """

    family: str
    stage: Stage
    launch: Launch
    arguments: tuple[Argument, ...]
    work: Work
    reference: Reference | tuple[Path, ...] | Case | None
    size: str = ""
    block: str = ""
    variant: str = ""
    defines: tuple[tuple[str, str], ...] = ()
    dtype: str = "float32"
    tolerance: float | tuple[float, ...] = 0.0
    roof: str = "copy"
    tier: Tier = Tier.FULL
    predicted: tuple[tuple[str, float], ...] = ()
    sequence: tuple[KernelLaunch, ...] = ()
    scale: Magnitudes | None = None
    atol: float = 0.0
    rtol: float | None = None
    state: str = "cold"
    gpus: int = 1
    metric: Metric = "gpu"
    parts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check(self, CASE_FIELDS, "a case")
        if not ID_PATTERN.fullmatch(self.id):
            raise ValueError(f"case id {self.id!r}: only letters, digits, '_', '.' and '-' are allowed")
        if self.state == "graph" and any(buffer.role is Role.INOUT for buffer in self.buffers):
            raise ValueError(f"case {self.id}: a graph repeats its launches; expected no InOut array in state 'graph'")
        if isinstance(self.tolerance, tuple) and len(self.tolerance) != len(self.outputs):
            raise ValueError(
                f"case {self.id}: {len(self.tolerance)} tolerances, expected a number or one for each of "
                f"{len(self.outputs)} outputs"
            )
        several = self.tolerance if isinstance(self.tolerance, tuple) else (self.tolerance,)
        for name, value in [*(("tolerance", each) for each in several), ("atol", self.atol), ("rtol", self.rtol)]:
            if not is_allowance(value) and (value is not None or name != "rtol"):
                raise ValueError(f"case {self.id}: {name} is {shown(value)}; expected a finite number from 0 up")
        given: tuple[object, ...] = self.arguments
        for at, argument in enumerate(given):
            if isinstance(argument, TensorMapArgument):
                self._check_map(at, argument)
            elif isinstance(argument, Struct):
                self._check_pointers(at, argument)
            elif not isinstance(argument, Buffer | Scalar | Struct):
                which = f"argument {at + 1} of {len(given)} is {shown(argument)}"
                raise ValueError(f"case {self.id}: {which}; expected a Buffer, Scalar or Struct")  # noqa: TRY004
        if self.sequence and self.sequence[0].launch != self.launch:
            raise ValueError(f"case {self.id}: launch is {self.launch}, the first of its sequence {self.sequence[0]}")
        if unknown := {each.kernel for each in self.sequence} - {*self.stage.kernels}:
            raise ValueError(f"case {self.id}: launches {min(unknown)}, the stage has {', '.join(self.stage.kernels)}")

    def _check_map(self, at: int, given: TensorMapArgument) -> None:
        """Raise ValueError for a tensor map that CUDA does not support, or that some GPUs of the stage lack."""
        of = self.arguments[given.of] if 0 <= given.of < len(self.arguments) else None
        plain = of if isinstance(of, Buffer) and type(of) is Buffer else None
        if plain is None:
            objection: str | None = f"of {of!r}; expected an array that is neither texture nor surface"
        elif self.stage.min_capability < FIRST_CAPABILITY:
            objection = f"in a stage that needs {self.stage.needs}; expected min_capability '9.0' or later"
        else:
            objection = given.objection(plain.shape, plain.dtype)
        if objection:
            raise ValueError(f"case {self.id}: argument {at + 1} of {len(self.arguments)} is a tensor map {objection}")

    def _check_pointers(self, at: int, given: Struct) -> None:
        """Raise ValueError for a struct that points to something else than an array of the case."""
        for name, target in given.pointers().values():
            of = target.of if isinstance(target, BufferAddress) else -1
            if not 0 <= of < len(self.arguments) or type(self.arguments[of]) is not Buffer:
                which = f"argument {at + 1} of {len(self.arguments)} is a struct whose {name} is {shown(target)}"
                raise ValueError(f"case {self.id}: {which}; expected the address of an array among the arguments")

    @property
    def math(self) -> str:
        """The type whose peak applies to its operations: as given, else the type of its inputs, else fp32.

        Inputs determine a tensor core type if all have it and the case's roof is not that of FMAs. The machine code
        does not: a kernel that stops using tensor cores would get a lower peak and still reach its floor.
        """
        if self.work.math is not None:
            return self.work.math
        suggested = {MATH_OF_INPUTS.get(buffer.dtype) for buffer in self.inputs}
        alone = suggested.pop() if len(suggested) == 1 and self.work.flops and self.roof != "fma" else None
        return alone or "fp32"

    @property
    def unchecked(self) -> bool:
        """Whether it is a kernel without a reference, whose result is compared with nothing."""
        return self.stage.source is not None and self.reference is None

    @property
    def arithmetic_roof(self) -> bool:
        """Whether its roof is a measured rate of operations, not of bytes."""
        return self.roof in ARITHMETIC_ROOFS

    @property
    def id(self) -> str:
        """``family.stage-size-block-variant-state-metric``, without empty parts, the state cold and the metric gpu."""
        parts = (f"{self.family}.{self.stage.name}", self.size, self.block, self.variant)
        ends = self.state if self.repeated else "", self.metric if self.of_host else ""
        return "-".join(part for part in (*parts, *ends) if part)

    @property
    def of_host(self) -> bool:
        """Whether its time is that of a call on the host."""
        return self.metric == "launch"

    @property
    def repeated(self) -> bool:
        """Whether equal launches precede a timed launch, so that its data may be in the L2."""
        return self.state != "cold"

    @property
    def build(self) -> tuple[Stage, tuple[tuple[str, str], ...], str, int]:
        """A key, equal for cases of the same build."""
        return self.stage, self.defines, self.block, self.launch.shared_bytes

    def tolerances(self, count: int) -> tuple[float, ...]:
        """The tolerance of each of ``count`` outputs; 0 for integers beside a floating-point output."""
        if isinstance(self.tolerance, tuple):
            return self.tolerance
        rounds = [dtypes.limits(buffer.dtype).unit_roundoff > 0 for buffer in self.outputs] or [True] * count
        return tuple(0.0 if any(rounds) and not each else self.tolerance for each in rounds)

    @property
    def exact(self) -> bool:
        """Whether every output must equal its reference."""
        return not (any(self.tolerance) if isinstance(self.tolerance, tuple) else self.tolerance) and not (
            self.atol or self.rtol
        )

    @property
    def largest_tolerance(self) -> float:
        """The largest tolerance of an output, for the run file; ``rtol`` if that is given."""
        if self.atol or self.rtol is not None:
            return self.rtol or 0.0
        return max(self.tolerance) if isinstance(self.tolerance, tuple) else self.tolerance

    @property
    def launches(self) -> tuple[KernelLaunch, ...]:
        """The kernels of one run, in launch order."""
        alone = KernelLaunch(self.stage.kernel, self.launch, tuple(range(len(self.arguments))))
        return self.sequence or (alone,)

    @property
    def saved(self) -> tuple[Path, ...]:
        """The files of saved inputs and expected outputs."""
        given = (*self.buffers, *(buffer for _, buffer in self.stage.constants))
        expected = self.reference if isinstance(self.reference, tuple) else ()
        return (*(buffer.data for buffer in given if isinstance(buffer.data, Path)), *expected)

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        return tuple(argument for argument in self.arguments if isinstance(argument, Buffer))

    @property
    def inputs(self) -> tuple[Buffer, ...]:
        """Buffers filled with data before a launch: IN and INOUT buffers in argument order, then the constants."""
        read = (buffer for buffer in self.buffers if buffer.role in (Role.IN, Role.INOUT))
        return (*read, *(buffer for _, buffer in self.stage.constants))

    @property
    def outputs(self) -> tuple[Buffer, ...]:
        """Buffers that a reference returns: OUT and INOUT, in argument order."""
        return tuple(buffer for buffer in self.buffers if buffer.role in (Role.OUT, Role.INOUT))

    @property
    def buffer_bytes(self) -> int:
        """The size of the arguments in device memory."""
        return sum(buffer.nbytes for buffer in self.buffers)


CASE_FIELDS: fields.Kinds = {
    "family": fields.WORD,
    "stage": fields.instance(Stage, "a Stage"),
    "launch": fields.instance(Launch, "a Launch"),
    "arguments": Kind("a tuple", lambda value: isinstance(value, tuple) and len(value) <= fields.MOST_VALUES),
    "work": fields.instance(Work, "a Work"),
    "reference": Kind(
        "a function, the files of saved arrays, or a case",
        lambda value: (
            value is None or isinstance(value, Case) or callable(value) or fields.several(fields.PATH).holds(value)
        ),
    ),
    **dict.fromkeys(("size", "block", "variant"), fields.TEXT),
    "defines": several(tuple_of(fields.MACRO, fields.TEXT), (tuple, list)),  # the catalogue refuses a list
    "dtype": fields.WORD,
    "roof": fields.TEXT,
    "tier": fields.instance(Tier, "a Tier"),
    "predicted": several(tuple_of(fields.WORD, fields.FINITE)),
    "sequence": several(fields.instance(KernelLaunch, "a KernelLaunch")),
    "scale": fields.FUNCTION | fields.NOTHING,
    "state": fields.one_of(STATES),
    "metric": fields.one_of(METRICS),
    "parts": several(fields.WORD),
    "gpus": fields.whole(1, fields.MOST_VALUES),
}


@dataclass(frozen=True, slots=True)
class RefusedCase:
    """A case whose description is invalid: its id ``family.name``, and the reason in one line.

    ``whole``: it represents all cases of a family that could not be read, whose ids are unknown. Made by ``named``.
    """

    family: str
    name: str
    reason: str
    whole: bool = False

    @property
    def id(self) -> str:
        return f"{self.family}.{self.name}"

    @property
    def judgement(self) -> Judgement:
        """INCONCLUSIVE, with the reason."""
        return Judgement(Verdict.INCONCLUSIVE, self.reason)

    @staticmethod
    def named(family: str, name: str, reason: str, *, whole: bool = False) -> RefusedCase:
        """Make one; characters that an id may not contain become ``_``."""
        family, name = (re.sub(r"[^A-Za-z0-9_.-]", "_", part) for part in (family, name))
        coded = PeakgateError.repeated(" ".join(reason.split()), Code.FAMILY)
        return RefusedCase(family, name, one_line(str(coded)), whole)


@dataclass(frozen=True, slots=True)
class Sized:
    """How a stage's problem of a given size is made.

    ``make(numbers)`` raises ValueError for a size that the kernel does not support. ``usual`` is a measured size,
    ``names`` are the family's names of a size's numbers. ``size_of(numbers)`` is the size that is made of them, which
    may have more.
    """

    make: Callable[[tuple[int, ...]], Case] = field(repr=False)
    usual: tuple[int, ...]
    names: tuple[str, ...]
    size_of: Callable[[tuple[int, ...]], tuple[int, ...]] = field(default=tuple, repr=False)


MOST_FAMILY_CASES = 10_000
"""The most cases of a family, or edge-size problems of a build: more would run for hours and are likely a mistake."""

NO_SMALL_PROBLEM = "no small problem: give it small_sizes, or edges"
"""Why a kernel is not checked in the emulator."""


@dataclass(frozen=True, slots=True)
class Family:
    """A folder of kernels/ and the cases of its stages.

    ``cases(scale)`` yields every case of every stage at that scale, or a RefusedCase for an invalid one.
    ``probes(case)`` yields small edge-size problems for the same build (same source, defines and block) and entry: they
    find errors that a benchmark size, a multiple of every tile, cannot. ``headlines`` names, by stage, the case that
    represents it in tables and pictures, as the part of its id after the stage; by default it is the first gate case
    of the largest problem. ``sized(case)`` makes problems of other sizes, which ``peakgate check`` chooses; None if the
    family supports only its own.
    """

    name: str
    summary: str
    stages: tuple[Stage, ...]
    cases: Callable[[Scale], Iterator[Case | RefusedCase]] = field(repr=False)
    probes: Callable[[Case], Iterator[Case]] = field(repr=False)
    headlines: Mapping[str, str] = field(default_factory=dict)
    sized: Callable[[Case], Sized | None] = field(default=lambda _: None, repr=False)

    def __post_init__(self) -> None:
        check(self, FAMILY_FIELDS, "a family")


FAMILY_FIELDS: fields.Kinds = {
    "name": fields.WORD,
    "summary": fields.TEXT,
    "stages": several(fields.instance(Stage, "a Stage")),
    **dict.fromkeys(("cases", "probes", "sized"), fields.FUNCTION),
    "headlines": fields.mapping(fields.WORD, fields.TEXT),
}
