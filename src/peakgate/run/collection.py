"""Which cases a run measures: those of the project's families, and the tests that use ``gpu_benchmark``.

Kernel cases are judged by the project's own contract here; ``base_contract`` has those judged by a base. Tests are
collected with their case ids, and with one error line per file that pytest cannot collect.
"""

from __future__ import annotations

import contextlib
import re
import sys
import traceback
from collections.abc import Collection, Generator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

from peakgate.base import config
from peakgate.base.config import Project
from peakgate.base.errors import Code, PeakgateError, described, raised_at
from peakgate.base.files import UnreadableFile, read_text
from peakgate.base.formatting import nearest, one_line
from peakgate.base.verdict import Judgement
from peakgate.callables import FIXTURE
from peakgate.spec import catalogue
from peakgate.spec.case import Case, RefusedCase, Scale, Tier
from peakgate.spec.catalogue import Catalogue
from peakgate.spec.recorded import case_parts

RunCase = Case | RefusedCase
"""A case that a run reports: one that can be measured, or one that its family does not describe."""


@dataclass(frozen=True)
class Cases:
    """The cases of the project at hand.

    ``new`` are the ids of cases that the base does not have; ``notes`` are lines for the report.
    """

    scale: Scale
    new: Collection[str] = ()
    notes: Sequence[str] = ()

    @cached_property
    def _own(self) -> Catalogue:
        return catalogue.described(self.scale)

    @property
    def refused(self) -> Sequence[RefusedCase]:
        """The cases whose family does not describe them."""
        return self._own.refused

    def listed(self, tier: Tier) -> list[RunCase]:
        """The cases of a tier and all refused ones; with FULL all. At the emulator's scale there are no tiers."""
        every = tier is Tier.FULL or self.scale is Scale.SMALL
        return [case for case in self._all() if every or isinstance(case, RefusedCase) or case.tier is Tier.GATE]

    def without_small(self) -> list[str]:
        """The kernels that have no case at the emulator's scale, which is that of these cases; if all are described."""
        if self.scale is not Scale.SMALL or self.refused:
            return []
        return catalogue.without_problems(self._own.cases, catalogue.described(Scale.BENCH).cases)

    def of_refused_family(self, case_id: str) -> RefusedCase | None:
        """An unknown case id as a RefusedCase, if its whole family was refused and may have it; else None."""
        family, _, name = case_id.partition(".")
        whole = next((each for each in self.refused if each.whole and each.family == family and name), None)
        return RefusedCase.named(family, name, whole.reason) if whole else None

    def _all(self) -> Collection[RunCase]:
        return [*self._own.cases, *self.refused]

    def probes(self, case: Case) -> list[Case]:
        """The edge-size problems on which a case's build is proven."""
        return catalogue.probes(case, self._own.families)

    def objection(self, case: RunCase) -> Judgement | None:
        """Why a case cannot be measured; None if it can."""
        return case.judgement if isinstance(case, RefusedCase) else None


def _is_within(case: RunCase, paths: Sequence[Path]) -> bool:
    """Whether a case's source file, or its family's folder if it has none, is at or within one of the paths."""
    source = case.stage.source if isinstance(case, Case) else None
    place = config.current().kernels / case.family if source is None else source.absolute()
    return any(place.is_relative_to(path) or path.is_relative_to(place) for path in paths)


def wanted_cases(
    cases: Cases, tier: Tier, listed: Path | None, within: Sequence[Path] = ()
) -> tuple[dict[str, RunCase], list[str] | None]:
    """The tier's cases by id, or those that the file ``listed`` names, in its order; and its ids, None without a file.

    With files or folders ``within``, only cases whose sources are there. Raises PeakgateError for an unknown id,
    unless the project has benchmark tests, which may have it.
    """
    if listed is None:
        chosen = {case.id: case for case in cases.listed(tier) if not within or _is_within(case, within)}
        if within and not chosen:
            raise PeakgateError(f"{config.near(within[0])}: no case uses it", Code.SELECTION)
        return chosen, None
    every = {case.id: case for case in cases.listed(Tier.FULL)}
    try:
        wanted = list(dict.fromkeys(read_text(listed).split()))
    except UnreadableFile as error:
        raise PeakgateError(
            f"{config.near(listed)}: {error.why}; expected a file of case ids, one per line", Code.UNREADABLE
        ) from None
    every |= {
        case_id: case
        for case_id in wanted
        if case_id not in every and (case := cases.of_refused_family(case_id)) is not None
    }
    for case_id in wanted:
        if case_id not in every and not config.current().benchmarks:
            raise PeakgateError(
                f"{config.near(listed)}: no case is named {case_id!r}{nearest(case_id, every)}", Code.SELECTION
            )
    return {case_id: every[case_id] for case_id in wanted if case_id in every}, wanted


