"""The experiment: plan, prove, screen, confirm, within a budget; whatever stops it, what was measured is kept."""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from peakgate.core import records
from peakgate.core.errors import Code, PeakgateError
from peakgate.core.files import scratch_folder
from peakgate.core.processes import last_words_in
from peakgate.core.text import counted
from peakgate.core.verdict import FAULTY, ExitCode, Verdict
from peakgate.reports.ab.decide import EARLY_LOOK, CaseStatus, all_gross, next_look, unsettled
from peakgate.reports.ab.folders import SideFolder
from peakgate.reports.ab.means import CASES, SIDES, Means, Stopped
from peakgate.reports.ab.plan import Contracts, environment_notes, other_builds, plan, read_codes
from peakgate.reports.ab.process import (
    FOREIGN,
    BenchProcess,
    FinishedRun,
    SideBroken,
    SideProcesses,
    built_environment,
    one_choice,
    refuse_foreign,
    side_environment,
)
from peakgate.reports.ab.record import (
    INTERRUPTED,
    AbRecord,
    PairSettings,
    Process,
    decisions,
    log_ratios,
    log_times,
    usable,
    whole_pairs,
)
from peakgate.reports.ab.schedule import Phase, Side, looks, order, seconds_left
from peakgate.reports.comparison.noise import Floats
from peakgate.reports.runs.runfile import BenchVerdict, Unmeasured, load_run
from peakgate.run.ab_process import OtherBuilds
from peakgate.run.run_file import OTHER_BUILDS_FILE

PAIRS_OF_ALL_CASES = 1024
"""So many pairs a process samples, over all its cases, some half a minute: an interrupt loses no more, and a budget is
kept."""

ENERGY_PAIRS = 3
"""So many of the first pairs measure energy, where that is asked for."""

MEASURED_CODES = frozenset({ExitCode.OK, ExitCode.REGRESSION, ExitCode.UNDECIDED})


@dataclass(frozen=True, slots=True)
class Choice:
    """Side cases to measure: parts of their ids (none: all), how many sentinels, whether unchanged ones too.

    ``judged_by_base``: head's cases keep base's terms where base has them, and none of its families is imported.
    ``all_pairs``: every screening pair measures every case, also one that fewer settle. ``energy``: the first pairs
    measure joules per launch too. ``durations_us`` of an earlier
    run spread the sentinels.
    """

    parts: tuple[str, ...] = ()
    sentinels: int = 5
    measure_unchanged: bool = False
    all_pairs: bool = False
    judged_by_base: bool = False
    energy: bool = False
    durations_us: Mapping[str, float] = field(default_factory=dict)


def run_experiment(
    folders: tuple[SideFolder, SideFolder], settings: PairSettings, choice: Choice, means: Means
) -> AbRecord:
    """Measure both sides, base and head, alternately; the record says how far it got.

    Run files and manifest go to ``means.out``. SideBroken when a side cannot even prove its kernels.
    """
    with means.phases.timed(SIDES):
        environments = [
            built_environment(which, folder, means.out / f"{which}-build.log", means.progress)
            for which, folder in zip(Side, folders, strict=True)
        ]
    with _opened(folders, means, judged_by_base=choice.judged_by_base) as (sides, scratch):
        means.progress.show("building both sides")
        with means.phases.timed(CASES):
            codes = read_codes(folders, settings.tier, environments)
        planned = plan(
            *codes,
            sentinels=choice.sentinels,
            durations_us=choice.durations_us,
            chosen=choice.parts,
            measure_unchanged=choice.measure_unchanged,
        )
        record = AbRecord(*folders, settings, planned, notes=environment_notes(folders, codes))
        # The loops that measure energy are each side's own.
        others = {} if choice.energy else _other_builds(record, codes)
        experiment = _Experiment(record, sides, means, scratch, others, energy=choice.energy)
        try:
            experiment.prove()
            experiment.measure(all_pairs=choice.all_pairs)
        except Stopped as reason:
            record.stopped = str(reason)
        except KeyboardInterrupt:
            record.stopped = INTERRUPTED
        finally:
            record.save(means.out)
    return record


def add_pairs(record: AbRecord, codes: tuple[Contracts, Contracts], count: int, means: Means) -> None:
    """Measure so many more screening pairs of a record's cases, which are proven first where they were not yet.

    ``codes`` are both sides' cases. Both sides' own builds must have been run. Raises SideBroken as ``run_experiment``
    does; whatever is raised, the record has each process that ended.
    """
    with _opened((record.base, record.head), means) as (sides, scratch):
        experiment = _Experiment(record, sides, means, scratch, _other_builds(record, codes))
        if not record.of(Phase.PROOF):
            experiment.prove()
        experiment.screen(count)


