"""The results of a run's cases in this process, and the session that measures them.

The plug-ins of kernels (``kernel_run``) and of benchmark tests (``benchmark_tests``) hand in what they measured here.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Any, NoReturn

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from peakgate.base import config, git, records
from peakgate.base.errors import Code, PeakgateError
from peakgate.base.files import UnreadableFile, read_text, write_whole
from peakgate.base.text import nearest
from peakgate.base.verdict import REGRESSIONS, UNDECIDED, Judgement, Verdict
from peakgate.device.choose import open_device
from peakgate.judge.floors import load_floors
from peakgate.measure.sampling import ONE_BATCH, REPEATED, SamplingPlan
from peakgate.run import inputs, run_file
from peakgate.run.ab_process import LOOK_FILES, MODE_VARIABLE, GpuToken, Mode, OtherBuilds
from peakgate.run.ahead import CaseShares
from peakgate.run.cases import Cases, RunCase
from peakgate.run.journal import FRESH, Finished, Link, finished
from peakgate.run.session import Outcome, Session
from peakgate.spec.case import Case, Launch, Stage, Tier, Work

OPERATION = "callable"
"""In place of a source file, which a callable's case does not have."""

FIXTURE = "gpu_benchmark"
KERNEL_TESTS = "peakgate.run.bench_kernels"
"""The module of the tests of kernels; a project's suite may import them."""

_FORBIDDEN = re.compile(r"[^A-Za-z0-9_.-]")

FRAMEWORKS = frozenset(
    {
        "cupy",
        "cupyx",
        "cupy_backends",
        "torch",
        "triton",
        "numba",
        "numba_cuda",
        "cuda",
        "jax",
        "jaxlib",
        "warp",
        "tilelang",
    }
)
"""Exceptions that mean a missing GPU: a test that raises one is skipped without a GPU."""

PLANS = {Mode.WHOLE: SamplingPlan(), Mode.PROOF: ONE_BATCH, Mode.PAIR: REPEATED}


