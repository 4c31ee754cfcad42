"""Families in a few lines each: of one kernel, or of several in one folder.

::

    FAMILY = kernel(
        "scale.cu",
        arguments=lambda n: [Out(n), In(n), Value(n)],
        grid=lambda n: -(-n // 256),
        block=256,
        bytes=lambda n: 2 * 4 * n,
        reference=lambda xp, x: 2 * x,
        sizes=[1 << 26],
    )

``FAMILY = family(*(kernel(name, ...) for name in ("naive.cu", "tiled.cu")))`` is a folder of several kernels; those of
one name are variants of one stage. ``stage(1, "naive", "One thread per row.")`` is ``kernel`` of the ladder's file
``01_naive.cu``. Tiers and labels, several launches as one case, a reference kernel and saved arrays:
``peakgate help kernels``.
"""

from __future__ import annotations

import inspect
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cache, partial
from itertools import chain, islice, product
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, cast

import numpy as np

from peakgate.base.errors import described, raised_at
from peakgate.base.text import counted, shown
from peakgate.spec import fields
from peakgate.spec.arguments import StridedMapArgument, Surface, TensorMapArgument, TexelBuffer, Texture
from peakgate.spec.case import *  # noqa: F403  (the records that the long form takes, as families import them from here)
from peakgate.spec.case import (
    MOST_FAMILY_CASES,
    Argument,
    Array,
    Buffer,
    Case,
    Data,
    Family,
    KernelLaunch,
    Launch,
    RefusedCase,
    Role,
    Scalar,
    Scale,
    Sized,
    Stage,
    Struct,
    Tier,
    Work,
    default_roof,
    is_allowance,
)
from peakgate.spec.dtypes import unit_of_sums
from peakgate.spec.fields import FLAG, FUNCTION, NOTHING, TEXT, WORD, Kind, check, mapping, several

__all__ = [
    "EDGES",
    "TOLERANCES",
    "Array",
    "Buffer",
    "Extent",
    "Family",
    "In",
    "InOut",
    "LaunchOf",
    "Out",
    "Scratch",
    "Size",
    "Sizes",
    "StageKernel",
    "Struct",
    "Surface",
    "Temp",
    "TensorMap",
    "Texture",
    "Value",
    "family",
    "kernel",
    "launch",
    "stage",
    "tolerance_of_sums",
]

Extent = int | tuple[int, ...]
Size = int | tuple[int, ...]
"""A problem's size: its numbers are what ``arguments``, ``grid`` and ``bytes`` are called with."""
Sizes = Sequence[Size] | Mapping[str, Size]
"""Sizes that the case id names by their numbers, ``8192x1024``, or sizes by the label that it has in their place."""
_Given = Sequence["Argument | TensorMap"] | Mapping[str, "Argument | TensorMap"]
_Labelled = tuple[tuple[int, ...], str]

TOLERANCES = {
    "float16": 2.0**-11,
    "bfloat16": 2.0**-8,
    "float8_e4m3fn": 2.0**-4,
    "float8_e5m2": 2.0**-3,
    "float32": 1e-5,
    "float64": 1e-12,
    "complex64": 1e-5,
    "complex128": 1e-12,
}
"""By an output's type, where a family gives neither ``tolerance`` nor ``terms``: sums of up to some ten thousand terms
in float32 (float64), in any order; of short types intermediate results that are rounded to them. Integers are equal."""

_FIRST_SPECIFIC = (9, 0)
"""The first compute capability with architecture-specific features."""

EDGES: Mapping[int, tuple[Size, ...]] = MappingProxyType(
    {
        1: (1, 31, 33, 127, 1026, 1028, 4099),
        2: ((1, 1), (31, 33), (2, 4100), (16, 1026), (1028, 17), (129, 131), (132, 126)),
        3: ((1, 1, 1), (3, 31, 33), (5, 44, 257), (40, 44, 52)),
    }
)
"""By number of dimensions: off every power of two; odd, 4 n and 4 n + 2. ``peakgate.spec.edges`` adds long ones."""


def In(  # noqa: N802  (reads like a parameter)
    *shape: int, dtype: str = "float32", data: Data | str = None, texture: Texture | None = None
) -> Buffer:
    """A buffer that the kernel reads, filled from ``data`` (see ``peakgate.case.Data``): indices by ``data=(0, n)``.

    ``dtype`` is a name of NumPy's, or bfloat16, float8_e4m3fn, float8_e5m2, int4, uint4 (``peakgate.spec.dtypes``).
    Text as ``data`` is the file of a saved array, seen from the family's folder; ``{size}`` in it stands for the case's
    size.
    With ``texture=Texture(linear=True, ...)`` the kernel takes it as a ``cudaTextureObject_t``.
    """
    return _buffer(Role.IN, shape, dtype, data, texture)


