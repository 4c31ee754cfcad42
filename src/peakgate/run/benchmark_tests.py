"""Selects the tests that use ``gpu_benchmark`` on a callable, and keeps a result for each."""

from __future__ import annotations

import contextlib
import inspect
import textwrap
from collections.abc import Collection, Generator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from peakgate.base import config
from peakgate.base.errors import Code, PeakgateError
from peakgate.base.formatting import counted, nearest, one_line
from peakgate.base.ranks import EndedElsewhere
from peakgate.base.verdict import FAILING, Judgement, Verdict
from peakgate.callables import FIXTURE, RANKS
from peakgate.device.driver import gpu_count
from peakgate.device.interface import KernelFault
from peakgate.judge.floors import load_floors
from peakgate.measure.limits import HOST_LIMIT_S
from peakgate.run.collection import CASES_MARKER, Collecting, callable_cases
from peakgate.run.kernel_run import family_case, is_other_build
from peakgate.run.loop import BenchRun
from peakgate.session.outcome import Outcome, ReplayTimer, WrongResult, fails
from peakgate.spec.case import Case, RefusedCase, Tier

if TYPE_CHECKING:
    from peakgate.callables.fixture import GpuBenchmark

TESTS_PLUGIN_NAME = "peakgate-benchmark-tests"

LONGEST_ERROR = 300
"""Characters of a test's error in the reason of its case: PyTorch's compiler writes a thousand."""

SKIPPING = (pytest.skip.Exception, pytest.xfail.Exception)
"""Exceptions with which a test ends without having failed."""


