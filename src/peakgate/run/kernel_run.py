"""The pytest plug-in of a run: selects kernel tests, adds the device to the run file, reports the verdict."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

import pytest

from peakgate.base import config, git
from peakgate.base.errors import CannotDecide, Code, PeakgateError
from peakgate.base.files import remove_output, unwritable, write_whole
from peakgate.base.formatting import harmless, one_line
from peakgate.base.options import selector
from peakgate.base.ranks import launched
from peakgate.base.report import write_json
from peakgate.base.verdict import ExitCode, Verdict, exit_code
from peakgate.measure.limits import HOST_LIMIT_S
from peakgate.run import display, run_file
from peakgate.run.collection import CASES_MARKER, RunCase
from peakgate.run.journal import AGAIN, Link
from peakgate.run.loop import BenchRun
from peakgate.run.places import OTHER_BUILDS_FILE, VERDICT_FILE, verdict_report
from peakgate.run.process import KERNELS
from peakgate.run.request import Mode
from peakgate.session.outcome import Entry
from peakgate.spec.case import CASE_SCHEMA, Case, RefusedCase
from peakgate.spec.catalogue import FAMILY_FILE

KERNEL_TESTS = "peakgate.run.bench_kernels"
"""The module of the built-in kernel tests."""
KERNEL_TEST, OTHER_TEST = "test_kernel", "test_other_build"
PLUGIN_NAME = "peakgate-run"
"""The name under which a run is registered with pytest."""

WITHOUT_EFFECT = {
    f"--benchmark-{name}"
    for name in (
        *("min-rounds", "min-time", "max-time", "warmup", "warmup-iterations", "calibration-precision"),
        *("timer", "precision", "confidence", "cprofile", "cprofile-loops", "cprofile-top", "cprofile-dump"),
    )
}
"""Options of pytest-benchmark's own sampling."""

GATE_LINE = "gate: a case that `peakgate bench` and `peakgate gate` measure; the others are of the full tier"

DEFAULT_STORAGE = "file://./.benchmarks"

_ENDED = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED)
"""Exit codes of pytest with which a run's verdicts count."""


def begin_bench(pytest_config: pytest.Config) -> BenchRun:
    """Begin a run of ``peakgate bench``; a user's mistake becomes pytest's usage error."""
    options = pytest_config.option
    link = Link(options.peakgate_link)
    try:
        run = begin(pytest_config, BenchHooks, _named_kernels(pytest_config))
        if options.benchmark_storage == DEFAULT_STORAGE:
            options.benchmark_storage = f"file://{config.current().runs / run.session.device.slug}"
    except CannotDecide as error:
        _stop(link, ExitCode.UNDECIDED, str(error))
    except PeakgateError as error:
        if link.supervised:
            _stop(link, ExitCode.BAD_INPUT, str(error))
        raise pytest.UsageError(one_line(str(error))) from None
    if run.request.mode is Mode.WHOLE:
        pytest_config.pluginmanager.register(run.status)
    return run


def _named_kernels(pytest_config: pytest.Config) -> list[Path]:
    """The kernel files and folders on the command line, which are removed from pytest's arguments.

    Without any argument pytest collects every kernel and the project's benchmark tests.
    """
    project = config.current()
    ours = {str(KERNELS), *map(str, project.benchmarks)}
    named = {each: Path(each.partition("::")[0]).absolute() for each in pytest_config.args if each not in ours}
    named = {each: path.parent if path.name == FAMILY_FILE else path for each, path in named.items()}
    if not named:
        return []
    kernels = {each: path for each, path in named.items() if path.exists() and path.is_relative_to(project.kernels)}
    tests = [each for each in named if each not in kernels]
    if kernels and tests:
        raise PeakgateError(
            f"{next(iter(kernels))} and {tests[0]}: expected either kernel files or test files, not both",
            Code.OPTION,
        )
    pytest_config.args[:] = [*([str(KERNELS)] if kernels else []), *tests]
    return list(kernels.values())


