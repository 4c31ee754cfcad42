"""``python -m peakgate.run.identity``: what each case of a project is, without running a kernel on a GPU.

Prints one JSON object, case id to ``{"code": ..., "contract": ...}``, for the GPU that is there or the architecture
named with ``--capability 9.0``. ``code`` is the fingerprint of the machine code, null where the kernel does not
compile. A case of the device's own operations has ``operation`` instead, its name, and ``library``, what does its work
and the version of that; a benchmark test has ``operation`` alone: nothing says whether it changed. ``contract`` is a
digest of the rest: launch, macros, argument values, input recipe, work, tolerance, and the reference's output on the
edge-size problems. A case whose code, or library, and contract are equal on two commits cannot differ.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from peakgate.build.cubin import BuildError, cubin
from peakgate.case import Case, Scale, Tier
from peakgate.common.errors import PeakgateError, refused
from peakgate.device import driver
from peakgate.device.libraries import library_behind
from peakgate.project import catalogue, config
from peakgate.run.contract import digest_of, kernel_text, saved_files
from peakgate.verdict import ExitCode

Identity = dict[str, Any]


def identities(cases: Sequence[Case], capability: tuple[int, int]) -> dict[str, Identity]:
    """Case id to identity, of the cases that an architecture can run."""
    runnable = [case for case in cases if case.stage.min_capability <= capability]

    def code(case: Case) -> Identity:
        if case.stage.operation is not None:
            return {"operation": case.stage.operation, "library": library_behind(case.stage.operation)}
        try:
            return {"code": cubin(case.stage, case.defines, capability).fingerprint}
        except BuildError:
            return {"code": None}

    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        codes = pool.map(code, runnable)
        digests = _ReferenceDigests()
        contracts = [contract(case, digests.of(case)) for case in runnable]  # while other processes compile
        return {
            case.id: built | {"contract": agreed}
            for case, built, agreed in zip(runnable, codes, contracts, strict=True)
        }


def contract(case: Case, expected: str) -> str:
    """A digest of all that decides a case's figures and verdict besides its machine code.

    ``expected`` is the digest of its reference's output on the edge-size problems.
    """
    reported = (case.launch, case.defines, case.arguments, case.work, case.tolerance, case.dtype, case.roof, case.tier)
    flags = (case.stage.operation, case.stage.min_capability, case.stage.host_bound)
    # Edge-size problems may be none: then only these say what is expected.
    own = (case.sequence, saved_files(case), kernel_text(case))
    return hashlib.sha256(repr((reported, flags, expected, own)).encode()).hexdigest()[:16]


class _ReferenceDigests:
    """Digests of references' outputs on edge-size problems; each build's are computed once."""

    def __init__(self) -> None:
        self._known: dict[Any, str] = {}

    def of(self, case: Case) -> str:
        key = (case.stage, case.defines, case.block, case.launch.shared_bytes)
        if key not in self._known:
            probes = catalogue.probes(case)
            launched = [(probe.launch, probe.sequence, probe.arguments) for probe in probes]
            self._known[key] = repr(launched) + digest_of(probes)[1]
        return self._known[key]


def main(arguments: list[str]) -> int:
    """Print the identities; exit 2 on bad input."""
    parser = argparse.ArgumentParser(prog="python -m peakgate.run.identity", description=__doc__)
    parser.add_argument("--tier", default="gate", choices=[tier.value for tier in Tier])
    parser.add_argument("--capability", default=None, help="compute capability, 9.0 say (default: of the first GPU)")
    parser.add_argument("--case", default="", metavar="ID", help="only this case; without it, no case is no error")
    options = parser.parse_args(arguments)
    try:
        capability = parse_capability(options.capability)
        cases = catalogue.cases(Scale.BENCH, Tier(options.tier))
        found = identities([case for case in cases if options.case in ("", case.id)], capability)
        if options.case not in found and config.current().benchmarks:
            found |= _benchmark_tests([case.id for case in cases], options.case)
    except PeakgateError as error:
        return refused(error)
    print(json.dumps(found, indent=1))
    return ExitCode.OK


def _benchmark_tests(kernels: Collection[str], wanted: str) -> dict[str, Identity]:
    """The project's benchmark tests, or one of them: no machine code is known, so they are always measured."""
    from peakgate.run.benchmark_tests import collected  # noqa: PLC0415  (pytest takes long to import)
    from peakgate.run.given import OPERATION  # noqa: PLC0415

    called = collected(config.current(), kernels)
    return {case: {"operation": OPERATION, "contract": OPERATION} for case in called if wanted in ("", case)}


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
