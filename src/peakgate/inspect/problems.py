"""The problems of a project's kernels that the checks run, by build: those that its families give, and chosen ones."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from peakgate.base import config
from peakgate.base.emulated import read_sources
from peakgate.base.errors import NOT_OF_A_PROJECT, PeakgateError, described, raised_at
from peakgate.base.processes import exit_raises
from peakgate.device.cpu import not_emulated
from peakgate.spec import catalogue
from peakgate.spec.case import Case, Family, RefusedCase, Sized
from peakgate.spec.catalogue import FAMILY_FILE
from peakgate.spec.edges import Chosen, chosen
from peakgate.spec.stage import SourceLine


@dataclass(frozen=True, slots=True)
class BuildKey:
    """Identifies a build of a stage across processes, since the records themselves may not be picklable."""

    family: str
    stage: str
    defines: tuple[tuple[str, str], ...]

    @property
    def kernel(self) -> str:
        return f"{self.family}.{self.stage}"


@dataclass(frozen=True, slots=True)
class BuildProblems:
    """The problems that a family gives, the function that makes others, and the chosen ones."""

    given: tuple[Case, ...]
    sized: Sized | None = None
    chosen: Chosen = field(default_factory=lambda: Chosen({}, {}))


def builds(text: str = "", family_file: Path | None = None) -> dict[BuildKey, tuple[Case, ...]]:
    """The problems of every build with a small case that ``-k text`` selects, in one family file or the project.

    Problems that the family gives come first, then chosen ones, whose references may raise RefusedSize. Cases that are
    not described are returned by ``refused``.
    """
    every, _, _ = build_problems(text, family_file, config.current().root)
    return {key: (*build.given, *build.chosen.cases.values()) for key, build in every.items()}


def refused(text: str = "", family_file: Path | None = None) -> Sequence[RefusedCase]:
    """The small problems selected as in ``builds`` that their families fail to describe."""
    return build_problems(text, family_file, config.current().root)[1]


@lru_cache(maxsize=1)
def build_problems(
    text: str,
    family_file: Path | None,
    root: Path,  # noqa: ARG001  (the project's, a key)
) -> tuple[dict[BuildKey, BuildProblems], list[RefusedCase], Sequence[Family]]:
    """The problems selected as in ``builds``, those that are not described, and the families; cached for ``root``."""
    found = catalogue.described_problems(text, family_file)
    grouped: dict[BuildKey, list[Case]] = {}
    for case in found.cases:
        grouped.setdefault(BuildKey(case.family, case.stage.name, case.defines), []).append(case)
    made: dict[BuildKey, BuildProblems] = {}
    not_described = list(found.refused)
    for key, cases in grouped.items():
        made[key] = BuildProblems(tuple(cases))
        try:
            with exit_raises():
                sized = catalogue.sized(cases[0], found.families)
                if sized is None or not_emulated(cases[0]):
                    continue
                more, known = chosen(sized), {case.size for case in cases}
                new = {numbers: case for numbers, case in more.cases.items() if case.size not in known}
                made[key] = BuildProblems(tuple(cases), sized, replace(more, cases=new))
        except NOT_OF_A_PROJECT:
            raise
        except BaseException as error:  # from the family's functions, at sizes that it did not give
            reason = f"no sizes can be chosen: {error_of_family(cases[0], error)}; give it edges"
            not_described.append(catalogue.refused_as(cases[0], reason))
    return made, not_described, found.families


def error_of_family(case: Case, error: BaseException) -> str:
    """An error of a family's function as one line, with file and line."""
    if isinstance(error, PeakgateError):
        return error.message
    where = raised_at(error, case.stage.source.parent if case.stage.source else None)
    return f"{where}: {described(error)}" if where else described(error)


def unnamed(family_file: Path | None) -> list[str]:
    """A note for each .cu file, in this family's folder or among the project's kernels, that no family compiles."""
    kernels, sources = config.current().kernels if family_file is None else family_file.parent, set[Path]()
    _, _, families = build_problems("", family_file, config.current().root)
    for family in families:
        for stage in family.stages:
            with suppress(PeakgateError):  # a missing file is reported when it is checked
                if stage.source is not None:
                    sources |= {file.path.resolve() for file in read_sources(stage.source, stage.include)}
    found = (path for path in kernels.rglob("*.cu") if "/." not in f"/{path.relative_to(kernels).as_posix()}")
    left = sorted(path for path in found if path.resolve() not in sources)  # a cache may lie in a hidden folder
    return [f"{config.near(path)}: no family names it, it is not checked" for path in left]


def source_line(text: str, family_file: Path | None, kernel: str, place: str | None) -> SourceLine:
    """Line ``file.cu:12`` of the sources of a kernel or of its reference kernel; without a place that of the kernel.

    If there is none, the family's file, or the project's settings.
    """
    name, _, number = (place or "").rpartition(":")
    for key, cases in builds(text, family_file).items():
        if key.kernel != kernel:
            continue
        stage = cases[0].stage
        if place is None and (line := stage.source_line):
            return line
        references = [case.reference.stage for case in cases if isinstance(case.reference, Case)]
        for each in (stage, *references[:1]):
            for file in read_sources(each.source, each.include) if each.source else ():
                lines = file.text.splitlines()
                if file.path.name == name and number.isdigit() and int(number) <= len(lines):
                    return SourceLine(file.path, int(number), lines[int(number) - 1].strip())
    family = family_file or config.current().kernels / kernel.partition(".")[0] / FAMILY_FILE
    return SourceLine(family if family.exists() else config.current().file or config.current().root)
