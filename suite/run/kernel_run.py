"""What pytest runs for ``peakgate bench``: the cases as tests, the device behind them, the verdict at the end."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import shutil
import sys
import time
from collections import Counter
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pytest
from peakgate.case import SCHEMA, Case, Tier
from peakgate.common.errors import CannotDecide, PeakgateError
from peakgate.common.files import unwritable, write_whole
from peakgate.common.processes import seconds_since_start_of
from peakgate.common.toml import nearest
from peakgate.device.choose import open_device, opened
from peakgate.device.interface import failure
from peakgate.judge.floors import load_floors
from peakgate.measure.limits import HOST_LIMIT_S
from peakgate.measure.sampling import ONE_BATCH, REPEATED, SamplingPlan
from peakgate.project import config
from peakgate.run import benchmark_tests, contract, inputs, remeasure, run_file
from peakgate.run.foreign import ForeignModules
from peakgate.run.journal import AB_VARIABLE, AGAIN, FRESH, Finished, Link, finished
from peakgate.run.marker import case_of
from peakgate.run.run_file import VERDICT_FILE
from peakgate.run.session import LostEarly, Outcome, Session, no_room
from peakgate.run.status_line import StatusLine
from peakgate.run.turn import Turn
from peakgate.verdict import ExitCode, Judgement, Verdict, exit_code

BENCH_FILE = Path(__file__).with_name("bench_kernels.py")
NAME = "peakgate-run"
"""Under which pytest knows a run."""

DEFAULT_STORAGE = "file://./.benchmarks"

_ENDED = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED)
"""How pytest's session ends where its verdicts count."""