class Results:
    """The cases of a run in this process and what came of each.

    ``entries`` are the finished cases, taken over from the journal or measured here, as the run file keeps them;
    ``skipped`` why this device cannot run a case; ``tests`` the case ids of benchmark tests by node id. ``listed`` are
    the case ids of ``--cases``, None where all are wanted. ``below_floor`` and ``measured_again`` say whether any case
    of this process was. ``others`` are builds that are sampled in turns with these cases, ``other_entries`` what came
    of them, for a run file of their own.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        """Open device and floors, so that a mistake is reported before anything runs."""
        self.mode = Mode(options.peakgate_mode)
        self.token = GpuToken.of_environment()
        self.link = Link(options.peakgate_link)
        journal = options.peakgate_journal
        self.before = finished(journal) if journal else Finished()
        self.session, self.known = _session(options, self.mode, later=self.token.needed)
        self.session.expect = self.link.expect
        self.session.launch_limit_s = options.peakgate_launch_limit
        self.session.nonfinite = options.peakgate_nonfinite
        self.session.determinism = options.peakgate_determinism
        if options.peakgate_energy:
            from peakgate.measure.energy import LOOPS  # noqa: PLC0415  (few runs measure it)

            self.session.energy_loops = LOOPS if self.mode is Mode.WHOLE else 1
            if self.session.device.kind == "cpu":
                self.session.notes.append("no energy is measured without a GPU")
        self.session.attempts = self.before.again
        self.cases, self.listed = _wanted(self.known, self.session.tier, options.peakgate_cases)
        self._other_builds_file: Path | None = options.peakgate_other_builds
        self.others = _other_builds(self._other_builds_file)
        self.entries: list[run_file.Entry] = []
        self.other_entries: list[run_file.Entry] = []
        self.skipped: dict[str, str] = {}
        self.tests: dict[str, str] = {}
        self.below_floor = self.measured_again = False
        self._ahead: dict[str, Outcome] = {}
        self._others: dict[str, Outcome] = {}
        self._shares: CaseShares | None = None

    def measure(self, case: RunCase) -> tuple[run_file.Entry, Sequence[float]]:
        """Measure a case, unless an earlier process finished it; its entry and its samples."""
        if known := self.take_over(case):
            return known
        objection = self.known.objection(case)
        if objection is not None:
            return self.keep(self.session.unmeasured(case, objection))
        assert isinstance(case, Case)  # to any other there is an objection
        ahead = self._ahead.pop(case.id, None)
        return self.keep(ahead or self._measured(case))

    def other(self, case: RunCase) -> tuple[run_file.Entry, Sequence[float]]:
        """The entry and the samples of a case's other build, which was sampled with it."""
        from peakgate.run.turns import OTHER_FAILED  # noqa: PLC0415  (of an A/B alone)

        spoilt = Judgement(Verdict.INCONCLUSIVE, OTHER_FAILED)
        outcome = self._others.pop(case.id, None) or self.session.unmeasured(case, spoilt)
        entry = run_file.extra_info(outcome)
        self.other_entries.append(entry)
        return entry, outcome.samples.times_us if outcome.samples and outcome.metrics else ()

    def _measured(self, case: Case) -> Outcome:
        if self._shares is not None:
            return self._shares.outcome(case)
        if case.id not in self.others.fingerprints:
            return self.session.measured(case)
        return self._in_turns(case, self.others)

    def _in_turns(self, case: Case, asked: OtherBuilds) -> Outcome:
        """Sample a case and its other build in turns, beyond what was sampled of them before; the other's is kept."""
        from peakgate.run.turns import in_turns  # noqa: PLC0415  (as above)

        before = (self._ahead[case.id], self._others[case.id]) if case.id in self._ahead else None
        outcome, self._others[case.id] = in_turns(self.session, case, asked, before)
        return outcome

    def share(self, cases: Sequence[RunCase]) -> CaseShares:
        """Have every processor measure some of these cases, which an emulator can."""
        kept = [case for case in self.measurable(cases) if not self.session.device.refusal(case)]
        self._shares = CaseShares(self.session, kept)
        return self._shares

    def measurable(self, cases: Sequence[RunCase]) -> list[Case]:
        """Those of the cases that are described, and that the base, if there is one, can judge."""
        return [case for case in cases if isinstance(case, Case) and not self.known.objection(case)]

    def measure_ahead(self, cases: Sequence[RunCase], out: Path) -> None:
        """Measure cases now whose tests come later, those that this device can run.

        Of what is sampled in turns it may be asked for more after a look, for which run files are written to ``out``.
        """
        for case in self.measurable(cases):
            if not self.session.device.refusal(case):
                self._ahead[case.id] = self._measured(case)
        while self.others.looks and self.session.device.lost is None and any(map(_timed, self._others.values())):
            folders = config.current().root, Path(self.others.folder)
            for name, folder, outcomes in zip(LOOK_FILES, folders, (self._ahead, self._others), strict=True):
                run = run_file.unsaved(self.session, list(outcomes.values()), git.commit_info(folder))
                write_whole(out / name, json.dumps(run))
            if not self.token.further():
                return
            asked = _other_builds(self._other_builds_file)
            for case in self.measurable([self.cases[case_id] for case_id in asked.fingerprints]):
                self._ahead[case.id] = self._in_turns(case, asked)

    def keep(self, outcome: Outcome) -> tuple[run_file.Entry, Sequence[float]]:
        """Keep what came of a case, here and in the journal: its entry and its samples.

        After a lost GPU context this process ends, and a fresh one goes on.
        """
        entry = run_file.extra_info(outcome)
        self.entries.append(entry)
        times_us = outcome.samples.times_us if outcome.samples else ()
        self.link.send(case=outcome.case.id, extra_info=entry, times_us=times_us)
        self.below_floor |= outcome.judgement.verdict is Verdict.BELOW_FLOOR
        self.measured_again |= outcome.case.id in self.before.again
        if self.session.device.lost and self.link.supervised:
            os._exit(FRESH)  # clean-up would meet the lost context again
        return entry, times_us

    def take_over(self, case: RunCase) -> tuple[run_file.Entry, Sequence[float]] | None:
        """A case that an earlier process of this run finished, and its samples; None for one that is still to do."""
        known = self.before.cases.get(case.id)
        if known is None:
            return None
        entry = known.get("extra_info")
        if entry is None:  # the supervisor's word on a process that is gone
            judgement = Judgement(Verdict(known["verdict"]), known["reason"])
            entry = run_file.extra_info(self.session.unmeasured(case, judgement))
        self.entries.append(entry)
        return entry, known.get("times_us", ())

    def skip(self, case: RunCase, reason: str) -> NoReturn:
        """A case that this device cannot run."""
        self.skipped[case.id] = reason
        pytest.skip(f"{case.id}: {reason}")


