"""A side's processes: its build, and its measuring processes, which start while another one uses the GPU."""

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
from typing import Any

from peakgate.base import config, progress, records
from peakgate.base.errors import Code, PeakgateError
from peakgate.base.files import cache_folder, make_folder, open_output
from peakgate.base.processes import end_group, last_words_in, one_blas_thread, run_in_group
from peakgate.compare.ab.folders import SideFolder
from peakgate.compare.ab.means import Span
from peakgate.compare.ab.schedule import Side
from peakgate.run import ab_process
from peakgate.run.lock import inherited

WARM = Path(__file__).with_name("warm.py")

# The package that measures both sides: the running one, also if a side contains Peakgate.
HARNESS = "peakgate"

# Modules that a run imports; none of them calls the driver.
PRELOAD = (
    *("pytest", "pytest_benchmark.plugin", "numpy.random", "cupy", "cuda.bindings.nvrtc"),
    *("peakgate.cli", "peakgate.run.bench", "peakgate.run.case_tests", "peakgate.run.kernel_run"),
    *("peakgate.run.plugin", "peakgate.session.pairs", "peakgate.device.gpu", "peakgate.spec.catalogue"),
)

AHEAD = 2  # processes started in advance: in the order A B, B A a side runs twice in a row

SCRATCH = ".peakgate/tmp"  # a build's temporary files, inside its side

LONGEST_RUN_S = 900.0  # a run that takes longer is taken to hang


