"""``python -m peakgate.run.contract``: what each case of the project at hand promises, without compiling or a GPU.

Prints one JSON object, case id to its terms: the work it claims, its tolerance, who is asked to run it, its arguments,
their input data and what its reference expects. A change of any of them can turn a failing kernel into a passing one;
a change of the kernel itself touches none.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from peakgate.build.sources import read_sources
from peakgate.case import Buffer, Case, Role, Scale
from peakgate.common.errors import PeakgateError, refused
from peakgate.measure.data import inputs_of
from peakgate.project import catalogue
from peakgate.run.inputs import file_digest
from peakgate.verdict import ExitCode

DIGITS = 12


def contracts() -> dict[str, dict[str, Any]]:
    """Case id to terms, of every case of the project, whatever its tier."""
    digests: dict[Any, tuple[int, str]] = {}
    found = {}
    for case in catalogue.cases(Scale.BENCH):
        build = (case.stage, case.defines, case.block, case.launch.shared_bytes)
        if build not in digests:
            digests[build] = digest_of(catalogue.probes(case))
        found[case.id] = _terms(case, *digests[build])
    return found


def digest_of(problems: Iterable[Case]) -> tuple[int, str]:
    """How many problems there are, and a digest of each: its size and what is expected of it.

    Of a reference function that is its output, of saved arrays the files, of a reference kernel its source and
    launches.
    """
    digest, count = hashlib.sha256(), 0
    for problem in problems:
        count += 1
        digest.update(repr((problem.size, problem.tolerance)).encode())
        digest.update(saved_files(problem).encode() + kernel_text(problem).encode())
        for output in _outputs(problem):
            array = np.ascontiguousarray(output)
            digest.update(repr((array.shape, array.dtype.str)).encode() + array.tobytes())
    return count, digest.hexdigest()


def saved_files(case: Case) -> str:
    """The saved arrays of a case and their contents, as one text; empty where it has none."""
    return " ".join(f"{path.name}:{file_digest(path)}" for path in case.saved)


def kernel_text(case: Case) -> str:
    """The source, options and launches of a case's reference kernel; empty where it has none."""
    if not isinstance(case.reference, Case) or case.reference.stage.source is None:
        return ""
    stage = case.reference.stage
    files = read_sources(case.reference.stage.source, stage.include)
    texts = [(file.path.name, file.text) for file in files]
    return repr((texts, stage.kernel, stage.options, case.reference.defines, case.reference.launches))


def _outputs(problem: Case) -> Sequence[Any]:
    return problem.reference(np, inputs_of(np, problem)) if callable(problem.reference) else ()


def _terms(case: Case, edge_problems: int, expected: str) -> dict[str, Any]:
    text = kernel_text(case)
    arguments = repr([argument for argument in case.arguments if isinstance(argument, Buffer)])
    read = [buffer for buffer in case.buffers if buffer.role in (Role.IN, Role.INOUT)]
    inputs = read + [buffer for _, buffer in case.stage.constants]
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
        "input_data": ", ".join(map(_recipe, inputs)) or "none",
        "edge_problems": edge_problems,
        "reference": expected[:DIGITS],
        "saved": saved_files(case) or "none",
        "reference_kernel": hashlib.sha256(text.encode()).hexdigest()[:DIGITS] if text else "none",
    }


def _recipe(buffer: Buffer) -> str:
    """How an input is filled; what a function makes shows in the reference's outputs only."""
    if buffer.data is None:
        return "random"
    if isinstance(buffer.data, Path):
        return buffer.data.name
    return "a function" if callable(buffer.data) else repr(buffer.data)


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
