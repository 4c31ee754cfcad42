"""One run in this process, from the cases that were selected to what came of each."""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from peakgate.base import config, git, records
from peakgate.base.errors import CannotDecide, Code, PeakgateError
from peakgate.base.files import write_whole
from peakgate.base.processes import seconds_since_start_of
from peakgate.base.verdict import Judgement, Verdict
from peakgate.device.choose import opened
from peakgate.device.interface import failure
from peakgate.run import run_file
from peakgate.run.ab_process import LOOK_FILES, GpuToken, OtherBuilds
from peakgate.run.ahead import CaseShares
from peakgate.run.cases import RunCase
from peakgate.run.journal import PROCESSES, Finished, Link, finished, share_below
from peakgate.run.machine import BriefMachine, DescribedMachine
from peakgate.run.request import Mode, Request
from peakgate.run.selection import open_session, wanted_cases
from peakgate.run.status import StatusLine
from peakgate.run.store import Store
from peakgate.session.entry import Entry
from peakgate.session.outcome import Outcome
from peakgate.session.prover import LostEarly
from peakgate.session.session import no_room
from peakgate.spec.case import Case, RefusedCase


class BenchRun:
    """A run: what it is asked for, its session, its cases, and what came of them.

    ``known`` are the cases of the project, ``tests`` the case ids of benchmark tests by node id, ``refused_tests`` what
    stands for those that are none. ``others`` are builds
    that are sampled interleaved with the cases. ``plain``: pytest was started by a person, not by ``peakgate bench``.
    """

    def __init__(self, pytest_config: pytest.Config, kernels: Sequence[Path] = ()) -> None:
        """Open device and floors, so that a mistake is reported before anything runs.

        ``kernels`` are files and folders: of families the cases whose sources are within are run, without any all.
        """
        self._began = time.monotonic()
        options = pytest_config.option
        if os.environ.get(config.BASE_VARIABLE):  # this process will work in the base's tree
            _make_absolute(options)
        self.request = request = Request.of(options)
        self.plain = not options.peakgate
        self._kernels = kernels
        self.token = GpuToken.of_environment()
        self.link = Link(request.link)
        self.before = finished(request.journal) if request.journal else Finished()
        self.session, self.known = open_session(
            request,
            self.before.again,
            self.link.expect,
            later=self.token.needed,
            plain=self.plain,
            timed=not getattr(options, "benchmark_disable", False),
        )
        self._chosen: tuple[dict[str, RunCase], list[str] | None] | None = None
        if not self.plain:
            self.choose()
        self.tests: dict[str, str] = {}
        self.refused_tests: list[RefusedCase] = []
        self.others = _other_builds(request.other_builds)
        self.store = Store(self.session, self.link, self.before)
        self.out: Path = request.out or config.current().out
        timed = request.mode is Mode.WHOLE and self.session.device.kind != "cpu"
        self.machine = DescribedMachine() if timed else BriefMachine()
        self.status = StatusLine(pytest_config)
        self._doubts = [] if self.token.needed else self.session.look()
        self._ahead: dict[str, Outcome] = {}
        self._others: dict[str, Outcome] = {}
        self._shares: CaseShares | None = None

    def choose(self) -> tuple[dict[str, RunCase], list[str] | None]:
        """The cases of families that are asked for, by id, and those that ``cases`` lists, None where all are wanted.

        Under plain pytest they are read when a test asks for them: tests of callables need no family. PeakgateError
        where the request's ``cases`` names one that is not there.
        """
        if self._chosen is None:
            self._chosen = wanted_cases(self.known, self.session.tier, self.request.cases, self._kernels)
        return self._chosen

    @property
    def cases(self) -> dict[str, RunCase]:
        """The cases of families that are asked for, by id."""
        return self.choose()[0]

    def begin(self, selected: Sequence[RunCase], pytest_config: pytest.Config) -> None:
        """Have everything built, the device warm, the roofs measured.

        CannotDecide where nothing can be measured as it is asked for, PeakgateError for a mistake.
        """
        session, before = self.session, self.before
        if self.plain:
            session.whole = False  # what else there is, nobody asked
        else:
            self._compare_with_known(selected)
        if not selected:
            return
        built = self._take_turn(selected)
        session.steps.wall_s["start"] = self.wall_s()
        if self.token.needed:
            self._doubts = session.look()
        if self._doubts and self.request.strict_gate and not before.restarts:
            raise CannotDecide(f"not measured under --strict-gate: {'; '.join(self._doubts)}", Code.BUSY)
        if before.below:
            reported = share_below(len(before.below), len(selected))
            session.notes.append(f"{reported}; judged by the median of {PROCESSES} processes")
        remaining = [case for case in selected if case.id not in before.cases]
        self.status.building(len(remaining))
        if session.device.kind == "cpu" and self.link.supervised and not before.restarts:
            self._shares = CaseShares(session, self._run_here(remaining))
        self.machine.begin(pytest_config)  # after the shares, whose processes are forked from a single thread
        self._begin_session(self._measurable(remaining), built=built)
        self.machine.wait()
        self.status.built()
        if self._shares is not None:
            self._shares.begin()
        if self.token.needed and not self.tests:  # benchmark tests may want the GPU to the end
            self._measure_in_turn(selected)

    def _compare_with_known(self, selected: Sequence[RunCase]) -> None:
        """Note what the project has beside the selected cases; CannotDecide where nothing described was selected."""
        session, known = self.session, self.known
        unknown = [each for each in known.refused if each.whole]
        if not selected and unknown:
            raise CannotDecide.repeated(f"no case was selected that is described: {unknown[0].reason}")
        chosen = {case.id for case in selected}
        tier = {case.id for case in known.listed(session.tier)}
        session.whole = chosen >= tier | set(self.tests.values()) and not unknown
        session.notes += [f"not selected, {each.reason}" for each in known.refused if each.id not in chosen]

    def _take_turn(self, selected: Sequence[RunCase]) -> bool:
        """Wait for this process's turn, where turns are given, and only then open the device.

        Whether the builds were read from the cache meanwhile: without references that takes no GPU.
        """
        if not self.token.needed:
            return False
        device, built = self.session.device, not self.session.checks
        if built:
            device.prebuild(self._measurable(selected), checked=False)
        self.token.wait()
        self._began = time.monotonic()
        opened(device, self.request.device)
        return built

    def _begin_session(self, cases: Sequence[Case], *, built: bool) -> None:
        """Begin the session, whose memory may be full and whose first kernel may take the GPU's context with it."""
        session, before = self.session, self.before
        try:
            session.begin(
                cases,
                before.roofs,
                prebuild=not (built or self.request.no_prebuild),
                prove_early=self.link.supervised,
            )
        except LostEarly as lost:
            self.store.keep(session.failed(lost.case, lost.error))  # a fresh process measures the others
        except (MemoryError, RuntimeError) as fault:
            full = fault if isinstance(fault, MemoryError) else failure(fault)
            if not isinstance(full, MemoryError):
                raise
            raise CannotDecide(f"not measured: {no_room(full, session.device)}", Code.MEMORY) from None
        except PeakgateError as error:
            raise PeakgateError.repeated(f"not measured: {error}") from None
        if before.roofs is None:
            self.link.send(roofs=dict(session.roofs))

    def _measure_in_turn(self, selected: Sequence[RunCase]) -> None:
        """Measure every case now and leave the GPU to the next process: pytest takes its time.

        Of what is sampled interleaved it may be asked for more after a look, for which run files are written.
        """
        device = self.session.device
        for case in self._run_here(selected):
            self._ahead[case.id] = self._measured(case)
        others = self.others
        while others.looks and device.lost is None and any(each.metrics for each in self._others.values()):
            folders = config.current().root, Path(others.folder)
            for name, folder, outcomes in zip(LOOK_FILES, folders, (self._ahead, self._others), strict=True):
                look = run_file.unsaved(self.session, list(outcomes.values()), git.commit_info(folder))
                write_whole(self.out / name, json.dumps(look))
            if not self.token.further():
                break
            asked = _other_builds(self.request.other_builds)
            for case in self._measurable([self.cases[case_id] for case_id in asked.fingerprints]):
                self._ahead[case.id] = self._interleaved(case, asked)
        if device.lost is None:  # else the GPU is free when this process ends
            begun = time.monotonic()
            device.close()
            self.token.release(self.session.steps.wall_s | {"close": time.monotonic() - begun})

    def measure(self, case: RunCase) -> tuple[Entry, Sequence[float]]:
        """Measure a case, unless that was done before; its entry and its samples."""
        if (known := self.store.take_over(case)) is not None:
            return known
        objection = self.known.objection(case)  # the change dropped it, or the base cannot judge it
        if objection is not None:
            return self.store.keep(self.session.unmeasured(case, objection))
        assert isinstance(case, Case)  # to any other there is an objection
        ahead = self._ahead.pop(case.id, None)
        return self.store.keep(ahead or self._measured(case))

    def measure_other(self, case: RunCase) -> tuple[Entry, Sequence[float]]:
        """The entry and the samples of a case's other build, which was sampled with it."""
        from peakgate.session.pairs import OTHER_FAILED  # noqa: PLC0415  (of an A/B alone)

        outcome = self._others.pop(case.id, None)
        spoilt = Judgement(Verdict.INCONCLUSIVE, OTHER_FAILED)
        return self.store.keep_other(outcome or self.session.unmeasured(case, spoilt))

    def _measured(self, case: Case) -> Outcome:
        if self._shares is not None:
            return self._shares.outcome(case)
        if case.id in self.others.fingerprints:
            return self._interleaved(case, self.others)
        return self.session.measured(case)

    def _interleaved(self, case: Case, asked: OtherBuilds) -> Outcome:
        """Sample a case and its other build, beyond what was sampled of them before; the other's outcome is kept."""
        from peakgate.session.pairs import interleaved  # noqa: PLC0415  (of an A/B alone)

        outcome, self._others[case.id] = interleaved(
            self.session,
            case,
            asked.fingerprints[case.id],
            pairs=asked.pairs,
            cases=len(asked.fingerprints),
            before=(self._ahead[case.id], self._others[case.id]) if case.id in self._ahead else None,
        )
        return outcome

    def _measurable(self, cases: Sequence[RunCase]) -> list[Case]:
        """Those of the cases that are described, and that the base, if there is one, can judge."""
        return [case for case in cases if isinstance(case, Case) and not self.known.objection(case)]

    def _run_here(self, cases: Sequence[RunCase]) -> list[Case]:
        """Those of them that this device runs."""
        return [case for case in self._measurable(cases) if not self.session.device.refusal(case)]

    def wall_s(self) -> float:
        """Wall time since the run was started: by its supervisor, or with this process; in an A/B since its turn."""
        if self.token.needed:
            return time.monotonic() - self._began
        return seconds_since_start_of(os.getppid() if self.link.supervised else os.getpid())


def _make_absolute(options: argparse.Namespace) -> None:
    """Make every path among pytest's options absolute."""
    for name, value in list(vars(options).items()):
        if isinstance(value, Path):
            setattr(options, name, value.absolute())


def _other_builds(file: Path | None) -> OtherBuilds:
    """What the file of an A/B says; nothing without one."""
    return OtherBuilds() if file is None else records.read(file, OtherBuilds, "run `peakgate ab` again")
