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

``FAMILY = family(*(kernel(name, ...) for name in ("naive.cu", "tiled.cu")))`` is a folder of several kernels. Several
launches as one case, a reference kernel and saved arrays: own-repository.md.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from peakgate.case import (
    MOST_CASES,
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
    Tier,
    Work,
)
from peakgate.common.errors import described, raised_at
from peakgate.common.text import counted
from peakgate.edges import accepted, chosen
from peakgate.judge.correctness import unit_of_sums
from peakgate.texels import Surface, TexelBuffer, Texture

__all__ = [
    "EDGES",
    "TOLERANCES",
    "Extent",
    "In",
    "InOut",
    "LaunchOf",
    "Out",
    "Size",
    "Surface",
    "Temp",
    "Texture",
    "Value",
    "family",
    "kernel",
    "launch",
]

Extent = int | tuple[int, ...]
Size = int | tuple[int, ...]
"""A problem's size: its numbers are what ``arguments``, ``grid`` and ``bytes`` are called with."""

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

EDGES: Mapping[int, tuple[Size, ...]] = MappingProxyType(
    {
        1: (1, 31, 33, 127, 1000, 4099),
        2: ((1, 1), (31, 33), (127, 129), (129, 127), (3, 1030), (1030, 3)),
        3: ((1, 1, 1), (3, 31, 33), (5, 129, 127)),
    }
)
"""By number of dimensions: off every power of two, and long in either direction."""


