"""The processes of a side: its build, and those that measure, one at a time on the GPU, the next already starting."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from peakgate.base import config, records
from peakgate.base.errors import Code, PeakgateError
from peakgate.base.files import cache_folder, make_folder, open_output
from peakgate.base.processes import end_group, last_words_in
from peakgate.base.progress import Progress
from peakgate.compare.ab.folders import SideFolder
from peakgate.compare.ab.means import Span
from peakgate.run import ab_process
from peakgate.run.lock import inherited

# The package that measures both sides: this one, whatever a side holds.
WARM = Path(__file__).with_name("warm.py")
HARNESS = "peakgate"

# Modules that a run imports; none of them calls the driver.
PRELOAD = (
    *("pytest", "pytest_benchmark.plugin", "numpy.random", "cupy", "cuda.bindings.nvrtc"),
    *("peakgate.cli", "peakgate.run.bench", "peakgate.run.benchmark_tests", "peakgate.run.kernel_run"),
    *("peakgate.run.plugin", "peakgate.session.pairs", "peakgate.device.gpu", "peakgate.spec.catalogue"),
)

AHEAD = 2  # processes a side keeps warm: in turns that alternate, a side runs twice in a row

SCRATCH = ".peakgate/tmp"  # where a build's temporary files go: inside its side

LONGEST_RUN_S = 900.0  # a run that takes longer for what it is asked for hangs


class SideBroken(Exception):
    """A side that cannot be measured; ``which`` side, and why in one line."""

    def __init__(self, which: str, reason: str) -> None:
        super().__init__(f"{which}: {reason}")
        self.which, self.reason = which, reason


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A run that ended: its exit code, negative for a signal, its wall time and when it was at work on the GPU.

    A run ends later than its turn on the GPU, because it writes its files after it left. ``busy`` are begin and end of
    each part of its turn, by ``time.monotonic``; between them it waited for what followed a look.
    """

    exit_code: int
    seconds: float
    busy: tuple[Span, ...]
    steps_s: Mapping[str, float]
    """Steps of its turn, named by the process; empty if it reported none."""


class BenchProcess:
    """A run of ``peakgate bench`` that was asked for: it starts, and waits for its turn before it touches the GPU."""

    def __init__(self, which: str, process: subprocess.Popen[bytes], word: int, left: int, log: Path) -> None:
        """``word`` is where the process is given its turn, ``left`` where it says that it has left the GPU."""
        self._which, self._process, self._word, self._left, self._log = which, process, word, left, log
        self._began = self._told = 0.0
        self._busy: list[Span] = []
        self._steps_s: Mapping[str, float] = {}

    def begin(self) -> None:
        """Give it its turn."""
        self._began = time.monotonic()
        self.go_on()

    def go_on(self) -> None:
        """Have it measure what is wanted further, after a look."""
        self._say(ab_process.GO)

    def leave(self) -> None:
        """Have it leave the GPU after a look, and wait until it has."""
        self._say(ab_process.END)
        self.until_left()

    def until_left(self) -> bool:
        """Wait until it has left the GPU or has ended, or waits for what follows a look: False."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._left, selectors.EVENT_READ)
            if not selector.select(self._seconds_left()):
                raise self._hangs()
        said = os.read(self._left, ab_process.LONGEST_WORD)
        self._busy.append((self._told, time.monotonic()))
        if said == ab_process.LOOK:
            return False
        with contextlib.suppress(ValueError):  # it ended without a word
            self._steps_s = json.loads(said)
        return True

    def finish(self) -> FinishedRun:
        """Wait for its end."""
        try:
            code = self._process.wait(self._seconds_left())
        except subprocess.TimeoutExpired:
            raise self._hangs() from None
        finished = FinishedRun(code, time.monotonic() - self._began, tuple(self._busy), self._steps_s)
        self.end()
        return finished

    def end(self) -> None:
        """End the process, wherever it is; a second call does nothing."""
        if self._process.stdin is None or self._process.stdin.closed:
            return
        end_group(self._process)
        self._process.stdin.close()
        os.close(self._word)
        os.close(self._left)

    def ask(self, request: Mapping[str, Any]) -> None:
        """Send the request it is waiting for; BrokenPipeError where it is gone."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")

    def _say(self, word: bytes) -> None:
        self._told = time.monotonic()
        with contextlib.suppress(BrokenPipeError):  # it is gone: its exit code says why
            os.write(self._word, word)

    def _seconds_left(self) -> float:
        return max(self._told + LONGEST_RUN_S - time.monotonic(), 0.0)

    def _hangs(self) -> SideBroken:
        reason = f"a run did not end within {LONGEST_RUN_S:.0f} s; its output is in {self._log}"
        return SideBroken(self._which, reason)


