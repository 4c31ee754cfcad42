"""The pytest plug-in of a run: kernels as tests, the device behind them, the status line, the verdict at the end."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pytest

from peakgate.base import config, git
from peakgate.base.errors import CannotDecide, Code, PeakgateError
from peakgate.base.files import unwritable, write_whole
from peakgate.base.processes import seconds_since_start_of
from peakgate.base.report import write_json
from peakgate.base.text import Progress, counted, harmless, one_line
from peakgate.base.verdict import ExitCode, Verdict, exit_code
from peakgate.device.choose import opened
from peakgate.device.interface import failure
from peakgate.measure.limits import HOST_LIMIT_S
from peakgate.run import run_file
from peakgate.run.ab_process import Mode, report_foreign_modules
from peakgate.run.cases import RunCase
from peakgate.run.journal import AGAIN, PROCESSES, Link, share_below
from peakgate.run.machine import BriefMachine, DescribedMachine
from peakgate.run.results import KERNEL_TESTS, Results, case_of, of_kernels
from peakgate.run.run_file import OTHER_BUILDS_FILE, VERDICT_FILE
from peakgate.run.session import LostEarly, no_room
from peakgate.spec.case import CASE_SCHEMA

KERNEL_TEST, OTHER_TEST = "test_kernel", "test_other_build"
PLUGIN_NAME = "peakgate-run"
"""Under which pytest knows a run."""

LOG_EVERY_S = 10.0
"""How often a log, as opposed to a terminal, gets a line."""

OUR_VERBOSITY = -1
"""`peakgate bench` starts pytest with one -q."""

ENOUGH_CASES = 3
"""So many cases have to be done before the time left is worth printing."""

Status = tuple[str, str, str | tuple[str, dict[str, bool]]]

DEFAULT_STORAGE = "file://./.benchmarks"

_ENDED = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED)
"""How pytest's session ends where its verdicts count."""


def begin(pytest_config: pytest.Config) -> Results:
    """Begin a run and register its plug-in; a user's mistake becomes pytest's usage error."""
    options = pytest_config.option
    link = Link(options.peakgate_link)
    began = time.monotonic()
    try:
        results = Results(options)
        if options.benchmark_storage == DEFAULT_STORAGE:
            options.benchmark_storage = f"file://{config.current().runs / results.session.device.slug}"
        run = KernelRun(pytest_config, results, began)
    except CannotDecide as error:
        _stop(link, ExitCode.UNDECIDED, str(error))
    except PeakgateError as error:
        if link.supervised:
            _stop(link, ExitCode.BAD_INPUT, str(error))
        raise pytest.UsageError(one_line(str(error))) from None
    pytest_config.pluginmanager.register(run, PLUGIN_NAME)
    pytest_config.pluginmanager.register(run.machine)
    if results.mode is Mode.WHOLE:
        pytest_config.pluginmanager.register(run.status)
    return results