def Out(*shape: int, dtype: str = "float32", surface: Surface | None = None) -> Buffer:  # noqa: N802
    """A buffer that the kernel writes in full; with ``surface=Surface()`` as a ``cudaSurfaceObject_t``."""
    return _buffer(Role.OUT, shape, dtype, None, surface)


def InOut(  # noqa: N802
    *shape: int, dtype: str = "float32", data: Data | str = None, surface: Surface | None = None
) -> Buffer:
    """A buffer that the kernel reads and changes in place; with ``surface=Surface()`` through a surface object."""
    return _buffer(Role.INOUT, shape, dtype, data, surface)


def Temp(*shape: int, dtype: str = "float32") -> Buffer:  # noqa: N802
    """A buffer that one launch writes and a later one of the same case reads."""
    return Buffer(Role.TEMP, shape, dtype)


def Scratch(*shape: int, dtype: str = "float32") -> Buffer:  # noqa: N802
    """A buffer that is zeroed when it is allocated, and that the kernel leaves ready for its next launch."""
    return Buffer(Role.SCRATCH, shape, dtype)


def _buffer(
    role: Role, shape: tuple[int, ...], dtype: str, data: Data | str, seen_as: Texture | Surface | None
) -> Buffer:
    filled = Path(data) if isinstance(data, str) else data
    return Buffer(role, shape, dtype, filled) if seen_as is None else TexelBuffer(role, shape, dtype, filled, seen_as)


def Value(value: float, dtype: str | None = None) -> Scalar:  # noqa: N802
    """An argument passed by value: int32 or float32 unless ``dtype`` says otherwise."""
    return Scalar(value, dtype or ("int32" if isinstance(value, int) else "float32"))


@dataclass(frozen=True, slots=True)
class TensorMap:
    """An argument ``const __grid_constant__ CUtensorMap`` of <cuda.h>: the array ``of``, as TMA copies move its parts.

    ``of`` is what ``In``, ``Out`` or ``InOut`` gave, which need not be an argument besides, or the name of an argument.
    ``box`` is what one copy moves, rows before columns as in the array: ``TensorMap(a, box=(128, 64), swizzle=128)``.
    For ``swizzle`` and ``l2``, in bytes, see ``peakgate.spec.arguments``. Sizes of which CUDA has no such map, with
    rows that are no multiple of 16 bytes say, are no sizes of the kernel. ``axes`` are the (extent, stride) in elements
    of the axes that copies see, the contiguous one last, where they are not those of the array: 64 columns of all rows
    at a time are ``axes=((k // 64, 64), (m, k), (64, 1))``.
    """

    of: Buffer | str
    box: tuple[int, ...]
    swizzle: Literal[0, 32, 64, 128] = 0
    l2: Literal[0, 64, 128, 256] = 128
    axes: tuple[tuple[int, int], ...] | None = None

    def __post_init__(self) -> None:
        check(self, TENSOR_MAP_FIELDS, "TensorMap")


_GIVEN = Kind(
    f"a list or a dict of at most {fields.MOST_VALUES} arguments",
    lambda value: isinstance(value, tuple | list | Mapping) and len(value) <= fields.MOST_VALUES,
)


