"""NVRTC in processes of its own, under limits of time and memory: inside ours it could neither be ended nor bounded.

A process compiles one source after another and ends with the one that started it. ``python -m
peakgate.build.nvrtc_process`` is what is started: it reads requests and writes answers, each a length and JSON.
"""

from __future__ import annotations

import atexit
import base64
import contextlib
import json
import os
import queue
import resource
import selectors
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

from peakgate.build import bounded, nvrtc
from peakgate.build.nvrtc import CompilationFailed, Compiled
from peakgate.core.files import cache_folder

MOST_IDLE = os.cpu_count() or 1
"""As many as compile at once; ``end_all`` ends them when nothing is left to compile."""
MOST_BEGUN = 8
"""As many start before the process that measures has imported; more would take the processors from it."""

NICE = 19
"""The process that measures, and what is compiled because it is wanted now, come first."""

_LENGTH = struct.Struct("<Q")

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
    return Compiled(base64.b64decode(answer["machine_code"]), answer["log"], answer["lowered"], answer["bounds"])


class _Worker:
    """A process that compiles, and the two pipes to it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "peakgate.build.nvrtc_process", str(bounded.CPU_S)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        with contextlib.suppress(ProcessLookupError):
            os.setpriority(os.PRIO_PROCESS, self._process.pid, NICE)

    def ask(self, request: bytes) -> dict[str, Any] | None:
        """The answer; None where the process exceeded a limit or crashed, after which it is gone."""
        answer: bytes | None = None
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(_LENGTH.pack(len(request)) + request)
            self._process.stdin.flush()
            answer = self._read(time.monotonic() + bounded.WALL_S)
        except BrokenPipeError:
            pass
        finally:
            if answer is None:
                self.end()
        found: dict[str, Any] | None = None if answer is None else json.loads(answer)
        return found

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _read(self, until: float) -> bytes | None:
        assert self._process.stdout is not None
        data = b""
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while len(data) < _LENGTH.size or len(data) < _LENGTH.size + _LENGTH.unpack_from(data)[0]:
                if not selector.select(max(until - time.monotonic(), 0.0)):
                    return None
                more = os.read(self._process.stdout.fileno(), 1 << 20)
                if not more:
                    return None
                data += more
        return data[_LENGTH.size :]


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


def main() -> None:
    """Compile what is asked for until nobody asks any more, or our parent is gone."""
    resource.setrlimit(resource.RLIMIT_AS, (bounded.MEMORY_BYTES, bounded.MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # For all that it compiles. The hard limit too, since NVRTC lifts the soft one.
    cpu_s = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the compiler prints is no answer
    requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(sys.stdin.buffer, requests), daemon=True).start()
    with contextlib.suppress(CompilationFailed):
        nvrtc.version()  # loads the library, before there is anything to compile
    while True:
        found = _answer(json.loads(requests.get()))
        answer = json.dumps({**found, "used_s": time.process_time()}).encode()
        answers.write(_LENGTH.pack(len(answer)) + answer)
        answers.flush()


def _receive(stream: BinaryIO, requests: queue.SimpleQueue[bytes]) -> None:
    """Take requests while another thread compiles; the end of the stream ends this process at once."""
    while header := stream.read(_LENGTH.size):
        requests.put(stream.read(_LENGTH.unpack(header)[0]))
    os._exit(0)


def _answer(request: Sequence[Any]) -> dict[str, Any]:
    source, name, options, headers, names = request
    try:
        compiled = nvrtc.compile_to_cubin(source, name, options, headers, names)
    except CompilationFailed as error:
        return {"failed": str(error)}
    code = base64.b64encode(compiled.machine_code).decode()
    return {"machine_code": code, "log": compiled.log, "lowered": compiled.lowered, "bounds": compiled.bounds}


if __name__ == "__main__":
    main()
