"""``peakgate bench``: start the measuring process, supervise it, and continue in a new process after a fault.

Through a pipe the measuring process reports each step, its case and its time limit, and sends each finished case, which
the supervisor appends to the journal. The process exits after a GPU fault; it and its children are killed when a step
exceeds its limit. The next process reads finished cases from the journal, so the last one writes a complete run file.
Cases share a process: a run without faults starts one.

Cases below their floor are measured again in two new processes; a last one takes the figures of the median process and
writes the run file. Processes of an A/B run without a supervisor. Unknown options are passed to pytest.
"""

from __future__ import annotations

import argparse
import os
import secrets
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from peakgate.base import config, git, progress
from peakgate.base.config import Project
from peakgate.base.errors import CannotDecide, Code, PeakgateError
from peakgate.base.files import scratch_folder
from peakgate.base.formatting import counted
from peakgate.base.processes import FROM_OUTSIDE, end_group, one_blas_thread, own_bytecode
from peakgate.base.streams import say, warn
from peakgate.base.verdict import FAULTY, UNDECIDED, ExitCode, Verdict
from peakgate.device import driver
from peakgate.measure.limits import HOST_LIMIT_S, PROCESS_START_LIMIT_S
from peakgate.run import inputs, lock
from peakgate.run.journal import AGAIN, CASE, FRESH, KEY, RESTART, Journal, Lines, share_below
from peakgate.run.places import Places, storage_folder, write_verdict
from peakgate.run.request import Mode, as_arguments, mode_of_environment, parser

INSPECTING = frozenset(
    {"--collect-only", "--co", "-h", "--help", "--version", "-V", "--pdb", "--trace", "--fixtures", "--markers"}
)
"""Options of pytest with which nothing is measured or a debugger may stop the process: no supervisor, no limits."""

GRACE_S = 10.0
"""Time that a process has after Ctrl-C to save its results."""

_LONGEST_WAIT_S = 3600.0
"""At once: the limit of a huge launch is longer than an operating system can wait."""

MOST_UNEXPLAINED = 3
"""The run stops once more processes than this have ended outside any case."""


@dataclass(slots=True)
class Step:
    """The current step of the measuring process, its time limit, its case (None: no case), and its deadline."""

    name: str
    limit_s: float
    case: str | None = None
    until: float = field(init=False)

    def __post_init__(self) -> None:
        self.until = time.monotonic() + self.limit_s


def main(verb: str, arguments: Sequence[str]) -> int:  # noqa: ARG001  (one verb)
    """Run the kernel benchmarks; 0 pass, 1 regression, 2 bad input, 3 could not decide."""
    ours, theirs = parser().parse_known_args(arguments)
    project = config.required()
    mode = mode_of_environment()
    if mode is not Mode.WHOLE or INSPECTING & set(theirs):
        ours.mode = mode
        from peakgate.run import process  # noqa: PLC0415  (a supervisor does not need it)

        named = {"--benchmark-json": ours.benchmark_json, "--benchmark-storage": ours.benchmark_storage}
        saving = [f"{option}={value}" for option, value in named.items() if value is not None]
        return process.measure([*process.fixed_arguments(project.root, theirs), *as_arguments(ours), *saving, *theirs])
    if ours.seed is None:
        ours.seed = secrets.randbits(32)  # shared by all processes of the run
    arguments = [*as_arguments(ours), *theirs]
    out = ours.out.absolute() if ours.out else project.out
    json = Path(ours.benchmark_json).absolute() if ours.benchmark_json else None
    places = Places(out, json, storage_folder(ours.benchmark_storage))
    journal = Journal(out, ours.wait)
    supervisor = _Supervisor(ours, project, places, journal)
    try:
        places.clear()  # first: a run that ends without a verdict must not leave an older one
        if ours.resume and ours.strict_gate:
            raise PeakgateError(
                "--resume with --strict-gate: a gate measures everything itself; leave one of them out", Code.OPTION
            )
        if any(option.startswith("--benchmark-compare") for option in theirs):
            raise PeakgateError(
                "--benchmark-compare: not with `peakgate bench`; save the run, then `peakgate compare`", Code.OPTION
            )
        with lock.locked(supervisor.uuid, ours.wait), _base_tree(ours, project) as supervisor.environment:
            code = supervisor.run(arguments)
        say(supervisor.last_words)
        if code == ExitCode.INTERRUPTED:
            done = counted(len(journal.cases), "finished case")
            warn(f"interrupted; {done} saved: the same command with --resume goes on with the others")
        return code
    finally:
        places.remove_staging()
        journal.close(keep=supervisor.resumable)


