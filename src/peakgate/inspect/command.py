"""``peakgate check``: every kernel in the checked emulator, on a machine without a GPU; ``peakgate mutants``.

``check`` takes the project's families, or the family file that is named. ``mutants`` shows that the check notices each
barrier and each guard that is deleted.

Exits 0 when nothing was found, 1 on a defect, a wrong result or a mutant that survives without a reason, 2 on bad
input, 3 where the check could not be made. What was found is left in ``check.json`` or ``mutants.json``.
"""

from __future__ import annotations

import argparse
import importlib
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from peakgate.base import config
from peakgate.base.emulated import find_compiler
from peakgate.base.errors import Code, PeakgateError
from peakgate.base.formatting import counted
from peakgate.base.options import VerbParser
from peakgate.base.report import Report, add_json_option, clear_verdict, leave_verdict
from peakgate.base.streams import say, warn
from peakgate.base.verdict import ExitCode
from peakgate.inspect import emulate, gpu_build, isolate, mutation_run, picture, report, triton_tests, workers
from peakgate.inspect.emulate import BuildReport, LaunchFinding
from peakgate.judge import waivers
from peakgate.judge.waivers import Defect
from peakgate.measure.limits import processor_limit_s
from peakgate.render import terminal
from peakgate.spec.case import Case
from peakgate.spec.selection import add_selection

_TASK_S = 300.0
"""Of processor time, beside its launches, after which the check of a problem is ended."""
CHECK_FILE, MUTANTS_FILE = "check.json", "mutants.json"


def main(verb: str, arguments: Sequence[str]) -> int:
    """Run ``check`` or ``mutants`` and return its exit code."""
    chosen = _chosen(verb, arguments)
    verdict_file = MUTANTS_FILE if chosen.mutants else CHECK_FILE
    clear_verdict(chosen.out / verdict_file)
    project = config.current()
    outside = (
        chosen.family is not None
        and chosen.family.is_file()
        and (project.file is None or not chosen.family.resolve().is_relative_to(project.root.resolve()))
    )
    if chosen.isolate:
        return _isolated(chosen, chosen.family.resolve().parent if outside else project.root)
    if outside:
        warn(
            f"{chosen.family} is outside the project: its Python and its kernels, native code, run with "
            "your rights; --isolate runs them without network and without your files"
        )
    try:
        compiler = find_compiler()
    except PeakgateError as error:
        left = Report(verb, ExitCode.UNDECIDED, sentences=(f"not checked: {error}",), fields={"reason": str(error)})
        terminal.show(left)
        return leave_verdict(left, chosen.out / verdict_file)
    orders = emulate.schedules(chosen.schedules) if chosen.seed is None else (chosen.seed,)
    start = time.perf_counter()
    found = (_mutants if chosen.mutants else _check)(chosen, orders, start)
    named = {"compiler": f"{compiler.name} {compiler.version}"}
    return leave_verdict(replace(found, fields={**named, **found.fields}), chosen.out / verdict_file)


def _check(chosen: argparse.Namespace, orders: Sequence[int], start: float) -> Report:
    """Check the catalogue's kernels and the Triton kernels of benchmark tests, or the family that is named."""
    with (
        triton_tests.begun(chosen.text) if chosen.family is None else nullcontext(triton_tests.TritonCheck()) as triton
    ):
        reports, no_nvrtc = _emulated(chosen, orders)
    if isinstance(no_nvrtc, PeakgateError):
        if not triton.reports:
            raise no_nvrtc
        no_nvrtc = None
    notes = (*([no_nvrtc] if no_nvrtc else []), *triton.notes)
    family_file = "" if chosen.family is None else str(chosen.family)
    kernels = report.by_kernel([*reports, *triton.reports], partial(_text_at, chosen, triton.texts), family_file)
    found = _ruled(chosen, orders, kernels, start)
    found = replace(found, notes=notes, fields={**found.fields, "compiled_for_gpu": not no_nvrtc, "notes": notes})
    terminal.show(found)
    if chosen.html:
        when = datetime.now(UTC).isoformat(" ", "minutes")
        lines = [*found.notes, *(f"{row.name}: {row.reason}" for row in found.rows), *found.fields["complaints"]]
        drawn = _drawn(chosen, [defect for kernel in kernels for defect in kernel.defects])
        picture.write_page(chosen.html, found.sentences[-1], when, drawn, lines)
        say(f"page: {chosen.html}")
    return found