def _other_builds(record: AbRecord, codes: tuple[Contracts, Contracts]) -> dict[str, str]:
    """Head's machine code by case, where base's processes sample both sides; a process has one environment."""
    apart = record.base.environment or record.head.environment
    return {} if apart else other_builds(record.plan, *codes)


@contextmanager
def _opened(
    folders: tuple[SideFolder, SideFolder], means: Means, *, judged_by_base: bool = False
) -> Iterator[tuple[dict[Side, SideProcesses], Path]]:
    """The processes of both sides, and a folder for their temporary files."""
    with ExitStack() as stack:
        stack.callback(means.progress.clear)
        scratch = stack.enter_context(scratch_folder("ab-runs"))
        judges = (None, folders[0].path if judged_by_base else None)
        temporary = {"TMPDIR": str(scratch)}  # what a process that is killed leaves goes with it
        temporary |= one_choice(scratch, os.environ)
        sides = {
            which: stack.enter_context(
                SideProcesses(
                    which,
                    folder.path,
                    side_environment(folder.path, judge, folder.python) | temporary,
                    means.out / f"{which}.log",
                    folder.python,
                )
            )
            for which, folder, judge in zip(Side, folders, judges, strict=True)
        }
        yield sides, scratch


Refused = tuple[Verdict, str]
"""Why a process did not time a case."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """A process that was asked to run: what for, how many pairs from which on, and where it writes."""

    stage: Phase
    pair: int
    pairs: int
    which: Side
    run: BenchProcess
    file: Path
    log: Path
    verdicts: Path


class _Experiment:
    """One experiment in the making."""

    def __init__(
        self,
        record: AbRecord,
        sides: Mapping[Side, SideProcesses],
        means: Means,
        scratch: Path,
        others: Mapping[str, str] | None = None,
        *,
        energy: bool = False,
    ) -> None:
        """``others`` is head's machine code by case, where base's processes sample both sides in turns."""
        self._record, self._sides, self._scratch, self._energy = record, sides, scratch, energy
        self._others = others or {}
        self._out, self._budget, self._progress = means.out, means.budget, means.progress
        self._phases = means.phases
        self._seeds: dict[tuple[Phase, int], int] = {}

    def prove(self) -> None:
        """Run both sides once in full: results are proven, times do not count; what either cannot time is set aside.

        Both at once: no time counts. Cases left open, for example for lack of memory, are checked alone.
        """
        planned = self._record.plan
        wanted = {Side.BASE: planned.timed, Side.HEAD: planned.head_runs}
        with self._phases.timed(Phase.PROOF):
            of_base, of_head = counted(len(planned.timed), "case"), counted(len(planned.head_runs), "case")
            self._progress.show(f"proving base, {of_base}, and head, {of_head}")
            asked = [self._ask(Phase.PROOF, 0, which, cases) for which, cases in wanted.items() if cases]
            for each in asked:
                each.run.begin()
            for each in asked:
                each.run.until_left()
            left = {process.which: self._left_open(process) for process in map(self._keep, asked)}
            for which, (cases, _) in left.items():
                if cases:
                    self._prove_alone(which, cases)

    @property
    def _timed(self) -> list[str]:
        """The cases that both sides have timed."""
        proven = [
            {case for run in self._record.side_runs(which) for case in run.cases if usable(run, case)} for which in Side
        ]
        return [case for case in self._record.plan.timed if all(case in side for side in proven)]

    def screen(self, count: int) -> None:
        """Measure so many pairs beyond those there are; none where a side cannot time a case."""
        done = whole_pairs(self._record, Phase.SCREEN)
        self._pairs(Phase.SCREEN, done, done + count, self._timed)

    def measure(self, *, all_pairs: bool) -> None:
        """Screen every case that both sides time, then confirm the suspects; a side that breaks ends it."""
        try:
            if all_pairs:
                self._pairs(Phase.SCREEN, 0, self._record.settings.pairs, self._timed)
            else:
                self._screen()
            done = 0
            for look in looks(self._record.settings.confirm_pairs):
                suspected = self._open()
                if not suspected:
                    return
                watched = [case for case in self._timed if case in self._record.plan.sentinels]
                self._pairs(Phase.CONFIRM, done, look.pairs, [*suspected, *watched])
                done = look.pairs
        except SideBroken as broken:
            raise Stopped(str(broken)) from None

    def _screen(self) -> None:
        """Measure the screening pairs, after a few of them only what they leave unsettled, and the sentinels."""
        planned, done, cases = self._record.settings.pairs, 0, self._timed
        watched = [case in self._record.plan.sentinels for case in cases]
        while done < planned and cases:
            early = not self._others and any(watched) and not all(watched)
            last = next_look(done, planned, early=early)
            self._pairs(Phase.SCREEN, done, last, cases)
            done = last
            if done > EARLY_LOOK:
                cases = self._unsettled(cases)
            elif all_gross(*self._screened(cases), watched):
                cases = []

    def _unsettled(self, cases: Sequence[str]) -> list[str]:
        """Which of these are to be screened further; sentinels alone only where nothing else is measured at all."""
        timed = self._timed
        rows = unsettled(*self._screened(timed))
        still_open = {timed[row] for row in rows}
        watched = [case for case in cases if case in self._record.plan.sentinels]
        needed = [case for case in cases if case in still_open and case not in watched]
        return [*needed, *watched] if needed or len(watched) == len(timed) else []

    def _screened(self, cases: Sequence[str]) -> tuple[Floats, Floats]:
        """Log ratios of the screening pairs by case and pair, and the cases' log times."""
        return log_ratios(self._record, Phase.SCREEN, cases), log_times(self._record, cases)

    def _open(self) -> list[str]:
        decided = decisions(self._record)
        found: list[str] = decided.loc[decided["status"] == CaseStatus.OPEN, "case"].to_list()
        return found

    def _prove_alone(self, which: Side, cases: Sequence[str]) -> None:
        """Prove a side; a kernel that took the device with it keeps the rest from running, so they run again."""
        attempt, again = 1, True
        while cases and again:
            cases, again = self._left_open(self._process(Phase.PROOF, attempt, which, cases))
            attempt += 1

    def _left_open(self, process: Process) -> tuple[list[str], bool]:
        """The cases that a process leaves open, and whether it met a wrong one, which may be why."""
        reported = self._verdicts(process)
        wrong = any(verdict in FAULTY for verdict in reported.values())
        unbuilt = {*self._record.plan.broken, *self._record.plan.lost}
        open_ones = [case for case, verdict in reported.items() if verdict is Verdict.INCONCLUSIVE]
        return [case for case in open_ones if case not in unbuilt], wrong

    def _verdicts(self, process: Process) -> dict[str, Verdict]:
        """Verdicts that a process reports for cases it could not time."""
        reported = {case: verdict for case, (verdict, _) in process.refused.items()}
        if process.file:
            reported |= {case: said.verdict for case, said in self._record.runs[process.file].unmeasured.items()}
        return reported

    def _pairs(self, stage: Phase, first: int, last: int, cases: Sequence[str]) -> None:
        """Measure pairs ``first`` up to ``last`` of a stage; each process starts while the one before it measures."""
        with self._phases.timed(stage):
            self._run_pairs(stage, first, last, cases)

    def _run_pairs(self, stage: Phase, first: int, last: int, cases: Sequence[str]) -> None:
        if not cases:
            return
        step = max(1, min(last - first, PAIRS_OF_ALL_CASES // len(cases))) if self._others else 1
        turns = [
            (pair, min(step, last - pair), which) for pair in range(first, last, step) for which in self._order(pair)
        ]
        recent: list[float] = []
        start = time.monotonic()
        before: _Asked | None = None
        for at, (pair, pairs, which) in enumerate(turns):
            asked = self._ask(stage, pair, which, cases, pairs)
            if before is not None:
                before.run.until_left()
            if self._others or at % 2 == 0:
                recent += [(time.monotonic() - start) / before.pairs] if before else []
                start = time.monotonic()
                try:
                    self._budget.spend(seconds_left(pairs, recent) or 0.0)
                except Stopped:
                    if before is not None:
                        self._keep(before)
                    raise
            left = seconds_left(last - pair, recent)
            side = "both sides" if self._others else which
            done = f"{pair + 1}" if pairs == 1 else f"{pair + 1} to {pair + pairs}"
            self._progress.show(f"{stage} {done} of {last}, {side}, {counted(len(cases), 'case')}", left)
            asked.run.begin()
            if before is not None:
                self._keep(before)
            before = asked
        if before is not None:
            before.run.until_left()
            self._keep(before)

    def _order(self, pair: int) -> tuple[Side, ...]:
        """The sides whose processes measure a pair, first to last."""
        return (Side.BASE,) if self._others else order(pair)

    def _process(self, stage: Phase, pair: int, which: Side, cases: Sequence[str]) -> Process:
        """Run one process and keep it; SideBroken if it reported no case."""
        if stage is Phase.PROOF:
            self._progress.show(f"proving {which}, {counted(len(cases), 'case')}")
        asked = self._ask(stage, pair, which, cases)
        asked.run.begin()
        asked.run.until_left()
        return self._keep(asked)

    def _ask(self, stage: Phase, pair: int, which: Side, cases: Sequence[str], pairs: int = 1) -> _Asked:
        """Have one process start; it waits for its turn."""
        name = _name(stage, pair, which)
        file, log, verdicts = self._out / f"{name}.json", self._out / f"{name}.txt", self._scratch / name
        arguments = [
            f"--device={self._record.settings.device}",
            f"--tier={self._record.settings.tier}",
            f"--cases={self._listed(name, cases)}",
            f"--benchmark-json={file}",
            f"--benchmark-storage=file://{self._scratch / 'saved'}",
            f"--out={verdicts}",
            f"--seed={self._seeds.setdefault((stage, pair), secrets.randbits(32))}",
            "--assert=plain",  # modules that are imported already cannot be rewritten
        ]
        if self._others and stage is not Phase.PROOF:
            others = self._scratch / f"{name}.others"
            builds = OtherBuilds(pairs, {case: self._others[case] for case in cases})
            others.write_bytes(msgspec.json.encode(builds))
            arguments.append(f"--other-builds={others}")
        if self._energy and stage is Phase.SCREEN and pair < ENERGY_PAIRS:
            arguments.append("--energy")
        kind = {"PEAKGATE_AB": "proof" if stage is Phase.PROOF else "pair"}
        run = self._sides[which].ask(arguments, kind, log)
        return _Asked(stage, pair, pairs, which, run, file, log, verdicts)

    def _keep(self, asked: _Asked) -> Process:
        """Wait for a process's end and keep what it measured; SideBroken if it reported no case."""
        which, file, log, verdicts = asked.which, asked.file, asked.log, asked.verdicts
        finished = asked.run.finish()
        self._phases.turn(asked.stage, finished.turn_s, finished.steps_s)
        refuse_foreign(which, verdicts / FOREIGN)
        measured = finished.exit_code in MEASURED_CODES
        verdict = _verdict(verdicts / "bench.json") if measured else BenchVerdict([])
        refused = _refused(verdict.cases)
        timed = measured and file.is_file() and file.stat().st_size > 0
        if not timed:
            file.unlink(missing_ok=True)  # pytest-benchmark opens it before it knows whether there is anything to save
            if not refused:
                why = f"its run exits {finished.exit_code}: {last_words_in(log)} (all of it: {log})"
                raise SideBroken(which, why)
        if self._others and asked.stage is not Phase.PROOF:
            other = file.with_name(f"{_name(asked.stage, asked.pair, Side.HEAD)}.json")
            if timed:
                shutil.move(verdicts / OTHER_BUILDS_FILE, other)
            self._add(asked, Side.HEAD, other if timed else None, finished, _refused(verdict.other_builds))
        log.unlink()
        return self._add(asked, which, file if timed else None, finished, refused)

    def _add(
        self, asked: _Asked, which: Side, file: Path | None, finished: FinishedRun, refused: Mapping[str, Refused]
    ) -> Process:
        """Add one side's part of a process to the record."""
        process = Process(
            asked.stage,
            asked.pair,
            which,
            file.name if file else None,
            finished.exit_code,
            finished.seconds,
            refused,
            asked.pairs,
        )
        if file:
            run = load_run(file)
            if run.emulated:
                raise PeakgateError(
                    f"--device {self._record.settings.device}: emulated times are not judged; ab needs a GPU",
                    Code.EMULATED,
                )
            self._record.runs[file.name] = run
        self._record.processes.append(process)
        self._record.save(self._out)
        return process

    def _listed(self, name: str, cases: Sequence[str]) -> Path:
        """The cases in a file, one per line."""
        path = self._scratch / f"{name}.cases"
        path.write_text("\n".join(cases) + "\n", encoding="utf-8")
        return path


def _name(stage: Phase, pair: int, which: Side) -> str:
    """Under which the files of one side of a pair stand."""
    return f"{stage}-{pair + 1:02d}-{which}"


def _verdict(path: Path) -> BenchVerdict:
    """The small verdict file of a process; an empty one where it wrote none."""
    return records.read(path, BenchVerdict, "run it again") if path.is_file() else BenchVerdict([])


def _refused(reported: Sequence[Unmeasured]) -> dict[str, Refused]:
    """Verdict and reason of the cases that a process found wrong or could not decide."""
    untimed = FAULTY | {Verdict.INCONCLUSIVE}
    return {each.case: (each.verdict, each.reason) for each in reported if each.verdict in untimed}