@dataclass(frozen=True, slots=True)
class _Arguments:
    """The arguments of a case: all of them, their names where they have any, and which of them a launch is given."""

    every: tuple[Argument, ...]
    names: tuple[str, ...]
    passed: tuple[int, ...]

    @staticmethod
    def of(given: _Given, folder: Path, size: str) -> _Arguments:
        """As a family lists them at a size; an array that only tensor maps name comes before its first one."""
        check({"arguments": given}, {"arguments": _GIVEN})
        listed = list(given.items() if isinstance(given, Mapping) else (("", each) for each in given))
        every: list[tuple[str, Argument | TensorMap]] = []
        passed = []
        for name, each in listed:
            array = each.of if isinstance(each, TensorMap) else None
            if isinstance(array, Buffer) and not any(array is known for _, known in (*listed, *every)):
                every.append(("", array))
            passed.append(len(every))
            every.append((name, each))
        names = tuple(name for name, _ in every)

        def placed(each: Argument | TensorMap) -> Argument:
            if not isinstance(each, TensorMap):
                return _in_folder(each, folder, size)
            if isinstance(each.of, str):
                of = _position(names, each.of, "a tensor map")
            else:
                of = next((at for at, (_, known) in enumerate(every) if known is each.of), -1)
            box = tuple(map(int, each.box))
            if each.axes is None:
                return TensorMapArgument(of, box, each.swizzle, each.l2)
            axes = tuple((int(extent), int(stride)) for extent, stride in each.axes)
            return StridedMapArgument(of, box, each.swizzle, each.l2, axes)

        return _Arguments(tuple(placed(each) for _, each in every), names, tuple(passed))

    def sequence(self, launches: Sequence[LaunchOf], numbers: Sequence[int], alone: KernelLaunch) -> list[KernelLaunch]:
        """The launches at a size; none where it is one that takes all arguments."""
        if launches:
            return [KernelLaunch(each.entry, each.shape(numbers), self.taken(each)) for each in launches]
        return [] if len(self.passed) == len(self.every) else [replace(alone, takes=self.passed)]

    def taken(self, described: LaunchOf, *, by_reference: bool = False) -> tuple[int, ...]:
        """Which arguments a launch takes: a reference kernel arrays in place of tensor maps, where it names none.

        ValueError where it names one that is not there.
        """
        if described.takes:
            asked_by = f"launch of {described.entry}"
            return tuple(_position(self.names, name, asked_by) for name in described.takes.split())
        among = range(len(self.every)) if by_reference else self.passed
        return tuple(at for at in among if _usual(self.every[at], by_reference=by_reference))


def _usual(argument: Argument, *, by_reference: bool) -> bool:
    """Whether a launch that names no arguments takes this one."""
    if isinstance(argument, Buffer):
        return argument.role not in (Role.TEMP, Role.SCRATCH)
    return not (by_reference and isinstance(argument, TensorMapArgument))


@dataclass(frozen=True, slots=True)
class LaunchOf:
    """One of several launches, or that of a reference kernel: ``entry`` with the arguments that ``takes`` names.

    ``takes`` are names separated by blanks, in the kernel's order; without any it takes all arguments but the Temp
    ones. ``grid`` is a number, or a function of the size. ``source`` is the file of a reference kernel, by default the
    family's.
    """

    entry: str
    takes: str = ""
    _: KW_ONLY
    grid: Callable[..., Extent] | Extent
    block: Extent
    shared_bytes: int = 0
    source: str = ""

    def __post_init__(self) -> None:
        check(self, LAUNCH_PARAMETERS, "launch")

    def shape(self, numbers: Sequence[int]) -> Launch:
        """The launch at a size."""
        return Launch(_three(_at(self.grid, numbers)), _three(self.block), self.shared_bytes)


launch = LaunchOf
"""As a family writes it."""

_LISTS = tuple, list
_EXTENT = fields.whole(0, fields.LARGEST_EXTENT)
_TEXTS = several(TEXT, _LISTS)
_ANY_TEXT = TEXT | Kind("a number or a flag", lambda value: isinstance(value, int | float | np.generic))
_SIZES = Kind(
    "a list of sizes, each a number or a tuple of numbers, or a dict of them by label",
    lambda value: isinstance(value, tuple | list | range | Mapping),
)
_FEW = Kind(
    f"a value, or a list of at most {fields.LONGEST_LINE}, one for each output",
    lambda value: not isinstance(value, Sequence) or len(value) <= fields.LONGEST_LINE,
)
TENSOR_MAP_FIELDS: fields.Kinds = {
    "of": fields.instance(Buffer, "an array, as In gives it") | WORD,
    "box": several(_EXTENT, _LISTS),
    **dict.fromkeys(("swizzle", "l2"), _EXTENT),
    "axes": several(several(fields.whole(0, fields.LARGEST_COUNT), _LISTS), _LISTS) | NOTHING,
}
LAUNCH_PARAMETERS: fields.Kinds = {
    "entry": TEXT,
    "takes": TEXT,
    "source": TEXT,
}
PARAMETERS: fields.Kinds = {
    **{name: kind for name, kind in LAUNCH_PARAMETERS.items() if name != "takes"},
    "arguments": FUNCTION,
    "launches": several(fields.instance(LaunchOf, "a launch(...)"), _LISTS),
    "sizes": _SIZES,
    "bytes": FUNCTION,
    "flops": FUNCTION | NOTHING,
    "small_sizes": _SIZES | NOTHING,
    "edges": _SIZES,
    "defines": mapping(fields.MACRO, _ANY_TEXT),
    **dict.fromkeys(("options", "include"), _TEXTS),
    "constants": mapping(WORD, fields.instance(Buffer, "an array, as In gives it")),
    **dict.fromkeys(("cooperative", "block_in_id", "host_bound"), FLAG),
    **dict.fromkeys(("name", "lesson", "roof", "operation"), TEXT),
    "min_capability": fields.CAPABILITY | WORD,
    "gate": FLAG | FUNCTION,
    "variant": TEXT | FUNCTION,
    "predicted": FUNCTION | mapping(WORD, fields.FINITE),
    "state": TEXT | _TEXTS,
    **dict.fromkeys(("tolerance", "reference"), _FEW),
}
"""What the parameters of ``kernel`` have to be that are used before a case is made of them. A case checks its own, such
as the shapes of its launches: a mistake there costs the cases of one kernel, not those of its family."""


