"""The small kernels that CuPy compiles for references, compiled by several processes at once into its cache on disk.

In one process CuPy compiles one kernel after the other, a quarter of a second each, however many threads ask. Here each
process computes some of the references on small problems. What is missing afterwards CuPy compiles when it is needed.

``python -m peakgate.device.references PARENT INDEX SHARE SHARES`` is one such process; case ids are its input.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from peakgate.case import Buffer, Case, Role, Scale
from peakgate.common.cache import cupy_cache
from peakgate.common.files import write_whole
from peakgate.common.processes import end_group, end_with_parent
from peakgate.measure.data import inputs_of
from peakgate.project import catalogue

MOST_PROCESSES = 8
LONGEST_S = 60.0


@contextmanager
def compiled_ahead(cases: Sequence[Case], index: int, versions: Sequence[str]) -> Iterator[None]:
    """Beside what is done in the block, have the cases' references compiled for the GPU with this CUDA index.

    Done once for the same references and ``versions``, of what compiles them; nothing that fails here matters.
    """
    wanted = distinct(cases)
    digest = hashlib.sha256(repr((sorted(wanted), *versions)).encode()).hexdigest()[:20]
    done = cupy_cache() / f"references-{digest}"
    shares = min(MOST_PROCESSES, os.cpu_count() or 1, len(wanted))
    if shares < 2 or done.exists():
        yield
        return
    ids = "\n".join(case.id for case in wanted.values()).encode()
    processes = [_started(index, share, shares, ids) for share in range(shares)]
    try:
        yield
        codes = [process.wait(LONGEST_S) for process in processes]
        if not any(codes):
            write_whole(done, "")
    except (subprocess.TimeoutExpired, OSError):
        return
    finally:
        for process in processes:
            end_group(process)


def distinct(cases: Sequence[Case]) -> Mapping[str, Case]:
    """A case for each reference function, with its settings, and types and dimensions of what it is given."""
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
            found.setdefault(repr((case.family, function, named, given)), case)
    return found


def _started(index: int, share: int, shares: int, ids: bytes) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "peakgate.device.references", *map(str, (os.getpid(), index, share, shares))],
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


def main(parent: int, index: int, share: int, shares: int) -> None:
    """Compute this process's share of the references on their largest edge-size problems."""
    if not end_with_parent(parent):
        return
    import cupy  # noqa: PLC0415  (the process that measures imports this module without a need for it)

    cupy.cuda.Device(index).use()
    by_id = {case.id: case for case in catalogue.cases(Scale.BENCH)}
    named = [by_id[line] for line in sys.stdin.read().split() if line in by_id]
    for case in named[share::shares]:
        for problem in sorted(catalogue.probes(case), key=lambda probe: probe.buffer_bytes)[-2:]:
            reference: Any = problem.reference
            inputs = [cupy.asarray(array) for array in inputs_of(np, problem)]
            with contextlib.suppress(Exception):  # the run meets it again and reports it
                reference(cupy, inputs)
    cupy.cuda.runtime.deviceSynchronize()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