def _emulated(
    chosen: argparse.Namespace, orders: Sequence[int]
) -> tuple[list[BuildReport], str | PeakgateError | None]:
    """A report of every build, and why none was compiled for a GPU; an error where no kernel is chosen."""
    try:
        builds = sorted(emulate.builds(chosen.text, chosen.family).items(), key=_work_of, reverse=True)
    except PeakgateError as error:
        return [], error
    check = partial(emulate.check_build, nonfinite=chosen.nonfinite, search_s=chosen.search)
    tasks = [partial(check, chosen.text, chosen.family, key, orders) for key, _ in builds]
    reports = emulate.not_run(chosen.text, chosen.family)
    keys = {key for key, _ in builds}
    measured, no_nvrtc = gpu_build.measured(keys, chosen.text, chosen.family), gpu_build.missing_nvrtc()
    timeout_s = config.current().emulation_timeout_s
    every = (case for _, cases in builds for case in cases)
    launches_s = (sum(processor_limit_s(each.launch, timeout_s) for each in case.launches) for case in every)
    longest_s = max(launches_s, default=0.0)
    limit_s = _TASK_S + len(orders) * longest_s
    answers = workers.run(tasks, chosen.jobs, limit_s=limit_s)  # forked before threads compile
    with gpu_build.compiled([] if no_nvrtc else measured, keys, chosen.jobs) as building:
        for number, answer in answers:
            if isinstance(answer, workers.Died):
                key, cases = builds[number]
                died = LaunchFinding(answer.at, orders[0], emulate.DIED, None, f"{emulate.DIED}: {answer.how}")
                undecided = f"{answer.at or key.kernel}: {answer.how}"
                reports.append(
                    BuildReport(key.kernel, len(cases), broken=undecided)
                    if answer.ended
                    else BuildReport(key.kernel, len(cases), findings=(died,))
                )
            else:
                reports.append(answer)
        reports += gpu_build.reports(measured, building)
    return reports, no_nvrtc


def _text_at(chosen: argparse.Namespace, of_triton: Mapping[tuple[str, str], str], kernel: str, place: str) -> str:
    known = of_triton.get((kernel, place))
    return emulate.text_at(chosen.text, chosen.family, kernel, place) if known is None else known


def _ruled(
    chosen: argparse.Namespace, orders: Sequence[int], kernels: Sequence[report.KernelReport], start: float
) -> Report:
    """The report of the kernels, with what the project accepts."""
    accepted, today = waivers.read(config.current().baselines / waivers.WAIVERS_FILE).defects, datetime.now(UTC).date()
    checked = {kernel.kernel: not (kernel.skipped or kernel.broken) for kernel in kernels}
    every = [defect for kernel in kernels for defect in kernel.defects]
    ruling = waivers.rule(every, accepted, partial(_looked_at, chosen, checked), today)
    offer = ruling.offer(accepted, config.near(config.current().baselines / waivers.WAIVERS_FILE))
    return report.report(kernels, ruling, orders, time.perf_counter() - start, offer)


def _work_of(build: tuple[emulate.BuildKey, Sequence[Case]]) -> int:
    """By the work that the families claim: the longest builds come first, so that no process is left with one."""
    return sum(case.work.bytes + case.work.flops for case in build[1])


def _drawn(chosen: argparse.Namespace, found: Sequence[Defect]) -> list[picture.Drawing]:
    """Each race for shared memory once, of the first problem that showed it; a worker that dies draws none."""
    races: dict[tuple[str, int], str] = {
        (each.facts["case"], each.facts["schedule"]): each.key.kernel
        for each in found
        if each.key.kind in picture.KINDS
    }
    tasks = picture.tasks(chosen.text, chosen.family, list(races))
    answers = dict(workers.run(tasks, chosen.jobs))
    drawings, known = [], set()
    for number, kernel in enumerate(races.values()):
        answer = answers[number]
        for each in [] if isinstance(answer, workers.Died) else answer:
            if (kernel, each.kind, each.where) not in known:
                known.add((kernel, each.kind, each.where))
                drawings.append(picture.drawing(kernel, each, partial(emulate.text_at, chosen.text, chosen.family)))
    return drawings


def _looked_at(chosen: argparse.Namespace, checked: Mapping[str, bool], key: waivers.DefectKey) -> bool:
    """Whether this run would have found a waiver's defect: all problems of its kernel ran, or there is none."""
    return key.command == report.COMMAND and not chosen.text and checked.get(key.kernel, chosen.family is None)


def _isolated(chosen: argparse.Namespace, folder: Path) -> int:
    """The same check in namespaces of its own, which see this folder."""
    given = [] if chosen.family is None else [str(chosen.family.resolve())]
    given += [f"-k={chosen.text}", f"--schedules={chosen.schedules}", f"--jobs={chosen.jobs}"]
    given += [f"--seed={chosen.seed}"] if chosen.seed is not None else []
    given += [f"--search={chosen.search}", *(["--nonfinite"] if chosen.nonfinite else [])]
    return isolate.run(given, folder.resolve(), chosen.out, CHECK_FILE)


