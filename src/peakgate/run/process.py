"""The measuring process: ``python -m peakgate.run.process SUPERVISOR ROOT [PYTEST-ARGUMENT...]``.

It runs pytest with the built-in tests and plug-ins only. Without a supervisor (in an A/B) ``peakgate bench`` does so in
its own process.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pluggy import HookimplMarker

from peakgate.base.errors import Code, PeakgateError, refused
from peakgate.base.formatting import nearest
from peakgate.base.processes import collect_as_usual, collect_rarely, end_with_parent, variables
from peakgate.base.streams import printed_if_possible
from peakgate.base.verdict import ExitCode
from peakgate.device import driver

if TYPE_CHECKING:
    import pytest

    from peakgate.run.journal import Link

KERNELS = Path(__file__).with_name("bench_kernels.py")
DEVICE, LINK = "--peakgate-device=", "--peakgate-link="
BENCH_SETTINGS = Path(__file__).with_name("bench.toml")
"""pytest's settings for a run; the project's ``addopts`` and those of the environment do not apply."""

NO_CASE = (
    "there is no case to measure: no family of `kernels` has one for this device and tier, no test of `benchmarks` "
    "uses gpu_benchmark; `peakgate init` writes examples"
)

ALL_SKIPPED = "every case was skipped, for the reason above; nothing was measured"


def main(arguments: Sequence[str]) -> int:
    """Measure. The operating system kills this process when its supervisor ends."""
    supervisor, root, *given = arguments
    if not end_with_parent(int(supervisor)):
        return ExitCode.INTERRUPTED
    on_gpu = begin_on_gpu(given)
    from peakgate.base import config  # noqa: PLC0415  (after the GPU's initialization has started)
    from peakgate.run import proofs  # noqa: PLC0415  (as above)

    if on_gpu and not {"-k", "-m"} & {*given} and (project := config.find(Path(root))):
        proofs.begin(project.kernels)
    return measure([*fixed_arguments(Path(root), given), *given])


def begin_on_gpu(given: Sequence[str]) -> bool:
    """Start to initialize the GPU in a thread, in parallel with pytest's imports; whether there may be one."""
    choice = next((each.removeprefix(DEVICE) for each in given if each.startswith(DEVICE)), "auto")
    indices = driver.named_gpus(choice)
    if not indices or driver.cuda_driver_version() is None:
        return False
    with contextlib.suppress(ImportError):  # reported when the device is opened
        from peakgate.device import warmup  # noqa: PLC0415  (only with a GPU)

        warmup.begin(indices[0])
    return True


