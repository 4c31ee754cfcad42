"""NVIDIA's run-time compiler, called through NVIDIA's Python bindings; works on a machine without a GPU.

It runs in separate processes with time and memory limits, since a compilation in this process could be neither
stopped nor limited. A compiler process, ``python -m peakgate.compile.nvrtc``, compiles one source after another and
ends with its parent. Requests and answers are JSON, each answer followed by the machine code.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import math
import os
import queue
import re
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

from cuda.bindings import nvrtc as bindings

from peakgate.base.files import cache_folder
from peakgate.base.processes import limit_to
from peakgate_emulator.bounded import MEMORY_BYTES, wall_limit_s, why

MOST_IDLE = os.cpu_count() or 1  # as many as compile at once; `end_all` ends them when nothing is left to compile
MOST_BEGUN = 8  # started while the measuring process imports; more would take processors from it
NICE = 19  # so that the measuring process has priority

_idle: list[_CompilerProcess] = []
_exceeded: set[str] = set()
_lock = threading.Lock()

_ENTRY = re.compile(r"\.entry\s+(?P<kernel>[\w$]+)\s*(?:\((?P<parameters>[^)]*)\))?(?P<directives>[^{]*)\{")
_PARAMETER = re.compile(
    r"\.param\b(?:\s+\.align\s+\d+)?\s+\.[a-z]+(?P<bits>\d+)(?:\s+\.\w+(?:\s+\d+)?)*\s+[\w$]+(?:\[(?P<count>\d+)\])?"
)
_BOUND = re.compile(r"\.(?:maxntid|reqntid)\s+(\d+(?:\s*,\s*\d+)*)")


class CompilationFailed(Exception):
    """NVRTC rejected a source; the message is its log."""


@cache
def version() -> str:
    """NVRTC's version, ``13.0``."""
    major, minor = _checked(bindings.nvrtcVersion())
    return f"{major}.{minor}"


@dataclass(frozen=True, slots=True)
class Compiled:
    """Machine code, the compiler's log, and the lowered name of each requested name expression.

    ``bounds`` has the most threads per block that a kernel's ``__launch_bounds__`` allows, by its lowered name; kernels
    without launch bounds are left out. ``parameters`` has the bytes of each parameter of a kernel.
    """

    machine_code: bytes
    log: str
    lowered: dict[str, str]
    bounds: dict[str, int]
    parameters: dict[str, tuple[int, ...]]


def _text(program: Any, size_of: Any, fetch: Any) -> bytes:
    size = _checked(size_of(program))
    buffer = bytes(size)  # filled in place by the binding
    _checked(fetch(program, buffer))
    return buffer.rstrip(b"\0") if fetch is bindings.nvrtcGetProgramLog else buffer


def _checked(answer: tuple[Any, ...]) -> Any:
    status, *values = answer
    if status != bindings.nvrtcResult.NVRTC_SUCCESS:
        raise CompilationFailed(f"NVRTC: {status.name}")
    if not values:
        return None
    return values[0] if len(values) == 1 else tuple(values)


def compile_to_cubin(
    source: str, name: str, options: Sequence[str], headers: Mapping[str, str], names: Sequence[str]
) -> Compiled:
    """Compile CUDA C++ for a real architecture, in a compiler process. Thread-safe.

    ``headers`` has the text of each header by the name in the include. ``names`` are C++ name expressions of kernels
    and variables (``softmax<float, 256>``, ``&coefficients``), which are instantiated and whose lowered names are
    returned. CompilationFailed if NVRTC rejects the source, or if it exceeds the time or memory limit; a source that
    did is not compiled again.
    """
    request = json.dumps([source, name, list(options), dict(headers), list(names)])
    if request in _exceeded:
        raise CompilationFailed(why(_limit_s()))
    with _lock:
        worker = _idle.pop() if _idle else None
    worker = worker or _CompilerProcess()
    answer = worker.ask(request.encode())
    if answer is None:
        _exceeded.add(request)
        raise CompilationFailed(why(_limit_s()))
    with _lock:
        keep = len(_idle) < MOST_IDLE and answer["used_s"] < _limit_s() / 4
        if keep:
            _idle.append(worker)
    if not keep:
        worker.end()
    if "failed" in answer:
        raise CompilationFailed(answer["failed"])
    parameters = {kernel: tuple(sizes) for kernel, sizes in answer["parameters"].items()}
    return Compiled(answer["machine_code"], answer["log"], answer["lowered"], answer["bounds"], parameters)


def _limit_s() -> float:
    """The processor time limit of one compilation, in seconds, from the project's settings."""
    from peakgate.base import config  # noqa: PLC0415  (not needed in a compiler process)

    return config.current().compile_timeout_s