def _mutants(chosen: argparse.Namespace, orders: Sequence[int], start: float) -> Report:
    """Run every mutant and hold the survivors to their list."""
    reasons = waivers.read(config.current().baselines / waivers.WAIVERS_FILE).survivors
    mutants, unused = mutation_run.targets(chosen.text)
    if not mutants:
        raise PeakgateError(
            f"no barrier, guard or clamp to delete in the files of {config.near(config.current().kernels)}"
            f"{f' that -k {chosen.text!r} selects' if chosen.text else ''}; there is nothing that mutants could show",
            Code.SOURCE,
        )
    if chosen.skip_listed:
        skipped = {mutant.key for mutant in mutants} & reasons.keys()
        mutants = [mutant for mutant in mutants if mutant.key not in skipped]
        reasons = {key: reason for key, reason in reasons.items() if key not in skipped}
        say(f"skipped: {counted(len(skipped), 'mutant')} listed as survivors")
    tasks = [partial(mutation_run.run_mutant, mutant, orders) for mutant in mutants]
    results: list[mutation_run.MutantResult] = []
    for number, answer in workers.run(tasks, chosen.jobs):
        results.append(mutation_run.died(mutants[number], answer) if isinstance(answer, workers.Died) else answer)
    alive = [result.mutant for result in results if result.survived]
    listed = reasons if not chosen.text else {key: reasons[key] for key in {m.key for m in mutants} & reasons.keys()}
    ended = {result.mutant.key for result in results if result.undecided}
    dead = [result.mutant for result in results if not result.survived and not result.undecided]
    said = mutation_run.complaints(alive, dead, {key: why for key, why in listed.items() if key not in ended})
    said += [f"{result.mutant}: is not a program: {result.invalid}" for result in results if result.invalid]
    unended = [f"{result.mutant}: {result.undecided}" for result in results if result.undecided]
    where = config.near(config.current().baselines / waivers.WAIVERS_FILE)
    how = f"to accept a survivor, copy its entry to {where} and fill in why:"
    offer = waivers.listed_under(how, [mutation_run.entry(mutant) for mutant in alive if mutant.key not in reasons])
    wall_s = time.perf_counter() - start
    caught = sum(result.caught_by is not None for result in results)
    undecided = f", {len(unended)} not decided" if unended else ""
    explained = sum(mutant.key in reasons for mutant in alive)
    files = counted(len({mutant.file for mutant in mutants}), "file")
    survived = f"{caught} caught, {len(alive)} survived, {explained} of them with a reason{undecided}"
    summary = f"{counted(len(mutants), 'mutant')} of {files}: {survived} ({wall_s:.0f} s)"
    unmutated = [f"{file}: not mutated: no stage includes it" for file in unused]
    found = Report(
        command="mutants",
        exit_code=ExitCode.REGRESSION if said else ExitCode.UNDECIDED if unended else ExitCode.OK,
        sentences=[text for text in (*said, *unended, offer, *unmutated, summary) if text],
        fields={
            "complaints": said,
            "not_decided": unended,
            **mutation_run.described(results, reasons, wall_s),
            "not_mutated": unused,
        },
    )
    terminal.show(found)
    return found


def _chosen(verb: str, arguments: Sequence[str]) -> argparse.Namespace:
    parser = VerbParser(
        prog=f"peakgate {verb}",
        description="Run every kernel in the checked emulator, without a GPU. Compiles and runs native code of the "
        "project with your rights.",
    )
    parser.add_argument("family", nargs="?", type=Path, help="a family.py to check, instead of the project's families")
    add_selection(parser, default="")
    parser.add_argument("--schedules", type=int, default=2, help="orders of threads: ascending, then shuffled (2)")
    parser.add_argument(
        "--seed", type=int, metavar="N", help="the one order of threads that a defect names, in place of --schedules"
    )
    parser.add_argument(
        "--search",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="try other sizes, so long per kernel, where the family gives no edges (0)",
    )
    parser.add_argument("--nonfinite", action="store_true", help="report NaNs and infinities that a kernel writes")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: one per core)")
    parser.add_argument(
        "--isolate",
        action="store_true",
        help="run a stranger's code without network, without your files and environment (Linux namespaces), or exit 3",
    )
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page with a picture of each shared race")
    parser.add_argument("--out", type=Path, help="folder for the verdict (default: the project's)")
    parser.set_defaults(mutants=verb == "mutants", skip_listed=False)
    if verb == "check":
        add_json_option(parser)
    if verb == "mutants":
        parser.add_argument(
            "--skip-listed",
            action="store_true",
            help="leave out those listed as survivors, which take longest; one that is caught by now is not reported",
        )
    chosen = parser.parse_args(arguments)
    chosen.out = chosen.out or config.near(config.current().out)
    if chosen.family and chosen.mutants:
        parser.error("a family file goes with `check`: `mutants` takes the project's families")
    if chosen.isolate and chosen.mutants:
        parser.error("--isolate goes with a plain `check`")
    if chosen.html:
        if chosen.mutants or chosen.isolate:
            parser.error("--html goes with a plain `check`")
        importlib.import_module("jinja2")  # before the check, where it is not installed
    if chosen.schedules < 1 or chosen.jobs < 1 or (chosen.seed or 0) < 0:
        parser.error("--schedules and --jobs are whole numbers from 1 on, --seed from 0 on")
    if not 0 <= chosen.search < float("inf") or (chosen.search and chosen.mutants):
        parser.error("--search is a number of seconds, and goes with a plain `check`")
    return chosen