class BenchmarkTests:
    """The plug-in for benchmark tests; in a run of ``peakgate bench`` it deselects all other tests.

    ``cases`` are those of the collected tests, by node id. ``collecting`` is None under plain pytest.
    """

    def __init__(self, run: BenchRun, collecting: Collecting | None) -> None:
        self._run, self._collecting = run, collecting
        self._used: dict[str, GpuBenchmark] = {}
        self._done: set[str] = set()
        self._refused: dict[str, str] = {}
        """The reasons of tests with invalid settings under plain pytest, by case id."""
        self.cases = run.tests

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Run benchmark tests in the user's working directory; the run itself may work in the base's tree."""
        with contextlib.chdir(config.here() if item.nodeid in self.cases else Path.cwd()):
            return (yield)

    def fixture(self, node: pytest.Item, benchmark: BenchmarkFixture, timer: ReplayTimer) -> GpuBenchmark:
        """The fixture of one test; from here on a crash is attributed to its case."""
        from peakgate.callables.fixture import GpuBenchmark  # noqa: PLC0415  (not needed for kernels)
        from peakgate.callables.settings import case_of  # noqa: PLC0415  (as above)

        if node.nodeid not in self.cases:  # under plain pytest, which runs what is refused
            pytest.fail(self._refused[case_of(node.nodeid).id], pytrace=False)
        case_id = self.cases[node.nodeid].id
        self._run.ranks.begin_test(case_id)
        made = GpuBenchmark(node, self._run.session, benchmark, timer)
        self._run.session.steps.expect("a benchmark test", HOST_LIMIT_S, case_id)
        self._used[node.nodeid] = made
        return made

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Keep kernel and benchmark tests, with the request's ``cases`` only those listed; ``-k`` matches case ids."""
        bench = self._collecting
        try:
            listed = self._run.choose()[1] if self._run.request.cases else None
            kernels = {case.id for case in self._run.known.listed(Tier.FULL)} if bench else set()
            some_unknown = bench is None or bench.some_skipped or bool(bench.refused)
            refused = self._refused if bench is None else bench.refused
            self.cases.update(callable_cases(items, kernels, refused))
            self._find_parts(items, kernels, refused, some_unknown=some_unknown)
            if bench:
                self._check_names(kernels, some_unknown=some_unknown or bool(bench.refused))
        except PeakgateError as error:
            raise pytest.UsageError(one_line(str(error))) from None
        kept: list[pytest.Item] = []
        dropped: list[pytest.Item] = []
        foreign = 0
        for item in items:
            case = self.cases.get(item.nodeid)
            if case is not None:
                item.extra_keyword_matches.add(case.id)
            elif bench and not is_other_build(item):
                if item.get_closest_marker(CASES_MARKER) is None:
                    foreign += FIXTURE not in getattr(item, "fixturenames", ())
                    dropped.append(item)
                elif family_case(item) is not None:
                    kept.append(item)  # a test with @cases and no case: `test_kernel` measures its families
                continue
            wanted = case is None or listed is None or case.id in listed
            (kept if wanted else dropped).append(item)
        if bench:
            self._refuse(bench.refused, config)
        if not self.cases and gpu_count():
            from peakgate.device import modules  # noqa: PLC0415  (followed with a GPU only)

            modules.stop()  # a kernel case's machine code is known from its build
        if foreign:
            self._run.session.notes.append(f"{counted(foreign, 'test')} without {FIXTURE} not run")
        if dropped:
            config.hook.pytest_deselected(items=dropped)
        items[:] = kept

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> bool | None:
        """Use the result of an earlier process of this run, if there is one, instead of running the test."""
        fixture = self._used.get(pyfuncitem.nodeid)
        known = self._run.store.take_over(self.cases[pyfuncitem.nodeid]) if fixture is not None else None
        if fixture is None or known is None:
            return None
        self._done.add(pyfuncitem.nodeid)
        fixture.take_over(*known)
        return True

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Keep the result of a test. A failed assertion is WRONG, any other failure INCONCLUSIVE.

        A failing verdict of the fixture counts even if the test is then skipped or marked xfail. Several ranks agree on
        a verdict.
        """
        report = yield
        if call.excinfo is not None and call.excinfo.errisinstance(EndedElsewhere):
            report.longrepr = str(call.excinfo.value)
        elif call.excinfo is not None and isinstance(call.excinfo.value, PeakgateError | KernelFault):
            report.longrepr = f"{item.nodeid}: {call.excinfo.value}"  # without Peakgate's own traceback
        benchmark = item.funcargs.get("benchmark") if isinstance(item, pytest.Function) else None
        ours = FIXTURE in getattr(item, "fixturenames", ())
        if ours and isinstance(benchmark, BenchmarkFixture) and benchmark.stats is None:
            benchmark.skipped = True  # else pytest-benchmark warns that it was not used
        case = self.cases.get(item.nodeid)
        if case is None:
            return report
        if call.when == "teardown" and report.failed and call.excinfo is not None:
            reason = f"the test's teardown fails: {_error_of(call.excinfo)}"
            self._end_all_ranks(case.id, reason, call.excinfo)
            self._fails_afterwards(item, reason)
        if item.nodeid in self._done or not (report.failed or report.skipped or call.when == "call"):
            return report
        self._done.add(item.nodeid)
        fixture = self._used.get(item.nodeid)
        outcome = fixture.outcome if fixture else None
        if report.skipped and outcome is None:
            self._run.ranks.end_test(case.id, None)
            self._keep_skip(case, str(call.excinfo.value) if call.excinfo else "skipped")
            return report
        called = fixture is not None and fixture.called
        if call.excinfo is not None and not call.excinfo.errisinstance(SKIPPING):
            outcome = self._failed(item, outcome, call.excinfo)
        elif outcome is None and not called:
            unused = f"the test never calls {FIXTURE}"
            outcome = self._run.session.failed(case, PeakgateError(unused, Code.BENCHMARK_TEST))
            report.outcome, report.longrepr = "failed", f"{case.id}: {unused}"
        elif outcome is not None and report.failed and outcome.judgement.verdict not in FAILING:
            judgement = Judgement(Verdict.INCONCLUSIVE, "the test passes and was expected to fail: xfail(strict=True)")
            outcome = _unmeasured(item, outcome, judgement)
        outcome = self._of_all_ranks(item, case.id, outcome)
        if outcome is not None:
            self._run.store.keep(outcome)
            judged = outcome.judgement
            if not report.failed and fails(judged.verdict, judged.reason, self._run.session):
                report.outcome = "failed"
                report.longrepr = f"{judged.verdict} {case.id}: {judged.reason}"
                vars(report).pop("wasxfail", None)
        return report

    def _keep_skip(self, case: Case, reason: str) -> None:
        """Keep the reason why a test was skipped before it measured anything."""
        reason = reason.removeprefix(f"{case.id}: ")
        if case.id in self._run.before.again:  # a skip does not undo that it was below its floor
            judgement = Judgement(Verdict.INCONCLUSIVE, f"below its floor at first, then skipped: {reason}")
            self._run.store.keep(self._run.session.unmeasured(case, judgement))
        else:
            self._run.store.skipped[case.id] = reason

    def _failed(
        self, item: pytest.Item, outcome: Outcome | None, error: pytest.ExceptionInfo[BaseException]
    ) -> Outcome:
        """The outcome of a test that raised; ``outcome`` itself if its verdict already fails.

        WRONG if the test's own assertion failed. An assertion within the callable is INCONCLUSIVE.
        """
        fixture = self._used.get(item.nodeid)
        of_callable = fixture is not None and fixture.raised is error.value
        compared = error.errisinstance((AssertionError, pytest.fail.Exception)) and not of_callable
        if outcome is None:
            case = self.cases[item.nodeid]
            if not compared and not error.errisinstance(EndedElsewhere):  # its judgement is that of all ranks
                self._end_all_ranks(case.id, _error_of(error), error)
            if isinstance(error.value, PeakgateError):
                return self._run.session.failed(case, error.value)
            function = getattr(item, "obj", None)
            is_async = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
            if is_async and error.errisinstance(pytest.fail.Exception):  # pytest does not run it without a plug-in
                unable = PeakgateError("the test is an async def; expected a plain function", Code.BENCHMARK_TEST)
                return self._run.session.failed(case, unable)
            if compared:
                return self._run.session.failed(case, WrongResult(f"the test fails: {_error_of(error)}"))
            whose = "the callable" if of_callable else "the test"
            unable = PeakgateError(f"{whose} fails: {_error_of(error)}{_advice(error.value)}", Code.BENCHMARK_TEST)
            return self._run.session.failed(case, unable)
        if outcome.judgement.verdict in FAILING:
            return outcome
        verdict = Verdict.WRONG if compared else Verdict.INCONCLUSIVE
        judgement = Judgement(verdict, f"the test fails after its measurement: {_error_of(error)}")
        return _unmeasured(item, outcome, judgement)

    def _end_all_ranks(self, case_id: str, reason: str, error: pytest.ExceptionInfo[BaseException]) -> None:
        """End all ranks, if there are several: the others may wait on their GPUs for what this one does not do."""
        ranks = self._run.ranks
        if ranks.size > 1:
            ranks.end_all(f"rank {ranks.rank}: {case_id}: {reason}", str(error.getrepr(style="short")))

    def _of_all_ranks(self, item: pytest.Item, case_id: str, outcome: Outcome | None) -> Outcome | None:
        """The outcome with the judgement of all ranks, and without figures if that fails for another reason."""
        ranks, fixture = self._run.ranks, self._used.get(item.nodeid)
        if outcome and (self._run.session.device.lost or (fixture is not None and fixture.raised is not None)):
            ranks.end_all(f"rank {ranks.rank}: {case_id}: {outcome.judgement.reason}")
        joint = ranks.end_test(case_id, outcome.judgement if outcome else None)
        if outcome is None or joint is None or joint == outcome.judgement:
            return outcome
        if outcome.samples is not None and joint.verdict in FAILING:
            return _unmeasured(item, outcome, joint)
        return replace(outcome, judgement=joint)

    def _fails_afterwards(self, item: pytest.Item, reason: str) -> None:
        """Make a case INCONCLUSIVE whose fixtures fail in teardown, unless its verdict already fails."""
        case, entries = self.cases[item.nodeid], self._run.store.entries
        if any(entry["case"] == case.id and entry["verdict"] in FAILING for entry in entries):
            return
        entries[:] = [entry for entry in entries if entry["case"] != case.id]
        self._run.store.skipped.pop(case.id, None)
        judgement, fixture = Judgement(Verdict.INCONCLUSIVE, reason), self._used.get(item.nodeid)
        if fixture is None or fixture.outcome is None:
            self._run.store.keep(self._run.session.unmeasured(case, judgement))
        else:
            self._run.store.keep(_unmeasured(item, fixture.outcome, judgement))

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Forget a test that has ended: its arrays are freed, and no crash is attributed to it."""
        if self._used.pop(nodeid, None) is not None:
            self._run.session.steps.expect("the end of a case", HOST_LIMIT_S, None)

    def _find_parts(
        self,
        items: Sequence[pytest.Item],
        kernels: Collection[str],
        refused: dict[str, str],
        *,
        some_unknown: bool,
    ) -> None:
        """Note which cases tests name as their parts; refuse a test that names an unknown one.

        With ``some_unknown``, or where only some files are collected, a part may be a case that is not here. Under
        plain pytest an ambiguous part raises PeakgateError.
        """
        if not self.cases:
            return
        from peakgate.callables.settings import PARTS_KEY, given_by, named_parts  # noqa: PLC0415  (not for kernels)

        given = {item: given_by(item) for item in items if item.nodeid in self.cases}
        of_tests = {self.cases[item.nodeid].id: each.metric for item, each in given.items()}
        metrics = dict.fromkeys(kernels, "gpu") | of_tests
        invalid = tuple(refused)
        folders = {*map(str, config.current().benchmarks)}
        for item, each in given.items():
            if not each.parts:
                continue
            case_id = self.cases[item.nodeid].id
            known = [*(other for other, metric in metrics.items() if metric == each.metric), *invalid]
            complete = not some_unknown and folders <= {*item.config.args}
            try:
                item.stash[PARTS_KEY] = named_parts(case_id, each.parts, known, complete=complete)
            except PeakgateError as error:
                if self._collecting is None:
                    raise
                refused[case_id] = str(error)
                del self.cases[item.nodeid]

    def _refuse(self, refused: Mapping[str, str], config: pytest.Config) -> None:
        """Add an INCONCLUSIVE case for each refused test or file; if some cases were chosen, a note instead."""
        run, chosen = self._run, config.option.keyword or config.option.markexpr or self._run.request.cases
        for case_id, reason in refused.items():
            if chosen:
                run.session.notes.append(f"not run, {reason}")
            else:
                family, _, name = case_id.partition(".")
                run.refused_tests.append(RefusedCase(family, name, reason))

    def _check_names(self, kernels: Collection[str], *, some_unknown: bool) -> None:
        """Raise PeakgateError if a floor or the request's ``cases`` names a case that does not exist.

        Floors are not checked if a module was skipped or a family refused: their cases are unknown.
        """
        tests = {case.id for case in self.cases.values()}
        known = tests.union(kernels)
        unknown = some_unknown or any(each.whole for each in self._run.known.refused)
        if not unknown and self._run.session.floors.present:
            of_ranks = {f"{case_id}{RANKS}" for case_id in tests}
            load_floors(self._run.session.floors.path, known_cases=known | of_ranks)
        for case_id in self._run.choose()[1] or ():
            if case_id not in known and self._run.known.of_refused_family(case_id) is None:
                raise PeakgateError(
                    f"--peakgate-cases: no case is named {case_id!r}{nearest(case_id, known)}", Code.SELECTION
                )