CASES_MARKER = "peakgate_cases"
"""The marker that ``peakgate.suite.cases`` puts on a test."""
CONFTEST = "conftest.py"


def pytest_arguments(project: Project) -> list[str]:
    """The arguments with which pytest collects the project's benchmark tests.

    The project's conftest files, ``pythonpath`` and ``plugins`` apply; its other pytest settings do not.
    """
    ignored = ("Benchmark fixture was not used at all", "Not saving anything")
    filters = [f"ignore:{message}:pytest_benchmark.logger.PytestBenchmarkWarning" for message in ignored]
    filters += ["ignore::DeprecationWarning", "ignore::PendingDeprecationWarning"]  # frameworks give them in every run
    warned = "\n".join(filters)
    arguments = [*map(str, project.benchmarks), f"--confcutdir={project.root}"]
    arguments += ["-o", "addopts=-rs", "-o", f"filterwarnings={warned}"]  # bench.toml turns warnings into errors
    arguments += ["-o", "python_files=test_*.py bench_*.py", "-o", "python_functions=test_* bench_*"]
    arguments.append("--log-level=WARNING")  # torch.compile traces itself in hundreds of empty DEBUG records
    return arguments + [word for plugin in project.plugins for word in ("-p", plugin)]


def callable_cases(
    items: Sequence[pytest.Item], taken: Collection[str] = (), refused: dict[str, str] | None = None
) -> dict[str, Case]:
    """Node id to case of the tests of callables. Raises PeakgateError if two have the same case id.

    A test with invalid settings is left out and added to ``refused``, case id to reason; without ``refused`` it raises.
    """
    of_callables = [
        item
        for item in items
        if FIXTURE in getattr(item, "fixturenames", ()) and item.get_closest_marker(CASES_MARKER) is None
    ]
    if not of_callables:
        return {}
    from peakgate.callables.settings import case_of, given_by  # noqa: PLC0415  (not needed for kernels)

    found: dict[str, Case] = {}
    owners = dict.fromkeys(taken, "a kernel family")
    for item in of_callables:
        case = case_of(item.nodeid)
        try:
            given_by(item)
        except PeakgateError as error:
            if refused is None:
                raise
            refused[case.id] = str(error)
            continue
        if case.id in owners:
            raise PeakgateError(
                f"{item.nodeid}: its case id {case.id} is that of {owners[case.id]} too; rename the test or give its "
                "parameters ids= of letters, digits, '_', '.' and '-'",
                Code.BENCHMARK_TEST,
            )
        found[item.nodeid], owners[case.id] = case, item.nodeid
    return found


def collected(project: Project, kernels: Collection[str] = ()) -> list[str]:
    """The case ids of the project's benchmark tests, collected without running them.

    Raises PeakgateError if one cannot be collected or its id is taken. Output during collection goes to stderr.
    """
    if not project.benchmarks:
        return []
    project.extend_import_path()
    gathered = Listing(kernels)
    settings = str(Path(__file__).with_name("bench.toml"))
    arguments = ["--collect-only", "-q", "-p", "no:cacheprovider", f"--rootdir={project.root}", "-c", settings]
    plugins = ["--disable-plugin-autoload", "-p", "peakgate.run.plugin", "-p", "benchmark"]
    with contextlib.redirect_stdout(sys.stderr):
        pytest.main([*arguments, *plugins, *pytest_arguments(project)], plugins=[gathered])
    if gathered.problem:
        raise PeakgateError.repeated(gathered.problem)
    return gathered.ids


