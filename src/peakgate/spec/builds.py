"""A kernel as its family describes it, and its builds: one per combination of its axes, with the cases of its sizes."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from dataclasses import fields as fields_of
from functools import cached_property
from itertools import chain, product
from pathlib import Path
from typing import Any, cast

from peakgate.base.emulated import source_text
from peakgate.base.errors import Code, PeakgateError, defined_at, described, raised_at
from peakgate.base.formatting import shown
from peakgate.spec import fields
from peakgate.spec.arguments import Role
from peakgate.spec.case import (
    MOST_FAMILY_CASES,
    NO_SMALL_PROBLEM,
    Array,
    Buffer,
    Case,
    Family,
    KernelLaunch,
    RefusedCase,
    Scale,
    Sized,
    Stage,
    Tier,
    Work,
)
from peakgate.spec.fields import FLAG, FUNCTION, NOTHING, TEXT, WORD, Kind, check, mapping, several
from peakgate.spec.groups import FEW, Check, Compile, Plain, output_types
from peakgate.spec.operands import LISTS, ArgumentList, AtSize, Extent, LaunchOf, Operands
from peakgate.spec.stage import default_roof
from peakgate.spec.sweep import (
    EDGES,
    AxisValues,
    Labelled,
    Point,
    Sizes,
    along_axes,
    given_twice,
    label_of,
    labelled,
    numbers_of,
    numbers_taken,
    points,
)
from peakgate_emulator.sources import kernels

_SIZES = Kind(
    "a list of sizes, each a number or a tuple of numbers, or a dict of them by label",
    lambda value: isinstance(value, tuple | list | range | Mapping),
)
_AXIS = Kind(
    f"a list of at most {MOST_FAMILY_CASES} values, or a dict of them by label",
    lambda value: isinstance(value, tuple | list | range | Mapping) and 0 < len(value) <= MOST_FAMILY_CASES,
)
_OF_SIZE = Kind("a function of the size, such as `lambda n: ...`", callable)
PARAMETERS: fields.Kinds = {
    "source": TEXT,
    "arguments": _OF_SIZE,
    "launches": several(fields.instance(LaunchOf, "a launch(...)"), LISTS) | FUNCTION,
    "sizes": _SIZES | FUNCTION,
    "bytes": _OF_SIZE,
    "flops": _OF_SIZE | NOTHING,
    "small_sizes": _SIZES | NOTHING | FUNCTION,
    "edges": _SIZES | FUNCTION,
    "axes": mapping(fields.IDENTIFIER, _AXIS),
    "where": FUNCTION | NOTHING,
    "check": fields.instance(Check, "a Check(...)") | FUNCTION,
    "compile": fields.instance(Compile, "a Compile(...)") | FUNCTION,
    "block_in_id": FLAG | NOTHING | FUNCTION,
    "host_bound": FLAG,
    **dict.fromkeys(("name", "lesson", "operation"), TEXT),
    "roof": TEXT | FUNCTION,
    "gate": FLAG | FUNCTION,
    "variant": TEXT | NOTHING | FUNCTION,
    "predicted": FUNCTION | mapping(WORD, fields.FINITE),
    "state": TEXT | several(TEXT, LISTS),
    "reference": FEW,
}
"""The kinds of those parameters of ``kernel`` that are used before a case is made. A case checks its own fields, such
as the shapes of its launches: a mistake there affects the cases of one kernel, not those of its family."""

OF_BUILD = (
    "block",
    "shared_bytes",
    "launches",
    "sizes",
    "small_sizes",
    "edges",
    "check",
    "compile",
    "block_in_id",
    "roof",
    "math",
)
"""Parameters that do not depend on the size: they may be functions of the axes, or an axis with their name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """The parameters of ``kernel``, which documents them; ``folder`` is the family's.

    Fields of type Any may be functions of the axes here; those of a ``KernelBuild`` are values.
    """

    folder: Path
    source: str
    arguments: Callable[..., ArgumentList]
    grid: Callable[..., Extent] | Extent
    block: Any
    launches: Any
    shared_bytes: Any
    reference: Any
    check: Any
    bytes: Callable[..., int]
    flops: Callable[..., int] | None
    math: Any
    roof: Any
    compile: Any
    sizes: Any
    small_sizes: Any
    edges: Any
    axes: Mapping[str, AxisValues]
    where: Callable[..., bool] | None
    gate: Callable[..., bool] | bool
    name: str
    lesson: str
    variant: Callable[..., str] | str | None
    block_in_id: Any
    predicted: Callable[..., Mapping[str, float]] | Mapping[str, float]
    operation: str
    host_bound: bool
    state: str | Sequence[str]

    def __post_init__(self) -> None:
        check(self, PARAMETERS, "kernel")
        fixed = {each.name for each in fields_of(self)} - {*OF_BUILD}
        if refused := [name for name in self.axes if name in fixed]:
            axes = ", ".join(sorted({*OF_BUILD, *Plain.__annotations__}))
            raise ValueError(f"axes: no axis is named {refused[0]}, a parameter; expected another name, or of {axes}")

    def builds(self) -> list[KernelBuild]:
        """A build for each point on the axes that has sizes; raises ValueError if there is none."""
        names, axes, sizes = numbers_taken(self.arguments), dict(self.axes), self.sizes
        if not sizes and axes.keys() & {*names}:
            sizes = along_axes(axes, names)
            axes = {name: axis for name, axis in axes.items() if name not in names}
        names = tuple(name for name in names if name not in axes)
        each = [replace(self, sizes=sizes).at(point) for point in points(axes, names)]
        found = [build for build in each if build.usual is not None]
        if not found:
            raise ValueError(f"{each[0].stage.name}: no size; expected sizes=[...], small_sizes=[...] or both")
        return found

    def at(self, point: Point) -> KernelBuild:
        """The build at a point on the axes."""
        if "block" not in point.names:
            block = point.at("block", point.values.get("block", self.block))
            point = replace(point, values={"block": block} | dict(point.values))
        of = {name: point.at(name, point.values.get(name, getattr(self, name))) for name in OF_BUILD}
        for group in ("check", "compile"):
            own = {each.name: point.values[each.name] for each in fields_of(of[group]) if each.name in point.values}
            of[group] = replace(of[group], **own)
        of["compile"] = replace(of["compile"], defines=point.at("defines", of["compile"].defines))
        return KernelBuild(replace(self, **of), point)


