"""The families of a project, the cases they define, and their small problems, for checks that are slow."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from peakgate.case import Case, Family, Scale, Sized, Stage, Tier
from peakgate.common.errors import PeakgateError
from peakgate.common.selection import selector
from peakgate.project import config
from peakgate.project.config import Project

FAMILY_FILE = "family.py"
_PACKAGE = Path(__file__).parents[1]


def families(project: Project | None = None) -> list[Family]:
    """Every family of the project (default: the current one), in order of folder: each ``kernels/*/family.py``."""
    project = project or config.current()
    found: dict[str, tuple[Family, Path]] = {}
    for path in sorted(project.kernels.glob(f"[!_.]*/{FAMILY_FILE}")):
        family = family_at(path, project)
        if family.name in found:
            raise PeakgateError(f"family {family.name!r} is defined in {found[family.name][1]} and again in {path}")
        found[family.name] = (family, path)
    return [family for family, _ in found.values()]


def cases(scale: Scale, tier: Tier = Tier.FULL, listed: Sequence[Family] | None = None) -> list[Case]:
    """Every case of these families (default: the current project's); under the gate tier only the gate's.

    A repeated id is an error that names it. Small problems are few by themselves: the tier matters at benchmark
    scale only.
    """
    known: dict[str, Case] = {}
    found: set[Stage] = set()
    project = config.current()
    for family in families(project) if listed is None else listed:
        for case in _cases(family, scale, project):
            if scale is Scale.BENCH and tier is Tier.GATE and case.tier is not Tier.GATE:
                continue
            stages = [case.stage, *([case.reference.stage] if isinstance(case.reference, Case) else [])]
            for stage in stages:
                if stage.source is not None and stage not in found and not stage.source.is_file():
                    raise PeakgateError(
                        f"stage {stage.name} has no file {stage.source}: write the kernel, or take the stage out of "
                        f"the family {case.family}"
                    )
                found.add(stage)
            if missing := [path for path in case.saved if not path.is_file()]:
                raise PeakgateError(f"{case.id}: no file {missing[0]}; expected the array there that numpy.save writes")
            if case.id in known:
                raise PeakgateError(
                    f"case id {case.id} is used twice; ids must be unique, see the family {case.family}"
                )
            known[case.id] = case
    return list(known.values())


def probes(case: Case, listed: Sequence[Family] | None = None) -> list[Case]:
    """The edge-size problems that prove this case's build right."""
    project = config.current()
    for family in families(project) if listed is None else listed:
        if family.name == case.family:
            return [
                _of_project(probe, project)
                for probe in _from(family, family.probes, _as_defined(case, family), "probes")
            ]
    raise PeakgateError(f"case {case.id}: no family named {case.family}")


def sized(case: Case, listed: Sequence[Family] | None = None) -> Sized | None:
    """How problems of other sizes of a case's stage are made; None where the family means its own alone."""
    project = config.current()
    family = next(each for each in (families(project) if listed is None else listed) if each.name == case.family)
    found = family.sized(_as_defined(case, family))
    if found is None:
        return None
    make = found.make
    return replace(found, make=lambda numbers: _of_project(make(numbers), project))


def _cases(family: Family, scale: Scale, project: Project) -> Iterator[Case]:
    for case in _from(family, family.cases, scale, "cases"):
        try:
            hash(case.stage)
        except TypeError as error:
            raise PeakgateError(
                f"family {family.name}: stage {case.stage.name!r}: {error}; write tuples and texts in a stage"
            ) from None
        yield _of_project(case, project)


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


def _from(family: Family, function: Callable[[Any], Iterable[Any]], given: object, name: str) -> list[Case]:
    """The cases that a function of a family yields; a PeakgateError names the place where it fails."""
    try:
        made = list(function(given))
    except (Exception, SystemExit) as error:
        files = [Path(frame.filename) for frame in traceback.extract_tb(error.__traceback__)]
        # Of a family in the short form, ``function`` is ours, and what it calls is the family's.
        written = next((file for file in files if not file.is_relative_to(_PACKAGE)), None)
        where = _place(error, written or Path(getattr(function, "__code__", _from.__code__).co_filename))
        raise PeakgateError(
            f"{where}: {name}() of the family {family.name} gives no cases: {type(error).__name__}: {_message(error)}"
        ) from error
    for case in made:
        if not isinstance(case, Case):
            raise PeakgateError(
                f"family {family.name}: {name}() yields a {type(case).__name__}, expected peakgate.case.Case"
            )
    return made


