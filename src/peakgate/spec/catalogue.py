"""The families of a project, the cases they define, and their small problems, for checks that are slow."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import FunctionType
from typing import Any

from peakgate.base import config
from peakgate.base.config import Project
from peakgate.base.errors import NOT_OF_A_PROJECT, Code, PeakgateError, defined_at, raised_at
from peakgate.base.errors import described as described_error
from peakgate.base.processes import exit_raises
from peakgate.spec.case import MOST_FAMILY_CASES, Buffer, Case, Family, RefusedCase, Scale, Sized, Tier
from peakgate.spec.importer import FAMILY_FILE, family_at, family_files, module_at
from peakgate.spec.selection import selector

__all__ = [
    "Catalogue",
    "cases",
    "described",
    "described_problems",
    "families",
    "family_at",
    "kernel_name",
    "module_at",
    "probes",
    "problems",
    "refused_as",
    "sized",
    "without_problems",
]


@dataclass(frozen=True)
class Catalogue:
    """Contents of families: their cases, and the cases that are not described."""

    families: Sequence[Family]
    cases: Sequence[Case]
    refused: Sequence[RefusedCase]

    def all(self) -> Catalogue:
        """The same, where nothing is refused; PeakgateError with the first reason otherwise."""
        for each in self.refused:
            raise PeakgateError.repeated(each.reason)
        return self


def families(project: Project | None = None) -> list[Family]:
    """Every family of the project (default: the current one), in order of folder: each ``kernels/*/family.py``.

    PeakgateError where a file defines none.
    """
    found, refused = _families(project or config.current())
    Catalogue((), (), refused).all()
    return found


def _families(project: Project, file: Path | None = None) -> tuple[list[Family], list[RefusedCase]]:
    """The families of a project, or of one file, and what stands for the cases of those that cannot be had."""
    found: dict[str, tuple[Family, Path]] = {}
    refused: list[RefusedCase] = []
    for path in [file] if file else family_files(project):
        try:
            family = family_at(path, project)
        except PeakgateError as error:
            problem = str(error)
        else:
            known = found.setdefault(family.name, (family, path))
            if known[0] is family:
                continue
            problem = f"family {family.name!r} is defined in {known[1]} and again in {path}"
        refused.append(RefusedCase.named(path.parent.resolve().name, FAMILY_FILE, problem, whole=True))
    return [family for family, _ in found.values()], refused


def cases(scale: Scale, tier: Tier = Tier.FULL, listed: Sequence[Family] | None = None) -> list[Case]:
    """Every case of these families (default: the current project's); under the gate tier only the gate's.

    PeakgateError where one is not described. Small problems are few by themselves: the tier matters at benchmark
    scale only.
    """
    project, gate = config.current(), scale is Scale.BENCH and tier is Tier.GATE
    found = _described(families(project) if listed is None else listed, (), scale, project).all()
    return [case for case in found.cases if not gate or case.tier is Tier.GATE]


def described(scale: Scale, project: Project | None = None, file: Path | None = None) -> Catalogue:
    """Cases that the families of a project (default: the current one), or of one file, describe at a scale.

    One mistake costs the cases that it concerns. PeakgateError where the file is not there.
    """
    project = project or config.current()
    if file is not None and not file.is_file():
        raise PeakgateError(f"{file}: no such file; expected the {FAMILY_FILE} of a kernel family", Code.FAMILY)
    return _described(*_families(project, file), scale, project)


def _described(listed: Sequence[Family], missing: Sequence[RefusedCase], scale: Scale, project: Project) -> Catalogue:
    known: dict[str, Case] = {}
    refused, seen = list(missing), set[str]()
    for family in listed:
        for case in _cases(family, scale, project, refused):
            problem = _problem(case, seen)
            if problem is None:
                known[case.id] = case
            else:
                known.pop(case.id, None)
                refused.append(refused_as(case, problem))
            seen.add(case.id)
    return Catalogue(listed, list(known.values()), refused)


def refused_as(case: Case, reason: str) -> RefusedCase:
    """A case that cannot be run as it is described."""
    return RefusedCase.named(case.family, case.id.removeprefix(f"{case.family}."), reason)


def _problem(case: Case, seen: Collection[str]) -> str | None:
    """Why a case cannot be run as it is described; None where it can."""
    if case.id in seen:
        return f"case id {case.id} is used twice; ids must be unique, see the family {case.family}"
    for stage in (case.stage, *([case.reference.stage] if isinstance(case.reference, Case) else [])):
        if stage.source is not None and not _is_file(stage.source):
            return (
                f"stage {stage.name} has no file {stage.source}: write the kernel, or take the stage out of the family "
                f"{case.family}"
            )
    if missing := [path for path in case.saved if not _is_file(path)]:
        return f"{case.id}: no file {missing[0]}; expected the array there that numpy.save writes"
    return None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name of more than 255 letters
        return False


def probes(case: Case, listed: Sequence[Family] | None = None) -> list[Case]:
    """The edge-size problems that prove this case's build right."""
    project = config.current()
    for family in families(project) if listed is None else listed:
        if family.name == case.family:
            return [
                _of_project(probe, project)
                for probe in _from(family, family.probes, _as_defined(case, family), "probes")
            ]
    raise PeakgateError(f"case {case.id}: no family named {case.family}", Code.FAMILY)


def sized(case: Case, listed: Sequence[Family] | None = None) -> Sized | None:
    """How problems of other sizes of a case's stage are made; None where the family means its own alone."""
    project = config.current()
    family = next(each for each in (families(project) if listed is None else listed) if each.name == case.family)
    try:
        with exit_raises():
            found = family.sized(_as_defined(case, family))
    except NOT_OF_A_PROJECT:
        raise
    except BaseException as error:
        raise PeakgateError(
            f"{_place(error, family, family.sized)}: sized() of the family {family.name}: {described_error(error)}",
            Code.FAMILY,
        ) from error
    if found is None:
        return None
    make = found.make
    return replace(found, make=lambda numbers: _of_project(make(numbers), project))


def _cases(family: Family, scale: Scale, project: Project, refused: list[RefusedCase]) -> Iterator[Case]:
    """The cases that a family yields; what it does not describe is added to ``refused``."""
    try:
        for case in _from(family, family.cases, scale, "cases"):
            if isinstance(case, RefusedCase):
                refused.append(case)
                continue
            try:
                hash((case.stage, case.defines, case.arguments))
            except TypeError as error:
                reason = f"family {family.name}: stage {case.stage.name!r}: {error}; write tuples and texts in a stage"
                refused.append(refused_as(case, reason))
            else:
                yield _of_project(case, project)
    except PeakgateError as error:
        refused.append(RefusedCase.named(family.name, FAMILY_FILE, str(error), whole=True))


def _of_project(case: Case, project: Project) -> Case:
    """The case, built with the options and include folders that the project gives to all of its kernels."""
    stage = case.stage
    if stage.source is None or not (project.options or project.include):
        return case
    if isinstance(case.reference, Case):
        case = replace(case, reference=_of_project(case.reference, project))
    options, include = (*project.options, *stage.options), (*stage.include, *project.include)
    return replace(case, stage=replace(stage, options=options, include=include))


def _as_defined(case: Case, family: Family) -> Case:
    """The case with its stage as the family defines it, which is what its ``probes`` knows."""
    stage = next((stage for stage in family.stages if stage.name == case.stage.name), case.stage)
    return replace(case, stage=stage)


def _from(family: Family, function: Callable[[Any], Iterable[Any]], given: object, name: str) -> Iterator[Any]:
    """The cases that a function of a family yields; a PeakgateError names the place where it fails."""
    try:
        for count, case in enumerate(_yielded(function, given)):
            if count == MOST_FAMILY_CASES:
                raise ValueError(f"more than {MOST_FAMILY_CASES} cases or problems, expected fewer")  # noqa: TRY301
            if not isinstance(case, Case | RefusedCase):
                raise TypeError(f"it yields {case!r}, expected a peakgate.case.Case")  # noqa: TRY301
            yield case
    except NOT_OF_A_PROJECT:
        raise
    except BaseException as error:
        raise PeakgateError(
            f"{_place(error, family, function)}: {name}() of the family {family.name} gives no cases: "
            f"{described_error(error)}",
            Code.FAMILY,
        ) from error


def _yielded(function: Callable[[Any], Iterable[Any]], given: object) -> Iterator[Any]:
    with exit_raises():
        found = iter(function(given))
    end = object()
    while True:
        with exit_raises():
            case = next(found, end)
        if case is end:
            return
        yield case


def _place(error: BaseException, family: Family, function: Callable[..., Any]) -> str:
    """Where an error of a family's function was raised, or else where that function is."""
    defined = defined_at(function)
    return raised_at(error, Path(defined).parent) or defined or f"family {family.name}"


def problems(text: str = "") -> list[Case]:
    """Every small case that has a kernel of its own and that ``-k text`` selects, with its probes; equal launches once.

    Operations of the device (copies, a vendor's library) are left out: they are not ours to check. PeakgateError
    when no case is left, or one is not described.
    """
    return list(described_problems(text).all().cases)


def described_problems(text: str = "", file: Path | None = None) -> Catalogue:
    """As ``problems``, of the current project or of one family file, with what is not described beside them."""
    selects = selector(text)
    found = described(Scale.SMALL, file=file)
    chosen = [case for case in found.cases if case.stage.source is not None and selects(case.id)]
    refused = [each for each in found.refused if selects(each.id) or (each.whole and not chosen)]
    if not chosen and not refused:  # nothing is small where a file of saved arrays is missing
        refused = [each for each in described(Scale.BENCH, file=file).refused if selects(each.id)]
    if not chosen and not refused:
        if file is None and not text:
            project = config.required()
            raise PeakgateError(
                f"{config.near(project.kernels)}: no family with a kernel and a small problem there; "
                "`peakgate init` writes an example, benchmark tests are for `peakgate bench`",
                Code.FAMILY,
            )
        raise PeakgateError(f"-k {text!r}: {_why_none(text, found.families)}", Code.SELECTION)
    distinct: dict[Any, Case] = {}
    for case in chosen:
        try:
            edges = probes(case, found.families)
        except PeakgateError as error:
            edges = []
            refused.append(refused_as(case, str(error)))
        for problem in (case, *edges):
            arguments = tuple(map(_known_by, problem.arguments))
            key = (problem.family, problem.stage, problem.defines, problem.launch, arguments)
            distinct.setdefault(key, problem)
    return Catalogue(found.families, list(distinct.values()), refused)


def _known_by(argument: Any) -> Any:
    """An argument, the function that fills it by its code: a lambda is another object in each call of a family."""
    fill = argument.data if isinstance(argument, Buffer) else None
    if not isinstance(fill, FunctionType):
        return argument
    cells = tuple(cell.cell_contents for cell in fill.__closure__ or ())
    by_code = (fill.__code__, fill.__defaults__, cells)
    try:
        hash(by_code)
    except TypeError:  # it keeps a list, say, which may be another one each time
        return argument
    return (replace(argument, data=None), by_code)


def without_problems(small: Sequence[Case], measured: Sequence[Case]) -> list[str]:
    """The kernels that are measured and that no small case runs: nothing checks them without a GPU."""
    stages = {case.stage for case in small}
    left = [case for case in measured if case.stage.source is not None and case.stage not in stages]
    return list(dict.fromkeys(map(kernel_name, left)))


def _why_none(text: str, listed: Sequence[Family]) -> str:
    """A kernel file that no family lists yet is the likely slip."""
    family, _, name = text.lower().rpartition(".")
    used = {stage.source.resolve() for each in listed for stage in each.stages if stage.source is not None}
    why = "no small case with a kernel has such an id; try a family's name"
    for file in sorted(config.current().kernels.glob("*/*.cu")) if name else ():
        alike = file.stem.lower().endswith(name) and family in ("", file.parent.name.lower())
        if alike and file.resolve() not in used:
            return f"{why}; {config.near(file)} is in no family: list it in {config.near(file.parent)}/{FAMILY_FILE}"
    return why


def kernel_name(case: Case) -> str:
    """A kernel as reports name it, ``family.stage``."""
    return f"{case.family}.{case.stage.name}"
