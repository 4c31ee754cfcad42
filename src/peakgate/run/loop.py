"""One run in this process, from the selected cases to their outcomes."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import pytest

from peakgate.base import config
from peakgate.base.errors import CannotDecide, Code, PeakgateError
from peakgate.base.formatting import counted, first_of
from peakgate.base.processes import seconds_since_start_of, single_threaded
from peakgate.base.ranks import ALONE, WAIT_LIMIT_S, Ranks, started
from peakgate.device import driver
from peakgate.device.choose import open_device
from peakgate.device.interface import failure
from peakgate.judge.floors import load_floors
from peakgate.measure.limits import HOST_LIMIT_S
from peakgate.measure.sampling import ONE_BATCH, REPEATED, SamplingPlan
from peakgate.run import inputs
from peakgate.run.collection import Cases, RunCase, wanted_cases
from peakgate.run.display import StatusLine
from peakgate.run.journal import PROCESSES, Finished, Link, finished, share_below
from peakgate.run.lock import locked
from peakgate.run.proofs import begun
from peakgate.run.request import MODE_VARIABLE, Mode, Request
from peakgate.run.run_file import MachineProbe, Store
from peakgate.session.outcome import Entry, Outcome
from peakgate.session.prover import LostEarly
from peakgate.session.session import Expect, Session, no_room, unwatched
from peakgate.spec.case import NO_SMALL_PROBLEM, Case, RefusedCase, Tier

if TYPE_CHECKING:
    from peakgate.run.ahead import CaseShares

LEAST_SHARE = 16
"""Cases per process at least, where several emulate them."""

LOCK_LIMIT_S = WAIT_LIMIT_S / 2
"""How long a rank waits for the lock of its GPU: less than the others wait for the rank."""
RUN_AGAIN = "run pytest again once that has ended"

RankFacts = tuple[Sequence[str], str, str | None]
"""The case ids of a rank's tests in their order, its device, and the uuid of its GPU."""

PLANS = {Mode.WHOLE: SamplingPlan(), Mode.PROOF: ONE_BATCH, Mode.PAIR: REPEATED}


def open_session(
    request: Request,
    attempts: Mapping[str, int],
    expect: Expect,
    *,
    later: bool = False,
    plain: bool = False,
    timed: bool = True,
    ranks: Ranks = ALONE,
) -> tuple[Session, Cases]:
    """The session of this process and the cases of its project; with ``later`` the device is not opened yet.

    ``plain``: under plain pytest no project is needed, floors of unknown cases are allowed, and the default tier is
    full. Without ``timed`` cases are only proven.

    If a base judges the run, this process's working directory is the base's tree from here on.
    """
    project, mode = config.current() if plain else config.required(), request.mode
    tier = request.tier or (Tier.FULL if plain else Tier.GATE)
    device, note = open_device(request.device, later=later, ranks=ranks)
    baselines = config.near(project.baselines)
    cases = Cases(device.scale)
    ref, base = request.baselines_from, os.environ.get(config.BASE_VARIABLE)
    if base:
        from peakgate.run.base_contract import against  # noqa: PLC0415  (only with a base)

        baselines = baselines.absolute()
        config.work_in(Path(base))  # before anything of the base is imported
        cases = against(Path(base), project, device.scale, ref or "the base", device.refusal)
    if ref:
        floors = inputs.floors_at(ref, baselines, device.slug)
    else:
        unknown = plain or project.benchmarks or any(each.whole for each in cases.refused)
        known_cases = None if unknown else {case.id for case in cases.listed(Tier.FULL)}
        floors = load_floors(baselines / device.slug / "floors.toml", known_cases, gpu=device.slug)
    notes = [*([note] if note else []), *cases.notes]
    if mode is Mode.PAIR:
        notes.append(f"{MODE_VARIABLE}={mode}: kernels were timed, their results not checked")
    energy_loops = 0
    if request.energy:
        from peakgate.measure.energy import LOOPS  # noqa: PLC0415  (few runs measure it)

        energy_loops = LOOPS if mode is Mode.WHOLE else 1
        if device.kind == "cpu":
            notes.append("no energy is measured without a GPU")
    session = Session(
        device,
        floors,
        Tier(tier),
        checks=mode is not Mode.PAIR,
        timed=timed,
        alone=mode is not Mode.PROOF,
        wants_roofs=mode is Mode.WHOLE,
        probes=cases.probes,
        new=cases.new,
        plan=PLANS[mode],
        notes=notes,
        expect=expect,
        launch_limit_s=project.launch_timeout_s,
        nonfinite=project.fail_nonfinite,
        determinism=request.determinism,
        energy_loops=energy_loops,
        seed=secrets.randbits(32) if request.seed is None else request.seed,
        attempts=attempts,
    )
    return session, cases


