"""``python -m peakgate.run.identity``: what each case of a project is, without running a kernel on a GPU.

The project's families are imported by another process (``listing``): a change could say here what it likes.

Prints one JSON object by case id, for the GPU that is there or the architecture named with ``--capability 9.0``:

- ``{"code": ..., "contract": ...}``. ``code`` is the fingerprint of the machine code, null where the kernel does not
  compile and where there is none: a case of the device's own operations has ``operation`` besides, its name, and
  ``library``, what does its work and the version of that; a benchmark test has ``operation`` alone: nothing says
  whether it changed. ``contract`` is a digest of the rest: launch, macros, argument values, input recipe, work,
  tolerance, and the reference's output on the edge-size problems. A case whose code, or library, and contract are
  equal on two commits cannot differ. Of a case that its family does not describe ``code`` is null and ``contract``
  empty; all that a family does not describe, and whose ids are not known, is ``family.family.py``.
- with ``--terms``, what it promises, without compiling: the work it claims, its tolerance, who is asked to run it, its
  arguments, their input data and what its reference expects. A change of any of them can turn a failing kernel into a
  passing one; a change of the kernel itself touches none.
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
from peakgate.build.cubin import BuildError, cubin
from peakgate.build.sources import read_sources
from peakgate.case import Buffer, Case, Scale, Tier
from peakgate.common.errors import PeakgateError, refused
from peakgate.device import driver
from peakgate.measure.data import inputs_of
from peakgate.project import config
from peakgate.run import listing
from peakgate.run.inputs import file_digest
from peakgate.run.listing import Listed
from peakgate.verdict import ExitCode

Identity = dict[str, Any]
UNKNOWN: Identity = {"code": None, "contract": ""}
"""Of a case that is not described: a run says why."""

DIGITS = 12


def identities(listed: Sequence[Listed], capability: tuple[int, int]) -> dict[str, Identity]:
    """Case id to identity, of those of the cases that an architecture can run.

    One whose edge-size problems or reference fail has neither code nor contract: nothing can show what it is.
    """
    runnable = [each for each in listed if each.case.stage.min_capability <= capability]

    def code(case: Case) -> Identity:
        if case.stage.operation is not None:
            return {
                "code": None,
                "operation": case.stage.operation,
                "library": driver.library_behind(case.stage.operation),
            }
        try:
            return {"code": cubin(case.stage, case.defines, capability).fingerprint}
        except BuildError:
            return {"code": None}

    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        codes = pool.map(code, [each.case for each in runnable])
        digests = _EdgeDigests()
        contracts = [_contract_of(each, digests) for each in runnable]  # while other processes compile
        return {
            each.case.id: UNKNOWN if agreed is None else made | {"contract": agreed}
            for each, made, agreed in zip(runnable, codes, contracts, strict=True)
        }


def _contract_of(listed: Listed, digests: _EdgeDigests) -> str | None:
    """The contract of a case; None where the family's own functions fail."""
    try:
        digest = digests.of(listed)
    except Exception:  # a run reports it, with its place
        return None
    launched = [(probe.launch, probe.sequence, probe.arguments) for probe in listed.probes]
    return contract(listed.case, repr(launched) + digest)


def contract(case: Case, expected: str) -> str:
    """A digest of all that decides a case's figures and verdict besides its machine code.

    ``expected`` stands for its reference's output on the edge-size problems, and for how these are launched.
    """
    bound = (case.tolerance, case.atol, case.rtol)
    reported = (case.launch, case.defines, case.arguments, case.work, bound, case.dtype, case.roof, case.tier)
    flags = (case.stage.operation, case.stage.min_capability, case.stage.host_bound)
    # Edge-size problems may be none: then only these say what is expected.
    own = (case.sequence, saved_files(case), kernel_text(case))
    return hashlib.sha256(repr((reported, flags, expected, own)).encode()).hexdigest()[:16]


def terms() -> dict[str, dict[str, Any]]:
    """Case id to terms, of every case of the project, whatever its tier."""
    listed, refused = listing.listed(config.current().root, Scale.BENCH)
    for each in refused:
        raise PeakgateError(each.reason)
    digests = _EdgeDigests()
    return {case_id: _terms_of(each.case, each.probes, digests.of(each)) for case_id, each in listed.items()}


class _EdgeDigests:
    """The digest of each build's edge-size problems, made once."""

    def __init__(self) -> None:
        self._made: dict[Any, str] = {}

    def of(self, listed: Listed) -> str:
        """That of a case's build."""
        key = listed.case.build, tuple(problem.size for problem in listed.probes)
        if key not in self._made:
            self._made[key] = _digest_of(listed.probes)
        return self._made[key]