def begin(pytest_config: pytest.Config, hooks: type[RunHooks], kernels: Sequence[Path] = ()) -> BenchRun:
    """Begin a run and register its plug-ins; raises PeakgateError if it cannot begin.

    ``kernels`` are the kernel files and folders to measure; empty for all.
    """
    if launched() and pytest_config.option.peakgate:  # a supervisor has one measuring process
        raise PeakgateError(
            "this is one of several processes of torchrun; expected pytest, which measures in a process per GPU: "
            "torchrun --nproc-per-node 2 -m pytest FILE; `peakgate help several-gpus`",
            Code.OPTION,
        )
    if not hasattr(pytest_config.hook, "pytest_benchmark_generate_machine_info"):
        raise PeakgateError(
            "gpu_benchmark needs pytest-benchmark, which `-p no:benchmark` turns off; leave that out", Code.OPTION
        )
    if getattr(pytest_config.option, "benchmark_histogram", None) and find_spec("pygal") is None:
        raise PeakgateError(
            "--benchmark-histogram: pygal is not installed; pip install 'pytest-benchmark[histogram]'",
            Code.INSTALLATION,
        )
    if pytest_config.option.peakgate_mode is Mode.WHOLE:
        run = BenchRun(pytest_config, kernels)
    else:
        from peakgate.run.ab_run import AbRun  # noqa: PLC0415  (in an A/B only)

        run = AbRun(pytest_config, kernels)
    if getattr(pytest_config.option, "benchmark_compare_fail", None) and run.session.device.kind == "cpu":
        raise PeakgateError(
            "--benchmark-compare-fail: emulated times are not judged; measure on a GPU, or leave it out", Code.EMULATED
        )
    pytest_config.addinivalue_line("markers", GATE_LINE)
    given = {
        each.partition("=")[0] for each in (*pytest_config.invocation_params.args, *pytest_config.getini("addopts"))
    }
    for option in sorted(given & WITHOUT_EFFECT):
        run.session.notes.append(
            f"{option} has no effect on gpu_benchmark, which samples until the relative error is small enough"
        )
    pytest_config.pluginmanager.register(hooks(run), PLUGIN_NAME)
    pytest_config.pluginmanager.register(run.machine)
    return run


class RunHooks:
    """A run's hooks for pytest and pytest-benchmark, from the selected cases to the run file."""

    def __init__(self, run: BenchRun) -> None:
        self.run = run
        self._selected: list[RunCase] = []
        self._tests: list[pytest.Item] = []
        self._exit_code: int = ExitCode.DEFECT

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """Prepare the selected cases: build kernels, warm up the device, measure roofs."""
        run = self.run
        kernels = [case for item in session.items if (case := family_case(item)) is not None]
        self._tests = [item for item in session.items if item.nodeid in run.tests]
        tests = [run.tests[item.nodeid] for item in self._tests]
        # Families without a known case that -k names and did not select, since no case id of theirs is known.
        named = re.sub(r"\bnot\s+\S+", "", session.config.option.keyword)
        chosen = {case.id for case in kernels}
        unknown = [] if run.plain or not (kernels or tests) else run.known.refused
        meant = [each for each in unknown if each.whole and each.id not in chosen and each.family in named]
        refused = [*run.refused_tests, *meant]
        self._selected = [*kernels, *tests, *refused]
        if session.config.option.collectonly:
            return
        if run.plain and isinstance(saved := getattr(session.config.option, "benchmark_json", None), str | Path):
            remove_output(Path(saved))  # if nothing is timed, pytest-benchmark would leave an older file
        try:
            _refuse_twice(session.items)
            run.meet([test.id for test in tests], session.config)
            run.begin(self._selected, session.config)
        except PeakgateError as error:
            run.ranks.end_all(f"rank {run.ranks.rank}: {error}")
            _stop(run.link, error.exit_code, str(error))
        for case in refused:
            if run.store.take_over(case) is None:
                run.store.keep(run.session.unmeasured(case, case.judgement))

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Parametrize the test of an A/B's other builds."""
        if of_kernels(metafunc.definition) and metafunc.definition.name == OTHER_TEST:
            metafunc.parametrize("case_id", list(self.run.other_builds))

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Remove the test of other builds if there are none, so that it is not reported as skipped.

        Of the built-in test ``-k`` selects by case id alone: to pytest the name of its file and function count too.
        """
        if not self.run.other_builds:
            items[:] = [item for item in items if not is_other_build(item)]
        with suppress(PeakgateError):  # pytest refuses an invalid expression itself
            selects = selector(config.option.keyword)
            cases = {item: case for item in items if of_kernels(item) and (case := family_case(item)) is not None}
            left = [item for item, case in cases.items() if not selects(case.id)]
            config.hook.pytest_deselected(items=left)
            gone = set(left)
            items[:] = [item for item in items if item not in gone]

    def pytest_benchmark_update_machine_info(self, machine_info: dict[str, Any]) -> None:
        """Add the device to pytest-benchmark's ``machine_info``."""
        machine_info["gpu"] = run_file.machine_info(self.run.session)

    def pytest_benchmark_generate_commit_info(self) -> dict[str, Any]:
        """The commit of the project's tree; pytest-benchmark would describe the repository of the working directory."""
        return git.commit_info(config.current().root)

    def pytest_benchmark_update_commit_info(self, commit_info: dict[str, Any]) -> None:
        """Fill in the commit given by ``--commit``, for a tree outside git."""
        if self.run.request.commit:
            commit_info |= {"id": self.run.request.commit, "dirty": False, "error": None}

    def pytest_benchmark_update_json(self, output_json: dict[str, Any]) -> None:
        """Add the schema number, imported frameworks and the run's section; other builds of an A/B get another file."""
        output_json["machine_info"]["gpu"] |= run_file.versions()
        output_json["peakgate_schema"] = CASE_SCHEMA
        others = [each for each in output_json["benchmarks"] if each["name"].startswith(f"{OTHER_TEST}[")]
        for benchmark in others:
            output_json["benchmarks"].remove(benchmark)
            benchmark["name"] = benchmark["name"].replace(OTHER_TEST, KERNEL_TEST, 1)
            benchmark["fullname"] = f"peakgate::{benchmark['name']}"
        if self.run.other_builds:
            built = {"commit_info": git.commit_info(self.run.other_folder)}
            run = output_json | built | {"benchmarks": others, "peakgate": self._about(self.run.store.other_entries)}
            write_whole(self.run.out / OTHER_BUILDS_FILE, json.dumps(run))
        output_json["peakgate"] = self._about(self.run.store.entries)

    def _about(self, entries: Sequence[Entry]) -> dict[str, Any]:
        """The run file's own section."""
        run, partial = self.run, self.run.store.partial(self._selected)
        return run_file.run_info(run.session, entries, run.store.skipped, partial, run.before.restarts)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, None, None]:
        """Keep pytest's exit status; wait for the other ranks before a run file is written."""
        if session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            self.run.ranks.finish()
        self._exit_code = int(session.exitstatus)
        yield

    @pytest.hookimpl(tryfirst=True)
    def pytest_unconfigure(self) -> None:
        """Part; exit at once after a lost CUDA context: all files are written, and clean-up would fail."""
        self.run.part()
        if self.run.session.device.lost:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(self._exit_code)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the run's table and closing lines."""
        session, partial = self.run.session, self.run.store.partial(self._selected)
        if self.run.ranks.rank:
            return
        if not self.run.store.entries:
            if partial and not terminalreporter.config.option.collectonly:
                terminalreporter.write_line(f"partial run: {partial}")
            return
        session.steps.wall_s["total"] = self.run.wall_s()
        colour = terminalreporter.hasmarkup and "NO_COLOR" not in os.environ
        width = shutil.get_terminal_size().columns
        terminalreporter.ensure_newline()
        shown = display.as_shown(self.run.store.entries, session.device.kind)
        closing = display.closing_lines(session, shown, partial)
        terminalreporter.write_line(display.render(shown, closing, width=width, colour=colour))


