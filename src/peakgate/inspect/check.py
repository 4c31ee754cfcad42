"""``peakgate check``: run every kernel in the checked emulator, without a GPU.

Checks the project's families and the kernels of its benchmark tests that are in Python, or one family file.

Exits 0 if nothing was found, 1 on a defect or a wrong result, 2 on bad input, 3 if something could not be checked. The
findings are written to ``check.json``.
"""

from __future__ import annotations

import argparse
import importlib
import math
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import MappingProxyType

from peakgate.base import config, progress
from peakgate.base.emulated import find_compiler
from peakgate.base.errors import PeakgateError
from peakgate.base.options import VerbParser, at_least
from peakgate.base.report import add_json_option, clear_verdict
from peakgate.base.streams import say, warn
from peakgate.inspect import (
    add_emulator_options,
    emulate,
    gpu_build,
    isolate,
    leave_not_checked,
    picture,
    problems,
    report,
    workers,
)
from peakgate.inspect.emulate import BuildReport, LaunchFinding
from peakgate.inspect.watched.kernels import KernelsOfTests, begun
from peakgate.judge import waivers
from peakgate.judge.waivers import Defect, DefectKey
from peakgate.measure.limits import processor_limit_s
from peakgate.render import terminal
from peakgate.render.findings import leave_verdict
from peakgate.spec.catalogue import FAMILY_FILE
from peakgate.spec.stage import SourceLine

CHECK_FILE = "check.json"
BUILD_LIMIT_S = 300.0  # processor time for the check of a build, in addition to its launches


def main(
    verb: str,
    arguments: Sequence[str],
    guesses: Mapping[str, str] = MappingProxyType({}),
    limit_s: float = math.inf,
) -> int:
    """Check the chosen kernels and return the exit code.

    ``guesses`` are those of a family that ``init --from`` wrote, by stage: a defect that one may cause is none yet.
    After ``limit_s`` of processor time for a kernel, its other sizes are left out, which is said.
    """
    chosen = _parsed(arguments)
    chosen.limit_s = limit_s
    verdict_file = chosen.out / CHECK_FILE
    clear_verdict(verdict_file)
    project = config.current()
    outside = (
        chosen.family is not None
        and chosen.family.is_file()
        and (project.file is None or not chosen.family.resolve().is_relative_to(project.root.resolve()))
    )
    if chosen.isolate:
        given = [] if chosen.family is None else [str(chosen.family.resolve())]
        given += [f"-k={chosen.text}", f"--schedules={chosen.schedules}", f"--jobs={chosen.jobs}"]
        given += [f"--seed={chosen.seed}"] if chosen.seed is not None else []
        given += [f"--search={chosen.search}"]
        folder = chosen.family.resolve().parent if outside else project.root
        return isolate.run(given, folder.resolve(), chosen.out, CHECK_FILE)
    if outside:
        warn(
            f"{chosen.family} is outside the project: its Python and its kernels, native code, run with "
            "your rights; --isolate runs them without network and without your files"
        )
    try:
        compiler = find_compiler()
    except PeakgateError as error:
        return leave_not_checked(verb, error, verdict_file)

    start = time.perf_counter()
    with begun(chosen.text, chosen.orders) if chosen.family is None else nullcontext(KernelsOfTests()) as of_tests:
        reports, no_nvrtc = _check_builds(chosen)
    no_family = isinstance(no_nvrtc, PeakgateError)
    if isinstance(no_nvrtc, PeakgateError):
        if not of_tests.reports:
            raise no_nvrtc
        no_nvrtc = None
    unnamed = problems.unnamed(chosen.family) if not (chosen.text or no_family) else []
    notes = (*([no_nvrtc] if no_nvrtc else []), *of_tests.notes, *unnamed)

    def source_at(kernel: str, place: str | None) -> SourceLine:
        if known := of_tests.lines.get((kernel, place)):
            return known
        if no_family:
            return SourceLine(project.file or project.root)
        return problems.source_line(chosen.text, chosen.family, kernel, place)

    family_file = "" if chosen.family is None else str(chosen.family)
    kernels = report.by_kernel([*reports, *of_tests.reports], source_at, family_file)
    kernels = [report.doubted(each, guesses.get(each.kernel.partition(".")[2], "")) for each in kernels]
    checked = {kernel.kernel: not (kernel.skipped or kernel.broken) for kernel in kernels}

    def looked_at(key: DefectKey) -> bool:
        """Whether this run would have found a waiver's defect: its kernel was fully checked, or no longer exists."""
        return key.command == report.COMMAND and not chosen.text and checked.get(key.kernel, chosen.family is None)

    waivers_file = project.baselines / waivers.WAIVERS_FILE
    accepted, today = waivers.read(waivers_file).defects, datetime.now(UTC).date()
    defects = [defect for kernel in kernels for defect in kernel.defects]
    ruling = waivers.rule(defects, accepted, looked_at, today)
    found = report.report(kernels, ruling, chosen.orders, time.perf_counter() - start)
    fields = {
        "compiler": f"{compiler.name} {compiler.version}",
        **found.fields,
        "compiled_for_gpu": not no_nvrtc,
        "notes": notes,
    }
    found = replace(
        found,
        notes=notes,
        fields=fields,
        annotations=report.placed(kernels, ruling, waivers_file),
        entries=ruling.entries(accepted),
        next="" if chosen.html else found.next,  # which asks for that page
    )
    terminal.show(found)
    if chosen.html:
        when = datetime.now(UTC).isoformat(" ", "minutes")
        lines = [*found.notes, *(f"{row.name}: {row.reason}" for row in found.rows), *found.fields["complaints"]]
        picture.write_page(chosen.html, found.sentences[-1], when, _draw_races(chosen, defects), lines)
        say(f"page: {chosen.html}")
    return leave_verdict(found, verdict_file)


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = VerbParser(
        prog="peakgate check",
        description="Run every kernel in the checked emulator, without a GPU, and report races, accesses out of "
        "bounds, missing barriers and wrong results. Compiles and runs the project's native code with your rights.",
        epilog="exit codes: 0 no defect, 1 a defect, 2 bad input, 3 something could not be checked",
    )
    parser.add_argument(
        "family", nargs="?", type=Path, help="a family.py, or its folder, to check instead of the project's"
    )
    add_emulator_options(parser)
    parser.add_argument(
        "--schedules",
        type=at_least(1),
        default=2,
        metavar="N",
        help="number of thread orders: ascending, then shuffled (default: 2)",
    )
    parser.add_argument(
        "--seed", type=at_least(0), metavar="N", help="run only the thread order that a defect names, not --schedules"
    )
    parser.add_argument(
        "--search",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="search other sizes for so long per kernel, where the family gives no edge cases (default: 0)",
    )
    parser.add_argument(
        "--isolate",
        action="store_true",
        help="run untrusted code without network, your files and your environment (Linux namespaces), or exit 3",
    )
    parser.add_argument(
        "--html", type=Path, metavar="FILE", help="write a page with a picture of each race for shared memory"
    )
    add_json_option(parser)
    chosen = parser.parse_args(arguments)
    chosen.orders = emulate.schedules(chosen.schedules) if chosen.seed is None else (chosen.seed,)
    if chosen.html:
        if chosen.isolate:
            parser.error("--html goes with a plain `check`")
        importlib.import_module("jinja2")  # fails before the check if it is not installed
    if chosen.family is not None and chosen.family.suffix == ".cu":
        parser.error(
            f"{chosen.family}: expected a family.py, which says how to launch it; `peakgate init --from "
            f"{chosen.family}` writes one"
        )
    if chosen.family is not None and chosen.family.is_dir():
        every = chosen.family.resolve() == config.current().kernels.resolve()
        chosen.family = None if every else chosen.family / FAMILY_FILE
    if not 0 <= chosen.search < float("inf"):
        parser.error("--search is a number of seconds from 0 on")
    return chosen


