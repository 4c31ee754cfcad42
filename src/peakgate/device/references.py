"""Compiles the kernels that CuPy needs for references in several processes, into CuPy's cache on disk.

In one process CuPy compiles one kernel after another, even with threads. Here each process takes the next reference
that no other has taken, and computes it on its largest problem. CuPy compiles kernels that are missing afterwards when
they are needed; edge-size problems need none, since they are compared on the host.

``python -m peakgate.device.references PARENT INDEX`` is one such process; it reads CONTEXT, then a folder and case ids,
one per line.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from peakgate.base import config
from peakgate.base.files import cupy_cache, scratch_folder, write_whole
from peakgate.base.processes import end_group, end_with_parent, one_blas_thread
from peakgate.device.interface import TimedLaunch
from peakgate.spec import catalogue, dtypes
from peakgate.spec.case import Buffer, Case, Role, Scale

# The driver creates the contexts of processes one after another, 0.2 s each on an H200; compiling everything takes some
# 20 s of one processor.
MOST_PROCESSES = 12

LONGEST_S = 60.0

_FEW_ELEMENTS = 64

# A line that tells a process to create its CUDA context.
CONTEXT = "context"


@contextmanager
def compiled_ahead(cases: Sequence[Case], index: int, versions: Sequence[str]) -> Iterator[Callable[[], bool]]:
    """Compile the cases' references for the GPU with this CUDA index in the background of a ``with`` block.

    Yields a function that tells whether compilation is still running; the end of the block waits for it. Skipped if it
    was done for the same references and ``versions`` of the compilers. Errors are ignored: CuPy compiles later.
    """
    marks = {
        cupy_cache() / f"reference-{hashlib.sha256(repr((key, *versions)).encode()).hexdigest()[:20]}": case
        for key, case in distinct(cases).items()
    }
    wanted = {mark: case for mark, case in marks.items() if not mark.exists()}
    count = min(MOST_PROCESSES, os.cpu_count() or 1, len(wanted))
    if count < 2:
        end()
        none = cupy_cache() / "reference-none"
        if not none.exists():
            write_whole(none, "")  # for `begin`
        yield lambda: False
        return
    ids = "\n".join(case.id for case in different_first(wanted.values()))
    _begun.extend(_started(index) for _ in range(0 if _begun else count))
    with scratch_folder("references") as claims:
        for process in _begun:
            _tell(process, f"{CONTEXT}\n{claims}\n{ids}", last=True)
        try:
            until = time.monotonic() + LONGEST_S
            yield lambda: time.monotonic() < until and any(process.poll() is None for process in _begun)
            codes = [process.wait(LONGEST_S) for process in _begun]
            if not any(codes):
                for mark in wanted:
                    write_whole(mark, "")
        except (subprocess.TimeoutExpired, OSError):
            return
        finally:
            end()


_begun: list[subprocess.Popen[bytes]] = []


def begin(index: int) -> None:
    """Start the processes for this GPU early, before the cases are known, if the cache is empty."""
    if not any(cupy_cache().glob("reference-*")):
        _begun.extend(_started(index) for _ in range(min(MOST_PROCESSES, os.cpu_count() or 1)))


def make_contexts() -> None:
    """Let the started processes create CUDA contexts: only after this process, whose context may be the only one."""
    for process in _begun:
        _tell(process, f"{CONTEXT}\n")


def end() -> None:
    """End the started processes."""
    while _begun:
        end_group(_begun.pop())


def distinct(cases: Sequence[Case]) -> Mapping[str, Case]:
    """The largest case for each reference function with its settings and the types and dimensions of its inputs."""
    found: dict[str, Case] = {}
    for case in cases:
        if callable(case.reference):
            settings: Mapping[str, Any] = getattr(_written(case), "keywords", {})
            # Integers are sizes; other settings select kernels. Addresses of functions are removed.
            named = [
                name if isinstance(value, int) else f"{name}={re.sub(' at 0x[0-9a-f]+', '', str(value))}"
                for name, value in sorted(settings.items())
            ]
            key = repr((*_function(case), named))
            found[key] = max(found.get(key, case), case, key=lambda each: each.buffer_bytes)
    return found


def different_first(cases: Iterable[Case]) -> list[Case]:
    """The cases, first one of each reference function, so that processes compile different kernels at the same time."""
    met: Counter[Any] = Counter()
    turns = []
    for case in cases:
        turns.append((met[_function(case)], case))
        met[_function(case)] += 1
    return [case for _, case in sorted(turns, key=lambda turn: turn[0])]


def _function(case: Case) -> tuple[str, str, tuple[tuple[str, str, int], ...]]:
    """The case's reference without its settings, and the types and dimensions of its inputs."""
    given = [
        (buffer.role.name, buffer.dtype, len(buffer.shape))
        for buffer in case.arguments
        if isinstance(buffer, Buffer) and buffer.role in (Role.IN, Role.INOUT)
    ]
    reference = _written(case)
    name = getattr(getattr(reference, "func", reference), "__qualname__", "")
    return case.family, name, tuple(given)