def kernel(
    source: str = "",
    *,
    arguments: Callable[..., _Given],
    grid: Callable[..., Extent] | Extent = 0,
    block: Extent = 0,
    launches: Sequence[LaunchOf] = (),
    reference: Callable[..., Array | tuple[Array, ...]] | LaunchOf | str | Sequence[str],
    sizes: Sizes = (),
    bytes: Callable[..., int],  # noqa: A002  (what it is)
    flops: Callable[..., int] | None = None,
    small_sizes: Sizes | None = (),
    edges: Sizes = (),
    tolerance: float | Sequence[float] | None = None,
    terms: Callable[..., int] | int | None = None,
    scale: Callable[..., Array | tuple[Array | None, ...]] | None = None,
    atol: float = 0.0,
    rtol: float | None = None,
    shared_bytes: int = 0,
    defines: Mapping[str, object] = MappingProxyType({}),
    entry: str = "",
    options: Sequence[str] = (),
    include: Sequence[str] = (),
    constants: Mapping[str, Buffer] = MappingProxyType({}),
    cooperative: bool = False,
    name: str = "",
    lesson: str = "",
    min_capability: tuple[int, int] | str = (7, 5),
    variant: Callable[..., str] | str = "",
    block_in_id: bool = False,
    gate: Callable[..., bool] | bool = True,
    math: str | None = None,
    roof: str = "",
    predicted: Callable[..., Mapping[str, float]] | Mapping[str, float] = MappingProxyType({}),
    operation: str = "",
    host_bound: bool = False,
    state: str | Sequence[str] = "cold",
) -> Family:
    """A family with the one kernel in ``source``, a .cu file beside the caller's, named like its folder.

    ``arguments``, ``grid``, ``bytes`` and ``flops`` are functions of a size; ``block`` is in threads. ``launches`` in
    place of grid and block are several launches as one case, timed together; ``arguments`` then gives names to them.
    ``reference(xp, *inputs)`` gives the expected outputs, in argument order, against the array module ``xp``; numbers
    of the size are passed to it by name where it takes them by keyword alone, as ``lambda xp, *, n: xp.arange(n)``
    does. A ``launch`` in its place is that of another kernel whose outputs are expected, a text the file of a saved
    array. ``arguments`` raises ValueError for a size that the kernel does not take.

    ``sizes`` are measured on a GPU; ``gate``, by default true, says which of them are in the gate tier, the others are
    in the full tier alone. ``small_sizes`` run in the emulator: by default one of the edge-size problems, none with
    None. ``edges`` prove the build right where tidy sizes cannot: by default numbers off every power of two, and each
    number ragged beyond four of the usual tiles and the kernel's own; none where arrays are saved. ``peakgate check``
    adds some beside every tile.

    Each element must be within ``tolerance * max(|ref|, magnitude)`` of its reference, besides the rounding of its
    type (see ``peakgate.judge.correctness``). ``tolerance``, a number or one per output, is by default that of each
    output's type (TOLERANCES), equal values for integers; with ``terms``, how many terms are summed into an element in
    float32 (float64 for that type), it is what such sums need. ``scale(xp, *inputs)`` gives the magnitude, the size of
    what is summed: ``xp.sqrt((a * a) @ (b * b))`` of a product of matrices; without it, it is estimated. ``atol`` and
    ``rtol`` in their place are NumPy's: ``atol + rtol * |ref|``.

    ``entry`` names the kernel to launch, ``softmax<float, 256>`` say, where it is not named like the file; ``options``
    go to the compiler, ``include`` are folders seen from the caller's, ``constants`` fill ``__constant__`` variables
    and come last among the reference's inputs. ``min_capability`` is the lowest compute capability that has every
    instruction it uses, ``"8.0"`` or ``(8, 0)``; with ``"9.0a"`` it is compiled for the architecture-specific features
    of 9.0 (``wgmma``, ``setmaxnreg``), and runs on GPUs of 9.0 alone.

    The case id is ``family.name-size-block-variant``. ``name`` is by default the file's; the block is part of the id
    with ``block_in_id``, as it is given here; ``variant`` tells apart cases that differ in something else. ``math`` is
    the type whose peak the ``flops`` have: fp32, or tf32, bf16, fp16, fp8, int8 on tensor cores; by default that of the
    inputs (``Case.math``). ``roof`` is the measured roof that the case is compared with: copy, read, write, fma, link
    or a type of the tensor cores; by default the type that ``math`` gives, else copy. ``predicted`` has what a model
    expects, by the name under which the run file reports it. ``gate``, ``terms``, ``variant`` and ``predicted`` are
    values or functions of a size.

    An ``operation`` of the device in place of ``source`` is what kernels are compared with: memcpy, cublas_sgemm,
    cublas_bf16_nt, cublaslt_e4m3_nt, h2d_pageable, h2d_pinned, d2h_pageable or d2h_pinned; its first argument is the
    output. All matrices are row-major; the two that end in nt are C = A.B^T of A m x k and B n x k with C in bfloat16,
    of bfloat16 with float32 sums and of float8_e4m3fn with sums in the tensor cores. ``host_bound`` marks one whose
    time is the host's as much as the GPU's: it is in the full tier.

    ``state`` is what a timed launch finds: "cold", a flushed L2; "warm", one in which the same launch just worked;
    "graph", a captured CUDA graph of launches, timed per launch. Several of them, ``("cold", "graph")``, are as many
    cases; all but "cold" end the case id.
    """
    check(locals(), PARAMETERS, "kernel")
    folder, called_at = _caller()
    grid, block = (grid or 1, block or 1) if operation else (grid, block)
    _refuse_contradictions(source, launches, shaped=bool(grid and block), alone=bool(entry or shared_bytes))
    first = launches[0] if launches else launch(entry, grid=grid, block=block, shared_bytes=shared_bytes)
    kernels = tuple(dict.fromkeys(each.entry for each in launches[1:] if each.entry != first.entry))
    stage = Stage(
        name or operation or Path(source).stem,
        lesson,
        source=folder / source if source else None,
        operation=operation or None,
        **_needed(min_capability),
        host_bound=host_bound,
        entry=first.entry,
        more=kernels,
        options=tuple(options),
        include=tuple(folder / path for path in include),
        constants=tuple((key, cast("Buffer", _in_folder(given, folder, "{size}"))) for key, given in constants.items()),
        cooperative=cooperative,
    )
    macros = tuple((key, str(value)) for key, value in defines.items())
    expected, magnitudes = _of_inputs(reference, arguments), _of_inputs(scale, arguments)
    usual = next(chain(_labelled(sizes), _labelled(small_sizes or ())), None)
    if usual is None:
        raise ValueError(f"{stage.name}: no size; expected sizes=[...], small_sizes=[...] or both")

    def case(numbers: tuple[int, ...], label: str = "", scale_of: Scale = Scale.SMALL, in_state: str = "cold") -> Case:
        if not (callable(reference) or isinstance(reference, str | Sequence | LaunchOf)):
            raise TypeError(f"reference is {reference!r}; expected a function, a launch, or the files of saved arrays")
        label = label or _label(numbers)
        listed = _Arguments.of(arguments(*numbers), folder, label)
        given, shape = listed.every, first.shape(numbers)
        gated = scale_of is Scale.BENCH and not host_bound and _at(gate, numbers)
        made = Case(
            family=folder.name,
            stage=stage,
            launch=shape,
            arguments=given,
            work=Work(bytes(*numbers), flops(*numbers) if flops else 0, math=math),
            reference=_files(reference, folder, label) if isinstance(reference, str | Sequence) else expected(numbers),
            size=label,
            block=_label(_numbers(block)) if block_in_id else "",
            variant=_at(variant, numbers),
            defines=macros,
            dtype=_output_types(given)[0],
            tolerance=_tolerances(given, tolerance, _at(terms, numbers)),
            roof=roof or default_roof(math),
            tier=Tier.GATE if gated else Tier.FULL,
            predicted=tuple(_at(predicted, numbers).items()),
            sequence=tuple(listed.sequence(launches, numbers, KernelLaunch(stage.kernel, shape, ()))),
            scale=magnitudes(numbers) or cast("None", scale),  # what is no function, the case refuses
            atol=atol,
            rtol=rtol,
            state=in_state,
        )
        if isinstance(reference, LaunchOf):
            made = replace(made, reference=_by_other_kernel(made, reference, numbers, listed))
        return made

    of_every_size = {buffer.data for _, buffer in stage.constants}

    def of_any_size() -> Sized | None:
        # A saved argument is of one size, so that only sizes of which there is one can be problems.
        if edges or set(case(*usual).saved) - of_every_size:
            return None
        return Sized(case, usual[0], tuple(inspect.signature(arguments).parameters))

    @cache
    def probed() -> tuple[_Labelled, ...]:
        sized = of_any_size()
        if sized is None:
            return tuple(islice(_labelled(edges), MOST_FAMILY_CASES + 1))
        from peakgate.spec.edges import edge_sizes  # noqa: PLC0415  (a family that gives its own does without)

        return tuple(_labelled(edge_sizes(sized, list(map(_numbers, EDGES.get(len(usual[0]), ()))))))

    def cases(scale: Scale) -> Iterator[Case]:
        try:
            asked = sizes if scale is Scale.BENCH else small_sizes
            wanted = tuple(islice(_labelled(asked or ()), MOST_FAMILY_CASES + 1))
            if not wanted and scale is Scale.SMALL and small_sizes is not None:
                wanted = probed()[-1:]
            # Of what is measured the catalogue refuses them.
            yield from _given_twice(folder, stage, sizes if scale is Scale.SMALL else (), called_at)
        except Exception as error:
            yield cast("Case", _refused(folder, stage, usual[1], error, called_at))
            return
        states = (state,) if isinstance(state, str) else tuple(state)
        for (numbers, label), in_state in product(wanted, states):
            try:
                made = case(numbers, label, scale, in_state)
            except Exception as error:
                made = cast("Case", _refused(folder, stage, label, error, called_at))
            yield made

    def probes(_: Case) -> Iterator[Case]:
        yield from (case(numbers, label) for numbers, label in probed())

    summary = lesson or f"{stage.name}, one kernel"
    return Family(folder.name, summary, (stage,), cases, probes, sized=lambda _: of_any_size())


