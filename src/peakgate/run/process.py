"""The process that measures: ``python -m peakgate.run.process SUPERVISOR ROOT [PYTEST-ARGUMENT...]``.

It runs pytest with our tests, our plug-ins and no others. Without a supervisor (the processes of an A/B) ``peakgate
bench`` does so in its own process.
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
"""pytest's settings for our own tests: a stranger's addopts are none of ours, those of the environment included."""

NO_CASE = (
    "there is no case to measure: no family of `kernels` has one for this device and tier, no test of `benchmarks` "
    "uses gpu_benchmark; `peakgate init` writes examples"
)

ALL_SKIPPED = "every case was skipped, for the reason above; nothing was measured"


def main(arguments: Sequence[str]) -> int:
    """Measure; ended by the kernel when the supervisor is gone, whatever ended that."""
    supervisor, root, *given = arguments
    if not end_with_parent(int(supervisor)):
        return ExitCode.INTERRUPTED
    begin_on_gpu(given)
    return measure([*fixed_arguments(Path(root), given), *given])


def begin_on_gpu(given: Sequence[str]) -> None:
    """Begin what takes long on the GPU beside pytest's imports."""
    choice = next((each.removeprefix(DEVICE) for each in given if each.startswith(DEVICE)), "auto")
    indices = driver.named_gpus(choice)
    if indices and driver.cuda_driver_version() is not None:
        with contextlib.suppress(ImportError):  # opening the device reports it
            from peakgate.device import warmup  # noqa: PLC0415  (a run without a GPU does without)

            warmup.begin(indices[0])


class _Watch:
    """Notes a crash of pytest itself, whose exit status is that of our UNDECIDED, and skipped modules and cases.

    What pytest says of an option that it does not take becomes a PeakgateError.
    """

    crashed = skipped = False
    nothing = NO_CASE
    """Why no case was selected, where none was."""

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
        """The same of arguments that it looks at later: an expression, files that are not there."""
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
        if any(map(_is_case, items)):
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


def _is_case(item: pytest.Item) -> bool:
    """Whether it uses our fixture."""
    return "gpu_benchmark" in getattr(item, "fixturenames", ())


def _option_refused(reported: str) -> PeakgateError:
    """What pytest reports of its arguments, below a usage that is not that of ``peakgate bench``, in one line."""
    from peakgate.run import bench_options  # noqa: PLC0415  (only a mistake needs them)

    found = re.search(r"error: (?:unrecognized arguments: ([^\s=]+))?(.*)", reported)
    if found is None or found[1] is None:
        what = (found[2] if found else reported).replace("--peakgate-", "--")
    else:
        what = f"{found[1]}: no such option of bench or pytest{nearest(found[1], bench_options.names())}"
    return PeakgateError(f"{what}; `peakgate bench --help` lists the options", Code.OPTION)


def _link(arguments: Sequence[str]) -> Link:
    """The pipe to the supervisor, where there is one."""
    from peakgate.run.journal import Link  # noqa: PLC0415  (the GPU is begun on before)

    descriptor = next((each.removeprefix(LINK) for each in arguments if each.startswith(LINK)), None)
    return Link(None if descriptor is None else int(descriptor))


def _refused(error: PeakgateError, arguments: Sequence[str]) -> ExitCode:
    """Report a mistake, by the supervisor where there is one."""
    link = _link(arguments)
    if not link.supervised:
        return refused(error)
    link.send(refused=str(error))
    return error.exit_code


def fixed_arguments(root: Path, given: Sequence[str]) -> list[str]:
    """The arguments of pytest in a run of a project, before those that a user gave."""
    from peakgate.base import config  # noqa: PLC0415  (the GPU is begun on before)

    fixed = [str(KERNELS), "-c", str(BENCH_SETTINGS), f"--rootdir={root}", "--disable-plugin-autoload"]
    fixed += ["-p", "peakgate.run.plugin", "-p", "benchmark", "-p", "no:cacheprovider"]
    fixed += ["-p", "no:faulthandler", "--peakgate"]
    project = config.find(root)
    paths = [Path(each.partition("::")[0]).absolute() for each in given if not each.startswith("-")]
    of_tests = any(path.exists() and not (project and path.is_relative_to(project.kernels)) for path in paths)
    if project is None or (not project.benchmarks and (not of_tests or config.BASE_VARIABLE in os.environ)):
        fixed.append("--noconftest")  # an editable install would bring the one above this package
    else:
        from peakgate.run import collection  # noqa: PLC0415  (families alone do without)

        collection.prepend(project)
        fixed += collection.pytest_arguments(project)
    return [*fixed, "--benchmark-autosave", "--benchmark-quiet", "-q", "--no-header"]


def measure(arguments: Sequence[str]) -> int:
    """Run pytest in this process; its exit code in our terms. The supervisor reports a mistake, if there is one.

    Where standard output takes nothing the run is saved all the same, and that is reported at its end.
    """
    with variables(PYTEST_ADDOPTS=""), printed_if_possible() as output:
        code = _measured(arguments)
    problem = None if output is None else output.problem
    if problem is None or isinstance(problem, BrokenPipeError):  # the verdict counts, not who reads it
        return code
    link = _link(arguments)
    if not link.supervised:
        raise problem
    link.send(not_printed=problem.strerror)
    return code


def _measured(arguments: Sequence[str]) -> int:
    import pytest  # noqa: PLC0415  (takes half a second, beside which the GPU is begun on)

    in_our_terms = {
        pytest.ExitCode.INTERRUPTED: ExitCode.INTERRUPTED,
        pytest.ExitCode.USAGE_ERROR: ExitCode.BAD_INPUT,
        pytest.ExitCode.NO_TESTS_COLLECTED: ExitCode.BAD_INPUT,
    }
    watch, link = _Watch(), _link(arguments)
    try:
        status = pytest.main(list(arguments), plugins=[watch])
    except PeakgateError as error:
        return _refused(error, arguments)
    sys.stdout.flush()  # a supervisor that hears of a mistake waits for nothing more
    link.send(returned=int(status))  # a file that calls os._exit leaves this out
    if watch.crashed:
        return ExitCode.DEFECT
    if status == pytest.ExitCode.NO_TESTS_COLLECTED:
        return _refused(PeakgateError(ALL_SKIPPED if watch.skipped else watch.nothing, Code.SELECTION), arguments)
    return int(in_our_terms.get(status, status))  # type: ignore[call-overload]


if __name__ == "__main__":
    collect_rarely()
    sys.exit(main(sys.argv[1:]))