def In(  # noqa: N802  (reads like a parameter)
    *shape: int, dtype: str = "float32", data: Data | str = None, texture: Texture | None = None
) -> Buffer:
    """A buffer that the kernel reads, filled from ``data`` (see ``peakgate.case.Data``): indices by ``data=(0, n)``.

    ``dtype`` is a name of NumPy's, or bfloat16, float8_e4m3fn, float8_e5m2, int4, uint4 (``peakgate.dtypes``). Text as
    ``data`` is the file of a saved array, seen from the family's folder; ``{size}`` in it stands for the case's size.
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


def _buffer(
    role: Role, shape: tuple[int, ...], dtype: str, data: Data | str, seen_as: Texture | Surface | None
) -> Buffer:
    filled = Path(data) if isinstance(data, str) else data
    return Buffer(role, shape, dtype, filled) if seen_as is None else TexelBuffer(role, shape, dtype, filled, seen_as)


def Value(value: float, dtype: str | None = None) -> Scalar:  # noqa: N802
    """An argument passed by value: int32 or float32 unless ``dtype`` says otherwise."""
    return Scalar(value, dtype or ("int32" if isinstance(value, int) else "float32"))


@dataclass(frozen=True, slots=True)
class LaunchOf:
    """A launch of a kernel as a family describes it; see ``launch``."""

    entry: str
    takes: str
    grid: Callable[..., Extent] | Extent
    block: Extent
    shared_bytes: int
    source: str

    def shape(self, numbers: Sequence[int]) -> Launch:
        """The launch at a size."""
        grid = self.grid(*numbers) if callable(self.grid) else self.grid
        return Launch(_three(grid), _three(self.block), self.shared_bytes)


def launch(
    entry: str,
    takes: str = "",
    *,
    grid: Callable[..., Extent] | Extent,
    block: Extent,
    shared_bytes: int = 0,
    source: str = "",
) -> LaunchOf:
    """One of several launches, or that of a reference kernel: ``entry`` with the arguments that ``takes`` names.

    ``takes`` are names separated by blanks, in the kernel's order; without any it takes all arguments but the Temp
    ones. ``grid`` is a number, or a function of the size. ``source`` is the file of a reference kernel, by default the
    family's.
    """
    return LaunchOf(entry, takes, grid, block, shared_bytes, source)


def kernel(
    source: str,
    *,
    arguments: Callable[..., Sequence[Argument] | Mapping[str, Argument]],
    grid: Callable[..., Extent] | Extent = 0,
    block: Extent = 0,
    launches: Sequence[LaunchOf] = (),
    reference: Callable[..., Array | tuple[Array, ...]] | LaunchOf | str | Sequence[str],
    sizes: Sequence[Size],
    bytes: Callable[..., int],  # noqa: A002  (what it is)
    flops: Callable[..., int] | None = None,
    small_sizes: Sequence[Size] = (),
    edges: Sequence[Size] = (),
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
    min_capability: tuple[int, int] = (7, 5),
) -> Family:
    """A family with the one kernel in ``source``, a .cu file beside the caller's, named like its folder.

    ``arguments``, ``grid``, ``bytes`` and ``flops`` are functions of a size; ``block`` is in threads. ``launches`` in
    place of grid and block are several launches as one case, timed together; ``arguments`` then gives names to them.
    ``reference(xp, *inputs)`` gives the expected outputs, in argument order, against the array module ``xp``; a
    ``launch`` in its place is that of another kernel whose outputs are expected, a text the file of a saved array.
    ``sizes`` are measured on a GPU, all in the gate; ``small_sizes`` run in the emulator; ``edges`` prove the build
    right where tidy sizes cannot: by default numbers off every power of two, none where arrays are saved, and
    ``peakgate check`` adds some beside every tile. ``arguments`` raises ValueError for a size that the kernel does not
    take.
    Each element must be within ``tolerance * max(|ref|, magnitude)`` of its reference, besides the rounding of its
    type (see ``peakgate.judge.correctness``). ``tolerance``, a number or one per output, is by default that of each
    output's type (TOLERANCES), equal values for integers; with ``terms``, how many terms are summed into an element in
    float32 (float64 for that type), it is what such sums need. ``scale(xp, *inputs)`` gives the magnitude, the size of
    what is summed: ``xp.sqrt((a * a) @ (b * b))`` of a product of matrices; without it, it is estimated. ``atol`` and
    ``rtol`` in their place are NumPy's: ``atol + rtol * |ref|``.
    ``entry`` names the kernel to launch, ``softmax<float, 256>`` say, where it is not named like the file; ``options``
    go to the compiler, ``include`` are folders seen from the caller's, ``constants`` fill ``__constant__`` variables
    and come last among the reference's inputs.
    """
    caller = inspect.currentframe()
    assert caller is not None
    assert caller.f_back is not None
    file = Path(caller.f_back.f_globals["__file__"])
    folder, called_at = file.parent, f"{file}:{caller.f_back.f_lineno}"
    _refuse_contradictions(source, launches, shaped=bool(grid and block), alone=bool(entry or shared_bytes))
    first = launches[0] if launches else launch(entry, grid=grid, block=block, shared_bytes=shared_bytes)
    kernels = tuple(dict.fromkeys(each.entry for each in launches[1:] if each.entry != first.entry))
    stage = Stage(
        name or Path(source).stem,
        lesson,
        source=folder / source,
        min_capability=min_capability,
        entry=first.entry,
        more=kernels,
        options=tuple(options),
        include=tuple(folder / path for path in include),
        constants=tuple((key, cast("Buffer", _in_folder(given, folder, "{size}"))) for key, given in constants.items()),
        cooperative=cooperative,
    )
    macros = tuple((key, str(value)) for key, value in defines.items())

    expected = _listed(reference) if callable(reference) else None
    magnitudes = _listed(scale) if scale else None

    def case(size: Size, tier: Tier = Tier.FULL) -> Case:
        numbers = _numbers(size)
        if not (callable(reference) or isinstance(reference, str | Sequence | LaunchOf)):
            raise TypeError(f"reference is {reference!r}; expected a function, a launch, or the files of saved arrays")
        label = "x".join(map(str, numbers))
        listed = arguments(*numbers)
        names = tuple(listed) if isinstance(listed, Mapping) else ()
        listed = tuple(listed.values() if isinstance(listed, Mapping) else listed)
        given = tuple(_in_folder(argument, folder, label) for argument in listed)
        shapes = [KernelLaunch(each.entry, each.shape(numbers), _positions(each, names, given)) for each in launches]
        made = Case(
            family=folder.name,
            stage=stage,
            launch=first.shape(numbers),
            arguments=given,
            work=Work(bytes(*numbers), flops(*numbers) if flops else 0),
            reference=_files(reference, folder, label) if isinstance(reference, str | Sequence) else expected,
            size=label,
            defines=macros,
            dtype=_output_types(given)[0],
            tolerance=_tolerances(given, tolerance, terms(*numbers) if callable(terms) else terms),
            tier=tier,
            sequence=tuple(shapes),
            scale=magnitudes,
            atol=atol,
            rtol=rtol,
        )
        if isinstance(reference, LaunchOf):
            made = replace(made, reference=_by_other_kernel(made, reference, numbers, names))
        return made

    dimensions = len(sizes[0]) if isinstance(sizes[0], tuple) else 1
    of_every_size = {buffer.data for _, buffer in stage.constants}

    def of_any_size() -> Sized | None:
        # A saved argument is of one size, so that only sizes of which there is one can be problems.
        if edges or set(case(sizes[0]).saved) - of_every_size:
            return None
        names = tuple(inspect.signature(arguments).parameters)
        return Sized(case, _numbers(sizes[0]), names)

    def probed() -> tuple[Size, ...]:
        sized = of_any_size()
        if sized is None:
            return tuple(islice(edges, MOST_CASES + 1))
        usual = map(_numbers, EDGES.get(dimensions, ()))
        taken = [size for size in usual if not isinstance(accepted(sized, size), str)]
        return tuple(taken) or tuple(_numbers(size) for size in chosen(sized).cases)

    def cases(scale: Scale) -> Iterator[Case]:
        tier = Tier.GATE if scale is Scale.BENCH else Tier.FULL
        try:
            own = tuple(islice(sizes if scale is Scale.BENCH else small_sizes, MOST_CASES + 1))
            wanted = own or probed()[-1:]
        except Exception as error:
            yield cast("Case", _refused(stage, sizes[0], error, called_at))
        else:
            yield from _each(partial(case, tier=tier), wanted, partial(_refused, stage, called_at=called_at))

    def probes(_: Case) -> Iterator[Case]:
        yield from (case(size) for size in probed())

    summary = lesson or f"{stage.name}, one kernel"
    return Family(folder.name, summary, (stage,), cases, probes, sized=lambda _: of_any_size())


def family(*kernels: Family, summary: str = "") -> Family:
    """The kernels of one folder as one family, in this order: the stages of a ladder, say."""
    members = {stage.name: each for each in kernels for stage in each.stages}

    def cases(scale: Scale) -> Iterator[Case]:
        for each in kernels:
            yield from each.cases(scale)

    def probes(case: Case) -> Iterator[Case]:
        yield from members[case.stage.name].probes(case)

    def sized(case: Case) -> Sized | None:
        return members[case.stage.name].sized(case)

    stages = tuple(stage for each in kernels for stage in each.stages)
    return Family(kernels[0].name, summary or counted(len(stages), "kernel"), stages, cases, probes, sized=sized)


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


def _each(
    make: Callable[[Size], Case], sizes: Sequence[Size], refused: Callable[[Size, Exception], RefusedCase]
) -> Iterator[Case]:
    """The case of each size, or what stands for it where it cannot be described."""
    for size in sizes:
        try:
            made = make(size)
        except Exception as error:
            made = cast("Case", refused(size, error))
        yield made


def _refused(stage: Stage, size: Size, error: Exception, called_at: str) -> RefusedCase:
    """What stands for a stage's case at a size; ``called_at``: the line that described its kernel."""
    assert stage.source is not None
    folder, label = stage.source.parent, "x".join(map(str, _numbers(size)))
    where = raised_at(error, folder) or called_at
    return RefusedCase.named(folder.name, f"{stage.name}-{label}", f"{where}: {described(error)}")