class Collecting:
    """A plug-in that stops the collection at the first error and keeps it as ``problem``, one line.

    With ``ends`` False a test file with an error is skipped, and ``refused`` maps its case id to that line.
    """

    problem: str | None = None
    some_skipped = False

    def __init__(self, *, ends: bool = True) -> None:
        self._ends = ends
        self.refused: dict[str, str] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        try:
            with contextlib.chdir(config.here()):  # the run itself may work in the base's tree
                report = yield
        except SystemExit as exited:
            self._refuse(collector, exited, _described(exited))
            return pytest.CollectReport(collector.nodeid, "passed", None, [])
        if report.failed:  # pytest would print the traceback of a report that it gets
            call: pytest.CallInfo[object] | None = vars(report).get("call")
            error = call.excinfo.value if call is not None and call.excinfo is not None else None
            lines = [line.removeprefix("E").strip() for line in str(report.longrepr).splitlines() if line.strip()]
            self._refuse(collector, error, _advised(" ".join(lines[-1:]).removeprefix("_pytest.outcomes.")))
            return pytest.CollectReport(collector.nodeid, "passed", None, [])
        self.some_skipped |= report.skipped
        return report

    def _refuse(self, collector: pytest.Collector, error: BaseException | None, reported: str) -> None:
        where, folder = collector.nodeid, collector.path.parent if collector.path.is_file() else collector.path
        if error is not None:
            cause = _cause(error)
            reported = _described(cause) if _of_conftest(error) else reported
            if line := raised_at(cause, folder):
                where = str(config.near(Path(line)))
        problem = str(PeakgateError(f"{where}: cannot be collected: {reported}", Code.BENCHMARK_TEST))
        if not self._ends and isinstance(collector, pytest.Module):
            self.refused[f"{case_parts(collector.nodeid)[0]}.{collector.path.name}"] = problem
            return
        self.problem = problem
        raise pytest.UsageError(one_line(self.problem)) from None


def not_loaded(error: BaseException) -> BaseException:
    """A PeakgateError for an error that a conftest file raised while pytest started; any other error unchanged."""
    if not (_of_conftest(error) or isinstance(error, SystemExit)):
        return error
    cause = _cause(error)
    frames = [frame for frame in traceback.extract_tb(cause.__traceback__) if Path(frame.filename).name == CONFTEST]
    if (path := _of_conftest(error)) is not None:
        where = raised_at(cause, path.parent) or str(path)
    elif frames:
        where = f"{frames[-1].filename}:{frames[-1].lineno}"
    else:
        return error
    return PeakgateError(f"{config.near(Path(where))}: cannot be loaded: {_described(cause)}", Code.BENCHMARK_TEST)


def _of_conftest(error: BaseException) -> Path | None:
    """The conftest file that could not be imported, None for another error; pytest's type for it is not public."""
    return Path(vars(error)["path"]) if type(error).__name__ == "ConftestImportFailure" else None


def _cause(error: BaseException) -> BaseException:
    """The error that a file raised while it was imported, unwrapped from pytest's."""
    if _of_conftest(error):
        cause: BaseException = vars(error)["cause"]
        return cause
    return error.__cause__ if isinstance(error, pytest.Collector.CollectError) and error.__cause__ else error


def _described(error: BaseException) -> str:
    """Type and message of an error in one line, with advice if a module is missing."""
    return _advised(described(error))


def _advised(reported: str) -> str:
    missing = re.search(r"No module named '([\w.]+)'", reported)
    if missing is None:
        return reported
    from peakgate.base.packages import install_command  # noqa: PLC0415  (only a mistake needs it)

    extra = f" ({install_command('cuda13')}, or cuda12)" if missing[1] == "cupy" else ""
    return f"{reported}; install it{extra}, add its folder to pythonpath, or pytest.importorskip({missing[1]!r})"


class Listing(Collecting):
    """A plug-in that keeps the case ids of the collected tests; no run begins."""

    def __init__(self, kernels: Collection[str]) -> None:
        super().__init__()
        self._kernels = kernels
        self.ids: list[str] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_cmdline_parse(self) -> Generator[None, pytest.Config, pytest.Config]:
        try:
            return (yield)
        except BaseException as error:
            raise not_loaded(error) from None

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        try:
            self.ids = [case.id for case in callable_cases(items, self._kernels).values()]
        except PeakgateError as error:
            self.problem = self.problem or str(error)