class KernelRun:
    """The plug-in of one run: its hooks of pytest and pytest-benchmark, from the first case to the run file."""

    def __init__(self, pytest_config: pytest.Config, results: Results, began: float) -> None:
        """``began`` is when this process began its run, by the monotonic clock."""
        self._options = pytest_config.option
        self._began = began
        self.out: Path = self._options.peakgate_out or config.current().out
        self.results, self.session, self.known = results, results.session, results.known
        self._link, self._token, self._before = results.link, results.token, results.before
        self._doubts = [] if self._token.needed else self.session.look()
        self._selected: list[RunCase] = []
        self._exit_code: int = ExitCode.DEFECT
        self.status = StatusLine(pytest_config)
        timed = results.mode is Mode.WHOLE and self.session.device.kind != "cpu"
        self.machine = DescribedMachine() if timed else BriefMachine()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """Begin with the cases that were selected: everything built, the device warm, the roofs measured."""
        self._selected = self._selection(session)
        if session.config.option.collectonly:
            return
        unknown = [each for each in self.known.refused if each.whole]
        if not self._selected:
            if unknown:
                _stop(self._link, ExitCode.UNDECIDED, f"no case was selected that is described: {unknown[0].reason}")
            return
        ahead = self._begin_turn()
        run = self.session
        tier = {case.id for case in self.known.listed(run.tier)}
        selected = {case.id for case in self._selected}
        run.whole = selected >= tier | set(self.results.tests.values()) and not unknown
        run.notes += [f"not selected, {each.reason}" for each in self.known.refused if each.id not in selected]
        run.wall_s["start"] = self._wall_s()
        if self._token.needed:
            self._doubts = run.look()
        if self._doubts and self._options.peakgate_strict and not self._before.restarts:
            doubts = CannotDecide(f"not measured under --strict-gate: {'; '.join(self._doubts)}", Code.BUSY)
            _stop(self._link, ExitCode.UNDECIDED, str(doubts))
        if self._before.below:
            reported = share_below(len(self._before.below), len(self._selected))
            run.notes.append(f"{reported}; judged by the median of {PROCESSES} processes")
        remaining = [case for case in self._selected if case.id not in self._before.cases]
        self.status.building(len(remaining))
        shared = run.device.kind == "cpu" and self._link.supervised and not self._before.restarts
        shares = self.results.share(remaining) if shared else None
        self.machine.begin(session.config)  # after the shares, whose processes are forked from a single thread
        try:
            run.begin(
                self.results.measurable(remaining),
                self._before.roofs,
                prebuild=not (ahead or self._options.peakgate_no_prebuild),
                prove_early=self._link.supervised,
            )
        except LostEarly as lost:
            self.results.keep(run.failed(lost.case, lost.error))  # a fresh process measures the others
        except (MemoryError, RuntimeError) as fault:
            full = fault if isinstance(fault, MemoryError) else failure(fault)
            if not isinstance(full, MemoryError):
                raise
            room = CannotDecide(f"not measured: {no_room(full, run.device)}", Code.MEMORY)
            _stop(self._link, ExitCode.UNDECIDED, str(room))
        except PeakgateError as error:
            _stop(self._link, ExitCode.BAD_INPUT, f"not measured: {error}")
        if self._before.roofs is None:
            self._link.send(roofs=dict(run.roofs))
        self.machine.wait()
        self.status.built()
        if shares is not None:
            shares.begin()
        self._end_turn()

    def _begin_turn(self) -> bool:
        """Wait for this process's turn, where turns are given, and only then open the device.

        Whether the builds were read from the cache meanwhile: without references that takes no GPU.
        """
        if not self._token.needed:
            return False
        ahead = not self.session.checks
        if ahead:
            self.session.device.prebuild(self.results.measurable(self._selected), checked=False)
        self._token.wait()
        self._began = time.monotonic()
        try:
            opened(self.session.device, self._options.peakgate_device)
        except CannotDecide as error:
            _stop(self._link, ExitCode.UNDECIDED, str(error))
        return ahead

    def _end_turn(self) -> None:
        """Where turns are given, measure every case now and leave the GPU to the next process: pytest takes its time.

        Not where the project has benchmark tests, which may want the GPU to the end.
        """
        if not self._token.needed or self.results.tests:
            return
        self.results.measure_ahead(self._selected, self.out)
        if self.session.device.lost is None:  # else the GPU is free when this process ends
            begun = time.monotonic()
            self.session.device.close()
            self._token.release(self.session.wall_s | {"close": time.monotonic() - begun})

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Give the kernel test every case of the device's scale and the chosen tier, that of other builds theirs."""
        if metafunc.function.__module__ == KERNEL_TESTS and "case_id" in metafunc.fixturenames:
            others = metafunc.definition.name == OTHER_TEST
            metafunc.parametrize("case_id", list(self.results.others.fingerprints if others else self.results.cases))

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave the test of other builds out where there are none: without cases it would be one that is skipped."""
        if not self.results.others.fingerprints:
            items[:] = [item for item in items if not _is_test(item, OTHER_TEST)]

    def pytest_benchmark_update_machine_info(self, machine_info: dict[str, Any]) -> None:
        """Add the device to pytest-benchmark's ``machine_info``."""
        machine_info["gpu"] = run_file.machine_info(self.session)

    def pytest_benchmark_generate_commit_info(self) -> dict[str, Any]:
        """Name the project's tree in place of pytest-benchmark, which describes any repository around it."""
        return git.commit_info(config.current().root)

    def pytest_benchmark_update_commit_info(self, commit_info: dict[str, Any]) -> None:
        """Fill in the commit that the user named, where git cannot know it (an exported archive)."""
        if self._options.peakgate_commit:
            commit_info |= {"id": self._options.peakgate_commit, "dirty": False, "error": None}

    def pytest_benchmark_update_json(self, output_json: dict[str, Any]) -> None:
        """Add the schema number and the run's own section; name benchmarks by their case, wherever we are installed."""
        output_json["peakgate_schema"] = CASE_SCHEMA
        others = [each for each in output_json["benchmarks"] if each["name"].startswith(f"{OTHER_TEST}[")]
        for benchmark in others:
            output_json["benchmarks"].remove(benchmark)
            benchmark["name"] = benchmark["name"].replace(OTHER_TEST, KERNEL_TEST, 1)
        for benchmark in (*output_json["benchmarks"], *others):
            own = benchmark["name"].startswith(f"{KERNEL_TEST}[")
            benchmark["fullname"] = f"peakgate::{benchmark['name'] if own else benchmark['extra_info']['case']}"
        if self.results.others.fingerprints:
            built = {"commit_info": git.commit_info(Path(self.results.others.folder))}
            run = output_json | built | {"benchmarks": others, "peakgate": self._about(self.results.other_entries)}
            write_whole(self.out / OTHER_BUILDS_FILE, json.dumps(run))
        output_json["peakgate"] = self._about(self.results.entries)

    def _about(self, entries: Sequence[run_file.Entry]) -> dict[str, Any]:
        """The run file's own section."""
        about = run_file.run_info(self.session, entries, self.results.skipped, self._partial())
        return about | {"restarts": list(self._before.restarts)}

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, None, None]:
        """Save the run; turn the verdicts into the exit code, and hand both over where a caller can read them.

        Not where cases are below their floor: fresh processes measure them again, and the last one saves the run.
        """
        if self._again_first(session.exitstatus):
            self.status.pytest_sessionfinish()
            sys.stdout.flush()
            os._exit(AGAIN)  # one process's figures are not the run's; the journal has them
        self._link.expect("saving the run", HOST_LIMIT_S)
        try:
            if self.results.mode is not Mode.WHOLE and config.BASE_VARIABLE not in os.environ:
                report_foreign_modules(config.required(), self.out)
            yield
        except OSError as error:
            _stop(self._link, ExitCode.BAD_INPUT, str(unwritable(Path(error.filename or "the run file"), error)))
        status = session.exitstatus
        if not self._selected or session.config.option.collectonly or status not in _ENDED:
            return
        partial = self._partial()
        if not self.results.entries and not partial:
            if status == pytest.ExitCode.OK:
                session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED  # 2 would be pytest's word for interrupted
            return
        verdicts = [Verdict(entry["verdict"]) for entry in self.results.entries]
        code = exit_code(verdicts, strict=self._options.peakgate_strict)
        if partial and code == ExitCode.OK:  # pytest.exit, say, ends a run with whatever code it likes
            code = ExitCode.UNDECIDED
        if status == pytest.ExitCode.INTERRUPTED:
            code = ExitCode.INTERRUPTED
        elif code != ExitCode.OK:
            session.exitstatus = int(code)
        self._exit_code = int(code or session.exitstatus)
        verdict = {
            "code": self._exit_code,
            "device": self.session.device.slug,
            "seed": self.session.seed,
            "partial": partial,
            "restarts": list(self._before.restarts),
            "verdicts": dict(Counter(verdicts)),
            "cases": [run_file.summarised(entry) for entry in self.results.entries],
        }
        if self.results.others.fingerprints:
            verdict["other_builds"] = [run_file.judged(entry) for entry in self.results.other_entries]
        if self._link.supervised:
            self._link.send(finished=verdict)
        else:
            write_json(run_file.report(verdict), self.out / VERDICT_FILE)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Have pytest show what a kernel or a benchmark test printed, and its error, as harmless lines."""
        _make_harmless(report)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """The same of what a file of tests printed while it was imported."""
        _make_harmless(report)

    @pytest.hookimpl(tryfirst=True)
    def pytest_unconfigure(self) -> None:
        """End here after a lost CUDA context, which clean-up would meet again: everything is written by now."""
        if self.session.device.lost:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(self._exit_code)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the run's table and closing lines."""
        session, partial = self.session, self._partial()
        if not self.results.entries:
            if partial and not terminalreporter.config.option.collectonly:
                terminalreporter.write_line(f"partial run: {partial}")
            return
        from peakgate.run import table  # noqa: PLC0415  (rich takes long to import; a run that ends early does without)

        session.wall_s["total"] = self._wall_s()
        colour = terminalreporter.hasmarkup and "NO_COLOR" not in os.environ
        width = shutil.get_terminal_size().columns
        terminalreporter.ensure_newline()
        closing = run_file.closing_lines(session, self.results.entries, partial)
        terminalreporter.write_line(table.render(self.results.entries, closing, width=width, colour=colour))
        terminalreporter.write_line(f"verdicts: {config.near(self.out) / VERDICT_FILE}")

    def _again_first(self, status: int) -> bool:
        """Whether this run is not to be saved yet, because cases below their floor were or will be measured again."""
        if not self._link.supervised or status not in _ENDED:
            return False
        if status == pytest.ExitCode.INTERRUPTED:
            return bool(self._before.again)
        return self.results.below_floor or self.results.measured_again

    def _selection(self, pytest_session: pytest.Session) -> list[RunCase]:
        functions = [item for item in pytest_session.items if isinstance(item, pytest.Function)]
        kernels = [function for function in functions if _is_test(function, KERNEL_TEST)]
        chosen = [str(function.callspec.params["case_id"]) for function in kernels]
        tests = [case_of(function.nodeid) for function in functions if function.nodeid in self.results.tests]
        return [self.results.cases[case_id] for case_id in chosen] + tests

    def _partial(self) -> str | None:
        """The selected cases that were not finished, in one line; None if all were."""
        done = {entry["case"] for entry in self.results.entries} | self.results.skipped.keys()
        missing = sum(case.id not in done for case in self._selected)
        if not missing:
            return None
        return f"{missing} of {len(self._selected)} selected cases were not finished"

    def _wall_s(self) -> float:
        """Wall time since the run was started: by its supervisor, or with this process; in an A/B since its turn."""
        if self._token.needed:
            return time.monotonic() - self._began
        return seconds_since_start_of(os.getppid() if self._link.supervised else os.getpid())