StageKernel = Callable[..., Family]
"""``kernel`` for one source, called with how that is built, launched and judged."""


def stage(number: int, name: str, lesson: str) -> StageKernel:
    """``kernel`` for the stage of that name in ``NN_name.cu``, files being numbered in the order of their lessons."""
    return partial(kernel, f"{number:02}_{name}.cu", name=name, lesson=lesson)


def family(*kernels: Family, summary: str = "", headlines: Mapping[str, str] = MappingProxyType({})) -> Family:
    """The kernels of one folder as one family, in this order, such as the stages of a ladder.

    Kernels of one name are variants of one stage: built with other macros, launched with other blocks, at other sizes.
    ``headlines`` names, by stage, the case that stands for it in tables and pictures, as its id goes on after the
    stage; by default it is the stage's first case in the gate of the largest problem. ValueError where kernels of one
    name differ in source, lesson, entry or options.
    """
    stages: dict[str, Stage] = {}
    for stage in (stage for each in kernels for stage in each.stages):
        if stages.setdefault(stage.name, stage) != stage:
            raise ValueError(
                f"two kernels are named {stage.name}, but differ in source, lesson, entry or options: they are no "
                "variants of one stage; give one of them another name=..."
            )

    @cache
    def members() -> Mapping[str, Family]:
        listed = ((case, each) for each in kernels for scale in Scale for case in each.cases(scale))
        return {case.id: each for case, each in listed if isinstance(case, Case)}

    def member(case: Case) -> Family:
        return members().get(case.id) or next(each for each in kernels if each.stages[0].name == case.stage.name)

    def cases(scale: Scale) -> Iterator[Case]:
        for each in kernels:
            yield from each.cases(scale)

    def probes(case: Case) -> Iterator[Case]:
        yield from member(case).probes(case)

    def sized(case: Case) -> Sized | None:
        return member(case).sized(case)

    return Family(
        kernels[0].name,
        summary or counted(len(stages), "kernel"),
        tuple(stages.values()),
        cases,
        probes,
        headlines,
        sized=sized,
    )


