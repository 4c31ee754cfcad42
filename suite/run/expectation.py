"""What the references of some problems expect, as a digest that needs no GPU and compiles nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from peakgate.build.sources import read_sources
from peakgate.case import Case
from peakgate.measure.data import inputs_of
from peakgate.run.inputs import file_digest


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