def _timed(outcome: Outcome) -> bool:
    """Whether a case has figures."""
    return outcome.metrics is not None


def _session(options: argparse.Namespace, mode: Mode, *, later: bool) -> tuple[Session, Cases]:
    """The session of this process and its cases; with ``later`` the device is opened when the GPU is free."""
    project = config.required()
    device, note = open_device(options.peakgate_device, later=later)
    baselines = options.peakgate_baselines or config.near(project.baselines)
    cases = Cases(device.scale)
    ref, base = options.peakgate_baselines_from, os.environ.get(config.BASE_VARIABLE)
    if base:
        from peakgate.run.base_contract import against  # noqa: PLC0415  (a run without a base needs none of it)

        baselines = baselines.absolute()
        for name, value in list(vars(options).items()):
            if isinstance(value, Path):
                setattr(options, name, value.absolute())
        config.work_in(Path(base))  # before anything of the base is imported
        cases = against(Path(base), project, device.scale, ref or "the base", device.refusal)
    if ref:
        floors = inputs.floors_at(ref, baselines, device.slug)
    else:
        unknown = project.benchmarks or any(each.whole for each in cases.refused)
        known_cases = None if unknown else {case.id for case in cases.listed(Tier.FULL)}
        floors = load_floors(baselines / device.slug / "floors.toml", known_cases, gpu=device.slug)
    notes = [*([note] if note else []), *cases.notes]
    if mode is Mode.PAIR:
        notes.append(f"{MODE_VARIABLE}={mode}: kernels were timed, their results not checked")
    session = Session(
        device,
        floors,
        Tier(options.peakgate_tier),
        checks=mode is not Mode.PAIR,
        alone=mode is not Mode.PROOF,
        wants_roofs=mode is Mode.WHOLE,
        probes=cases.probes,
        new=cases.new,
        plan=PLANS[mode],
        notes=notes,
        seed=secrets.randbits(32) if options.peakgate_seed is None else options.peakgate_seed,
    )
    return session, cases


def _other_builds(file: Path | None) -> OtherBuilds:
    """What the file of an A/B says; nothing without one."""
    return OtherBuilds() if file is None else records.read(file, OtherBuilds, "run `peakgate ab` again")


def _wanted(cases: Cases, tier: Tier, listed: Path | None) -> tuple[dict[str, RunCase], list[str] | None]:
    """The tier's cases by id, or those a file lists, in the file's order; and what it lists, None without a file.

    Where the project has benchmark tests, an id that no family has may be one of theirs.
    """
    if listed is None:
        return {case.id: case for case in cases.listed(tier)}, None
    every = {case.id: case for case in cases.listed(Tier.FULL)}
    try:
        wanted = list(dict.fromkeys(read_text(listed).split()))
    except UnreadableFile as error:
        raise PeakgateError(
            f"--cases {config.near(listed)}: {error.why}; expected a file of case ids, one a line", Code.UNREADABLE
        ) from None
    every |= {
        case_id: case
        for case_id in wanted
        if case_id not in every and (case := cases.of_refused_family(case_id)) is not None
    }
    for case_id in wanted:
        if case_id not in every and not config.required().benchmarks:
            raise PeakgateError(
                f"--cases {config.near(listed)}: no case is named {case_id!r}{nearest(case_id, every)}", Code.SELECTION
            )
    return {case_id: every[case_id] for case_id in wanted if case_id in every}, wanted