@contextmanager
def _base_tree(ours: argparse.Namespace, project: Project) -> Iterator[Mapping[str, str]]:
    """The environment of the measuring processes; with ``--baselines-from`` it names an exported copy of the base.

    Temporary files and bytecode then go to a scratch folder: a killed process cannot remove its temporary files, and
    bytecode that is committed with the sources must not be used.
    """
    if ours.baselines_from is None:
        yield os.environ
        return
    with (
        inputs.exported(ours.baselines_from, project.root, project.baselines) as tree,
        scratch_folder("bench") as scratch,
    ):
        yield os.environ | own_bytecode(scratch) | {config.BASE_VARIABLE: str(tree), "TMPDIR": str(scratch)}


class _Supervisor:
    """One run over as many measuring processes as needed; ``uuid`` is the GPU's, None for the emulator."""

    def __init__(self, ours: argparse.Namespace, project: Project, places: Places, journal: Journal) -> None:
        self._ours, self._project, self._places, self._journal = ours, project, places, journal
        self.uuid = lock.device_uuid(ours.device or "auto")
        self.environment: Mapping[str, str] = os.environ
        self.resumable = True
        self.last_words = ""
        self._earlier = 0  # records of the journal when the process at hand began

    def run(self, arguments: Sequence[str]) -> int:
        """Measure until all cases are finished; the exit code."""
        if self._ours.resume:
            done, again = self._journal.resume(self._key), self._journal.again
            more = f", {counted(len(again), 'case')} below the floor measured again" if again else ""
            warn(f"resumed: {counted(done, 'finished case')} taken over{more}")
        else:
            self._journal.clear()
        unexplained, prebuild = 0, True
        while True:
            self._earlier = len(self._journal.records)
            try:
                ended = self._watch(arguments if prebuild else ["--peakgate-no-prebuild", *arguments])
            except PeakgateError as error:
                self.resumable = error.exit_code != ExitCode.BAD_INPUT
                raise
            if ended.verdict is not None:
                return self._finish(ended.verdict, ended.not_printed)
            if ended.interrupted:
                return ExitCode.INTERRUPTED
            if ended.code == AGAIN and self._measured(ended):
                self._announce_again()
                continue
            if ended.refused:
                self.resumable = ended.code != ExitCode.BAD_INPUT and ended.returned
                if not ended.returned:
                    raise CannotDecide(
                        f"not measured: {ended.how}, without a verdict; look for os._exit in conftest.py, in the "
                        "files of `benchmarks` and in modules that families import",
                        Code.PROCESS,
                    )
                return ended.code or ExitCode.DEFECT  # it has printed the reason itself
            if ended.code == FRESH and (measured := self._measured(ended)):
                self._journal.append({RESTART: f"{measured[-1]}: its fault destroyed the CUDA context"})
            else:
                unexplained += self._blame(ended)
            if unexplained > MOST_UNEXPLAINED:
                raise CannotDecide(f"not measured: {ended.how} {unexplained} times; --resume continues", Code.BUSY)
            prebuild = prebuild and ended.step.name != "build"

    def _measured(self, ended: _Measuring) -> list[str]:
        """The cases that a process finished, none if it ended within a case; without any, a restart would not help."""
        return [] if ended.step.case else self._journal.cases_since(self._earlier)

    def _announce_again(self) -> None:
        """Print and journal how many cases the next process measures again; nothing if it only writes the run file."""
        if below := self._journal.again:
            reported = f"{share_below(len(below), len(self._journal.cases))}; measured again in a fresh process"
            warn(reported)
            self._journal.append({RESTART: reported})

    def _watch(self, arguments: Sequence[str]) -> _Measuring:
        """Run one measuring process until it ends."""
        reading, writing = os.pipe()
        command = [sys.executable, "-P", "-m", "peakgate.run.process", str(os.getpid()), str(self._project.root)]
        from_us = [f"--peakgate-link={writing}", f"--peakgate-journal={self._journal.path}"]
        from_us += [f"--benchmark-storage=file://{self._places.staging / 'saved'}"]
        from_us += [f"--benchmark-json={self._places.staged_json}"] if self._places.json else []
        process = subprocess.Popen(
            [*command, *from_us, *arguments],
            env={**self.environment, **one_blas_thread(of_numpy=bool(self.uuid))},  # the emulator forks per processor
            pass_fds=(writing, *lock.inherited()),
            start_new_session=True,  # Ctrl-C reaches the supervisor alone, which ends the process
        )
        os.close(writing)
        try:
            if not self._journal.records:
                self._journal.append({KEY: self._key})
            with progress.shown("reading the cases of the project", at_once=True, interrupted="") as starting:
                measuring = _Measuring(process, self._journal, starting)
                measuring.watch(reading)
                return measuring
        finally:
            end_group(process)
            os.close(reading)

    def _blame(self, ended: _Measuring) -> int:
        """Journal a verdict for the case during which the process ended; return 1 if there was none, else 0."""
        step = ended.step
        what = f"{step.case or 'no case'}: {ended.how}"
        warn(f"\n{what}; going on in a fresh process")
        self._journal.append({RESTART: what})
        if step.case is None or step.case in self._journal.cases_since(self._earlier):
            return 1
        if ended.timed_out:
            # In the emulator a timeout may only mean that the machine is busy; it detects endless loops itself.
            verdict = Verdict.TIMEOUT if self.uuid else Verdict.INCONCLUSIVE
            reason = f"{step.name} did not end within {step.limit_s:.0f} s"
        elif -ended.code in FROM_OUTSIDE:
            verdict = Verdict.INCONCLUSIVE
            reason = f"{ended.how}, from outside; the kernel's log (dmesg) says whether memory was short"
        else:
            verdict, reason = Verdict.CRASHED, ended.how
        self._journal.append({CASE: step.case, "verdict": verdict.value, "reason": reason})
        return 0

    def _finish(self, verdict: dict[str, Any], not_printed: str) -> int:
        """Publish the run file and the verdict of a finished run; return its exit code."""
        if self._ours.counters and verdict["code"] != ExitCode.INTERRUPTED:
            from peakgate.run import counters, ncu  # noqa: PLC0415  (only with --counters)

            device = (self._ours.device or "auto") if self.uuid else None
            verdict["counters"] = counters.add(self._places, self._project.root, device)
            if verdict["counters"]["problem"] == ncu.STOPPED:
                verdict["code"] = ExitCode.INTERRUPTED
        slug = str(verdict["device"])
        measured = any(case["time_us"] is not None for case in verdict["cases"])
        saved = self._places.publish(self._project.runs / slug, measured=measured)
        about = {"command": sys.argv, "project": str(self._project.root), **self._key}
        write_verdict(self._places.out, verdict | about, self._project.baselines, saved)
        self.resumable = verdict["partial"] is not None
        self.last_words = "\n".join(_last_words(verdict, self._project.kernels))
        if not_printed:
            raise PeakgateError(
                f"the run is saved, but standard output cannot be written ({not_printed}); redirect it", Code.SYSTEM
            )
        return int(verdict["code"])

    @cached_property
    def _key(self) -> dict[str, Any]:
        """What must be unchanged for ``--resume``: tree, tool, GPU, driver, device, floors and base."""
        tree = inputs.tree(self._project, self._places.out)
        return {
            "commit": tree.commit,
            "changes": tree.changes,
            "harness": inputs.harness(),
            "GPU": self.uuid or "none",
            "driver": driver.driver_version() or "none",
            "--device": self._ours.device or "auto",
            "floors": inputs.floors(self._project.baselines),
            "base": git.commit_of(ref, self._project.root, inputs.OPTION)
            if (ref := self._ours.baselines_from)
            else "none",
        }