def family_at(path: Path, project: Project | None = None) -> Family:
    """The FAMILY that a file defines; PeakgateError names file and line of what is wrong in it."""
    module = module_at(path, project)
    family = getattr(module, "FAMILY", None)
    if not isinstance(family, Family):
        given = "no FAMILY" if family is None else f"a FAMILY that is a {type(family).__name__}"
        raise PeakgateError(f"{path}: defines {given}, expected FAMILY = a peakgate.case.Family")
    return family


def module_at(path: Path, project: Project | None = None) -> ModuleType:
    """The module of a family file, imported once per process.

    The file and its siblings form a package, so that ``from .sibling import`` works. It is named by a hash of its
    folder: two projects may both have a family of that folder's name.
    """
    path = path.resolve()
    if not path.is_file():
        raise PeakgateError(f"{path}: no such file; expected the {FAMILY_FILE} of a kernel family")
    package = f"peakgate_family_{hashlib.sha256(str(path.parent).encode()).hexdigest()[:12]}"
    name = f"{package}.family"
    return sys.modules.get(name) or _imported(name, package, path, project or config.current())


def _imported(name: str, package: str, path: Path, project: Project) -> ModuleType:
    for folder in project.pythonpath:
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
    parent = ModuleType(package)
    parent.__path__ = [str(path.parent)]
    sys.modules[package] = parent
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        for loaded in [known for known in sys.modules if known.partition(".")[0] == package]:
            del sys.modules[loaded]
        raise PeakgateError(f"{_place(error, path)}: {type(error).__name__}: {_message(error)}") from error
    return module


def _place(error: BaseException, path: Path) -> str:
    """File and line of an error in a family's folder."""
    if isinstance(error, SyntaxError):
        return f"{error.filename or path}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    places = [f"{frame.filename}:{frame.lineno}" for frame in frames if Path(frame.filename).parent == path.parent]
    return places[-1] if places else str(path)


def _message(error: BaseException) -> str:
    return error.msg if isinstance(error, SyntaxError) else " ".join(str(error).split())


def problems(text: str = "", listed: Sequence[Family] | None = None) -> list[Case]:
    """Every small case that has a kernel of its own and that ``-k text`` selects, with its probes; equal launches once.

    Operations of the device (copies, a vendor's library) are left out: they are not ours to check. PeakgateError
    when no case is left, or no family is given and there is no project.
    """
    selects = selector(text)
    chosen = [case for case in cases(Scale.SMALL, listed=listed) if case.stage.source is not None and selects(case.id)]
    if not chosen:
        if listed is None and not text:
            project = config.required()
            raise PeakgateError(
                f"{config.near(project.kernels)}: no family with a kernel and a small problem there; "
                "`peakgate init` writes an example, benchmark tests are for `peakgate bench`"
            )
        raise PeakgateError(f"-k {text!r}: {_why_none(text)}")
    distinct: dict[Any, Case] = {}
    for case in chosen:
        for problem in (case, *probes(case, listed)):
            key = (problem.family, problem.stage, problem.defines, problem.launch, problem.arguments)
            distinct.setdefault(key, problem)
    return list(distinct.values())


def without_problems(listed: Sequence[Family] | None = None) -> list[str]:
    """The kernels that are measured and that no small case runs: nothing checks them without a GPU."""
    small = {case.stage for case in cases(Scale.SMALL, listed=listed)}
    measured = cases(Scale.BENCH, listed=listed)
    left = [case for case in measured if case.stage.source is not None and case.stage not in small]
    return list(dict.fromkeys(map(kernel_name, left)))


def _why_none(text: str) -> str:
    """A kernel file that no family lists yet is the likely slip."""
    family, _, stage = text.partition(".")
    project = config.current()
    file = project.kernels / family / f"{stage}.cu"
    if stage and file.is_file():
        return f"no stage is built from {config.near(file)}; add its entry to {config.near(file.parent)}/family.py"
    return "no small case with a kernel has such an id; try a family's name"


def kernel_name(case: Case) -> str:
    """A kernel as reports name it, ``family.stage``."""
    return f"{case.family}.{case.stage.name}"