def _caller() -> tuple[Path, str]:
    """The folder of the file that called ``kernel``, and its ``file:line``."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_globals is globals():
        frame = frame.f_back
    assert frame is not None
    file = Path(frame.f_globals["__file__"])
    return file.parent, f"{file}:{frame.f_lineno}"


def _refuse_contradictions(source: str, launches: Sequence[LaunchOf], *, shaped: bool, alone: bool) -> None:
    """ValueError where a kernel is given both as one launch and as several, or as neither."""
    if bool(launches) == shaped:
        raise ValueError(f"{source}: expected either grid and block, or launches=[launch(...), ...]")
    if launches and (alone or any(each.source for each in launches)):
        raise ValueError(
            f"{source}: each of its launches has an entry and shared_bytes of its own, all are in this file"
        )
    if not all(each.entry for each in launches):
        raise ValueError(f"{source}: each of its launches names its kernel: launch('partial_sums', ...)")


def _refused(folder: Path, stage: Stage, label: str, error: Exception, called_at: str) -> RefusedCase:
    """Placeholder for a stage's case of a size; ``called_at``: the line that described its kernel."""
    where = raised_at(error, folder) or called_at
    return RefusedCase.named(folder.name, f"{stage.name}-{label}", f"{where}: {described(error)}")


def _needed(given: tuple[int, int] | str) -> dict[str, Any]:
    """A stage's compute capability, and whether a final ``a`` asks for features of that one alone."""
    if not isinstance(given, str):
        return {"min_capability": given}
    match = re.fullmatch(r"(\d+)\.(\d)(a?)", given)
    found = (int(match[1]), int(match[2])) if match else (0, 0)
    if match is None or (match[3] and found < _FIRST_SPECIFIC):
        raise ValueError(f"min_capability is {given!r}; expected '8.0' say, or from '9.0a' on with an a")
    return {"min_capability": found, "specific": bool(match[3])}


