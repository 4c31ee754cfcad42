"""NVRTC in processes of its own, under limits of time and memory: inside ours it could neither be ended nor bounded.

A process compiles one source after another and ends with the one that started it. ``python -m
peakgate.build.nvrtc_process`` is what is started: it takes requests and gives answers as JSON, machine code beside it.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import queue
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

from peakgate.build import bounded, nvrtc
from peakgate.build.nvrtc import CompilationFailed, Compiled
from peakgate.core.files import cache_folder

MOST_IDLE = os.cpu_count() or 1
"""As many as compile at once; ``end_all`` ends them when nothing is left to compile."""
MOST_BEGUN = 8
"""As many start before the process that measures has imported; more would take the processors from it."""

NICE = 19
"""The process that measures, and what is compiled because it is wanted now, come first."""

_idle: list[_Worker] = []
_exceeded: set[str] = set()
_lock = threading.Lock()


def compile_to_cubin(
    source: str, name: str, options: Sequence[str], headers: Mapping[str, str], names: Sequence[str]
) -> Compiled:
    """As ``nvrtc.compile_to_cubin``, in a process that may not exceed the limits of ``bounded``.

    A source that did is not compiled a second time. Any number of threads may call this at once.
    """
    request = json.dumps([source, name, list(options), dict(headers), list(names)])
    if request in _exceeded:
        raise CompilationFailed(bounded.why())
    with _lock:
        worker = _idle.pop() if _idle else None
    worker = worker or _Worker()
    answer = worker.ask(request.encode())
    if answer is None:
        _exceeded.add(request)
        raise CompilationFailed(bounded.why())
    with _lock:
        keep = len(_idle) < MOST_IDLE and answer["used_s"] < bounded.CPU_S / 4
        if keep:
            _idle.append(worker)
    if not keep:
        worker.end()
    if "failed" in answer:
        raise CompilationFailed(answer["failed"])
    return Compiled(answer["machine_code"], answer["log"], answer["lowered"], answer["bounds"])


class _Worker:
    """A process that compiles, and the connection to it."""

    def __init__(self) -> None:
        self._connection, theirs = Pipe()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "peakgate.build.nvrtc_process", str(theirs.fileno()), str(bounded.CPU_S)],
                stdin=subprocess.DEVNULL,
                stdout=sys.__stderr__,  # what the compiler prints
                pass_fds=(theirs.fileno(),),
            )
        with contextlib.suppress(ProcessLookupError):
            os.setpriority(os.PRIO_PROCESS, self._process.pid, NICE)

    def ask(self, request: bytes) -> dict[str, Any] | None:
        """The answer; None where the process exceeded a limit or crashed, after which it is gone."""
        found: dict[str, Any] | None = None
        try:
            self._connection.send_bytes(request)
            if self._connection.poll(bounded.WALL_S):
                found = json.loads(self._connection.recv_bytes())
                found["machine_code"] = self._connection.recv_bytes()
        except (EOFError, OSError):
            found = None
        finally:
            if found is None:
                self.end()
        return found

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._connection.close()


def begin() -> None:
    """Start some before it is known what to compile, where no kernel is in the cache yet."""
    if not (cache_folder() / "cubin").exists():
        with _lock:
            _idle.extend(_Worker() for _ in range(min(MOST_BEGUN, MOST_IDLE) - len(_idle)))


@atexit.register
def end_all() -> None:
    """End the processes that wait for work; the next source starts new ones."""
    with _lock:
        while _idle:
            _idle.pop().end()


def main(descriptor: int, cpu_s: int) -> None:
    """Compile what is asked for until nobody asks any more, or our parent is gone."""
    resource.setrlimit(resource.RLIMIT_AS, (bounded.MEMORY_BYTES, bounded.MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # For all that it compiles. The hard limit too, since NVRTC lifts the soft one.
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
    requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    with Connection(descriptor) as connection:
        threading.Thread(target=_receive, args=(connection, requests), daemon=True).start()
        with contextlib.suppress(CompilationFailed):
            nvrtc.version()  # loads the library, before there is anything to compile
        while True:
            found, machine_code = _answer(json.loads(requests.get()))
            connection.send_bytes(json.dumps({**found, "used_s": time.process_time()}).encode())
            connection.send_bytes(machine_code)


def _receive(connection: Connection, requests: queue.SimpleQueue[bytes]) -> None:
    """Take requests while another thread compiles; the end of the connection ends this process at once."""
    with contextlib.suppress(EOFError, OSError):
        while True:
            requests.put(connection.recv_bytes())
    os._exit(0)


def _answer(request: Sequence[Any]) -> tuple[dict[str, Any], bytes]:
    source, name, options, headers, names = request
    try:
        compiled = nvrtc.compile_to_cubin(source, name, options, headers, names)
    except CompilationFailed as error:
        return {"failed": str(error)}, b""
    found = {"log": compiled.log, "lowered": compiled.lowered, "bounds": compiled.bounds}
    return found, compiled.machine_code


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
