"""The small kernels that CuPy compiles for references, compiled by several processes at once into its cache on disk.

In one process CuPy compiles one kernel after the other, however many threads ask. Here each process takes the next
reference that none has taken, and computes it on a small problem and on its largest. What is missing afterwards CuPy
compiles when it is needed.

``python -m peakgate.device.references PARENT INDEX CLAIMS`` is one such process; case ids are its input.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from peakgate.case import Buffer, Case, Role, Scale
from peakgate.common.cache import cupy_cache
from peakgate.common.files import write_whole
from peakgate.common.processes import end_group, end_with_parent
from peakgate.project import catalogue

MOST_PROCESSES = 12
LONGEST_S = 60.0


@contextmanager
def compiled_ahead(cases: Sequence[Case], index: int, versions: Sequence[str]) -> Iterator[None]:
    """Beside what is done in the block, have the cases' references compiled for the GPU with this CUDA index.

    Done once for the same references and ``versions``, of what compiles them; nothing that fails here matters.
    """
    marks = {_mark(key, versions): case for key, case in distinct(cases).items()}
    wanted = {mark: case for mark, case in marks.items() if not mark.exists()}
    count = min(MOST_PROCESSES, os.cpu_count() or 1, len(wanted))
    if count < 2:
        yield
        return
    ids = "\n".join(case.id for case in wanted.values()).encode()
    with tempfile.TemporaryDirectory(prefix="peakgate-references-") as claims:
        processes = [_started(index, claims, ids) for _ in range(count)]
        try:
            yield
            codes = [process.wait(LONGEST_S) for process in processes]
            if not any(codes):
                for mark in wanted:
                    write_whole(mark, "")
        except (subprocess.TimeoutExpired, OSError):
            return
        finally:
            for process in processes:
                end_group(process)


def _mark(key: str, versions: Sequence[str]) -> Path:
    """The file that says that a reference's kernels are in the cache."""
    return cupy_cache() / f"reference-{hashlib.sha256(repr((key, *versions)).encode()).hexdigest()[:20]}"


def distinct(cases: Sequence[Case]) -> Mapping[str, Case]:
    """The largest case of each reference function, with its settings, and types and dimensions of what it is given."""
    found: dict[str, Case] = {}
    for case in cases:
        if callable(case.reference):
            reference: Any = case.reference
            settings: Mapping[str, Any] = getattr(reference, "keywords", {})
            # Numbers are sizes; other settings choose between kernels.
            named = [name if isinstance(value, int) else f"{name}={value}" for name, value in sorted(settings.items())]
            given = [
                (buffer.role.name, buffer.dtype, len(buffer.shape))
                for buffer in case.arguments
                if isinstance(buffer, Buffer) and buffer.role in (Role.IN, Role.INOUT)
            ]
            function = getattr(getattr(reference, "func", reference), "__qualname__", "")
            key = repr((case.family, function, named, given))
            found[key] = max(found.get(key, case), case, key=lambda each: each.buffer_bytes)
    return found


def _started(index: int, claims: str, ids: bytes) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "peakgate.device.references", str(os.getpid()), str(index), claims],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(ids)
        process.stdin.close()
    return process


def main(parent: int, index: int, claims: Path) -> None:
    """Compile for one reference after the other that no other process has claimed, by a file in ``claims``."""
    if not end_with_parent(parent):
        return
    import cupy  # noqa: PLC0415  (the process that measures imports this module without a need for it)
    from peakgate.device.stream import SampleStream  # noqa: PLC0415

    cupy.cuda.Device(index).use()
    by_id = {case.id: case for case in catalogue.cases(Scale.BENCH)}
    if _claimed(claims, "stream"):
        SampleStream(0, 1)
    for case_id in sys.stdin.read().split():
        if case_id in by_id and _claimed(claims, hashlib.sha256(case_id.encode()).hexdigest()):
            case = by_id[case_id]
            # Arrays beyond 2 GiB, and some sizes, have kernels of their own.
            for problem in (*sorted(catalogue.probes(case), key=lambda probe: probe.buffer_bytes)[-1:], case):
                with contextlib.suppress(Exception):  # the run meets it again and reports it
                    _compute(cupy, problem)
    cupy.cuda.runtime.deviceSynchronize()


def _compute(cupy: Any, problem: Case) -> None:
    """Do with a reference what a run does, on arrays of any content."""
    from peakgate.device import elements  # noqa: PLC0415  (it imports CuPy)

    reference: Any = problem.reference
    buffers = [argument for argument in problem.arguments if isinstance(argument, Buffer)]
    given = [buffer for buffer in buffers if buffer.role in (Role.IN, Role.INOUT)]
    given += [buffer for _, buffer in problem.stage.constants]
    for buffer in given:
        elements.random_array((1,), buffer.dtype, 0)
    wanted = reference(cupy, [cupy.zeros(buffer.shape, buffer.dtype) for buffer in given])
    written = [buffer for buffer in buffers if buffer.role in (Role.OUT, Role.INOUT)]
    for buffer, expected in zip(written, wanted, strict=True):
        elements.compared(cupy.zeros(buffer.shape, buffer.dtype), expected)
        cupy.zeros(1, np.uint8).fill(1)


def _claimed(claims: Path, name: str) -> bool:
    """Whether this process is the first to ask for it."""
    try:
        (claims / name).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