def _in_folder(argument: Argument, folder: Path, size: str) -> Argument:
    """The argument; where its data is a saved array, with that file's place."""
    if isinstance(argument, Buffer) and isinstance(argument.data, Path):
        return replace(argument, data=folder / str(argument.data).replace("{size}", size))
    return argument


def _files(names: str | Sequence[str], folder: Path, size: str) -> tuple[Path, ...]:
    each = (names,) if isinstance(names, str) else names
    return tuple(folder / name.replace("{size}", size) for name in each)


def _position(names: Sequence[str], name: str, asked_by: str) -> int:
    """Where the argument of a name is; ValueError where there is none."""
    if name not in names:
        known = ", ".join(filter(None, names))
        advice = f"the arguments are {known}" if known else "give the arguments names: {'out': Out(n), ...}"
        raise ValueError(f"{asked_by}: no argument is named {name}; {advice}")
    return names.index(name)


def _by_other_kernel(case: Case, described: LaunchOf, numbers: Sequence[int], listed: _Arguments) -> Case:
    """The case of a reference kernel on the same arguments."""
    assert case.stage.source is not None
    source = case.stage.source.parent / (described.source or case.stage.source.name)
    if source == case.stage.source and described.entry in case.stage.kernels:
        raise ValueError(f"{case.stage.name}: its reference is the kernel itself, {described.entry}; expected another")
    stage = replace(
        case.stage,
        name=re.sub(r"\W+", "_", described.entry) or source.stem,
        source=source,
        entry=described.entry,
        more=(),
        constants=case.stage.constants if source == case.stage.source else (),
    )
    shape = described.shape(numbers)
    takes = KernelLaunch(stage.kernel, shape, listed.taken(described, by_reference=True))
    return replace(case, stage=stage, launch=shape, sequence=(takes,), reference=None)


_NUMBERS = several(fields.whole(0, fields.LARGEST_COUNT))


def _numbers(size: Size) -> tuple[int, ...]:
    numbers = size if isinstance(size, tuple) else (size,)
    check({"a size": numbers}, {"a size": _NUMBERS})
    return numbers