def _check_builds(chosen: argparse.Namespace) -> tuple[list[BuildReport], str | PeakgateError | None]:
    """A report per build, and why none was compiled for a GPU: a text, or an error if no kernel is selected."""
    try:
        with progress.shown("describing the small cases of the families"):
            builds = list(problems.builds(chosen.text, chosen.family).items())
    except PeakgateError as error:
        return [], error
    # The largest builds first, so that none is left for the end.
    builds.sort(key=lambda build: sum(case.work.bytes + case.work.flops for case in build[1]), reverse=True)
    check = partial(
        emulate.check_build, nonfinite=config.current().fail_nonfinite, search_s=chosen.search, limit_s=chosen.limit_s
    )
    tasks = [partial(check, chosen.text, chosen.family, key, chosen.orders) for key, _ in builds]
    keys = {key for key, _ in builds}
    with progress.shown("describing the measured cases of the families"):
        reports = emulate.not_run(chosen.text, chosen.family)
        measured, no_nvrtc = gpu_build.measured(keys, chosen.text, chosen.family), gpu_build.missing_nvrtc()
    timeout_s = config.current().emulation_timeout_s
    every = (case for _, cases in builds for case in cases)
    launches_s = (sum(processor_limit_s(each.launch, timeout_s) for each in case.launches) for case in every)
    limit_s = BUILD_LIMIT_S + len(chosen.orders) * max(launches_s, default=0.0)
    answers = workers.run(tasks, chosen.jobs, limit_s=limit_s)  # forks before other threads start
    with (
        gpu_build.compiled([] if no_nvrtc else measured, keys, chosen.jobs) as building,
        progress.shown("checking the kernels in the emulator"),
    ):
        for number, answer in progress.each(answers, "checking the kernels in the emulator", len(tasks), "build"):
            if not isinstance(answer, workers.Died):
                reports.append(answer)
                continue
            key, cases = builds[number]
            if answer.ended:
                undecided = f"{answer.at or key.kernel}: {answer.how}"
                reports.append(BuildReport(key.kernel, len(cases), broken=undecided))
            else:
                what = f"{emulate.DIED}: {answer.how}"
                died = LaunchFinding(answer.at, chosen.orders[0], emulate.DIED, None, what)
                reports.append(BuildReport(key.kernel, len(cases), findings=(died,)))
        reports += gpu_build.reports(measured, building, reports)
    return reports, no_nvrtc


def _draw_races(chosen: argparse.Namespace, found: Sequence[Defect]) -> list[picture.Drawing]:
    """A drawing of each shared-memory race, from the first problem that showed it."""
    races: dict[tuple[str, int], str] = {
        (each.facts["case"], each.facts["schedule"]): each.key.kernel for each in found if report.drawn(each)
    }
    tasks = [partial(picture.pictures, chosen.text, chosen.family, case, order) for case, order in races]
    answers = dict(workers.run(tasks, chosen.jobs))
    drawings, known = [], set()

    def text_at(kernel: str, place: str) -> str:
        return problems.source_line(chosen.text, chosen.family, kernel, place).text

    for number, kernel in enumerate(races.values()):
        answer = answers[number]
        for each in [] if isinstance(answer, workers.Died) else answer:
            if (kernel, each.kind, each.where) not in known:
                known.add((kernel, each.kind, each.where))
                drawings.append(picture.drawing(kernel, each, text_at))
    return drawings