class BenchHooks(RunHooks):
    """The hooks of ``peakgate bench``: exit code and verdict, and test output without control characters."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Replace control characters in what a test printed and in its error."""
        _make_harmless(report)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """The same for what a test file printed while it was imported."""
        _make_harmless(report)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, None, None]:
        """Save the run, set the exit code by the verdicts, and send both to the supervisor or the verdict file.

        If cases are below their floor the run is not saved: new processes measure them again, and the last one saves.
        """
        if self._again_first(session.exitstatus):
            self.run.status.pytest_sessionfinish()
            sys.stdout.flush()
            os._exit(AGAIN)  # the journal has this process's figures
        self.run.link.expect("saving the run", HOST_LIMIT_S)
        try:
            if self.run.request.mode is not Mode.WHOLE and config.BASE_VARIABLE not in os.environ:
                from peakgate.run.ab_process import report_foreign_modules  # noqa: PLC0415  (in an A/B only)

                report_foreign_modules(config.required(), self.run.out)
            yield
        except OSError as error:
            _stop(self.run.link, ExitCode.BAD_INPUT, str(unwritable(Path(error.filename or "the run file"), error)))
        status = session.exitstatus
        if status == pytest.ExitCode.NO_TESTS_COLLECTED and self.run.refused_tests:
            status = pytest.ExitCode.OK
        if not self._selected or session.config.option.collectonly or status not in _ENDED:
            return
        partial = self.run.store.partial(self._selected)
        if not self.run.store.entries and not partial:
            if status == pytest.ExitCode.OK:
                session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED  # 2 means interrupted in pytest
            return
        verdicts = [Verdict(entry["verdict"]) for entry in self.run.store.entries]
        code = exit_code(verdicts, strict=self.run.request.strict_gate)
        if partial and code == ExitCode.OK:  # pytest.exit ends a run with any code
            code = ExitCode.UNDECIDED
        if status == pytest.ExitCode.INTERRUPTED:
            code = ExitCode.INTERRUPTED
        elif code != ExitCode.OK:
            session.exitstatus = int(code)
        self._exit_code = int(code or session.exitstatus)
        verdict = self._verdict(verdicts, partial)
        if self.run.link.supervised:
            self.run.link.send(finished=verdict)
        else:
            write_json(verdict_report(verdict), self.run.out / VERDICT_FILE)

    def _verdict(self, verdicts: Sequence[Verdict], partial: str | None) -> dict[str, Any]:
        """The run's verdict for the supervisor or the verdict file."""
        # By case the file, from the top of the repository, and the line that define its kernel or benchmark test.
        found = {self.run.tests[item.nodeid].id: (item.path, (item.location[1] or 0) + 1) for item in self._tests}
        cases = [case for case in self._selected if isinstance(case, Case)]
        lines = {stage: stage.source_line for stage in {case.stage for case in cases}}  # each reads its file
        found |= {case.id: line[:2] for case in cases if (line := lines[case.stage])}
        top = git.tree_of(config.current().root)
        whole = {case: (path.resolve(), line) for case, (path, line) in found.items()}
        inside = {case: place for case, place in whole.items() if place[0].is_relative_to(top)}
        places = {case: (path.relative_to(top).as_posix(), line) for case, (path, line) in inside.items()}
        verdict = {
            "code": self._exit_code,
            "device": self.run.session.device.slug,
            "seed": self.run.session.seed,
            "partial": partial,
            "restarts": list(self.run.before.restarts),
            "verdicts": dict(Counter(verdicts)),
            "cases": [run_file.summarised(entry, places.get(entry["case"])) for entry in self.run.store.entries],
        }
        if self.run.other_builds:
            verdict["other_builds"] = [run_file.judged(entry) for entry in self.run.store.other_entries]
        return verdict

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Also print the path of the verdict file."""
        super().pytest_terminal_summary(terminalreporter)
        if self.run.store.entries:
            terminalreporter.write_line(f"verdicts: {config.near(self.run.out) / VERDICT_FILE}")

    def _again_first(self, status: int) -> bool:
        """Whether not to save the run yet, because cases below their floor were or will be measured again."""
        if not self.run.link.supervised or status not in _ENDED:
            return False
        if status == pytest.ExitCode.INTERRUPTED:
            return bool(self.run.before.again)
        return self.run.store.below_floor or self.run.store.measured_again


def family_case(item: pytest.Item) -> RunCase | None:
    """The kernel case that ``cases`` parametrizes a test with; None for any other test."""
    if not isinstance(item, pytest.Function) or item.get_closest_marker(CASES_MARKER) is None:
        return None
    given = item.callspec.params.get("case") if hasattr(item, "callspec") else None
    return given if isinstance(given, Case | RefusedCase) else None


def _refuse_twice(items: Sequence[pytest.Item]) -> None:
    """Raise PeakgateError if two tests have the same case, since a run has one result per case."""
    tests: dict[str, str] = {}
    for item in items:
        if (case := family_case(item)) is not None and (other := tests.setdefault(case.id, item.nodeid)) != item.nodeid:
            raise PeakgateError(
                f"{item.nodeid}: {other} has the case {case.id} too; give a family to one test, or select by path",
                Code.BENCHMARK_TEST,
            )


def of_kernels(item: object) -> bool:
    """Whether a pytest item is one of the built-in kernel tests."""
    return getattr(getattr(item, "function", None), "__module__", None) == KERNEL_TESTS


def is_other_build(item: pytest.Item) -> bool:
    """Whether it is the test of an A/B's other builds."""
    return isinstance(item, pytest.Function) and of_kernels(item) and item.originalname == OTHER_TEST


def _make_harmless(report: pytest.TestReport | pytest.CollectReport) -> None:
    report.sections = [(name, harmless(text)) for name, text in report.sections]
    plain = harmless(report.longreprtext)
    if plain.rstrip() != report.longreprtext.rstrip():
        report.longrepr = plain.rstrip()


def _stop(link: Link, code: ExitCode, reason: str) -> NoReturn:
    """End the run with exit code ``code`` before anything is measured; the reason is reported in one line."""
    if link.supervised:
        link.send(**{"undecided" if code is ExitCode.UNDECIDED else "refused": reason})
        os._exit(code)
    pytest.exit(one_line(reason), returncode=int(code))