class _Watch:
    """Notes skipped modules and cases, and an internal error of pytest, whose exit status equals UNDECIDED.

    Errors of pytest about its arguments become PeakgateErrors.
    """

    crashed = skipped = False
    nothing = NO_CASE
    """The message if no case was selected."""

    @HookimplMarker("pytest")(wrapper=True)
    def pytest_cmdline_parse(self) -> Generator[None, pytest.Config, pytest.Config]:
        import pytest  # noqa: PLC0415  (as in measure)

        try:
            return (yield)
        except pytest.UsageError as error:
            raise _option_refused(str(error)) from None
        except BaseException as error:
            from peakgate.run.collection import not_loaded  # noqa: PLC0415  (only a mistake needs it)

            raise not_loaded(error) from None

    @HookimplMarker("pytest")(wrapper=True)
    def pytest_cmdline_main(self) -> Generator[None, int, int]:
        """The same for arguments that are checked later: expressions, missing files."""
        import pytest  # noqa: PLC0415  (as in measure)

        try:
            return (yield)
        except pytest.UsageError as error:
            known = PeakgateError.repeated(" ".join(str(error).split()))
            raise known if known.code else _option_refused(known.message) from None

    def pytest_internalerror(self) -> None:
        self.crashed = True

    @HookimplMarker("pytest")(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        if any("gpu_benchmark" in getattr(item, "fixturenames", ()) for item in items):
            given = {"-k": config.option.keyword, "-m": config.option.markexpr}
            by = "".join(f" by {option} {text!r}" for option, text in given.items() if text)
            parts = "-k takes parts of case ids, " if config.option.keyword else ""
            self.nothing = (
                f"no case was selected{by}: {parts}`peakgate bench --collect-only` lists the cases "
                "(the emulator has small sizes of its own)"
            )

    def pytest_collection_finish(self) -> None:
        collect_as_usual()

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self.skipped = self.skipped or report.skipped

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.skipped = self.skipped or report.skipped


def _option_refused(reported: str) -> PeakgateError:
    """The error of pytest about its arguments in one line, without pytest's usage text."""
    from peakgate.run.request import parser  # noqa: PLC0415  (only a mistake needs it)

    found = re.search(r"error: (?:unrecognized arguments: ([^\s=]+))?(.*)", reported)
    if found is None or found[1] is None:
        what = (found[2] if found else reported).replace("--peakgate-", "--")
    else:
        ours = re.findall(r"--[\w-]+", parser().format_usage())
        what = f"{found[1]}: no such option of bench or pytest{nearest(found[1], ours)}"
    return PeakgateError(f"{what}; `peakgate bench --help` lists the options", Code.OPTION)


def _refused(error: PeakgateError, link: Link) -> ExitCode:
    """Report a mistake, through the supervisor if there is one."""
    if not link.supervised:
        return refused(error)
    link.send(refused=str(error))
    return error.exit_code


def fixed_arguments(root: Path, given: Sequence[str]) -> list[str]:
    """The arguments of pytest in a run of a project, before those that a user gave."""
    from peakgate.base import config  # noqa: PLC0415  (as in main)

    fixed = [str(KERNELS), "-c", str(BENCH_SETTINGS), f"--rootdir={root}", "--disable-plugin-autoload"]
    fixed += ["-p", "peakgate.run.plugin", "-p", "benchmark", "-p", "no:cacheprovider"]
    fixed += ["-p", "no:faulthandler", "--peakgate"]
    project = config.find(root)
    paths = [Path(each.partition("::")[0]).absolute() for each in given if not each.startswith("-")]
    existing = [path for path in paths if os.path.exists(path)]  # noqa: PTH110  (Path's raises for a long -k)
    of_tests = any(not (project and path.is_relative_to(project.kernels)) for path in existing)
    if project is None or (not project.benchmarks and (not of_tests or config.BASE_VARIABLE in os.environ)):
        fixed.append("--noconftest")  # with an editable install pytest would load Peakgate's own conftest.py
    else:
        from peakgate.run import collection  # noqa: PLC0415  (not needed for kernels alone)

        project.extend_import_path()
        fixed += collection.pytest_arguments(project)
    return [*fixed, "--benchmark-autosave", "--benchmark-quiet", "-q", "--no-header"]


def measure(arguments: Sequence[str]) -> int:
    """Run pytest in this process; return a Peakgate exit code. Mistakes are reported through the supervisor, if any.

    If standard output cannot be written the run is saved, and the error is reported at its end.
    """
    from peakgate.run.journal import Link  # noqa: PLC0415  (as in main)

    descriptor = next((each.removeprefix(LINK) for each in arguments if each.startswith(LINK)), None)
    link = Link(None if descriptor is None else int(descriptor))
    with variables(PYTEST_ADDOPTS=""), printed_if_possible() as output:
        code = _measured(arguments, link)
    problem = None if output is None else output.problem
    if problem is None or isinstance(problem, BrokenPipeError):  # such as `peakgate bench | head`
        return code
    if not link.supervised:
        raise problem
    link.send(not_printed=problem.strerror)
    return code


def _measured(arguments: Sequence[str], link: Link) -> int:
    import pytest  # noqa: PLC0415  (takes half a second, during which the GPU initializes)

    in_our_terms = {
        pytest.ExitCode.INTERRUPTED: ExitCode.INTERRUPTED,
        pytest.ExitCode.USAGE_ERROR: ExitCode.BAD_INPUT,
        pytest.ExitCode.NO_TESTS_COLLECTED: ExitCode.BAD_INPUT,
    }
    watch = _Watch()
    try:
        status = pytest.main(list(arguments), plugins=[watch])
    except PeakgateError as error:
        return _refused(error, link)
    sys.stdout.flush()  # first: when the supervisor gets an error it kills this process
    link.send(returned=int(status))  # missing if a file calls os._exit
    if watch.crashed:
        return ExitCode.DEFECT
    if status == pytest.ExitCode.NO_TESTS_COLLECTED:
        return _refused(PeakgateError(ALL_SKIPPED if watch.skipped else watch.nothing, Code.SELECTION), link)
    return int(in_our_terms.get(status, status))  # type: ignore[call-overload]


if __name__ == "__main__":
    collect_rarely()
    sys.exit(main(sys.argv[1:]))