class SideProcesses:
    """The processes of one side, for the length of a ``with`` block; all are ended with it."""

    def __init__(
        self, which: str, folder: Path, environment: Mapping[str, str], log: Path, python: str = sys.executable
    ) -> None:
        """Warm the first ones up in ``folder``; what they say before their run goes to ``log``."""
        self.which, self._python = which, python
        self._folder, self._environment, self._log = folder, dict(environment), log
        open_output(self._log).close()
        self._waiting: deque[BenchProcess] = deque()
        self._asked: list[BenchProcess] = []

    def __enter__(self) -> SideProcesses:
        self._warm_up()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for run in (*self._waiting, *self._asked):
            run.end()

    def ask(self, arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> BenchProcess:
        """A run of ``peakgate bench`` with these arguments in a process of its own; its output goes to ``log``."""
        request = {"harness": HARNESS, "arguments": list(arguments), "environment": dict(environment), "log": str(log)}
        open_output(log).close()
        run = self._waiting.popleft()
        self._asked.append(run)
        self._warm_up()
        try:
            run.ask(request)
        except BrokenPipeError:
            said = last_words_in(self._log)
            raise SideBroken(self.which, f"its process ended while it warmed up: {said}") from None
        return run

    def _warm_up(self) -> None:
        """Have as many processes waiting as are needed next."""
        while len(self._waiting) < AHEAD:
            their_word, word = os.pipe()
            left, their_left = os.pipe()
            with open_output(self._log, "a") as errors:
                process = subprocess.Popen(
                    [self._python, "-P", str(WARM), *PRELOAD],
                    cwd=self._folder,
                    env=self._environment | {ab_process.TOKEN_VARIABLE: f"{their_word},{their_left}"},
                    stdin=subprocess.PIPE,
                    stdout=errors,
                    stderr=errors,
                    bufsize=0,
                    pass_fds=(their_word, their_left, *inherited()),  # a run that outlives us keeps the GPU locked
                    start_new_session=True,  # Ctrl-C is for us; we end what we started
                )
            os.close(their_word)
            os.close(their_left)
            self._waiting.append(BenchProcess(self.which, process, word, left, self._log))


def side_environment(folder: Path, judge: Path | None = None, python: str = sys.executable) -> dict[str, str]:
    """Our environment for a side's processes; both sides share our cache of built kernels.

    With ``judge``, the folder of the base's project, nothing of this side is imported: base's terms judge its cases.

    No other plug-ins of pytest take part. The driver's compile cache is off: NVRTC 13.0 answers from it without the
    compiler's log, and the resources in it would be missing. A side's own modules come first: its ``pythonpath``. The
    programs of the environment of its ``python`` come first too.
    """
    project = config.find(folder) if judge is None else None
    search = [str(path) for path in (project.pythonpath if project else ())]
    if inherited := os.environ.get("PYTHONPATH"):
        search.append(inherited)
    ours = {"PEAKGATE_CACHE": str(cache_folder()), "CUDA_CACHE_DISABLE": "1", "NO_COLOR": "1"}
    ours |= {config.BASE_VARIABLE: str(judge)} if judge is not None else {}
    if python != sys.executable:
        programs = Path(python).parent
        ours |= {"VIRTUAL_ENV": str(programs.parent), "PATH": f"{programs}{os.pathsep}{os.environ.get('PATH', '')}"}
    return os.environ | ours | ({"PYTHONPATH": os.pathsep.join(search)} if search else {})


def built_environment(which: str, side: SideFolder, log: Path, progress: Progress | None = None) -> dict[str, str]:
    """The environment of a side's processes, after the project's own build has run in it; see ``build_side``."""
    environment = side_environment(side.path, python=side.python)
    build_side(which, side.path, environment, log, progress)
    return environment


def build_side(
    which: str, folder: Path, environment: Mapping[str, str], log: Path, progress: Progress | None = None
) -> None:
    """Run the ``build`` command of the project in ``folder``, if it has one.

    All output goes to ``log``. SideBroken where the command fails, or does not end within ``build_timeout_s``: it and
    all it started are ended then.
    """
    project = config.find(folder)
    if project is None or project.build is None:
        return
    if progress:
        progress.show(f"building {which}: {project.build}")
    scratch = project.root / SCRATCH
    make_folder(scratch)
    with open_output(log) as output:
        process = subprocess.Popen(  # noqa: S602  (a command line of the project's own settings)
            project.build,
            shell=True,
            cwd=project.root,
            env=dict(environment) | {"TMPDIR": str(scratch)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait(project.build_timeout_s)
        except subprocess.TimeoutExpired:
            limit = f"build_timeout_s of {project.build_timeout_s:g} s"
            raise SideBroken(
                which, f"its build `{project.build}` did not end within {limit} (all of it: {log})"
            ) from None
        finally:
            end_group(process)
    if code != 0:
        said = last_words_in(log)
        raise SideBroken(which, f"its build `{project.build}` exits {code}: {said} (all of it: {log})")


def one_choice(folder: Path, known: Mapping[str, str]) -> dict[str, str]:
    """Variables by which Triton and torch.compile take what they tuned once from a folder of this experiment.

    So both sides, and all processes, run one choice of what they have in common. Those that are set already stay.
    """
    wanted = {
        "TRITON_CACHE_AUTOTUNING": "1",
        "TRITON_CACHE_DIR": str(folder / "triton"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
    }
    return {name: value for name, value in wanted.items() if name not in known}


def refuse_foreign(which: str, path: Path) -> None:
    """PeakgateError where a side ran modules of the project that are not its own: it measured other code."""
    if not path.is_file():
        return
    found = records.read(path, dict[str, str], "run it again")
    name, file = next(iter(found.items()))
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    raise PeakgateError(
        f"{which}: module {name} is loaded from {file}, outside its tree{more}; name the folder that holds it in "
        "pythonpath of [tool.peakgate], build what is compiled by `build`, or uninstall the editable install",
        Code.SETTING,
    )