def _in_folder(argument: Argument, folder: Path, size: str) -> Argument:
    """The argument; where its data is a saved array, with that file's place."""
    if isinstance(argument, Buffer) and isinstance(argument.data, Path):
        return replace(argument, data=folder / str(argument.data).replace("{size}", size))
    return argument


def _files(names: str | Sequence[str], folder: Path, size: str) -> tuple[Path, ...]:
    each = (names,) if isinstance(names, str) else names
    return tuple(folder / name.replace("{size}", size) for name in each)


def _positions(described: LaunchOf, names: Sequence[str], arguments: Sequence[Argument]) -> tuple[int, ...]:
    """Which arguments a launch takes; ValueError where it names one that is not there."""
    if not described.takes:
        own = (Role.TEMP, Role.SCRATCH)
        return tuple(at for at, each in enumerate(arguments) if not (isinstance(each, Buffer) and each.role in own))
    if unknown := [name for name in described.takes.split() if name not in names]:
        known = f"the arguments are {', '.join(names)}" if names else "give the arguments names: {'out': Out(n), ...}"
        raise ValueError(f"launch of {described.entry}: no argument is named {unknown[0]}; {known}")
    return tuple(names.index(name) for name in described.takes.split())


def _by_other_kernel(case: Case, described: LaunchOf, numbers: Sequence[int], names: Sequence[str]) -> Case:
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
    takes = KernelLaunch(stage.kernel, shape, _positions(described, names, case.arguments))
    return replace(case, stage=stage, launch=shape, sequence=(takes,), reference=None)


def _numbers(size: Size) -> tuple[int, ...]:
    return size if isinstance(size, tuple) else (size,)


def _three(numbers: int | tuple[int, ...]) -> tuple[int, int, int]:
    given = tuple(numbers) if isinstance(numbers, tuple | list) else (numbers,)
    return cast("tuple[int, int, int]", (*given, 1, 1)[: max(3, len(given))])


def _listed(function: Callable[..., Any]) -> Callable[[Any, Sequence[Array]], Sequence[Array]]:
    """A function of a family's, of the array module and each input, as one of all inputs that gives a sequence."""

    def evaluated(xp: Any, inputs: Sequence[Array]) -> Sequence[Array]:
        found = function(xp, *inputs)
        return found if isinstance(found, tuple | list) else (found,)

    evaluated.__wrapped__ = function  # type: ignore[attr-defined]  # messages name the line of the family's function
    return evaluated


def _output_types(arguments: Sequence[Argument]) -> list[str]:
    written = [buffer for buffer in arguments if isinstance(buffer, Buffer) and buffer.role in (Role.OUT, Role.INOUT)]
    return [buffer.dtype for buffer in written] or ["float32"]


def _tolerances(
    arguments: Sequence[Argument], given: float | Sequence[float] | None, terms: int | None
) -> float | tuple[float, ...]:
    """One tolerance where all outputs have the same, else one for each."""
    if given is not None:
        return given if isinstance(given, int | float) else tuple(given)
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
