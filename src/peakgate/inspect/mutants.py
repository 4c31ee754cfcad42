"""``peakgate inspect mutants``: test whether the check detects the deletion of each barrier and each guard.

Some problem of some stage that includes the mutated file must catch it. Exits 0 if every mutant was caught or is listed
as a survivor with a reason, 1 if one is neither or a listed one does not survive, 2 on bad input, 3 if a mutant could
not be decided. The results are written to ``mutants.json``.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from peakgate.base import config, progress
from peakgate.base.emulated import LaunchNotEnded, find_compiler, read_sources, source_text
from peakgate.base.errors import BuildError, Code, PeakgateError, RefusedSize
from peakgate.base.files import scratch_folder
from peakgate.base.formatting import counted
from peakgate.base.options import VerbParser
from peakgate.base.report import NOT_CHECKED, Annotation, Report, Tone, clear_verdict
from peakgate.base.streams import say
from peakgate.base.verdict import ExitCode
from peakgate.compile.cubin import source_files
from peakgate.device.cpu import not_emulated
from peakgate.inspect import add_emulator_options, leave_not_checked, mutations, workers
from peakgate.inspect.emulate import DIED, NOT_ENDED, LaunchFinding, check_case, schedules
from peakgate.inspect.mutations import Mutant
from peakgate.inspect.problems import builds, refused
from peakgate.inspect.workers import Died, TaskProgress
from peakgate.judge import waivers
from peakgate.judge.waivers import SurvivorKey
from peakgate.render import terminal
from peakgate.render.findings import leave_verdict
from peakgate.spec.case import Case
from peakgate_emulator.device_code import device_texts

MUTANTS_FILE = "mutants.json"
SCHEDULES = 2

SURVIVING = "surviving mutant"
"""Rule of an annotation."""
# Memory accesses of a launch after which a mutant counts as endless: the largest small problem needs 30 to 100 million
# with g++ and 100 to 200 million with clang, which keeps more values in memory.
MUTANT_ACCESS_BUDGET = 500_000_000


def main(verb: str, arguments: Sequence[str]) -> int:
    """Run every mutant, compare the survivors with the list, and return the exit code."""
    parser = VerbParser(
        prog=f"peakgate {verb}",
        description="Delete each barrier, guard and clamp of the project's kernels, one at a time, and see whether "
        "`check` notices. Needs no GPU; compiles and runs the project's native code with your rights.",
        epilog="exit codes: 0 every mutant was caught or is listed, 1 one is not, 2 bad input, 3 one was not decided",
    )
    add_emulator_options(parser)
    parser.add_argument(
        "--skip-listed",
        action="store_true",
        help="skip mutants that are listed as survivors, which take longest; one that is caught by now is not reported",
    )
    chosen = parser.parse_args(arguments)
    clear_verdict(chosen.out / MUTANTS_FILE)
    try:
        compiler = find_compiler()
    except PeakgateError as error:
        return leave_not_checked(verb, error, chosen.out / MUTANTS_FILE)

    start = time.perf_counter()
    project = config.current()
    reasons = waivers.read(project.baselines / waivers.WAIVERS_FILE).survivors
    with progress.shown("searching the kernels for barriers, guards and clamps"):
        mutants, without = targets(chosen.text)
    unmutated = [f"{file}: not mutated: {reason}" for file, reason in without.items()]
    if not mutants:
        raise PeakgateError(
            f"no barrier, guard or clamp to delete in the kernels of {config.near(project.root)}"
            f"{f' that -k {chosen.text!r} selects' if chosen.text else ''}; so there are no mutants to run"
            f"{''.join(f'; {each}' for each in unmutated)}",
            Code.SOURCE,
        )
    if chosen.skip_listed:
        skipped = {mutant.key for mutant in mutants} & reasons.keys()
        mutants = [mutant for mutant in mutants if mutant.key not in skipped]
        reasons = {key: reason for key, reason in reasons.items() if key not in skipped}
        say(f"skipped: {counted(len(skipped), 'mutant')} listed as survivors")
    tasks = [partial(run_mutant, mutant, schedules(SCHEDULES)) for mutant in mutants]
    results: list[MutantResult] = []
    answers = workers.run(tasks, chosen.jobs)  # forked before a thread shows progress
    with progress.shown("checking the mutants"):
        for number, answer in progress.each(answers, "checking the mutants", len(tasks), "mutant"):
            results.append(died(mutants[number], answer) if isinstance(answer, Died) else answer)

    alive = [result.mutant for result in results if result.survived]
    dead = [result.mutant for result in results if not result.survived and not result.undecided]
    ended = {result.mutant.key for result in results if result.undecided}
    listed = reasons if not chosen.text else {key: reasons[key] for key in {m.key for m in mutants} & reasons.keys()}
    wrong = complaints(alive, dead, {key: why for key, why in listed.items() if key not in ended})
    wrong += [
        placed(NOT_CHECKED, result.mutant, f"does not compile: {result.invalid}")
        for result in results
        if result.invalid
    ]
    ended_early = [
        placed(NOT_CHECKED, result.mutant, result.undecided, Tone.OPEN) for result in results if result.undecided
    ]
    failed, not_decided = ([each.message for each in found] for found in (wrong, ended_early))
    wall_s = time.perf_counter() - start
    files = counted(len({mutant.file for mutant in mutants}), "file")
    caught = sum(result.caught_by is not None for result in results)
    explained = sum(mutant.key in reasons for mutant in alive)
    survived = f"{caught} caught, {len(alive)} survived" + (f", {explained} of them with a reason" if alive else "")
    survived += f", {len(not_decided)} not decided" if not_decided else ""
    summary = f"{counted(len(mutants), 'mutant')} of {files}: {survived} ({wall_s:.0f} s)"
    found = Report(
        command=verb,
        exit_code=ExitCode.REGRESSION if failed else ExitCode.UNDECIDED if not_decided else ExitCode.OK,
        sentences=[*failed, *not_decided, *unmutated, summary],
        fields={
            "compiler": f"{compiler.name} {compiler.version}",
            "complaints": failed,
            "not_decided": not_decided,
            **described(results, reasons, wall_s),
            "not_mutated": list(without),
        },
        annotations=[*wrong, *ended_early],
        entries=[entry(mutant) for mutant in alive if mutant.key not in reasons],
    )
    terminal.show(found)
    return leave_verdict(found, chosen.out / MUTANTS_FILE)


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
        for mutant in mutations.mutants(_name(path), source_text(path))
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
    if mutant not in mutations.mutants(mutant.file, text):
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