def _label(numbers: Sequence[int]) -> str:
    return "x".join(map(str, numbers))


def _given_twice(folder: Path, stage: Stage, sizes: Sizes, called_at: str) -> Iterator[Case]:
    """Placeholders for sizes that are given more than once, of as many sizes as a family may have."""
    found = Counter(label for _, label in islice(_labelled(sizes), MOST_FAMILY_CASES + 1))
    for label in (label for label, count in found.items() if count > 1):
        error = ValueError(f"sizes has {label} twice; give each size once")
        yield cast("Case", _refused(folder, stage, label, error, called_at))


def _labelled(sizes: Sizes) -> Iterator[_Labelled]:
    """The numbers and the label of each size."""
    if isinstance(sizes, Mapping):
        for label, size in sizes.items():
            check({"a label": label}, {"a label": WORD}, "sizes")
            yield _numbers(size), label
    else:
        yield from ((_numbers(size), _label(_numbers(size))) for size in sizes)


def _at(value: Any, numbers: Sequence[int]) -> Any:
    """A value, or the result of a function of the size, at a size."""
    return value(*numbers) if callable(value) else value


def _three(numbers: int | tuple[int, ...]) -> tuple[int, int, int]:
    given = tuple(numbers) if isinstance(numbers, tuple | list) else (numbers,)
    return cast("tuple[int, int, int]", (*given, 1, 1)[: max(3, len(given))])


@dataclass(frozen=True, slots=True)
class _OfInputs:
    """A function of a family's, of the array module and each input, as one of all inputs that gives a sequence.

    Equal where the function and the numbers are, so that cases of one problem share what is expected of them.
    """

    __wrapped__: Callable[..., Any]
    """Messages name its line."""
    numbers: tuple[tuple[str, int], ...]
    """Of the size, those that it takes by keyword alone."""

    def __call__(self, xp: Any, inputs: Sequence[Array]) -> Sequence[Array]:
        found = self.__wrapped__(xp, *inputs, **dict(self.numbers))
        return found if isinstance(found, tuple | list) else (found,)


def _of_inputs(function: Any, arguments: Callable[..., Any]) -> Callable[[Sequence[int]], _OfInputs | None]:
    """A reference or a scale as a function of a size's numbers; of None or a launch in its place it gives None."""
    if not callable(function):
        return lambda _: None
    try:
        taken = inspect.signature(function).parameters.values()
    except ValueError:  # a function of C
        taken = {}.values()
    asked = {each.name for each in taken if each.kind is each.KEYWORD_ONLY and each.default is each.empty}

    def at(numbers: Sequence[int]) -> _OfInputs:
        size = zip(inspect.signature(arguments).parameters, numbers, strict=False) if asked else ()
        return _OfInputs(function, tuple((name, number) for name, number in size if name in asked))

    return at


def _output_types(arguments: Sequence[Argument]) -> list[str]:
    written = [buffer for buffer in arguments if isinstance(buffer, Buffer) and buffer.role in (Role.OUT, Role.INOUT)]
    return [buffer.dtype for buffer in written] or ["float32"]


def _tolerances(
    arguments: Sequence[Argument], given: float | Sequence[float] | None, terms: int | None
) -> float | tuple[float, ...]:
    """One tolerance where all outputs have the same, else one for each."""
    if terms is not None and not is_allowance(terms):
        raise ValueError(f"terms is {shown(terms)}; expected a finite number from 0 up")
    if given is not None:
        several = isinstance(given, Sequence | np.ndarray) and not isinstance(given, str)
        return tuple(cast("Sequence[float]", given)) if several else cast("float", given)
    types = _output_types(arguments)
    found = [TOLERANCES.get(each, 0.0) if terms is None else tolerance_of_sums(each, terms) for each in types]
    return found[0] if len(set(found)) == 1 else tuple(found)


def tolerance_of_sums(dtype: str, terms: int) -> float:
    """The tolerance of sums of ``terms`` products, in an order of the kernel's choice: ``u * (8 + 5 * sqrt(terms))``.

    ``u`` is the unit roundoff of the sums: float64's for float64, float32's for every other type that rounds. A sum in
    sequence has a rounding error of some ``0.3 * u * sqrt(terms)`` of its magnitude, up to nine times that in 16
    million of them; the functions in a product's place add some units.
    """
    if dtype not in TOLERANCES:
        return 0.0
    return unit_of_sums(dtype) * (8 + 5 * math.sqrt(terms))
