"""The families of a project, imported once per process, their cases, and their small problems for the emulator.

A family file knows its own folder while it is executed.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from peakgate.base import config, progress
from peakgate.base.config import Project
from peakgate.base.errors import NOT_OF_A_PROJECT, Code, PeakgateError, defined_at, raised_at
from peakgate.base.errors import described as described_error
from peakgate.base.formatting import encodable, nearest
from peakgate.base.options import selector
from peakgate.base.processes import exit_raises
from peakgate.spec.case import MOST_FAMILY_CASES, Buffer, Case, Family, RefusedCase, Scale, Sized, Tier

FAMILY_FILE = "family.py"

_folder: ContextVar[Path | None] = ContextVar("folder of the family file that is executed", default=None)


def current_folder() -> Path:
    """The folder of the family file that is being executed; the working directory if none is."""
    return _folder.get() or Path.cwd()


def family_files(project: Project) -> list[Path]:
    """The family files of a project, including broken links."""
    files = (folder / FAMILY_FILE for folder in sorted(project.kernels.glob("[!_.]*")))
    return [file for file in files if os.path.lexists(file)]


def family_at(path: Path, project: Project | None = None) -> Family:
    """The FAMILY that a file defines; raises PeakgateError with file and line of a mistake."""
    module = module_at(path, project)
    family = getattr(module, "FAMILY", None)
    if not isinstance(family, Family):
        given = "no FAMILY" if family is None else f"a FAMILY that is a {type(family).__name__}"
        raise PeakgateError(
            f"{path}: defines {given}, expected FAMILY = kernel(...) or family(...), of peakgate.family",
            Code.FAMILY,
        )
    return family


def module_at(path: Path, project: Project | None = None) -> ModuleType:
    """The module of a family file, imported once per process.

    The file and its siblings form a package, so that ``from .sibling import`` works. Its name has a hash of the folder,
    since two projects may have families of the same name.
    """
    if not path.is_file():
        raise PeakgateError(f"{path}: no such file; expected the {FAMILY_FILE} of a kernel family", Code.FAMILY)
    path = path.resolve()
    if encodable(str(path)) != str(path):
        raise PeakgateError(
            f"{encodable(str(path))}: expected a name in UTF-8, which compilers and reports take; rename the folder",
            Code.FAMILY,
        )
    package = f"peakgate_family_{hashlib.sha256(str(path.parent).encode()).hexdigest()[:12]}"
    name = f"{package}.family"
    if name in sys.modules:
        return sys.modules[name]
    (project or config.current()).extend_import_path()
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise PeakgateError(f"{path}: no Python file; expected the family.py of a kernel family", Code.FAMILY)
    parent = ModuleType(package)
    parent.__path__ = [str(path.parent)]
    sys.modules[package] = parent
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    executed = _folder.set(path.parent)
    try:
        with exit_raises():
            spec.loader.exec_module(module)
    except BaseException as error:
        for loaded in [known for known in sys.modules if known.partition(".")[0] == package]:
            del sys.modules[loaded]
        if isinstance(error, NOT_OF_A_PROJECT):
            raise
        raise PeakgateError(
            f"{raised_at(error, path.parent) or path}: {described_error(error)}", Code.FAMILY
        ) from error
    finally:
        _folder.reset(executed)
    return module


@dataclass(frozen=True)
class Catalogue:
    """Families, their valid cases, and the refused ones."""

    families: Sequence[Family]
    cases: Sequence[Case]
    refused: Sequence[RefusedCase]

    def all(self) -> Catalogue:
        """The catalogue itself; raises PeakgateError with the first reason if a case is refused."""
        for each in self.refused:
            raise PeakgateError.repeated(each.reason)
        return self


def families(project: Project | None = None) -> list[Family]:
    """Every family of the project (default: the current one), ``kernels/*/family.py`` in order of folder.

    Raises PeakgateError if a file defines none.
    """
    found, refused = _families(project or config.current())
    Catalogue((), (), refused).all()
    return found


def _families(project: Project, file: Path | None = None) -> tuple[list[Family], list[RefusedCase]]:
    """The families of a project, or of one file, and a RefusedCase for each that cannot be loaded."""
    found: dict[str, tuple[Family, Path]] = {}
    refused: list[RefusedCase] = []
    paths = [file] if file else family_files(project)
    for path in progress.each(paths, "reading the families", len(paths), "file"):
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
    """Every case of these families (default: the current project's); at benchmark scale only those of the tier.

    Raises PeakgateError if a case is refused.
    """
    project, gate = config.current(), scale is Scale.BENCH and tier is Tier.GATE
    found = _described(families(project) if listed is None else listed, (), scale, project).all()
    return [case for case in found.cases if not gate or case.tier is Tier.GATE]


def described(scale: Scale, project: Project | None = None, file: Path | None = None) -> Catalogue:
    """The cases of a project (default: the current one), or of one family file, at a scale.

    A mistake refuses only the cases that it affects. Raises PeakgateError if the file does not exist.
    """
    project = project or config.current()
    if file is not None and not file.is_file():
        raise PeakgateError(f"{file}: no such file; expected the {FAMILY_FILE} of a kernel family", Code.FAMILY)
    return _described(*_families(project, file), scale, project)


def _described(listed: Sequence[Family], missing: Sequence[RefusedCase], scale: Scale, project: Project) -> Catalogue:
    known: dict[str, Case] = {}
    refused, seen = list(missing), set[str]()
    for family in progress.each(listed, "describing the cases of the families", len(listed), "family"):
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
    """The RefusedCase for a case that cannot be run."""
    return RefusedCase.named(case.family, case.id.removeprefix(f"{case.family}."), reason)


_MOST_SOURCES_NAMED = 5


def _problem(case: Case, seen: Collection[str]) -> str | None:
    """Why a case cannot be run; None if it can."""
    if case.id in seen:
        return f"case id {case.id} is used twice; ids must be unique, see the family {case.family}"
    for stage in (case.stage, *([case.reference.stage] if isinstance(case.reference, Case) else [])):
        if stage.source is not None and not _is_file(stage.source):
            there: list[str] = []
            with suppress(OSError):  # a name of more than 255 letters
                there = sorted(path.name for path in stage.source.parent.glob("*.cu"))[:_MOST_SOURCES_NAMED]
            named = f", there is {', '.join(there)}" if there else ""
            return (
                f"no file {stage.source}{nearest(stage.source.name, there)}; expected the CUDA source of {stage.name}"
                f"{named}; correct the name in the family, or write the kernel"
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
    """The edge-size problems of this case's build."""
    project = config.current()
    for family in families(project) if listed is None else listed:
        if family.name == case.family:
            return [
                _of_project(probe, project)
                for probe in _from(family, family.probes, _as_defined(case, family), "probes")
            ]
    raise PeakgateError(f"case {case.id}: no family named {case.family}", Code.FAMILY)


def sized(case: Case, listed: Sequence[Family] | None = None) -> Sized | None:
    """How problems of other sizes of a case's stage are made; None if the family supports only its own."""
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
    """The valid cases that a family yields; refused ones are added to ``refused``."""
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
    """The case with the compiler options and include folders of the project."""
    stage = case.stage
    if stage.source is None or not (project.options or project.include):
        return case
    if isinstance(case.reference, Case):
        case = replace(case, reference=_of_project(case.reference, project))
    options, include = (*project.options, *stage.options), (*stage.include, *project.include)
    return replace(case, stage=replace(stage, options=options, include=include))


def _as_defined(case: Case, family: Family) -> Case:
    """The case with its stage as the family defines it, without the project's options, for the family's functions."""
    stage = next((stage for stage in family.stages if stage.name == case.stage.name), case.stage)
    return replace(case, stage=stage)


def _from(family: Family, function: Callable[[Any], Iterable[Any]], given: object, name: str) -> Iterator[Any]:
    """The cases that a family's function yields; raises PeakgateError with the line where it fails."""
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
    """File and line where a family's function raised an error, else where the function is defined."""
    defined = defined_at(function)
    return raised_at(error, Path(defined).parent) or defined or f"family {family.name}"


def problems(text: str = "") -> list[Case]:
    """Every small kernel case that ``-k text`` selects, with its edge-size problems, without duplicates.

    Library calls are left out. Raises PeakgateError if no case is left or one is refused.
    """
    return list(described_problems(text).all().cases)


def described_problems(text: str = "", file: Path | None = None) -> Catalogue:
    """As ``problems``, for the current project or one family file, together with the refused cases."""
    selects = selector(text)
    found = described(Scale.SMALL, file=file)
    chosen = [case for case in found.cases if case.stage.source is not None and selects(case.id)]
    refused = [each for each in found.refused if selects(each.id) or (each.whole and not chosen)]
    if not chosen and not refused:  # with a missing file of saved arrays there are no small cases
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
    for case in progress.each(chosen, "describing the edge cases", len(chosen), "case"):
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
    """A key of an argument that compares its data function by code: each call of a family makes new lambdas."""
    fill = argument.data if isinstance(argument, Buffer) else None
    if not isinstance(fill, FunctionType):
        return argument
    cells = tuple(cell.cell_contents for cell in fill.__closure__ or ())
    by_code = (fill.__code__, fill.__defaults__, cells)
    try:
        hash(by_code)
    except TypeError:  # its closure has a list, for example
        return argument
    return (replace(argument, data=None), by_code)


def without_problems(small: Sequence[Case], measured: Sequence[Case]) -> list[str]:
    """The measured kernels that no small case runs, which are not checked without a GPU."""
    stages = {case.stage for case in small}
    left = [case for case in measured if case.stage.source is not None and case.stage not in stages]
    return list(dict.fromkeys(map(kernel_name, left)))


def _why_none(text: str, listed: Sequence[Family]) -> str:
    """Why ``-k`` selects nothing; names a matching kernel file that no family lists."""
    family, _, name = text.lower().rpartition(".")
    used = {stage.source.resolve() for each in listed for stage in each.stages if stage.source is not None}
    why = "no small case with a kernel has such an id; try a family's name, or `peakgate bench -k` for a callable"
    for file in sorted(config.current().kernels.glob("*/*.cu")) if name else ():
        alike = file.stem.lower().endswith(name) and family in ("", file.parent.name.lower())
        if alike and file.resolve() not in used:
            return f"{why}; {config.near(file)} is in no family: list it in {config.near(file.parent)}/{FAMILY_FILE}"
    return why


def kernel_name(case: Case) -> str:
    """The name of a kernel in reports, ``family.stage``."""
    return f"{case.family}.{case.stage.name}"
