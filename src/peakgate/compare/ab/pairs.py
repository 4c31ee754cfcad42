"""Runs the measuring processes of an experiment one after the other and adds their runs to the record.

A pair is one process of each side, or one of several that base's process measures by interleaving its samples with
those of head's machine code. The latter process stays on the GPU during each interim look, until no more pairs are
needed. Only one process measures at a time; its results are read after the next one has begun.
"""

from __future__ import annotations

import secrets
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec import json, structs

from peakgate.base import progress, records
from peakgate.base.errors import Code, PeakgateError
from peakgate.base.files import remove_output, write_whole
from peakgate.base.formatting import counted
from peakgate.base.processes import last_words_in
from peakgate.base.verdict import FAULTY, ExitCode, Verdict
from peakgate.compare.ab.means import Means, Stopped
from peakgate.compare.ab.process import BenchProcess, FinishedRun, SideBroken, SideProcesses, refuse_foreign
from peakgate.compare.ab.record import AbRecord, Process
from peakgate.compare.ab.schedule import Phase, Side, order, seconds_left
from peakgate.run.ab_process import FOREIGN_FILE, LOOK_FILES, OtherBuilds
from peakgate.run.places import OTHER_BUILDS_FILE
from peakgate.run.request import MODE_VARIABLE
from peakgate.runfile.saved import Run, load_run
from peakgate.runfile.schema import BenchVerdict, Unmeasured

# Pairs, summed over all cases, that a process samples before the budget is checked: about half a minute.
PAIRS_OF_ALL_CASES = 1024

ENERGY_PAIRS = 3  # with --energy, the first pairs measure it

MEASURED_CODES = frozenset({ExitCode.OK, ExitCode.REGRESSION, ExitCode.UNDECIDED})


Refused = tuple[Verdict, str]  # why a process did not time a case


@dataclass(slots=True)
class _Asked:
    """A requested process: its phase, the pairs it measures (``pairs`` of them from ``pair`` on), and its files.

    ``look`` holds the latest interim results of a process that measures both sides, the number of pairs and a run of
    each side. ``left``: it has left the GPU.
    """

    stage: Phase
    pair: int
    pairs: int
    which: Side
    run: BenchProcess
    file: Path
    log: Path
    verdicts: Path
    look: tuple[int, Mapping[Side, Run]] | None = None
    left: bool = False

    def file_of(self, which: Side) -> Path:
        """The run file of one side of a process that measures both."""
        return self.file.with_name(f"{_name(self.stage, self.pair, which)}.json")