class SideBroken(Exception):
    """Side ``which`` cannot be measured; ``reason`` is one line."""

    def __init__(self, which: str, reason: str) -> None:
        super().__init__(f"{which}: {reason}")
        self.which, self.reason = which, reason


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A finished run: its exit code (negative for a signal), wall time, and when it used the GPU.

    A run ends after it has left the GPU, because it then writes its files. ``busy`` holds begin and end of each part of
    its GPU time, by ``time.monotonic``; between them it waited for the decision after an interim look.
    """

    exit_code: int
    seconds: float
    busy: tuple[Span, ...]
    steps_s: Mapping[str, float]
    """Seconds by step, as the process reports them; empty if it reported none."""


class BenchProcess:
    """A requested run of ``peakgate bench``, which starts and then waits for its turn before it uses the GPU."""

    def __init__(self, which: str, process: subprocess.Popen[bytes], word: int, left: int, log: Path) -> None:
        """``word`` is the pipe that gives the process its turn, ``left`` the one that reports it has left the GPU."""
        self._which, self._process, self._word, self._left, self._log = which, process, word, left, log
        self._began = self._told = 0.0
        self._busy: list[Span] = []
        self._steps_s: Mapping[str, float] = {}

    def begin(self) -> None:
        """Give it its turn."""
        self._began = time.monotonic()
        self.go_on()

    def go_on(self) -> None:
        """Let it measure more pairs after an interim look."""
        self._say(ab_process.GO)

    def leave(self) -> None:
        """Make it leave the GPU after an interim look, and wait for that."""
        self._say(ab_process.END)
        self.until_left()

    def until_left(self) -> bool:
        """Wait until it has left the GPU or ended (True), or has interim results and waits (False)."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._left, selectors.EVENT_READ)
            if not selector.select(self._seconds_left()):
                raise self._hangs()
        said = os.read(self._left, ab_process.LONGEST_WORD)
        self._busy.append((self._told, time.monotonic()))
        if said == ab_process.LOOK:
            return False
        with contextlib.suppress(ValueError):  # it ended without reporting its steps
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
        """Kill the process if it still runs; a second call does nothing."""
        if self._process.stdin is None or self._process.stdin.closed:
            return
        end_group(self._process)
        self._process.stdin.close()
        os.close(self._word)
        os.close(self._left)

    def ask(self, request: Mapping[str, Any]) -> None:
        """Send the request that it waits for; BrokenPipeError if it has ended."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")

    def _say(self, word: bytes) -> None:
        self._told = time.monotonic()
        with contextlib.suppress(BrokenPipeError):  # it has ended; its exit code says why
            os.write(self._word, word)

    def _seconds_left(self) -> float:
        return max(self._told + LONGEST_RUN_S - time.monotonic(), 0.0)

    def _hangs(self) -> SideBroken:
        reason = f"a run did not end within {LONGEST_RUN_S:.0f} s; its output is in {self._log}"
        return SideBroken(self._which, reason)


class SideProcesses:
    """The processes of one side, a context manager that kills them at its end."""

    def __init__(
        self, which: str, folder: Path, environment: Mapping[str, str], log: Path, python: str = sys.executable
    ) -> None:
        """``folder`` is their working directory; ``log`` takes their output before a run."""
        self.which, self.folder, self._python = which, folder, python
        self._environment, self._log = dict(environment), log
        open_output(self._log).close()
        self._waiting: deque[BenchProcess] = deque()
        self._asked: list[BenchProcess] = []

    def __enter__(self) -> SideProcesses:
        self._warm_up()
        return self

    def __exit__(self, *_: object) -> None:
        for run in (*self._waiting, *self._asked):
            run.end()

    def ask(self, arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> BenchProcess:
        """Start a run of ``peakgate bench`` with these arguments; its output goes to ``log``."""
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
        """Start processes until AHEAD of them wait."""
        while len(self._waiting) < AHEAD:
            their_word, word = os.pipe()
            left, their_left = os.pipe()
            with open_output(self._log, "a") as errors:
                process = subprocess.Popen(
                    [self._python, "-P", str(WARM), *PRELOAD],
                    cwd=self.folder,
                    env=self._environment | {ab_process.TOKEN_VARIABLE: f"{their_word},{their_left}"},
                    stdin=subprocess.PIPE,
                    stdout=errors,
                    stderr=errors,
                    bufsize=0,
                    pass_fds=(their_word, their_left, *inherited()),  # a run that outlives us keeps the GPU locked
                    start_new_session=True,  # Ctrl-C goes to this process only, which ends the others
                )
            os.close(their_word)
            os.close(their_left)
            self._waiting.append(BenchProcess(self.which, process, word, left, self._log))


def side_environment(folder: Path, judge: Path | None = None, python: str = sys.executable) -> dict[str, str]:
    """Environment variables of a side's processes; both sides share this process's cache of built kernels.

    With ``judge``, the folder of base's project, no Python of this side is imported: base's contract judges its cases.

    The driver's compile cache is off: NVRTC 13.0 answers from it without the compiler's log, which lists the resources.
    The side's ``pythonpath`` and the programs of its ``python``'s environment come first.
    """
    project = config.find(folder) if judge is None else None
    search = [str(path) for path in (project.pythonpath if project else ())]
    if inherited := os.environ.get("PYTHONPATH"):
        search.append(inherited)
    ours = {"PEAKGATE_CACHE": str(cache_folder()), "CUDA_CACHE_DISABLE": "1", "NO_COLOR": "1"}
    ours |= one_blas_thread(of_numpy=True)
    ours |= {config.BASE_VARIABLE: str(judge)} if judge is not None else {}
    if python != sys.executable:
        programs = Path(python).parent
        ours |= {"VIRTUAL_ENV": str(programs.parent), "PATH": f"{programs}{os.pathsep}{os.environ.get('PATH', '')}"}
    return os.environ | ours | ({"PYTHONPATH": os.pathsep.join(search)} if search else {})


def built_environments(sides: tuple[SideFolder, SideFolder], logs: Path) -> list[dict[str, str]]:
    """Run the project's own build of each side (``build_side``); the environment variables of the sides' processes."""
    environments = []
    for which, side in zip(Side, sides, strict=True):
        environments.append(side_environment(side.path, python=side.python))
        build_side(which, side.path, environments[-1], logs / f"{which}-build.log")
    return environments


def build_side(which: str, folder: Path, environment: Mapping[str, str], log: Path) -> None:
    """Run the ``build`` command of the project in ``folder``, if it has one.

    All output goes to ``log``. Raises SideBroken if the command fails or exceeds ``build_timeout_s``; it and its
    children are killed then.
    """
    project = config.find(folder)
    if project is None or project.build is None:
        return
    progress.step(f"building {which}: {project.build}")
    scratch = project.root / SCRATCH
    make_folder(scratch)
    with open_output(log) as output:
        code = run_in_group(
            ["/bin/sh", "-c", project.build],  # a command line of the project's own settings
            project.build_timeout_s,
            cwd=project.root,
            env=dict(environment) | {"TMPDIR": str(scratch)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    if code != 0:
        ended = f"exits {code}: {last_words_in(log)}"
        if code is None:
            ended = f"did not end within build_timeout_s of {project.build_timeout_s:g} s"
        raise SideBroken(which, f"its build `{project.build}` {ended} (full output: {log})")


def one_choice(folder: Path, known: Mapping[str, str]) -> dict[str, str]:
    """Environment variables that make Triton and torch.compile cache their tuning results in ``folder``.

    So all processes of both sides run the same configurations. Variables in ``known`` are left as they are.
    """
    wanted = {
        "TRITON_CACHE_AUTOTUNING": "1",
        "TRITON_CACHE_DIR": str(folder / "triton"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
    }
    return {name: value for name, value in wanted.items() if name not in known}


def refuse_foreign(which: str, path: Path) -> None:
    """PeakgateError if a side imported modules of the project from outside its tree: it measured other code."""
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