class _CompilerProcess:
    """A compiler process and the connection to it."""

    def __init__(self) -> None:
        from peakgate.base import config  # noqa: PLC0415  (as above)

        self._connection, theirs = Pipe()
        self._limit_s = _limit_s()
        with theirs:
            limit = str(math.ceil(self._limit_s))
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "peakgate.compile.nvrtc", str(theirs.fileno()), limit],
                stdin=subprocess.DEVNULL,
                stdout=sys.__stderr__,  # what the compiler prints
                pass_fds=(theirs.fileno(),),
                cwd=config.here(),  # to which folders in options are relative
            )
        with contextlib.suppress(ProcessLookupError):
            os.setpriority(os.PRIO_PROCESS, self._process.pid, NICE)

    def ask(self, request: bytes) -> dict[str, Any] | None:
        """The answer; None if the process exceeded a limit or crashed, after which it has ended."""
        found: dict[str, Any] | None = None
        try:
            self._connection.send_bytes(request)
            if self._connection.poll(wall_limit_s(self._limit_s)):
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
    """Start compiler processes ahead if the cache has no kernel yet, so that most will have to be compiled."""
    if not (cache_folder() / "cubin").exists():
        with _lock:
            _idle.extend(_CompilerProcess() for _ in range(min(MOST_BEGUN, MOST_IDLE) - len(_idle)))


@atexit.register
def end_all() -> None:
    """End the idle processes; the next source starts new ones."""
    with _lock:
        while _idle:
            _idle.pop().end()


def main(descriptor: int, cpu_s: int) -> None:
    """Answer requests until the connection is closed, as it is when the parent ends."""
    limit_to(resource.RLIMIT_AS, MEMORY_BYTES)
    limit_to(resource.RLIMIT_CORE, 0)
    # For everything this process compiles. Also sets the hard limit, since NVRTC raises the soft one.
    limit_to(resource.RLIMIT_CPU, cpu_s)
    requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    with Connection(descriptor) as connection:
        threading.Thread(target=_receive, args=(connection, requests), daemon=True).start()
        with contextlib.suppress(CompilationFailed):
            version()  # loads the library before the first request
        while True:
            try:
                found, machine_code = _compiled(*json.loads(requests.get()))
            except CompilationFailed as error:
                found, machine_code = {"failed": str(error)}, b""
            connection.send_bytes(json.dumps({**found, "used_s": time.process_time()}).encode())
            connection.send_bytes(machine_code)


def _receive(connection: Connection, requests: queue.SimpleQueue[bytes]) -> None:
    """Receive requests while another thread compiles; end this process as soon as the connection is closed."""
    with contextlib.suppress(EOFError, OSError):
        while True:
            requests.put(connection.recv_bytes())
    os._exit(0)


def _compiled(
    source: str, name: str, options: Sequence[str], headers: Mapping[str, str], names: Sequence[str]
) -> tuple[dict[str, Any], bytes]:
    """Compile in this process: the other fields of ``Compiled``, and the code; CompilationFailed if rejected.

    ``compile_to_cubin`` has the parameters.
    """
    spelled = [header.encode() for header in headers]
    texts = [text.encode() for text in headers.values()]
    program = _checked(
        bindings.nvrtcCreateProgram(source.encode(), name.encode(), len(texts), texts or None, spelled or None)
    )
    try:
        for expression in names:
            _checked(bindings.nvrtcAddNameExpression(program, expression.encode()))
        (status,) = bindings.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])
        log = _text(program, bindings.nvrtcGetProgramLogSize, bindings.nvrtcGetProgramLog).decode(errors="replace")
        if status != bindings.nvrtcResult.NVRTC_SUCCESS:
            raise CompilationFailed(log or status.name)
        lowered = {
            expression: _checked(bindings.nvrtcGetLoweredName(program, expression.encode())).decode()
            for expression in names
        }
        bounds, parameters = {}, {}
        ptx = _text(program, bindings.nvrtcGetPTXSize, bindings.nvrtcGetPTX).decode(errors="replace")
        for entry in _ENTRY.finditer(ptx):
            parameters[entry["kernel"]] = [
                int(declared["bits"]) // 8 * int(declared["count"] or 1)
                for declared in _PARAMETER.finditer(entry["parameters"] or "")
            ]
            if directive := _BOUND.search(entry["directives"]):
                bounds[entry["kernel"]] = math.prod(map(int, directive[1].split(",")))
        found = {"log": log, "lowered": lowered, "bounds": bounds, "parameters": parameters}
        return found, _text(program, bindings.nvrtcGetCUBINSize, bindings.nvrtcGetCUBIN)
    finally:
        bindings.nvrtcDestroyProgram(program)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
