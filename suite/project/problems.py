"""Which problems run under the sanitizer: small ones, because it slows a kernel down a hundredfold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from peakgate.case import Case, Family, Scale
from peakgate.common.errors import PeakgateError
from peakgate.project import catalogue, config


def problems(text: str = "", listed: Sequence[Family] | None = None) -> list[Case]:
    """Every small case that has a kernel of its own and ``text`` in its id, with its probes; equal launches once.

    Operations of the device (copies, a vendor's library) are left out: they are not ours to check. PeakgateError
    when no case is left, or no family is given and there is no project.
    """
    chosen = [
        case
        for case in catalogue.cases(Scale.SMALL, listed=listed)
        if case.stage.source is not None and text in case.id
    ]
    if not chosen:
        if listed is None and not text:
            project = config.required()
            raise PeakgateError(
                f"{config.near(project.kernels)}: no family with a kernel and a small problem there; "
                "`peakgate init` writes an example, benchmark tests are for `peakgate bench`"
            )
        raise PeakgateError(f"-k {text!r}: {_why_none(text)}")
    distinct: dict[Any, Case] = {}
    for case in chosen:
        for problem in (case, *catalogue.probes(case, listed)):
            key = (problem.family, problem.stage, problem.defines, problem.launch, problem.arguments)
            distinct.setdefault(key, problem)
    return list(distinct.values())


def without_problems(listed: Sequence[Family] | None = None) -> list[str]:
    """The kernels that are measured and that no small case runs: nothing checks them without a GPU."""
    small = {case.stage for case in catalogue.cases(Scale.SMALL, listed=listed)}
    measured = catalogue.cases(Scale.BENCH, listed=listed)
    left = [case for case in measured if case.stage.source is not None and case.stage not in small]
    return list(dict.fromkeys(map(kernel_name, left)))


def _why_none(text: str) -> str:
    """A kernel file that no family lists yet is the likely slip."""
    family, _, stage = text.partition(".")
    project = config.current()
    file = project.kernels / family / f"{stage}.cu"
    if stage and file.is_file():
        return f"no stage is built from {config.near(file)}; add its entry to {config.near(file.parent)}/family.py"
    return "no small case with a kernel has this in its id; try a family's name"


def kernel_name(case: Case) -> str:
    """A kernel as reports name it, ``family.stage``."""
    return f"{case.family}.{case.stage.name}"