@dataclass(frozen=True)
class KernelBuild:
    """One of a kernel's builds: its cases at both scales, and its edge-size problems."""

    given: Description
    point: Point

    @cached_property
    def first(self) -> LaunchOf:
        """The first launch, whose shape is that of the case."""
        given = self.given
        if given.launches:
            return cast("LaunchOf", given.launches[0])
        entry = given.compile.entry
        if given.source and not entry:
            entry = _only_kernel(given.folder / given.source, given.name or Path(given.source).stem)
        shape = (given.grid or 1, given.block or 1) if given.operation else (given.grid, given.block)
        return LaunchOf(entry, grid=shape[0], block=shape[1], shared_bytes=given.shared_bytes)

    @cached_property
    def stage(self) -> Stage:
        """Its stage; raises ValueError if both or neither of grid and block, and launches, are given."""
        given, launches = self.given, self.given.launches
        if bool(launches) == bool(given.operation or (given.grid and given.block)):
            raise ValueError(
                f"{given.source}: grid={shown(given.grid)}, block={shown(given.block)}, {len(launches)} launches; "
                "expected either grid and block, or launches=[launch(...), ...]"
            )
        if launches and (given.compile.entry or given.shared_bytes or any(each.source for each in launches)):
            raise ValueError(
                f"{given.source}: each of its launches has an entry and shared_bytes of its own, all are in this file"
            )
        if not all(each.entry for each in launches):
            raise ValueError(f"{given.source}: each of its launches names its kernel: launch('partial_sums', ...)")
        return Stage(
            given.name or given.operation or Path(given.source).stem,
            given.lesson,
            source=given.folder / given.source if given.source else None,
            operation=given.operation or None,
            host_bound=given.host_bound,
            entry=self.first.entry,
            more=tuple(dict.fromkeys(each.entry for each in launches[1:] if each.entry != self.first.entry)),
            **given.compile.of_stage(given.folder),
        )

    @cached_property
    def usual(self) -> Labelled | None:
        """The first of its sizes; None if it has none."""
        return next(chain(self._taken(self.given.sizes), self._taken(self.given.small_sizes)), None)

    def _taken(self, sizes: Sizes | None) -> Iterator[Labelled]:
        """The sizes that ``where`` does not exclude."""
        where = self.given.where
        return (
            (numbers, label)
            for numbers, label in labelled(sizes or ())
            if where is None or self.point.at("where", where, numbers)
        )

    def case(self, numbers: tuple[int, ...], label: str = "", scale: Scale = Scale.SMALL, state: str = "cold") -> Case:
        """The case of a size; ``label``, by default the numbers, is part of its id."""
        given, label = self.given, label or label_of(numbers)
        reference, of_files = given.reference, isinstance(given.reference, str | Sequence)
        if not (reference is None or callable(reference) or of_files or isinstance(reference, LaunchOf)):
            raise TypeError(f"reference is {reference!r}; expected a function, a launch, or the files of saved arrays")

        def at(name: str, value: Any) -> Any:
            return self.point.at(name, value, numbers)

        operands = Operands.of(at("arguments", given.arguments), given.folder, label)
        if not any(isinstance(each, Buffer) and each.role in (Role.OUT, Role.INOUT) for each in operands.every):
            raise ValueError("arguments has no Out or InOut; expected at least one, to compare with the reference")
        shape = self.first.shape(at)
        work = Work(at("bytes", given.bytes), at("flops", given.flops) if given.flops else 0, math=given.math)
        if scale is Scale.BENCH and not work.claimed:
            raise ValueError(
                f"bytes is 0{' and flops is 0' if given.flops else ''}; expected the bytes that a launch moves at "
                "least, or else flops: without work no speed can be judged"
            )
        block_in_id = "block" in self.point.labels if given.block_in_id is None else given.block_in_id
        magnitudes = given.check.scale
        names = ([reference] if isinstance(reference, str) else reference) if of_files else ()
        saved = tuple(given.folder / name.replace("{size}", label) for name in names)
        made = Case(
            family=given.folder.name,
            stage=self.stage,
            launch=shape,
            arguments=operands.every,
            work=work,
            reference=saved if of_files else self._of_inputs(reference, numbers),
            size=label,
            block=label_of(numbers_of(given.block)) if block_in_id else "",
            variant=self.point.variant if given.variant is None else at("variant", given.variant),
            defines=tuple((key, str(value)) for key, value in given.compile.defines.items()),
            dtype=output_types(operands.every)[0],
            tolerance=given.check.tolerances(operands.every, at("terms", given.check.terms), given.math),
            roof=given.roof or default_roof(given.math),
            tier=Tier.GATE if scale is Scale.BENCH and not given.host_bound and at("gate", given.gate) else Tier.FULL,
            predicted=tuple(at("predicted", given.predicted).items()),
            sequence=tuple(operands.sequence(given.launches, at, KernelLaunch(self.stage.kernel, shape, ()))),
            scale=self._of_inputs(magnitudes, numbers) or magnitudes,  # the case refuses what is not a function
            atol=given.check.atol,
            rtol=given.check.rtol,
            state=state,
        )
        return self._by_other_kernel(made, at, operands) if isinstance(reference, LaunchOf) else made

    def _of_inputs(self, function: Any, numbers: Sequence[int]) -> _OfInputs | None:
        """A reference or scale function at a size; None if it is not a function."""
        if not callable(function):
            return None
        try:
            taken = inspect.signature(function).parameters.values()
        except ValueError:  # a built-in function without a signature
            taken = {}.values()
        asked = {each.name for each in taken if each.kind is each.KEYWORD_ONLY and each.default is each.empty}
        known = dict(zip(self.point.names, numbers, strict=False)) | dict(self.point.values)
        return _OfInputs(function, tuple((name, value) for name, value in known.items() if name in asked))

    def _by_other_kernel(self, case: Case, at: AtSize, operands: Operands) -> Case:
        """The case with a reference kernel on the same arguments as its reference."""
        described: LaunchOf = self.given.reference
        assert case.stage.source is not None
        source = case.stage.source.parent / (described.source or case.stage.source.name)
        if source == case.stage.source and described.entry in case.stage.kernels:
            raise ValueError(
                f"{case.stage.name}: its reference is the kernel itself, {described.entry}; expected another"
            )
        stage = replace(
            case.stage,
            name=re.sub(r"\W+", "_", described.entry) or source.stem,
            source=source,
            entry=described.entry,
            more=(),
            constants=case.stage.constants if source == case.stage.source else (),
        )
        shape = described.shape(at)
        takes = KernelLaunch(stage.kernel, shape, operands.taken(described, by_reference=True))
        return replace(case, reference=replace(case, stage=stage, launch=shape, sequence=(takes,), reference=None))

    @cached_property
    def sized(self) -> Sized | None:
        """How problems of other sizes are made; None if ``edges`` or saved arrays determine the sizes."""
        assert self.usual is not None
        of_every_size = {buffer.data for _, buffer in self.stage.constants}
        # A saved argument has one size: only sizes with a file can be problems.
        if self.given.edges or set(self.case(*self.usual).saved) - of_every_size:
            return None
        return Sized(self.case, self.usual[0], self.point.names)

    @cached_property
    def _edges(self) -> tuple[Labelled, ...]:
        """The sizes of the build's edge-size problems."""
        if self.sized is None:
            return tuple(labelled(self.given.edges or ()))
        from peakgate.spec.edges import edge_sizes  # noqa: PLC0415  (not needed for a family with its own edges)

        usual = EDGES.get(len(self.sized.usual), ())
        return tuple(labelled(edge_sizes(self.sized, list(map(numbers_of, usual)))))

    def _small(self) -> tuple[Labelled, ...]:
        """The sizes of its small problems; raises PeakgateError if the family gives none and none can be chosen."""
        given = self.given
        if given.small_sizes is None or given.small_sizes:
            return tuple(self._taken(given.small_sizes))
        if not self._edges and self.sized is not None and given.source:
            raise PeakgateError(NO_SMALL_PROBLEM, Code.FAMILY)
        return self._edges[-1:]

    def probes(self, _: Case) -> Iterator[Case]:
        """The edge-size problems of the build."""
        yield from (self.case(numbers, label) for numbers, label in self._edges)

    def cases(self, scale: Scale) -> Iterator[Case | RefusedCase]:
        """The case of each size at a scale, or a RefusedCase with the reason."""
        given = self.given
        assert self.usual is not None
        try:
            wanted = tuple(self._taken(given.sizes)) if scale is Scale.BENCH else self._small()
            # At benchmark scale the catalogue refuses duplicate ids.
            for label in given_twice(given.sizes or ()) if scale is Scale.SMALL else ():
                yield self._refused(label, ValueError(f"sizes has {label} twice; give each size once"))
        except Exception as error:
            yield self._refused(self.usual[1], error)
            return
        states = (given.state,) if isinstance(given.state, str) else tuple(given.state)
        for (numbers, label), state in product(wanted, states):
            try:
                made: Case | RefusedCase = self.case(numbers, label, scale, state)
            except Exception as error:
                made = self._refused(label, error)
            yield made

    def _refused(self, label: str, error: Exception) -> RefusedCase:
        folder = self.given.folder
        where = raised_at(error, folder) or defined_at(self.given.arguments)
        return RefusedCase.named(folder.name, f"{self.stage.name}-{label}", f"{where}: {described(error)}")

    def family(self) -> Family:
        """A family of this build alone."""
        summary = self.given.lesson or f"{self.stage.name}, one kernel"
        return Family(
            self.given.folder.name, summary, (self.stage,), self.cases, self.probes, sized=lambda _: self.sized
        )


def _only_kernel(source: Path, stage: str) -> str:
    """The name of the one kernel that a file defines; empty for none, several, a template, or the stage's own name."""
    with suppress(PeakgateError):  # a missing file is reported when it is built
        names = kernels(source_text(source))
        return names[0] if len(names) == 1 and "<" not in names[0] and names[0] != stage else ""
    return ""


@dataclass(frozen=True, slots=True)
class _OfInputs:
    """A family's function ``(xp, *inputs)`` as a function ``(xp, inputs)`` that returns a sequence.

    Equal if function and keywords are equal, so that cases of one problem share their expected outputs. Neither need be
    hashable.
    """

    __wrapped__: Callable[..., Any] = field(hash=False)
    """The family's function, whose line messages name."""
    keywords: tuple[tuple[str, Any], ...] = field(hash=False)
    """Its keyword-only arguments: numbers of the size, and axes."""

    def __call__(self, xp: Any, inputs: Sequence[Array]) -> Sequence[Array]:
        found = self.__wrapped__(xp, *inputs, **dict(self.keywords))
        return found if isinstance(found, tuple | list) else (found,)
