"""``python -m peakgate.run.contract``: what each case of the project at hand promises, without compiling or a GPU.

Prints one JSON object, case id to its terms: the work it claims, its tolerance, who is asked to run it, its arguments,
their input data and what its reference expects. A change of any of them can turn a failing kernel into a passing one;
a change of the kernel itself touches none.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np
from peakgate.case import Buffer, Case, Role, Scale
from peakgate.common.errors import PeakgateError, refused
from peakgate.measure.data import input_array
from peakgate.project import catalogue
from peakgate.verdict import ExitCode

DIGITS = 12


def contracts() -> dict[str, dict[str, Any]]:
    """Case id to terms, of every case of the project, whatever its tier."""
    digests: dict[Any, tuple[int, str]] = {}
    found = {}
    for case in catalogue.cases(Scale.BENCH):
        build = (case.stage, case.defines, case.block, case.launch.shared_bytes)
        if build not in digests:
            digests[build] = _expected(catalogue.probes(case))
        found[case.id] = _terms(case, *digests[build])
    return found


def _terms(case: Case, edge_problems: int, expected: str) -> dict[str, Any]:
    arguments = repr([argument for argument in case.arguments if isinstance(argument, Buffer)])
    inputs = _inputs(case)
    return {
        "bytes": case.work.bytes,
        "flops": case.work.flops,
        "peak_tflops": "default" if case.work.peak_tflops is None else case.work.peak_tflops,
        "tolerance": case.tolerance,
        "dtype": case.dtype,
        "roof": case.roof,
        "tier": case.tier.value,
        "min_capability": ".".join(map(str, case.stage.min_capability)),
        "host_bound": case.stage.host_bound,
        "operation": case.stage.operation or "none",
        "buffers": hashlib.sha256(arguments.encode()).hexdigest()[:DIGITS],
        "input_data": ", ".join(_recipe(buffer) for _, buffer in inputs) or "none",
        "edge_problems": edge_problems,
        "reference": expected,
    }


def _inputs(case: Case) -> list[tuple[int, Buffer]]:
    """What the reference is given: buffers that are read, then constants, each with its seed."""
    arguments, first = enumerate(case.arguments), len(case.arguments)
    read = [(seed, each) for seed, each in arguments if isinstance(each, Buffer) and each.role in (Role.IN, Role.INOUT)]
    return read + [(first + at, buffer) for at, (_, buffer) in enumerate(case.stage.constants)]


def _recipe(buffer: Buffer) -> str:
    """How an input is filled; what a function makes shows in the reference's outputs only."""
    if buffer.data is None:
        return "random"
    return "a function" if callable(buffer.data) else repr(buffer.data)


def _expected(problems: Iterable[Case]) -> tuple[int, str]:
    """How many edge-size problems there are, and a digest of what the reference expects of them."""
    digest, count = hashlib.sha256(), 0
    for problem in problems:
        count += 1
        inputs = [input_array(np, buffer, seed) for seed, buffer in _inputs(problem)]
        digest.update(repr((problem.size, problem.tolerance)).encode())
        for expected in problem.reference(np, inputs):
            array = np.ascontiguousarray(expected)
            digest.update(repr((array.shape, array.dtype.str)).encode() + array.tobytes())
    return count, digest.hexdigest()[:DIGITS]


def main() -> int:
    """Print the contracts; exit 2 on bad input."""
    try:
        found = contracts()
    except PeakgateError as error:
        return refused(error)
    sys.stdout.write(json.dumps(found, indent=1) + "\n")
    return ExitCode.OK


if __name__ == "__main__":
    sys.exit(main())
