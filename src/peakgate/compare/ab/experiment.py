"""The experiment: plan, prove, screen and confirm within a budget, then report; ``--from`` reports a saved one.

Runs saved before a stop are kept. The command starts before this module is imported: pandas and SciPy import slowly.
"""

from __future__ import annotations

import argparse
import os
import shlex
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from peakgate.base import progress
from peakgate.base.files import scratch_folder
from peakgate.base.formatting import counted
from peakgate.base.processes import own_bytecode
from peakgate.base.verdict import FAULTY, UNDECIDED, ExitCode, Verdict
from peakgate.compare.ab.asides import energy_table
from peakgate.compare.ab.decide import EARLY_LOOK, CaseStatus, all_gross, next_look, unsettled
from peakgate.compare.ab.explain import Explained, explain
from peakgate.compare.ab.folders import SideFolder
from peakgate.compare.ab.means import CASES, SIDES, Means, Phases, Stopped, import_beside
from peakgate.compare.ab.pairs import Processes
from peakgate.compare.ab.plan import environment_notes, other_builds, plan, read_codes
from peakgate.compare.ab.process import SideBroken, SideProcesses, built_environments, one_choice, side_environment
from peakgate.compare.ab.record import (
    INTERRUPTED,
    AbRecord,
    PairSettings,
    Process,
    by_metric,
    decisions,
    log_ratios,
    log_times,
    times,
    usable,
)
from peakgate.compare.ab.schedule import Phase, Side, looks
from peakgate.compare.ab.verdicts import comparison
from peakgate.compare.noise import Floats
from peakgate.compare.report import report as compared
from peakgate.compare.result import Comparison
from peakgate.render import files
from peakgate.runfile.find import Archive

# Imports matplotlib, which is slow to import and needed only at the end: in the background while processes measure.
PICTURES = "peakgate.render.pictures"


def measured(
    placed: tuple[SideFolder, SideFolder], options: argparse.Namespace, means: Means
) -> tuple[AbRecord, Comparison | None, Explained | None]:
    """Measure both sides; with ``--explain`` also compare them and explain the slower cases.

    Raises SideBroken if a side cannot prove its kernels.
    """
    import_beside(PICTURES, daemon=True)
    record = run_experiment(placed, options, means)
    if not options.explain or record.interrupted:
        return record, None, None
    judged = comparison(record)
    slower = [row.case for row in judged.records if row.verdict == Verdict.SLOWER]
    if not slower:
        return record, judged, None
    with progress.shown(f"explaining {counted(len(slower), 'case')}"):
        return record, judged, explain(placed, slower, (options.out / "explain").resolve(), options.device)


def durations_us() -> Mapping[str, float]:
    """Times in the newest saved run, by which sentinels are spread over short and long kernels; empty without one."""
    newest = Archive().newest(1)
    return newest[0].times_us if newest else {}


def run_experiment(folders: tuple[SideFolder, SideFolder], options: argparse.Namespace, means: Means) -> AbRecord:
    """Measure base and head alternately and return the record, which is incomplete if the experiment stopped early.

    ``options`` are those of the command and the fields of ``AskedOfAb``. Run files and manifest are written to
    ``means.out``. Raises SideBroken if a side cannot prove its kernels.
    """
    with means.phases.timed(SIDES), progress.shown("building both sides"):
        environments = built_environments(folders, means.out)
    with ExitStack() as stack:
        scratch = stack.enter_context(scratch_folder("ab-runs"))
        temporary = {"TMPDIR": str(scratch)}  # removes what a killed process leaves
        temporary |= own_bytecode(scratch) | one_choice(scratch, os.environ)
        sides: dict[Side, SideProcesses] = {}
        for which, folder in zip(Side, folders, strict=True):
            judge = folders[0].path if options.judged_by_base and which is Side.HEAD else None
            environment = side_environment(folder.path, judge, folder.python) | temporary
            of_side = SideProcesses(which, folder.path, environment, means.out / f"{which}.log", folder.python)
            sides[which] = stack.enter_context(of_side)
        with means.phases.timed(CASES), progress.shown("building the kernels of both sides"):
            codes = read_codes(folders, options.tier, environments)
        planned = plan(
            *codes,
            sentinels=options.sentinels,
            durations_us=durations_us(),
            chosen=options.parts,
            measure_unchanged=options.measure_unchanged,
        )
        record = AbRecord(
            schema=1,
            base=folders[0].described(),
            head=folders[1].described(),
            settings=PairSettings(options.tier, options.device, *options.pairs),
            plan=planned,
            notes=environment_notes(folders, codes),
            stopped=None,
            processes=[],
            folder=means.out,
        )
        # Energy, and sides with environments of their own, are measured in a process per side.
        apart = options.energy or any(folder.environment for folder in folders)
        others = {} if apart else other_builds(record.plan, *codes)
        processes = Processes(record, sides, means, scratch, others, energy=options.energy)
        experiment = _Experiment(record, processes, means)
        try:
            with progress.shown("proving both sides", ticks=False, interrupted="what was measured is saved and judged"):
                experiment.prove()
                experiment.measure(all_pairs=options.all_pairs)
        except Stopped as reason:
            record.stopped = str(reason)
        except KeyboardInterrupt:
            record.stopped = INTERRUPTED
            processes.keep_interrupted()
        finally:
            record.save()
    return record


