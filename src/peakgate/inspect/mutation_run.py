"""Runs mutants through the check: some problem of some stage that includes the file must catch each of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from peakgate.base import config
from peakgate.base.emulated import LaunchNotEnded, read_sources, source_text
from peakgate.base.errors import BuildError, Code, PeakgateError, RefusedSize
from peakgate.base.files import scratch_folder
from peakgate.base.report import Annotation, Tone
from peakgate.compile.cubin import source_files
from peakgate.device.cpu import not_emulated
from peakgate.inspect.emulate import DIED, NOT_ENDED, LaunchFinding, check_case
from peakgate.inspect.mutations import Mutant, mutants
from peakgate.inspect.problems import builds, refused
from peakgate.inspect.workers import Died, TaskProgress
from peakgate.judge import waivers
from peakgate.judge.waivers import SurvivorKey
from peakgate.spec.case import Case
from peakgate_emulator.device_code import device_texts

SURVIVING = "surviving mutant"
"""Rule of an annotation."""
# Memory accesses of a launch after which a mutant counts as endless: the largest small problem needs 30 to 100 million
# with g++ and 100 to 200 million with clang, which keeps more values in memory.
MUTANT_ACCESS_BUDGET = 500_000_000


@dataclass(frozen=True, slots=True)
class MutantResult:
    """A mutant and what caught it; None when it survived.

    ``invalid`` is why it does not compile, ``undecided`` why its run was killed from outside.
    """

    mutant: Mutant
    caught_by: LaunchFinding | None = None
    invalid: str | None = None
    undecided: str | None = None

    @property
    def survived(self) -> bool:
        return self.caught_by is None and self.invalid is None and self.undecided is None


def targets(text: str = "") -> tuple[list[Mutant], dict[str, str]]:
    """The mutants of all files of the stages that ``-k text`` selects, and the files without mutants, with the reason.

    Files of the project's kernels and of the folders of stages' sources, not libraries elsewhere. Host code, and
    kernels that no such stage launches, are not mutated. Raises PeakgateError if a family fails to describe its cases.
    """
    for each in refused(text):
        raise PeakgateError.repeated(each.reason)
    run = _builds_and_sources(text, config.current().root)
    used = {path for _, sources in run for path in sources}
    ran: dict[Path, set[str]] = {}
    folders = {config.current().kernels.resolve()}
    for problems, _ in run:
        stage = problems[0].stage
        if stage.source is None:
            continue
        folders.add(stage.source.resolve().parent)
        files = read_sources(stage.source, stage.include)
        # Host code and kernels that the stage does not launch are replaced by blanks.
        for file, device_text in zip(files, device_texts(files, stage.functions), strict=True):
            ran.setdefault(file.path.resolve(), set()).add(device_text)
    found = [
        mutant
        for path in sorted(used)
        if any(map(path.is_relative_to, folders))
        for mutant in mutants(_name(path), source_text(path))
        if any(device_text[mutant.start : mutant.stop].strip() for device_text in ran[path])
    ]
    of_kernels = (path.resolve() for path in sorted(config.current().kernels.rglob("*.cu*")) if path.is_file())
    without = {} if text else {_name(path): "no stage includes it" for path in of_kernels if path not in used}
    for cases in builds(text).values():
        source = cases[0].stage.source
        if source is not None and not _inside(source):
            without[str(config.near(source.resolve()))] = f"it is outside {config.near(config.current().root)}"
    return found, without


def run_mutant(mutant: Mutant, orders: Sequence[int], report: TaskProgress) -> MutantResult:
    """Run all builds that include the mutated file, small problems first, up to the first finding; a worker's task.

    Raises PeakgateError if the file was changed since its mutants were listed.
    """
    original = _path(mutant.file)
    text = source_text(original)
    if mutant not in mutants(mutant.file, text):
        raise PeakgateError(f"{original} was changed while its mutants ran; run them again", Code.CHANGED)
    with scratch_folder("mutant") as folder:
        including = [each for each in _builds_and_sources("", config.current().root) if original in each[1]]
        for source in {source for _, sources in including for source in sources}:
            copy = _within(folder, source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(mutant.applied(text) if source == original else source_text(source), encoding="utf-8")
        for problems, _ in including:
            for problem in problems:
                report(problem.id)
                try:
                    launched = check_case(_copied(folder, problem), orders, access_budget=MUTANT_ACCESS_BUDGET)
                except RefusedSize:
                    continue
                except BuildError as error:
                    return MutantResult(mutant, invalid=str(error))
                except LaunchNotEnded as error:  # a check would not pass
                    found = LaunchFinding(problem.id, orders[0], NOT_ENDED, None, str(error))
                    return MutantResult(mutant, caught_by=found)
                for findings in launched:
                    if findings:
                        return MutantResult(mutant, caught_by=findings[0])
    return MutantResult(mutant)


def died(mutant: Mutant, how: Died) -> MutantResult:
    """The result of a mutant whose process died, which counts as caught, or was killed from outside."""
    if how.ended:
        return MutantResult(mutant, undecided=f"{how.at}: {how.how}")
    return MutantResult(mutant, caught_by=LaunchFinding(how.at, 0, DIED, None, how.how))


def entry(mutant: Mutant) -> str:
    """An entry for the waivers file, with an empty reason."""
    file, line, change, occurrence = mutant.key
    texts = {"file": file, "line": line, "change": change}
    lines = [f"{name} = {waivers.quoted(text)}" for name, text in texts.items()]
    lines += [f"occurrence = {occurrence}"] if occurrence > 1 else []
    return "\n".join(("[[survivor]]", *lines, 'reason = ""'))


def complaints(
    survived: Iterable[Mutant], caught: Iterable[Mutant], reasons: Mapping[SurvivorKey, str]
) -> list[Annotation]:
    """Mismatches between the listed survivors and the mutants that ran.

    These are survivors that are not listed, and entries whose mutant was caught or does not exist.
    """
    alive, dead = {mutant.key: mutant for mutant in survived}, {mutant.key: mutant for mutant in caught}
    unlisted = (mutant for key, mutant in alive.items() if key not in reasons)
    found = [placed(SURVIVING, mutant, "survives without a listed reason") for mutant in unlisted]
    file = config.current().baselines / waivers.WAIVERS_FILE
    for key in reasons:
        if key in dead:
            said = f"{dead[key]}: listed as a survivor, but it is caught; remove the entry"
            found.append(Annotation(waivers.WAIVER, said, file))
        elif key not in alive:
            said = f"{key[0]}: {key[2]} in `{key[1]}`: listed as a survivor, but there is no such mutant"
            found.append(Annotation(waivers.WAIVER, said, file))
    return found


def placed(rule: str, mutant: Mutant, said: str, tone: Tone = Tone.BAD) -> Annotation:
    """What is said about a mutant, at its line."""
    return Annotation(rule, f"{mutant}: {said}", _path(mutant.file), mutant.line, tone)


def described(results: Sequence[MutantResult], reasons: Mapping[SurvivorKey, str], wall_s: float) -> dict[str, Any]:
    """The results for the verdict file."""
    in_order = sorted(results, key=lambda result: (result.mutant.file, result.mutant.start, result.mutant.change))
    return {
        "wall_s": round(wall_s, 1),
        "mutants": [
            {
                "file": result.mutant.file,
                "line": result.mutant.line,
                "change": result.mutant.change,
                "caught_by": result.caught_by and f"{result.caught_by.case}: {result.caught_by.what}",
                "survives_because": reasons.get(result.mutant.key) if result.survived else None,
            }
            for result in in_order
        ],
    }


@lru_cache(maxsize=1)
def _builds_and_sources(text: str, root: Path) -> list[tuple[list[Case], frozenset[Path]]]:  # noqa: ARG001  (a key)
    """The problems of each build that the emulator can run, the smallest buffers first, and its source files.

    Without those whose source is outside the project, whose files are copied for each mutant.
    """
    found = []
    for cases in builds(text).values():
        stage = cases[0].stage
        if not_emulated(cases[0]) is None and (stage.source is None or _inside(stage.source)):
            files = source_files(stage.source, stage.include) if stage.source else ()
            sources = frozenset(path.resolve() for path in files if _inside(path))
            found.append((sorted(cases, key=lambda case: case.buffer_bytes), sources))
    return found


def _copied(folder: Path, problem: Case) -> Case:
    """The problem with its stage's files in a copy of the project."""
    stage = problem.stage
    assert stage.source is not None
    include = tuple(_within(folder, each.resolve()) if _inside(each) else each for each in stage.include)
    return replace(problem, stage=replace(stage, source=_within(folder, stage.source.resolve()), include=include))


def _within(folder: Path, path: Path) -> Path:
    """The place of a project's file or folder in a copy of it."""
    return folder / path.relative_to(config.current().root.resolve())


def _inside(path: Path) -> bool:
    """Whether a file or folder is in the project."""
    return path.resolve().is_relative_to(config.current().root.resolve())


def _name(path: Path) -> str:
    """A file as reports and lists name it: by its place in the folder of kernels, else in the project."""
    project = config.current()
    kernels = project.kernels.resolve()
    return path.relative_to(kernels if path.is_relative_to(kernels) else project.root.resolve()).as_posix()


def _path(name: str) -> Path:
    """The file of a name."""
    project = config.current()
    of_kernels = project.kernels.resolve() / name
    return of_kernels if of_kernels.exists() else project.root.resolve() / name