def _last_words(verdict: Mapping[str, Any], kernels: Path) -> Iterator[str]:
    """What stands below pytest's count of tests: why a run is undecided, and the command that helps next."""
    if verdict["code"] == ExitCode.UNDECIDED:
        counts: Mapping[str, int] = verdict["verdicts"]
        why = [f"{count} {name}" for name, count in counts.items() if name in UNDECIDED]
        without = f"{counts.get(Verdict.NO_FLOOR, 0)} without a floor under --strict-gate"
        yield f"undecided: {', '.join(why) or verdict['partial'] or without}"
    cases = [(case["case"], case["verdict"]) for case in verdict["cases"]]
    wrong = [case for case, found in cases if found in FAULTY and (kernels / case.partition(".")[0]).is_dir()]
    slow = [case for case, found in cases if found == Verdict.BELOW_FLOOR]
    if wrong:
        yield f"next: peakgate check -k {wrong[0].partition('-')[0]}"
    elif slow:
        yield f"next: peakgate ab HEAD~1 -k {slow[0]} --explain"


class _Measuring:
    """One measuring process under watch.

    ``code`` is its exit code, negative for a signal, ``step`` its last step, ``timed_out`` whether that took too long.
    ``verdict`` is the run's verdict, None if the process did not send it. ``returned``: ``pytest.main`` returned, which
    it does not if a file calls ``os._exit``. ``not_printed``: why standard output could not be written, else empty.
    """

    def __init__(self, process: subprocess.Popen[bytes], journal: Journal, starting: progress.Progress) -> None:
        self._process, self._journal, self._starting = process, journal, starting
        self.code = 0
        self.step = Step("start", PROCESS_START_LIMIT_S)
        self.timed_out = self.interrupted = self.returned = False
        self.verdict: dict[str, Any] | None = None
        self.not_printed = ""

    def watch(self, reading: int) -> None:
        """Take its events from the pipe ``reading`` until it ends, or is killed because a step exceeds its limit."""
        lines = Lines()
        with selectors.DefaultSelector() as selector:
            selector.register(reading, selectors.EVENT_READ)
            while True:
                try:
                    left = self.step.until - time.monotonic()
                    if selector.select(min(max(left, 0.0), _LONGEST_WAIT_S)):
                        data = os.read(reading, 1 << 16)
                        if not data:
                            break
                        for event in lines.feed(data):
                            self._take(event)
                    elif left <= 0:  # only if nothing is left to read: this process may have been stopped itself
                        self.timed_out = not self.interrupted
                        break
                except KeyboardInterrupt:
                    if self.interrupted:
                        break
                    self.interrupted = True
                    self.step = Step("interrupted", GRACE_S)
                    self._process.send_signal(signal.SIGINT)  # it saves its results
        self.code = end_group(self._process, 0.0 if self.timed_out else GRACE_S)

    def _take(self, event: dict[str, Any]) -> None:
        self._starting.clear()  # from here on the process shows by itself how far it is
        if "step" in event:
            if not self.interrupted:
                self.step = Step(str(event["step"]), float(event["limit_s"]), event["case"])
        elif "returned" in event:
            self.returned = True
        elif "finished" in event:
            self.verdict = event["finished"]
        elif "not_printed" in event:
            self.not_printed = str(event["not_printed"])
        elif "refused" in event:
            raise PeakgateError.repeated(str(event["refused"]))
        elif "undecided" in event:
            raise CannotDecide.repeated(str(event["undecided"]))
        else:
            self._journal.append(event)
            if CASE in event and not self.interrupted:
                self.step = Step("the end of a case", HOST_LIMIT_S)

    @property
    def refused(self) -> bool:
        """Whether it exited by itself without a verdict: bad input, no device, or a defect of Peakgate."""
        if self.timed_out or self.code < 0 or self.code in (FRESH, AGAIN):
            return False
        return self.step.case is None or self.code == ExitCode.DEFECT

    @property
    def how(self) -> str:
        """How it ended, as a phrase."""
        if self.timed_out:
            return f"{self.step.name} took longer than {self.step.limit_s:.0f} s, its process was killed"
        if self.code < 0:
            return f"its process was ended by {signal.Signals(-self.code).name} during {self.step.name}"
        return f"its process exited with code {self.code} during {self.step.name}"
