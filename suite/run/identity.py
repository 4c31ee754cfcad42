"""``python -m peakgate.run.identity``: what each case of a project is, without running a kernel on a GPU.

Prints one JSON object by case id, for the GPU that is there or the architecture named with ``--capability 9.0``:

- the case's contract (``peakgate.terms``), without the terms that are not known: ``code`` is missing where the kernel
  does not compile and where there is none. A case of the device's own operations has ``operation`` and ``library``, a
  benchmark test ``operation`` alone: nothing says whether it changed. A case that its family does not describe has no
  term; all that a family does not describe, and whose ids are not known, is ``family.family.py``.
- with ``--terms``, the same of the cases of all tiers, without compiling.
- with ``--built FILE``, what the compiler makes of the cases that the file lists, one id per line: cubin, entry,
  resources.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import structs, to_builtins
from peakgate.build.cubin import BuildError, cubin
from peakgate.case import Case, Family, Scale, Tier
from peakgate.common.errors import PeakgateError, refused
from peakgate.device import driver
from peakgate.measure.data import inputs_of
from peakgate.project import catalogue, config
from peakgate.terms import DIGITS, UNKNOWN, Contract, digest, kernel_text, saved_files, stated
from peakgate.verdict import ExitCode


def identities(
    cases: Sequence[Case], capability: tuple[int, int], families: Sequence[Family] | None = None
) -> dict[str, Contract]:
    """Case id to contract, of the cases of these families (default: the project's) that an architecture can run.

    One whose edge-size problems or reference fail is not described: nothing can show what it is.
    """
    runnable = [case for case in cases if case.stage.min_capability <= capability]

    def code(case: Case) -> dict[str, str | None]:
        if case.stage.operation is not None:
            return {"library": driver.library_behind(case.stage.operation)}
        try:
            return {"code": cubin(case.stage, case.defines, capability).fingerprint}
        except BuildError:
            return {}

    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        codes = pool.map(code, runnable)
        edges = _EdgeProblems(catalogue.families() if families is None else families)
        contracts = [_contract_or_none(case, edges) for case in runnable]  # while other processes compile
        return {
            case.id: UNKNOWN if found is None else structs.replace(found, **made)
            for case, made, found in zip(runnable, codes, contracts, strict=True)
        }


def terms(cases: Iterable[Case], families: Sequence[Family]) -> dict[str, Contract]:
    """Case id to contract, without machine code and library, of cases of these families."""
    edges = _EdgeProblems(families)
    return {case.id: _contract(case, edges) for case in cases}


def _contract(case: Case, edges: _EdgeProblems) -> Contract:
    """All terms but the machine code and the library."""
    problems, expected = edges.of(case)
    constants = [(name, repr(buffer)) for name, buffer in case.stage.constants]
    launched = [(each.launch, each.defines, each.arguments, each.sequence) for each in (case, *problems)]
    return structs.replace(
        stated(case),
        launch=digest(repr((launched, constants, case.stage.cooperative))),
        edge_problems=len(problems),
        reference=expected,
    )


def _contract_or_none(case: Case, edges: _EdgeProblems) -> Contract | None:
    """The contract; None where the family's own functions fail."""
    try:
        return _contract(case, edges)
    except Exception:  # a run reports it, with its place
        return None


class _EdgeProblems:
    """The edge-size problems of each build and their digest, made once."""

    def __init__(self, families: Sequence[Family]) -> None:
        self._families = families
        self._made: dict[Any, tuple[Sequence[Case], str]] = {}

    def of(self, case: Case) -> tuple[Sequence[Case], str]:
        """Those of a case's build."""
        if case.build not in self._made:
            problems = catalogue.probes(case, self._families)
            self._made[case.build] = problems, _digest_of(problems)
        return self._made[case.build]


def _digest_of(problems: Iterable[Case]) -> str:
    """A digest of problems: the size of each and what is expected of it.

    Of a reference function that is its output, of saved arrays the files, of a reference kernel its source and
    launches.
    """
    found = hashlib.sha256()
    for problem in problems:
        found.update(repr((problem.size, problem.tolerance, problem.atol, problem.rtol)).encode())
        found.update(saved_files(problem).encode() + kernel_text(problem).encode())
        for output in (*_outputs(problem), *_magnitudes(problem)):
            array = np.ascontiguousarray(output)
            found.update(repr((array.shape, array.dtype.str)).encode() + array.tobytes())
    return found.hexdigest()[:DIGITS]


def _outputs(problem: Case) -> Sequence[Any]:
    return problem.reference(np, inputs_of(np, problem)) if callable(problem.reference) else ()


def _magnitudes(problem: Case) -> Sequence[Any]:
    """What the family's ``scale`` gives, where it has one."""
    given = problem.scale(np, inputs_of(np, problem)) if problem.scale else ()
    return [each for each in given if each is not None]


def built(case: Case, capability: tuple[int, int]) -> dict[str, Any]:
    """One case, built for a compute capability."""
    if case.stage.operation is not None:
        return {"problem": "an operation of the device, with no machine code of the project"}
    try:
        made = cubin(case.stage, case.defines, capability)
    except BuildError as error:
        return {"problem": str(error)}
    return {
        "cubin": str(made.path),
        "entry": made.entry,
        "source": str(case.stage.source),
        "fingerprint": made.fingerprint,
        "resources": asdict(made.resources),
        "launch": asdict(case.launch),
    }


def listed_in(path: Path) -> list[Case]:
    """The project's cases that a file lists, in its order; ids of others are passed over."""
    known = {case.id: case for case in catalogue.cases(Scale.BENCH)}
    return [known[name] for name in path.read_text(encoding="utf-8").split() if name in known]


def main(arguments: list[str]) -> int:
    """Print what was asked for; exit 2 on bad input."""
    parser = argparse.ArgumentParser(prog="python -m peakgate.run.identity", description=__doc__)
    parser.add_argument("--tier", default="gate", choices=[tier.value for tier in Tier])
    parser.add_argument("--capability", default=None, help="compute capability, 9.0 say (default: of the first GPU)")
    parser.add_argument("--case", default="", metavar="ID", help="only this case; without it, no case is no error")
    parser.add_argument("--terms", action="store_true", help="what every case promises, of any tier")
    parser.add_argument("--built", type=Path, metavar="FILE", help="what the compiler makes of the cases of this file")
    options = parser.parse_args(arguments)
    try:
        found = terms(catalogue.cases(Scale.BENCH), catalogue.families()) if options.terms else _asked_for(options)
    except PeakgateError as error:
        return refused(error)
    print(json.dumps(to_builtins(found, enc_hook=_number), indent=1))
    return ExitCode.OK


def _asked_for(options: argparse.Namespace) -> dict[str, Any]:
    capability = parse_capability(options.capability)
    if options.built:
        return {case.id: built(case, capability) for case in listed_in(options.built)}
    described, gate = catalogue.described(Scale.BENCH), Tier(options.tier) is Tier.GATE
    cases = [case for case in described.cases if not gate or case.tier is Tier.GATE]
    found = identities([case for case in cases if options.case in ("", case.id)], capability, described.families)
    found |= {each.case.id: UNKNOWN for each in described.refused if options.case in ("", each.case.id)}
    if options.case not in found and config.current().benchmarks:
        found |= _benchmark_tests([case.id for case in cases], options.case)
    return found


def _number(value: Any) -> Any:
    """A number of NumPy's as Python's."""
    return value.item()


def _benchmark_tests(kernels: Collection[str], wanted: str) -> dict[str, Contract]:
    """The project's benchmark tests, or one of them: no machine code is known, so they are always measured."""
    from peakgate.run.benchmark_tests import collected  # noqa: PLC0415  (pytest takes long to import)
    from peakgate.run.marker import OPERATION  # noqa: PLC0415

    called = collected(config.current(), kernels)
    return {case: Contract(operation=OPERATION) for case in called if wanted in ("", case)}


def parse_capability(text: str | None) -> tuple[int, int]:
    """``9.0`` as numbers; without text, that of the first GPU. PeakgateError where neither is there."""
    if text is None:
        found = driver.gpu_capability(0)
        if found is None:
            raise PeakgateError("no GPU answers, see nvidia-smi; without one, name the target: --capability 9.0 say")
        return found
    major, dot, minor = text.partition(".")
    if not (dot and major.isdigit() and minor.isdigit()):
        raise PeakgateError(f"--capability {text!r}: expected two numbers and a dot, 9.0 say")
    return int(major), int(minor)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