class KernelRun:
    """The plug-in object of one run: its device and cases, its fixtures, its hooks of pytest and pytest-benchmark.

    ``entries`` are the finished cases, taken over from the journal or measured here, as the run file keeps them.
    """

    def __init__(self, pytest_config: pytest.Config) -> None:
        """Open device and floors early, so that a mistake is reported before anything runs."""
        self._options = pytest_config.option
        self.out: Path = self._options.peakgate_out or config.current().out
        self.link = Link(self._options.peakgate_link)
        self._turn = Turn.of_environment()
        self._began = time.monotonic()
        journal = self._options.peakgate_journal
        self.before = finished(journal) if journal else Finished()
        self.session, self.known = _session(self._options)
        self.session.expect = self.link.expect
        self.session.launch_limit_s = self._options.peakgate_launch_limit
        self.session.nonfinite = self._options.peakgate_nonfinite
        self.session.determinism = self._options.peakgate_determinism
        self._doubts: list[str] = []
        if not self._turn.given:
            self._doubts = self.session.look()
        self.cases, listed = _wanted(self.known, self.session.tier, self._options.peakgate_cases)
        self.tests = benchmark_tests.BenchmarkTests(self, listed)
        self.ahead: dict[str, Outcome] = {}
        self.entries: list[run_file.Entry] = []
        self.skipped: dict[str, str] = {}
        self._selected: list[Case] = []
        self._below = self._measured_again = False
        self._exit_code = os.EX_SOFTWARE
        self.status = StatusLine(pytest_config)

    @classmethod
    def begin(cls, pytest_config: pytest.Config) -> None:
        """Make the run and register it; a user's mistake becomes pytest's usage error."""
        try:
            run = cls(pytest_config)
            if pytest_config.option.benchmark_storage == DEFAULT_STORAGE:
                pytest_config.option.benchmark_storage = f"file://{config.current().runs / run.session.device.slug}"
        except CannotDecide as error:
            _stop(Link(pytest_config.option.peakgate_link), ExitCode.UNDECIDED, str(error))
        except PeakgateError as error:
            raise pytest.UsageError(str(error)) from None
        pytest_config.pluginmanager.register(run, NAME)
        pytest_config.pluginmanager.register(run.tests, benchmark_tests.NAME)
        if _ab_part():
            pytest_config.pluginmanager.register(ForeignModules(config.required(), run.out))
        pytest_config.pluginmanager.register(_BriefMachine() if _ab_part() else run.status)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """Begin with the cases that were selected: everything built, the device warm, the roofs measured."""
        self._selected = self._selection(session)
        if session.config.option.collectonly:
            return
        unknown = [each for each in self.known.refused if each.whole]
        if not self._selected:
            if unknown:
                _stop(self.link, ExitCode.UNDECIDED, f"no case was selected that is described: {unknown[0].reason}")
            return
        ahead = self._begin_turn()
        run = self.session
        tier = {case.id for case in self.known.listed(run.tier)}
        selected = {case.id for case in self._selected}
        run.whole = selected >= tier | set(self.tests.ids.values()) and not unknown
        run.notes += [f"not selected, {each.reason}" for each in self.known.refused if each.case.id not in selected]
        run.wall_s["start"] = self._wall_s()
        if self._turn.given:
            self._doubts = run.look()
        if self._doubts and self._options.peakgate_strict and not self.before.restarts:
            _stop(self.link, ExitCode.UNDECIDED, f"not measured under --strict-gate: {'; '.join(self._doubts)}")
        if self.before.below:
            reported = remeasure.share_below(len(self.before.below), len(self._selected))
            run.notes.append(f"{reported}; judged by the median of {remeasure.PROCESSES} processes")
        remaining = [case for case in self._selected if case.id not in self.before.cases]
        self.status.building(len(remaining))
        try:
            run.begin(
                [case for case in remaining if not self.known.objection(case)],
                self.before.roofs,
                prebuild=not (ahead or self._options.peakgate_no_prebuild),
                prove_early=self.link.supervised,
            )
        except LostEarly as lost:
            self.keep(run.failed(lost.case, lost.error))  # a fresh process measures the others
        except (MemoryError, RuntimeError) as fault:
            full = fault if isinstance(fault, MemoryError) else failure(fault)
            if not isinstance(full, MemoryError):
                raise
            _stop(self.link, ExitCode.UNDECIDED, f"not measured: {no_room(full, run.device)}")
        except PeakgateError as error:
            _stop(self.link, ExitCode.BAD_INPUT, f"not measured: {error}")
        if self.before.roofs is None:
            self.link.send(roofs=dict(run.roofs))
        self.status.built()
        self._end_turn()

    def _begin_turn(self) -> bool:
        """Wait for this process's turn, where turns are given, and only then open the device.

        Whether the builds were read from the cache meanwhile: without references that takes no GPU.
        """
        if not self._turn.given:
            return False
        ahead = not self.session.checks
        if ahead:
            self.session.device.prebuild(self._selected, checked=False)
        self._turn.wait()
        self._began = time.monotonic()
        try:
            opened(self.session.device, self._options.peakgate_device)
        except CannotDecide as error:
            _stop(self.link, ExitCode.UNDECIDED, str(error))
        return ahead

    def _end_turn(self) -> None:
        """Where turns are given, measure every case now and leave the GPU to the next process: pytest takes its time.

        Not where the project has benchmark tests, which may want the GPU to the end.
        """
        if not self._turn.given or self.tests.ids:
            return
        for case in self._selected:
            if not (self.session.device.refusal(case) or self.known.objection(case)):
                self.ahead[case.id] = self.session.measured(case)
        if self.session.device.lost is None:  # else the GPU is free when this process ends
            self.session.device.close()
            self._turn.over(self.session.wall_s)

    def keep(self, outcome: Outcome) -> tuple[run_file.Entry, Sequence[float]]:
        """Keep what came of a case, here and in the journal: its entry and its samples.

        After a lost GPU context this process ends, and a fresh one goes on.
        """
        entry = run_file.extra_info(outcome)
        self.entries.append(entry)
        times_us = outcome.samples.times_us if outcome.samples else ()
        self.link.send(case=outcome.case.id, extra_info=entry, times_us=times_us)
        self._below |= outcome.judgement.verdict is Verdict.BELOW_FLOOR
        self._measured_again |= outcome.case.id in self.before.again
        if self.session.device.lost and self.link.supervised:
            os._exit(FRESH)  # clean-up would meet the lost context again
        return entry, times_us

    def take_over(self, case: Case) -> tuple[run_file.Entry, Sequence[float]] | None:
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

    def refused(self, case: Case) -> Outcome | None:
        """What comes of a case that the change dropped, or that the base cannot judge; None of one to measure."""
        objection = self.known.objection(case)
        return None if objection is None else self.session.unmeasured(case, objection)

    def skip(self, case: Case, reason: str) -> NoReturn:
        """A case that this device cannot run."""
        self.skipped[case.id] = reason
        pytest.skip(f"{case.id}: {reason}")

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Give the kernel test every case of the device's scale and the chosen tier."""
        if metafunc.definition.path == BENCH_FILE and "case_id" in metafunc.fixturenames:
            metafunc.parametrize("case_id", list(self.cases))

    def pytest_benchmark_update_machine_info(self, machine_info: dict[str, Any]) -> None:
        """Add the device to pytest-benchmark's ``machine_info``."""
        machine_info["gpu"] = run_file.machine_info(self.session)

    def pytest_benchmark_update_commit_info(self, commit_info: dict[str, Any]) -> None:
        """Fill in the commit that the user named, where git cannot know it (an exported archive)."""
        if self._options.peakgate_commit:
            commit_info |= {"id": self._options.peakgate_commit, "dirty": False, "error": None}

    def pytest_benchmark_update_json(self, output_json: dict[str, Any]) -> None:
        """Add the schema number and the run's own section; name benchmarks by their case, wherever we are installed."""
        output_json["peakgate_schema"] = SCHEMA
        about = run_file.run_info(self.session, self.entries, self.skipped, self._partial())
        output_json["peakgate"] = about | {"restarts": list(self.before.restarts)}
        for benchmark in output_json["benchmarks"]:
            own = benchmark["name"].startswith("test_kernel[")
            benchmark["fullname"] = f"peakgate::{benchmark['name'] if own else benchmark['extra_info']['case']}"

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, None, None]:
        """Save the run; turn the verdicts into the exit code, and hand both over where a caller can read them.

        Not where cases are below their floor: fresh processes measure them again, and the last one saves the run.
        """
        if self._again_first(session.exitstatus):
            self.status.pytest_sessionfinish()
            sys.stdout.flush()
            os._exit(AGAIN)  # one process's figures are not the run's; the journal has them
        self.link.expect("saving the run", HOST_LIMIT_S)
        try:
            yield
        except OSError as error:
            _stop(self.link, ExitCode.BAD_INPUT, str(unwritable(Path(error.filename or "the run file"), error)))
        status = session.exitstatus
        if not self._selected or session.config.option.collectonly or status not in _ENDED:
            return
        if not self.entries and status != pytest.ExitCode.INTERRUPTED:
            if status == pytest.ExitCode.OK:
                session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED  # 2 would be pytest's word for interrupted
            return
        code = exit_code([Verdict(entry["verdict"]) for entry in self.entries], strict=self._options.peakgate_strict)
        if status == pytest.ExitCode.INTERRUPTED:
            code = ExitCode.INTERRUPTED
        elif code != ExitCode.OK:
            session.exitstatus = int(code)
        self._exit_code = int(code or session.exitstatus)
        verdict = {
            "exit_code": self._exit_code,
            "device": self.session.device.slug,
            "partial": self._partial(),
            "restarts": list(self.before.restarts),
            "verdicts": dict(Counter(entry["verdict"] for entry in self.entries)),
            "cases": [run_file.judged(entry) for entry in self.entries],
        }
        if self.link.supervised:
            self.link.send(finished=verdict)
        else:
            write_whole(self.out / VERDICT_FILE, json.dumps(verdict, indent=1))

    @pytest.hookimpl(tryfirst=True)
    def pytest_unconfigure(self) -> None:
        """End here after a lost CUDA context, which clean-up would meet again: everything is written by now."""
        if self.session.device.lost:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(self._exit_code)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the run's table and closing lines."""
        session = self.session
        if not self.entries:
            return
        from peakgate.run import table  # noqa: PLC0415  (rich takes long to import; a run that ends early does without)

        session.wall_s["total"] = self._wall_s()
        colour = terminalreporter.hasmarkup and "NO_COLOR" not in os.environ
        width = shutil.get_terminal_size().columns
        terminalreporter.ensure_newline()
        closing = run_file.closing_lines(session, self.entries, self._partial())
        terminalreporter.write_line(table.render(self.entries, closing, width=width, colour=colour))
        terminalreporter.write_line(f"verdicts: {config.near(self.out) / VERDICT_FILE}")

    def _again_first(self, status: int) -> bool:
        """Whether this run is not to be saved yet, because cases below their floor were or will be measured again."""
        if not self.link.supervised or status not in _ENDED:
            return False
        if status == pytest.ExitCode.INTERRUPTED:
            return bool(self.before.again)
        return self._below or self._measured_again

    def _selection(self, pytest_session: pytest.Session) -> list[Case]:
        functions = [item for item in pytest_session.items if isinstance(item, pytest.Function)]
        chosen = [str(function.callspec.params["case_id"]) for function in functions if function.path == BENCH_FILE]
        tests = [case_of(function.nodeid) for function in functions if function.nodeid in self.tests.ids]
        return [self.cases[case_id] for case_id in chosen] + tests

    def _partial(self) -> str | None:
        """What was selected and not finished, in one line; None where nothing is left."""
        done = {entry["case"] for entry in self.entries} | self.skipped.keys()
        missing = sum(case.id not in done for case in self._selected)
        if not missing:
            return None
        return f"{missing} of {len(self._selected)} selected cases were not finished"

    def _wall_s(self) -> float:
        """Wall time since the run was started: by its supervisor, or with this process; in an A/B since its turn."""
        if self._turn.given:
            return time.monotonic() - self._began
        return seconds_since_start_of(os.getppid() if self.link.supervised else os.getpid())