def _digest_of(problems: Iterable[Case]) -> str:
    """A digest of problems: the size of each and what is expected of it.

    Of a reference function that is its output, of saved arrays the files, of a reference kernel its source and
    launches.
    """
    digest = hashlib.sha256()
    for problem in problems:
        digest.update(repr((problem.size, problem.tolerance, problem.atol, problem.rtol)).encode())
        digest.update(saved_files(problem).encode() + kernel_text(problem).encode())
        for output in (*_outputs(problem), *_magnitudes(problem)):
            array = np.ascontiguousarray(output)
            digest.update(repr((array.shape, array.dtype.str)).encode() + array.tobytes())
    return digest.hexdigest()


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


def _magnitudes(problem: Case) -> Sequence[Any]:
    """What the family's ``scale`` gives, where it has one."""
    given = problem.scale(np, inputs_of(np, problem)) if problem.scale else ()
    return [each for each in given if each is not None]


def _terms_of(case: Case, edge_problems: Sequence[Case], expected: str) -> dict[str, Any]:
    text = kernel_text(case)
    arguments = repr([argument for argument in case.arguments if isinstance(argument, Buffer)])
    return {
        "bytes": case.work.bytes,
        "flops": case.work.flops,
        "peak_tflops": "default" if case.work.peak_tflops is None else case.work.peak_tflops,
        "tolerance": _tolerance(case),
        "dtype": case.dtype,
        "roof": case.roof,
        "tier": case.tier.value,
        "min_capability": ".".join(map(str, case.stage.min_capability)),
        "host_bound": case.stage.host_bound,
        "operation": case.stage.operation or "none",
        "buffers": hashlib.sha256(arguments.encode()).hexdigest()[:DIGITS],
        "input_data": ", ".join(map(_recipe, case.inputs)) or "none",
        "edge_problems": len(edge_problems),
        "reference": expected[:DIGITS],
        "saved": saved_files(case) or "none",
        "reference_kernel": hashlib.sha256(text.encode()).hexdigest()[:DIGITS] if text else "none",
    }


def _tolerance(case: Case) -> float | str:
    """How far an output may be off, in one value."""
    parts = case.tolerance if isinstance(case.tolerance, tuple) else (case.tolerance,)
    bounds = [*(f"{name}={value:g}" for name, value in (("atol", case.atol), ("rtol", case.rtol)) if value)]
    return parts[0] if len(parts) == 1 and not bounds else " ".join([*(f"{part:g}" for part in parts), *bounds])


def _recipe(buffer: Buffer) -> str:
    """How an input is filled; what a function makes shows in the reference's outputs only."""
    if buffer.data is None:
        return "random"
    if isinstance(buffer.data, Path):
        return buffer.data.name
    return "a function" if callable(buffer.data) else repr(buffer.data)


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
    known, _ = listing.listed(config.current().root, Scale.BENCH)
    return [known[name].case for name in path.read_text(encoding="utf-8").split() if name in known]


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
        found = terms() if options.terms else _asked_for(options)
    except PeakgateError as error:
        return refused(error)
    print(json.dumps(found, indent=1))
    return ExitCode.OK


def _asked_for(options: argparse.Namespace) -> dict[str, Any]:
    capability = parse_capability(options.capability)
    if options.built:
        return {case.id: built(case, capability) for case in listed_in(options.built)}
    listed, refused_cases = listing.listed(config.current().root, Scale.BENCH)
    gate = Tier(options.tier) is Tier.GATE
    cases = {case_id: each for case_id, each in listed.items() if not gate or each.case.tier is Tier.GATE}
    found = identities([each for case_id, each in cases.items() if options.case in ("", case_id)], capability)
    found |= {each.case.id: UNKNOWN for each in refused_cases if options.case in ("", each.case.id)}
    if options.case not in found and config.current().benchmarks:
        found |= _benchmark_tests(cases, options.case)
    return found


def _benchmark_tests(kernels: Collection[str], wanted: str) -> dict[str, Identity]:
    """The project's benchmark tests, or one of them: no machine code is known, so they are always measured."""
    from peakgate.run.benchmark_tests import collected  # noqa: PLC0415  (pytest takes long to import)
    from peakgate.run.marker import OPERATION  # noqa: PLC0415

    called = collected(config.current(), kernels)
    return {
        case: {"code": None, "operation": OPERATION, "contract": OPERATION} for case in called if wanted in ("", case)
    }


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