def _written(case: Case) -> Any:
    """The case's reference function as its family wrote it."""
    reference: Any = case.reference
    return inspect.unwrap(reference)


def _started(index: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "peakgate.device.references", str(os.getpid()), str(index)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd=os.environ.get(config.BASE_VARIABLE),  # with a base its references, which judge the change
        env=os.environ | one_blas_thread(),
    )


def _tell(process: subprocess.Popen[bytes], what: str, *, last: bool = False) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(what.encode())
        process.stdin.flush()
    if last:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()


def main(parent: int, index: int) -> None:
    """Compile references one after another; a file in a folder claims each for one process."""
    if not end_with_parent(parent):
        return
    import cupy  # noqa: PLC0415  (the measuring process imports this module without it)

    from peakgate.device import elements  # noqa: PLC0415  (with it)
    from peakgate.device.stream import SampleStream  # noqa: PLC0415
    from peakgate.measure.refill import ROUNDS  # noqa: PLC0415

    by_id = {case.id: case for case in catalogue.cases(Scale.BENCH)}
    cupy.cuda.runtime.getDeviceCount()  # initializes the driver, without a context
    cupy.cuda.nvrtc.getVersion()  # loads the library
    if not sys.stdin.readline():
        return
    cupy.cuda.Device(index).use()
    cupy.cuda.runtime.free(0)
    asked = [line for line in sys.stdin.read().splitlines() if line != CONTEXT]
    if not asked:
        return
    claims, ids = Path(asked[0]), asked[1:]
    if _claimed(claims, "stream"):
        SampleStream(0, 1)
    if _claimed(claims, "contents"):
        few = cupy.zeros(_FEW_ELEMENTS)
        elements.refill([(few, few, 0)])
        elements.change([(few, few, 0)], np.zeros(ROUNDS, np.uint32))
        elements.first_difference(few, few)
    for dtype in ("bfloat16", "float8_e4m3fn"):  # of the operands of roofs
        if _claimed(claims, f"encoded {dtype}"):
            dtypes.encoded(cupy, cupy.zeros(_FEW_ELEMENTS, "float32"), dtype)
    listed = [by_id[case_id] for case_id in ids if case_id in by_id]
    for case in listed:
        if _claimed(claims, case.id):
            with contextlib.suppress(Exception):  # the run reports it
                _compute(cupy, case, claims)
    cupy.cuda.runtime.deviceSynchronize()
    os._exit(0)  # the driver frees the GPU's memory faster than Python


def _compute(cupy: Any, problem: Case, claims: Path) -> None:
    """Evaluate and compare a reference as in a run, on arrays of any content, to compile its kernels.

    Magnitudes that need further evaluations are not computed: they take many times the memory, and are seldom needed.
    """
    from peakgate.device import elements  # noqa: PLC0415  (it imports CuPy)
    from peakgate.device.expected import expected  # noqa: PLC0415  (with it)
    from peakgate.judge.correctness import bound_of  # noqa: PLC0415
    from peakgate.measure.data import input_array  # noqa: PLC0415
    from peakgate.measure.refill import renewable  # noqa: PLC0415

    for buffer in problem.inputs:
        if renewable(buffer) and _claimed(claims, f"random {buffer.dtype} {buffer.data}"):
            input_array(cupy, replace(buffer, shape=(_FEW_ELEMENTS,)), 0, elements.random_array)
    launch = TimedLaunch(problem, "compiled ahead", [cupy.zeros(*buffer.storage) for buffer in problem.inputs], ())
    wanted = expected(cupy, launch, _no_kernel)
    weights = wanted.magnitudes[0]() if problem.scale is not None else [None] * len(wanted.values)
    for buffer, values, magnitude in zip(problem.outputs, wanted.values, weights, strict=True):
        if _claimed(claims, f"compared {buffer.dtype} {values.dtype}"):
            output = cupy.zeros(*buffer.storage)
            output.view(np.uint8).fill(1)
            bound = bound_of(problem.largest_tolerance, buffer.dtype, values.dtype.name)
            elements.compared(dtypes.decoded(cupy, output, buffer.dtype), values, bound, magnitude)


def _no_kernel(case: Case) -> NoReturn:
    """Never called: a reference that is a function needs no reference kernel."""
    raise AssertionError(case.id)


def _claimed(claims: Path, name: str) -> bool:
    """Whether this process is the first to claim ``name``."""
    try:
        (claims / hashlib.sha256(name.encode()).hexdigest()).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