def meet(session: Session, tests: Sequence[str], locks: ExitStack) -> None:
    """Lock the GPUs of a run in a single process; connect ranks, take the seed of rank 0, and lock the GPU of each.

    Raises PeakgateError in all ranks if they have other tests or other GPU models, CannotDecide if one does not come or
    two have one GPU.
    """
    device = session.device
    ranks = device.ranks
    if ranks.size == 1:
        own = ",".join(filter(None, map(driver.gpu_uuid, device.gpus)))
        locks.enter_context(locked(own, remedy=RUN_AGAIN))
        return
    ranks.connect()
    uuid = driver.gpu_uuid(device.gpus[0]) if device.gpus else None
    of_each = ranks.all("its tests and its GPU", (tests, device.slug, uuid))
    if (refusal := unlike(of_each)) is not None:
        ranks.finish()  # all of them know it
        ranks.close()
        raise refusal
    session.draw_from(ranks.same("the seed", session.seed))
    ranks.uuids = uuids = [each for _, _, each in of_each if each]
    for each in sorted(uuids):  # in one order: no two runs wait for each other
        if each == uuid:
            locks.enter_context(locked(uuid, LOCK_LIMIT_S, RUN_AGAIN))
        ranks.all(f"the lock of {each}")


def unlike(of_each: Sequence[RankFacts]) -> PeakgateError | None:
    """Why these ranks cannot measure together; None if they can."""
    first, model, _ = of_each[0]
    for rank, (tests, slug, _) in enumerate(of_each):
        if tests != first:
            others = ", ".join(sorted({*tests} ^ {*first})[:3]) or "the same in another order"
            return PeakgateError(
                f"rank {rank} has other tests than rank 0: {others}; expected the same in every rank", Code.SELECTION
            )
        if slug != model:
            return PeakgateError(
                f"rank 0 measures on {model}, rank {rank} on {slug}; floors belong to one GPU model", Code.GPU_MODELS
            )
    uuids = [uuid for _, _, uuid in of_each if uuid]
    if len({*uuids}) < len(uuids):
        return CannotDecide(
            f"{len(uuids)} ranks have {counted(len({*uuids}), 'GPU')}; expected one for each: see CUDA_VISIBLE_DEVICES "
            "and torchrun's --nproc-per-node",
            Code.NO_GPU,
        )
    return None