class Processes:
    """The processes of one experiment."""

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
        """``others`` is head's machine code by case if base's processes sample both sides, else empty."""
        self._record, self._sides, self._scratch, self._energy = record, sides, scratch, energy
        self._others = others or {}
        self._out, self._budget = means.out, means.budget
        self._phases = means.phases
        self._seeds: dict[tuple[Phase, int], int] = {}
        self._on_gpu: _Asked | None = None

    @property
    def both_in_one(self) -> bool:
        """Whether one process measures both sides of a pair."""
        return bool(self._others)

    @property
    def so_far(self) -> AbRecord:
        """The record, including the interim results of a process that waits on the GPU."""
        record, asked = self._record, self._on_gpu
        if asked is None or asked.look is None:
            return record
        pairs, runs = asked.look
        files = {which: asked.file_of(which).name for which in runs}
        measured = [Process(asked.stage, asked.pair, which, name, 0, 0.0, {}, pairs) for which, name in files.items()]
        known = {files[which]: run for which, run in runs.items()}
        return structs.replace(record, processes=[*record.processes, *measured], runs=record.runs | known)

    def prove(self, wanted: Mapping[Side, Sequence[str]], attempt: int = 0) -> list[Process]:
        """Prove these cases, both sides at once since their times do not count."""
        sides = {which: cases for which, cases in wanted.items() if cases}
        shown = [f"{which}, {counted(len(cases), 'case')}" for which, cases in sides.items()]
        if shown:
            progress.step(f"proving {', and '.join(shown)}")
        asked = [self._ask(Phase.PROOF, attempt, which, cases) for which, cases in sides.items()]
        for each in asked:
            each.run.begin()
        for each in asked:
            each.run.until_left()
        return list(map(self._keep, asked))

    def measure(self, stage: Phase, first: int, last: int, cases: Sequence[str]) -> None:
        """Measure pairs ``first`` to ``last`` - 1 of a phase; SideBroken if a process reports no case."""
        with self._phases.timed(stage):
            if not cases:
                return
            # A process of one side starts while the previous one measures. One of both sides may continue after its
            # look, so whether another is needed is not known in advance.
            both = self.both_in_one
            step = max(1, min(last - first, PAIRS_OF_ALL_CASES // len(cases))) if both else 1
            turns = [(pair, which) for pair in range(first, last) for which in order(pair)]
            ahead = (self._ask(stage, pair, which, cases) for pair, which in ([] if both else turns))
            asked = next(ahead, None)
            recent: list[float] = []
            for pair in range(first, last, step):
                pairs = min(step, last - pair)
                start = time.monotonic()
                try:
                    self._budget.spend(seconds_left(pairs, recent) or 0.0)
                except Stopped:
                    self.end()
                    raise
                for which in ("both sides",) if both else order(pair):
                    left = seconds_left(last - pair, recent)
                    measured = f"{stage}: measuring {counted(len(cases), 'case')} of {which}"
                    progress.step(measured, last, "pair", done=pair, seconds_left=left)
                    turn = self._give_turn(asked, stage, pair, pairs, cases)
                    asked = next(ahead, None)
                    turn.left = turn.run.until_left()
                    if not turn.left:
                        found = (load_run(turn.verdicts / name) for name in LOOK_FILES)
                        turn.look = turn.pairs, dict(zip(Side, found, strict=True))
                recent.append((time.monotonic() - start) / pairs)
            if self._on_gpu is not None and self._on_gpu.left:
                self.end()

    def _give_turn(self, asked: _Asked | None, stage: Phase, pair: int, pairs: int, cases: Sequence[str]) -> _Asked:
        """Continue the process that waits on the GPU, or begin ``asked`` or a new one; the one that now measures."""
        before = self._on_gpu
        if before is not None and not before.left and before.stage is stage:
            self._write_others(stage, before.pair, cases, pairs)
            before.pairs += pairs
            before.run.go_on()
            return before
        asked = asked or self._ask(stage, pair, Side.BASE, cases, pairs)
        if before is not None and not before.left:
            before.run.leave()
        asked.run.begin()
        if before is not None:
            self._keep(before)
        self._on_gpu = asked
        return asked

    def end(self) -> None:
        """Make the last process leave the GPU and keep its results."""
        if self._on_gpu is not None:
            if not self._on_gpu.left:
                self._on_gpu.run.leave()
            self._keep(self._on_gpu)
            self._on_gpu = None

    def keep_interrupted(self) -> None:
        """Keep the interim results of the process on the GPU, before it is killed."""
        if self._on_gpu is not None:
            self._keep_look(self._on_gpu, FinishedRun(ExitCode.INTERRUPTED, 0.0, (), {}))

    def _ask(self, stage: Phase, pair: int, which: Side, cases: Sequence[str], pairs: int = 1) -> _Asked:
        """Start a process, which waits for its turn on the GPU."""
        name = _name(stage, pair, which)
        listed = self._scratch / f"{name}.cases"
        listed.write_text("\n".join(cases) + "\n", encoding="utf-8")
        file, log, verdicts = self._out / f"{name}.json", self._out / f"{name}.txt", self._scratch / name
        arguments = [
            f"--device={self._record.settings.device}",
            f"--tier={self._record.settings.tier}",
            f"--peakgate-cases={listed}",
            f"--benchmark-json={file}",
            f"--benchmark-storage=file://{verdicts / 'saved'}",  # two processes may save in the same second
            f"--out={verdicts}",
            f"--seed={self._seeds.setdefault((stage, pair), secrets.randbits(32))}",
            "--assert=plain",  # modules that are imported already cannot be rewritten
        ]
        if self.both_in_one and stage is not Phase.PROOF:
            arguments.append(f"--peakgate-other-builds={self._write_others(stage, pair, cases, pairs)}")
        if self._energy and stage is Phase.SCREEN and pair < ENERGY_PAIRS:
            arguments.append("--energy")
        kind = {MODE_VARIABLE: "proof" if stage is Phase.PROOF else "pair"}
        run = self._sides[which].ask(arguments, kind, log)
        return _Asked(stage, pair, pairs, which, run, file, log, verdicts)

    def _write_others(self, stage: Phase, pair: int, cases: Sequence[str], pairs: int) -> Path:
        """Write the file that lists the builds a process measures alternately."""
        path = self._scratch / f"{_name(stage, pair, Side.BASE)}.others"
        codes = {case: self._others[case] for case in cases}
        builds = OtherBuilds(pairs, codes, str(self._sides[Side.HEAD].folder), looks=True)
        write_whole(path, json.encode(builds))
        return path

    def _keep(self, asked: _Asked) -> Process:
        """Wait for a process to end and add its results to the record; SideBroken if it reported no case."""
        which, file, log, verdicts = asked.which, asked.file, asked.log, asked.verdicts
        finished = asked.run.finish()
        self._phases.turn(asked.stage, finished.busy, finished.steps_s)
        refuse_foreign(which, verdicts / FOREIGN_FILE)
        measured = finished.exit_code in MEASURED_CODES
        verdict = BenchVerdict([])
        if measured and (said := verdicts / "bench.json").is_file():
            verdict = records.read(said, BenchVerdict, "run it again")
        refused = _refused(verdict.cases)
        timed = measured and file.is_file() and file.stat().st_size > 0
        if not timed:
            remove_output(file)  # pytest-benchmark opens it before it knows whether there is anything to save
            if not refused:
                self._keep_look(asked, finished)
                why = f"its run exits {finished.exit_code}: {last_words_in(log)} (full output: {log})"
                raise SideBroken(which, why)
        if self.both_in_one and asked.stage is not Phase.PROOF:
            other = asked.file_of(Side.HEAD)
            if timed:
                shutil.move(verdicts / OTHER_BUILDS_FILE, other)
            self._add(asked, Side.HEAD, other if timed else None, finished, _refused(verdict.other_builds))
        remove_output(log)
        return self._add(asked, which, file if timed else None, finished, refused)

    def _keep_look(self, asked: _Asked, finished: FinishedRun) -> None:
        """Add the interim results of a process without a run file to the record."""
        look, asked.look = asked.look, None
        if look is None:
            return
        asked.pairs, runs = look
        for which, run in runs.items():
            shutil.move(run.path, asked.file_of(which))
            self._add(asked, which, asked.file_of(which), finished, {})

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
        self._record.save()
        return process


def _name(stage: Phase, pair: int, which: Side) -> str:
    """The stem of the file names of one side of a pair."""
    return f"{stage}-{pair + 1:02d}-{which}"


def _refused(reported: Sequence[Unmeasured]) -> dict[str, Refused]:
    """Verdict and reason of the cases that a process found faulty or could not decide."""
    untimed = FAULTY | {Verdict.INCONCLUSIVE}
    return {each.case: (each.verdict, each.reason) for each in reported if each.verdict in untimed}
