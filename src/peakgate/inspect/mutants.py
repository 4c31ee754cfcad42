"""``peakgate inspect mutants``: test whether the check detects the deletion of each barrier and each guard.

Exits 0 if every mutant was caught or is listed as a survivor with a reason, 1 if one is neither or a listed one does
not survive, 2 on bad input, 3 if a mutant could not be decided. The results are written to ``mutants.json``.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

from peakgate.base import config, progress
from peakgate.base.emulated import find_compiler
from peakgate.base.errors import Code, PeakgateError
from peakgate.base.formatting import counted
from peakgate.base.options import VerbParser
from peakgate.base.report import NOT_CHECKED, Report, Tone, clear_verdict
from peakgate.base.streams import say
from peakgate.base.verdict import ExitCode
from peakgate.inspect import add_emulator_options, emulate, leave_not_checked, mutation_run, workers
from peakgate.judge import waivers
from peakgate.render import terminal
from peakgate.render.findings import leave_verdict

MUTANTS_FILE = "mutants.json"
SCHEDULES = 2


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
        mutants, without = mutation_run.targets(chosen.text)
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
    tasks = [partial(mutation_run.run_mutant, mutant, emulate.schedules(SCHEDULES)) for mutant in mutants]
    results: list[mutation_run.MutantResult] = []
    answers = workers.run(tasks, chosen.jobs)  # forked before a thread shows progress
    with progress.shown("checking the mutants"):
        for number, answer in progress.each(answers, "checking the mutants", len(tasks), "mutant"):
            results.append(mutation_run.died(mutants[number], answer) if isinstance(answer, workers.Died) else answer)

    alive = [result.mutant for result in results if result.survived]
    dead = [result.mutant for result in results if not result.survived and not result.undecided]
    ended = {result.mutant.key for result in results if result.undecided}
    listed = reasons if not chosen.text else {key: reasons[key] for key in {m.key for m in mutants} & reasons.keys()}
    wrong = mutation_run.complaints(alive, dead, {key: why for key, why in listed.items() if key not in ended})
    wrong += [
        mutation_run.placed(NOT_CHECKED, result.mutant, f"does not compile: {result.invalid}")
        for result in results
        if result.invalid
    ]
    ended_early = [
        mutation_run.placed(NOT_CHECKED, result.mutant, result.undecided, Tone.OPEN)
        for result in results
        if result.undecided
    ]
    complaints, not_decided = ([each.message for each in found] for found in (wrong, ended_early))
    wall_s = time.perf_counter() - start
    files = counted(len({mutant.file for mutant in mutants}), "file")
    caught = sum(result.caught_by is not None for result in results)
    explained = sum(mutant.key in reasons for mutant in alive)
    survived = f"{caught} caught, {len(alive)} survived" + (f", {explained} of them with a reason" if alive else "")
    survived += f", {len(not_decided)} not decided" if not_decided else ""
    summary = f"{counted(len(mutants), 'mutant')} of {files}: {survived} ({wall_s:.0f} s)"
    found = Report(
        command=verb,
        exit_code=ExitCode.REGRESSION if complaints else ExitCode.UNDECIDED if not_decided else ExitCode.OK,
        sentences=[*complaints, *not_decided, *unmutated, summary],
        fields={
            "compiler": f"{compiler.name} {compiler.version}",
            "complaints": complaints,
            "not_decided": not_decided,
            **mutation_run.described(results, reasons, wall_s),
            "not_mutated": list(without),
        },
        annotations=[*wrong, *ended_early],
        entries=[mutation_run.entry(mutant) for mutant in alive if mutant.key not in reasons],
    )
    terminal.show(found)
    return leave_verdict(found, chosen.out / MUTANTS_FILE)