def _stop(link: Link, code: ExitCode, reason: str) -> NoReturn:
    """Measure nothing, and say why in one line: UNDECIDED or, on bad input, BAD_INPUT."""
    if link.supervised:
        link.send(**{"undecided" if code is ExitCode.UNDECIDED else "refused": reason})
        os._exit(code)
    pytest.exit(reason, returncode=int(code))


class _BriefMachine:
    """The machine in a few words: what pytest-benchmark asks of its processor takes a second."""

    def pytest_benchmark_generate_machine_info(self) -> dict[str, Any]:
        return {"node": platform.node(), "machine": platform.machine(), "system": platform.system()}


def _ab_part() -> str | None:
    return os.environ.get(AB_VARIABLE)


def _session(options: argparse.Namespace) -> tuple[Session, contract.Cases]:
    project = config.required()
    device, note = open_device(options.peakgate_device, later=Turn.of_environment().given)
    baselines = options.peakgate_baselines or config.near(project.baselines)
    cases = contract.Cases(device.scale)
    if ref := options.peakgate_baselines_from:
        floors = inputs.floors_at(ref, baselines, device.slug)
        with contextlib.ExitStack() as scratch:
            tree = options.peakgate_base_tree
            tree = tree or scratch.enter_context(inputs.exported(ref, project.root, project.baselines))
            cases = contract.against(tree, project, device.scale, ref, device.refusal)
    else:
        unknown = project.benchmarks or any(each.whole for each in cases.refused)
        known_cases = None if unknown else {case.id for case in cases.listed(Tier.FULL)}
        floors = load_floors(baselines / device.slug / "floors.toml", known_cases, gpu=device.slug)
    notes = [*([note] if note else []), *cases.notes]
    if _ab_part() == "pair":
        notes.append(f"{AB_VARIABLE}=pair: kernels were timed, their results not checked")
    session = Session(
        device,
        floors,
        Tier(options.peakgate_tier),
        checks=_ab_part() != "pair",
        alone=_ab_part() != "proof",
        wants_roofs=_ab_part() is None,
        probes=cases.probes,
        new=cases.new,
        plan={"proof": ONE_BATCH, "pair": REPEATED}.get(_ab_part() or "", SamplingPlan()),
        notes=notes,
    )
    return session, cases