def of_framework(error: Exception) -> bool:
    """Whether a GPU framework raised it, or is what could not be imported."""
    if isinstance(error, ImportError) and (error.name or "").partition(".")[0] in FRAMEWORKS:
        return True
    if type(error).__module__.partition(".")[0] in FRAMEWORKS:
        return True
    trace: TracebackType | None = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    module = "" if trace is None else str(trace.tb_frame.f_globals.get("__name__", ""))
    return module.partition(".")[0] in FRAMEWORKS


def of_kernels(item: object) -> bool:
    """Whether an item of pytest's is a test of ours, of kernels."""
    return getattr(getattr(item, "function", None), "__module__", None) == KERNEL_TESTS


def raise_for(entry: Mapping[str, Any], session: Session) -> None:
    """Fail the test at hand where the verdict of its case does."""
    if entry["verdict"] in REGRESSIONS | UNDECIDED:
        where = f"; {config.near(session.floors.path)}" if entry["floor"] is not None else ""
        reported = f"{entry['case']} on {session.device.slug}: {entry['verdict']}, {entry['reason']}{where}"
        raise pytest.fail.Exception(reported, pytrace=False) from None


class ReplayTimer:
    """A clock that plays back durations in seconds, for pytest-benchmark, which reads it before a round and after it.

    It returns 0 and the next duration alternately, so that an empty round "takes" the time that the GPU's events gave.
    """

    __name__ = "cuda_events"

    def __init__(self) -> None:
        self._durations: Sequence[float] = ()
        self._reading = -1

    def load(self, durations_s: Sequence[float]) -> None:
        """Set what the next rounds will take."""
        self._durations, self._reading = durations_s, -1

    def __call__(self) -> float:
        self._reading += 1
        return 0.0 if self._reading % 2 == 0 else self._durations[self._reading // 2]


def replay(
    benchmark: BenchmarkFixture, timer: ReplayTimer, times_us: Sequence[float], entry: Mapping[str, Any] | None = None
) -> None:
    """Give the benchmark one round per measured time, and a case's entry as its ``extra_info``; nothing without times.

    Does nothing that shows when benchmarks are disabled.
    """
    if not times_us:
        return
    benchmark.extra_info.update(entry or {})
    timer.load([time_us / 1e6 for time_us in times_us])
    benchmark.pedantic(lambda: None, rounds=len(times_us))  # type: ignore[no-untyped-call]


def case_parts(nodeid: str) -> tuple[str, str, str]:
    """File, test and parameters of a test in the alphabet of case ids.

    ``a/bench_b.py::T::test_c[1-d]`` is ``a-bench_b``, ``T.test_c`` and ``1-d``.
    """
    path, _, test = nodeid.partition("::")
    name, _, parameters = test.partition("[")
    file = "-".join(PurePosixPath(path).with_suffix("").parts).replace(".", "_")
    parts = (file, name.replace("::", "."), parameters.removesuffix("]"))
    spelled = [_FORBIDDEN.sub("_", part) for part in parts]
    return spelled[0], spelled[1], spelled[2]


def case_of(nodeid: str, state: str = "cold", gpus: int = 1) -> Case:
    """The case of a benchmark test, without what only its call provides: its work, its arrays.

    A ``state`` other than cold is the last of the test's parameters. A number of GPUs stays in its size.
    """
    file, test, parameters = case_parts(nodeid)
    if state != "cold":
        parameters = parameters.removesuffix(state).removesuffix("-")
    return Case(
        family=file,
        stage=Stage(test, "a benchmark test", operation=OPERATION),
        launch=Launch((1, 1, 1), (1, 1, 1)),
        arguments=(),
        work=Work(0),
        reference=None,  # it takes the arguments of the callable
        size=parameters,
        tier=Tier.GATE,
        state=state,
        gpus=gpus,
    )