def _error_of(raised: pytest.ExceptionInfo[BaseException]) -> str:
    if isinstance(raised.value, pytest.FixtureLookupError):
        return f"no fixture {raised.value.argname!r}"
    return textwrap.shorten(raised.exconly(), LONGEST_ERROR, placeholder=" …")


def _advice(error: BaseException) -> str:
    """What to do about PyTorch's in-place error: buffers are refilled between calls, which an older graph forbids."""
    if "modified by an inplace operation" not in str(error):
        return ""
    return (
        "; input buffers are refilled between calls: build the autograd graph in the callable, keep its result in a "
        "variable, or set fresh=False"
    )


def _unmeasured(item: pytest.Item, outcome: Outcome, judgement: Judgement) -> Outcome:
    """The outcome without figures, which pytest-benchmark's table must not show either."""
    item.funcargs["benchmark"].has_error = True  # type: ignore[attr-defined]
    return replace(outcome, judgement=judgement, metrics=None, samples=None)


def begin(pytest_config: pytest.Config, run: BenchRun) -> None:
    """Register the plug-ins for benchmark tests."""
    collecting = None if run.plain else Collecting(ends=False)
    if collecting is not None:
        pytest_config.pluginmanager.register(collecting)
    pytest_config.pluginmanager.register(BenchmarkTests(run, collecting), TESTS_PLUGIN_NAME)
    if not gpu_count():
        pytest_config.pluginmanager.register(SkippedWithoutGpu())


class SkippedWithoutGpu:
    """Skip a test whose framework finds no GPU, with that framework's message."""

    def __init__(self) -> None:
        self._skipped: set[str] = set()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> Generator[None, object, object]:
        try:
            return (yield)
        except Exception as error:
            from peakgate.callables.cpu_call import lacks_gpu  # noqa: PLC0415  (not needed for kernels)
            from peakgate.callables.settings import case_of  # noqa: PLC0415  (as above)

            if FIXTURE in pyfuncitem.fixturenames and lacks_gpu(error):
                reason = f"no usable GPU: {type(error).__name__}: {textwrap.shorten(str(error), 200, placeholder=' …')}"
                self._skipped.add(pyfuncitem.nodeid)
                pytest.skip(f"{case_of(pyfuncitem.nodeid).id}: {reason}")
            raise

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Report such a skip at the test, not at this file."""
        report = yield
        if report.skipped and item.nodeid in self._skipped and isinstance(report.longrepr, tuple):
            path, line, _ = item.reportinfo()
            report.longrepr = (str(path), (line or 0) + 1, report.longrepr[2])
        return report