class BenchRun:
    """A run: its request, session, cases and results.

    ``known`` are the cases of the project, ``tests`` those of benchmark tests by node id, ``refused_tests`` the
    benchmark tests that cannot be measured. ``plain``: plain pytest was started, not ``peakgate bench``.
    """

    other_builds: Mapping[str, str] = MappingProxyType({})
    """In an A/B, builds that are sampled interleaved with the cases: fingerprints by case id."""
    other_folder = Path()
    """The tree that they were built from, whose commit their run file names."""

    def __init__(self, pytest_config: pytest.Config, kernels: Sequence[Path] = (), *, later: bool = False) -> None:
        """Open the device and read the floors, so that mistakes are reported before anything runs.

        ``kernels`` are files and folders: only cases whose sources are within are run; empty for all. With ``later``
        the device is not opened yet.
        """
        options = pytest_config.option
        if os.environ.get(config.BASE_VARIABLE):  # this process will work in the base's tree
            for name, value in list(vars(options).items()):
                if isinstance(value, Path):
                    setattr(options, name, value.absolute())
        self.request = request = Request.of(options)
        self.plain = not options.peakgate
        self._kernels = kernels
        self.link = Link(request.link)
        self.before = finished(request.journal) if request.journal else Finished()
        self.session, self.known = open_session(
            request,
            self.before.again,
            self.link.expect,
            later=later,
            plain=self.plain,
            timed=not getattr(options, "benchmark_disable", False),
            ranks=started() if self.plain else ALONE,
        )
        self.ranks = self.session.device.ranks
        self._locks = ExitStack()
        self._chosen: tuple[dict[str, RunCase], list[str] | None] | None = None
        if not self.plain:
            self.choose()
        self.tests: dict[str, Case] = {}
        self.refused_tests: list[RefusedCase] = []
        self.store = Store(self.session, self.link, self.before)
        self.out: Path = request.out or config.current().out
        timed = request.mode is Mode.WHOLE and self.session.device.kind != "cpu"
        self.machine = MachineProbe(complete=timed)
        self.status = StatusLine(pytest_config, self.tests)
        self._doubts = None if later else self.session.look()
        self._shares: CaseShares | None = None
        self._provers = begun()
        whole = not (options.keyword or options.markexpr or request.cases or kernels or self.before.cases)
        gpus = self.session.device.gpus
        if self._provers and whole and len(gpus) == 1:
            asked = replace(request, device=f"gpu:{gpus[0]}")
            self._provers.open(partial(open_session, asked, {}, unwatched))
        elif self._provers:
            self._provers.end()
            self._provers = None

    def choose(self) -> tuple[dict[str, RunCase], list[str] | None]:
        """The requested kernel cases by id, and the ids that the request's ``cases`` lists, None without it.

        Plain pytest reads them when a test needs them, since tests of callables need no family. Raises PeakgateError
        if the request's ``cases`` names an unknown case.
        """
        if self._chosen is None:
            self._chosen = wanted_cases(self.known, self.session.tier, self.request.cases, self._kernels)
        return self._chosen

    @property
    def cases(self) -> dict[str, RunCase]:
        """The requested kernel cases by id."""
        return self.choose()[0]

    def meet(self, tests: Sequence[str], pytest_config: pytest.Config) -> None:
        """Begin together with the other ranks (``meet``); only rank 0 prints tables and writes a run file.

        The supervisor of ``peakgate bench`` has locked the GPU; a worker of pytest-xdist, which times nothing, would
        wait for the others.
        """
        if self.plain and not hasattr(pytest_config, "workerinput"):
            meet(self.session, tests, self._locks)
        saving = pytest_config.pluginmanager.get_plugin("pytest-benchmark")
        if self.ranks.rank and saving is not None:
            saving.save = saving.autosave = saving.json = None
            saving.quiet = True

    def part(self) -> None:
        """Disconnect from the other ranks, and unlock the GPU."""
        self.ranks.close()
        self._locks.close()

    def begin(self, selected: Sequence[RunCase], pytest_config: pytest.Config) -> None:
        """Build kernels, warm up the device and measure the roofs.

        Raises CannotDecide if nothing can be measured as requested, PeakgateError for a mistake.
        """
        session, before = self.session, self.before
        if self.plain:
            session.whole = False  # unknown: the project's other cases are not listed
        else:
            unknown = [each for each in self.known.refused if each.whole]
            if not selected and unknown:
                raise CannotDecide.repeated(f"no valid case was selected: {unknown[0].reason}")
            chosen = {case.id for case in selected}
            tier = {case.id for case in self.known.listed(session.tier)}
            session.whole = chosen >= tier | {case.id for case in self.tests.values()} and not unknown
            session.notes += [f"not selected, {each.reason}" for each in self.known.refused if each.id not in chosen]
            if session.whole and (without := self.known.without_small()):
                session.notes.append(f"not run, {NO_SMALL_PROBLEM}: {first_of(without)}")
        if not selected:
            return
        built = self._built_before(selected)
        session.steps.wall_s["start"] = self.wall_s()
        if self._doubts is None:
            self._doubts = session.look()
        if self._doubts and self.request.strict_gate and not before.restarts:
            raise CannotDecide(f"not measured under --strict-gate: {'; '.join(self._doubts)}", Code.BUSY)
        if before.below:
            reported = share_below(len(before.below), len(selected))
            session.notes.append(f"{reported}; judged by the median of {PROCESSES} processes")
        remaining = [case for case in selected if case.id not in before.cases]
        if session.device.kind == "cpu" and self.link.supervised and not before.restarts:
            here = self._run_here(remaining)
            count = min(os.cpu_count() or 1, len(here) // LEAST_SHARE)
            if count > 1 and single_threaded():
                from peakgate.run.ahead import CaseShares  # noqa: PLC0415  (for many cases)

                self._shares = CaseShares(session, here, count)
        self.machine.begin(pytest_config)  # starts a thread: after the shares, which fork
        measurable = self._measurable(remaining)
        self.link.expect("the start of its builds", HOST_LIMIT_S, None)
        # Roofs are timed on a GPU meanwhile.
        shown = len(measurable) if self.request.mode is Mode.WHOLE else 0
        with self.status.building(shown, ticks=session.device.kind == "cpu"):
            self._begin_session(measurable, built=built)
            self.machine.wait()
        if self._shares is not None:
            self._shares.begin()

    def _built_before(self, _selected: Sequence[RunCase]) -> bool:
        """Open a device that is opened later; whether the kernels were built meanwhile."""
        return False

    def _begin_session(self, cases: Sequence[Case], *, built: bool) -> None:
        """Begin the session; raises CannotDecide if memory is full. A kernel that faults already here is kept."""
        session, before = self.session, self.before
        try:
            session.begin(
                cases,
                before.roofs,
                prebuild=not (built or self.request.no_prebuild),
                prove_early=self.link.supervised,
                prove_beside=self._provers.right if self._provers else None,
            )
        except LostEarly as lost:
            self.store.keep(session.failed(lost.case, lost.error))  # a new process measures the others
        except (MemoryError, RuntimeError) as fault:
            full = fault if isinstance(fault, MemoryError) else failure(fault)
            if not isinstance(full, MemoryError):
                raise
            raise CannotDecide(f"not measured: {no_room(full, session.device)}", Code.MEMORY) from None
        except PeakgateError as error:
            raise PeakgateError.repeated(f"not measured: {error}") from None
        if before.roofs is None:
            self.link.send(roofs=dict(session.roofs))

    def measure(self, case: RunCase) -> tuple[Entry, Sequence[float]]:
        """Measure a case, unless an earlier process did; its entry and its samples in µs."""
        if (known := self.store.take_over(case)) is not None:
            return known
        objection = self.known.objection(case)  # such as: the change removed it, or the base cannot judge it
        if objection is not None:
            return self.store.keep(self.session.unmeasured(case, objection))
        assert isinstance(case, Case)  # a RefusedCase has an objection
        return self.store.keep(self._measured(case))

    def _measured(self, case: Case) -> Outcome:
        return self.session.measured(case) if self._shares is None else self._shares.outcome(case)

    def _measurable(self, cases: Sequence[RunCase]) -> list[Case]:
        """The cases without an objection, such as that the base cannot judge them."""
        return [case for case in cases if isinstance(case, Case) and not self.known.objection(case)]

    def _run_here(self, cases: Sequence[RunCase]) -> list[Case]:
        """The measurable cases that this device can run."""
        return [case for case in self._measurable(cases) if not self.session.device.refusal(case)]

    def wall_s(self) -> float:
        """Wall time in seconds since the supervisor or this process started."""
        return seconds_since_start_of(os.getppid() if self.link.supervised else os.getpid())