def _is_test(item: pytest.Item, name: str) -> bool:
    """Whether it is the function of that name of our own file."""
    return isinstance(item, pytest.Function) and of_kernels(item) and item.originalname == name


def _make_harmless(report: pytest.TestReport | pytest.CollectReport) -> None:
    report.sections = [(name, harmless(text)) for name, text in report.sections]
    plain = harmless(report.longreprtext)
    if plain.rstrip() != report.longreprtext.rstrip():
        report.longrepr = plain.rstrip()


def _stop(link: Link, code: ExitCode, reason: str) -> NoReturn:
    """Measure nothing and print the reason in one line: UNDECIDED or, on bad input, BAD_INPUT."""
    if link.supervised:
        link.send(**{"undecided" if code is ExitCode.UNDECIDED else "refused": reason})
        os._exit(code)
    pytest.exit(one_line(reason), returncode=int(code))


class StatusLine:
    """The line that shows how far a run is: how many cases of how many, the one at hand, the time left.

    It replaces pytest's dots in ``peakgate bench``. With pytest's options -v, -q and -s its own display is shown. A
    line is written before a case, never while one is measured.
    """

    def __init__(self, config: pytest.Config, clock: Callable[[], float] = time.monotonic) -> None:
        self._config, self._clock = config, clock
        self._progress: Progress | None = None
        self._total = self._started = self._failed = 0
        self._begun_at = clock()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        captures = getattr(self._config.option, "capture", "no") != "no"
        if reporter is not None and captures and self._config.get_verbosity() == OUR_VERBOSITY:
            self._progress = Progress(reporter, every_s=LOG_EVERY_S, clock=self._clock)
        self._total = len(session.items)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        """Name the case that comes next."""
        done, self._started = self._started, self._started + 1
        failed = f"{self._failed} failed, " if self._failed else ""
        case = item.callspec.id if isinstance(item, pytest.Function) and hasattr(item, "callspec") else item.name
        self._show(f"{self._started} of {self._total}, {failed}{case}", self._seconds_left(done))

    def building(self, count: int) -> None:
        """The run begins: its cases are built first."""
        self._show(f"building {counted(count, 'case')}", None)

    def built(self) -> None:
        """Restart the clock: the time of building does not predict that of the cases to come."""
        self._begun_at = self._clock()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._failed += report.failed

    @pytest.hookimpl(wrapper=True)
    def pytest_report_teststatus(self) -> Generator[None, Status, Status]:
        """Leave pytest nothing to print for a case while the line stands for it; its summary needs the words again."""
        category, letter, word = yield
        return (category, letter, word) if self._progress is None else (category, "", "")

    @pytest.hookimpl(tryfirst=True)
    def pytest_internalerror(self) -> None:
        self._end()

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        self._end()

    def _show(self, text: str, seconds_left: float | None) -> None:
        if self._progress is not None:
            self._progress.show(text, seconds_left)

    def _seconds_left(self, done: int) -> float | None:
        """The mean of the cases so far, times those to come."""
        if done < ENOUGH_CASES:
            return None
        return (self._clock() - self._begun_at) / done * (self._total - done)

    def _end(self) -> None:
        if self._progress is not None:
            self._progress.clear()
            self._progress = None