class _Experiment:
    """One experiment while it runs: decides which cases its processes measure."""

    def __init__(self, record: AbRecord, processes: Processes, means: Means) -> None:
        self._record, self._processes, self._phases = record, processes, means.phases

    def prove(self) -> None:
        """Run both sides once in full to prove the results; a case that either side cannot time is left out.

        Both sides run at once, since these times do not count. Undecided cases, for example for lack of memory, run
        again alone.
        """
        planned = self._record.plan
        with self._phases.timed(Phase.PROOF):
            done = self._processes.prove({Side.BASE: planned.timed, Side.HEAD: planned.head_runs})
            for process, (cases, _) in [(each, self._left_open(each)) for each in done]:
                # A kernel that corrupts the CUDA context keeps the rest from running, so they run again.
                left, again, attempt = cases, True, 1
                while left and again:
                    (proven,) = self._processes.prove({process.which: left}, attempt)
                    left, again = self._left_open(proven)
                    attempt += 1

    @property
    def _timed(self) -> list[str]:
        """The planned cases that both sides have timed."""
        proven = [
            {case for run in self._record.side_runs(which) for case in run.cases if usable(run, case)} for which in Side
        ]
        return [case for case in self._record.plan.timed if all(case in side for side in proven)]

    def measure(self, *, all_pairs: bool) -> None:
        """Screen every case that both sides time, then confirm the suspects; Stopped if a side breaks."""
        try:
            if all_pairs:
                self._processes.measure(Phase.SCREEN, 0, self._record.settings.pairs, self._timed)
            else:
                # the screening pairs; after the first few, only unsettled cases and sentinels
                planned, done, cases = self._record.settings.pairs, 0, self._timed
                are_sentinels = [case in self._record.plan.sentinels for case in cases]
                while done < planned and cases:
                    early = not self._processes.both_in_one and any(are_sentinels) and not all(are_sentinels)
                    last = next_look(done, planned, early=early)
                    self._processes.measure(Phase.SCREEN, done, last, cases)
                    done = last
                    if done > EARLY_LOOK:
                        parts = by_metric(self._processes.so_far, self._timed)
                        still_open = {part[row] for part in parts for row in unsettled(*self._screened(part))}
                        sentinels = [case for case in cases if case in self._record.plan.sentinels]
                        needed = [case for case in cases if case in still_open and case not in sentinels]
                        # Sentinels alone are screened further only if nothing else is measured at all.
                        cases = [*needed, *sentinels] if needed or len(sentinels) == len(self._timed) else []
                    elif all_gross(*self._screened(cases), are_sentinels):
                        cases = []
            # Suspects and sentinels, in fresh pairs until no suspect is open.
            done = 0
            for look in looks(self._record.settings.confirm_pairs):
                decided = decisions(self._processes.so_far)
                suspected = decided.loc[decided["status"] == CaseStatus.OPEN, "case"].to_list()
                if not suspected:
                    break
                watched = [case for case in self._timed if case in self._record.plan.sentinels]
                self._processes.measure(Phase.CONFIRM, done, look.pairs, [*suspected, *watched])
                done = look.pairs
            self._processes.end()
        except SideBroken as broken:
            raise Stopped(str(broken)) from None

    def _screened(self, cases: Sequence[str]) -> tuple[Floats, Floats]:
        """Log ratios of the screening pairs (case, pair), and the cases' log times."""
        record = self._processes.so_far
        return log_ratios(record, Phase.SCREEN, cases), log_times(record, cases)

    def _left_open(self, process: Process) -> tuple[list[str], bool]:
        """The cases that a process left undecided, and whether it met a faulty one, which may be the reason."""
        reported = {case: verdict for case, (verdict, _) in process.refused.items()}
        if process.file:
            reported |= {case: said.verdict for case, said in self._record.runs[process.file].unmeasured.items()}
        wrong = any(verdict in FAULTY for verdict in reported.values())
        unbuilt = {*self._record.plan.broken, *self._record.plan.lost}
        open_ones = [case for case, verdict in reported.items() if verdict is Verdict.INCONCLUSIVE]
        return [case for case in open_ones if case not in unbuilt], wrong


def report(
    record: AbRecord,
    options: argparse.Namespace,
    phases: Phases | None = None,
    judged: Comparison | None = None,
    explained: Explained | None = None,
) -> ExitCode:
    """Write all outputs, print the findings and last the verdict, and return the exit code, which is in the files too.

    An interrupted experiment returns INTERRUPTED; if it is decided again (without ``phases``), only if no case could be
    decided.
    """
    start = time.monotonic()
    judged = judged or comparison(record)
    found = compared(judged, command="ab", strict=options.strict)
    fields: dict[str, Any] = {"stopped": record.stopped, "processes": len(record.processes)}
    fields["intervals_percent"] = {
        row.case: (row.low_percent, row.high_percent) for row in judged.records if row.low_percent is not None
    }
    tables, notes = list(found.tables), list(found.notes)
    energies = energy_table(
        {
            case: (times(record, Side.BASE, case).results, times(record, Side.HEAD, case).results)
            for case in record.plan.timed
        }
    )
    tables[:0] = [energies] if energies else []
    if explained is not None:
        fields["explained"] = explained.document()
        tables.insert(0, explained.table())
        notes += explained.notes
    if phases is not None:
        fields["wall_s"] = phases.document()
        tables.append(phases.table(time.monotonic() - start))
    unmeasured = {*record.plan.sentinels, *(record.plan.unchanged or {})}
    decided = any(row.verdict not in UNDECIDED for row in judged.records if row.case not in unmeasured)
    code = ExitCode.INTERRUPTED if record.interrupted and (phases or not decided) else found.exit_code
    slower = [row.case for row in judged.records if row.verdict == Verdict.SLOWER]
    asked = bool(slower and options.sides and not options.explain)
    following = shlex.join(["peakgate", "ab", *options.sides, "-k", slower[0], "--explain"]) if asked else ""
    whole = replace(
        found, exit_code=code, tables=tables, notes=notes, fields={**found.fields, **fields}, next=following
    )
    return files.deliver(whole, options.out, files.FORMATS, everything=options.all, summary=True)