def _wanted(cases: contract.Cases, tier: Tier, listed: Path | None) -> tuple[dict[str, Case], list[str] | None]:
    """The tier's cases by id, or those a file lists, in the file's order; and what it lists, None without a file.

    New cases come last: they bring the change's Python into the process that judges.
    Where the project has benchmark tests, an id that no family has may be one of theirs.
    """
    if listed is None:
        return {case.id: case for case in cases.listed(tier)}, None
    every = {case.id: case for case in cases.listed(Tier.FULL)}
    try:
        wanted = list(dict.fromkeys(listed.read_text(encoding="utf-8").split()))
    except (OSError, UnicodeDecodeError) as error:
        what = error.strerror if isinstance(error, OSError) else "not text in UTF-8"
        raise PeakgateError(f"--cases {listed}: {what}; expected a file of case ids, one a line") from None
    every |= {
        case_id: case
        for case_id in wanted
        if case_id not in every and (case := cases.of_refused_family(case_id)) is not None
    }
    for case_id in wanted:
        if case_id not in every and not config.required().benchmarks:
            raise PeakgateError(f"--cases {listed}: no case is named {case_id!r}{nearest(case_id, every)}")
    known_first = sorted(wanted, key=lambda case_id: case_id in cases.new)
    return {case_id: every[case_id] for case_id in known_first if case_id in every}, wanted
