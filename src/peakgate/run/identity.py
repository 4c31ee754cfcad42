"""``python -m peakgate.run.identity``: prints the contract of each case of a project, without running a kernel.

The project's families are imported by another process (``listing``), so that a change cannot alter what is printed.

One JSON object by case id, for the first GPU or the architecture given by ``--capability 9.0``:

- the case's contract (``spec.contract``) without unknown terms. ``code`` is missing if the kernel does not compile,
  with the reason as ``problem``. A library call has ``operation`` and ``library``. A benchmark test has only
  ``operation``: whether it changed is unknown. A case that its family does not describe has only its ``problem``; if
  the case ids are unknown too, the entry is ``family.family.py``.
- with ``--changed FILE``, without the terms that a family's functions compute, unless a changed file may affect them.
- with ``--terms``, the same for the cases of all tiers, without compiling.
- with ``--built FILE``, the compiled code of the cases that the file lists, one id per line: cubin, entry, resources.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import structs, to_builtins

from peakgate.base import config
from peakgate.base.errors import BuildError, Code, PeakgateError, described, refused
from peakgate.base.git import tree_of
from peakgate.base.options import compute_capability
from peakgate.base.verdict import ExitCode
from peakgate.compile.cubin import cubin
from peakgate.device import driver
from peakgate.measure.data import input_array, inputs_of
from peakgate.run import listing
from peakgate.run.listing import Listed
from peakgate.run.readable import owners
from peakgate.spec.case import Buffer, Case, Role, Scale, Tier
from peakgate.spec.contract import DIGITS, Contract, digest, kernel_text, saved_files, stated, tolerance_of

MOST_DATA_BYTES = 1 << 30
"""Larger input data that a function generates at a case's own size has no digest."""
MOST_BYTES, MOST_FLOPS = 4 << 20, 1 << 28
"""A case up to this size has its reference evaluated at its own size too, which takes NumPy some 30 ms."""


def identities(
    listed: Sequence[Listed], capability: tuple[int, int], changed: Iterable[Path] | None = None
) -> dict[str, Contract]:
    """Case id to contract, for the cases that the architecture can run.

    A case whose reference fails on its edge-size problems has only its ``problem``. With ``changed`` files, only
    functions that may read one of them are called; the terms that others compute are left out.
    """
    runnable = [each for each in listed if each.case.stage.runs_on(capability)]

    def code(case: Case) -> dict[str, str | None]:
        if case.stage.operation is not None:
            return {"library": driver.library_behind(case.stage.operation)}
        try:
            return {"code": cubin(case.stage, case.defines, capability).fingerprint}
        except BuildError as error:
            return {"problem": error.message}

    builds = {each.case.build: each.case for each in runnable}
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        made = pool.map(code, builds.values())
        digests, touched = _Digests(), owners(changed, {each.folder for each in listed if each.folder})
        contracts = []  # while the pool compiles
        for each in runnable:
            try:
                contracts.append(_contract(each, digests if touched & {None, each.folder} else None))
            except Exception as error:  # of a family's functions; a run reports it, with its place
                contracts.append(Contract(problem=described(error)))
        codes = dict(zip(builds, made, strict=True))
    return {
        each.case.id: structs.replace(found, **codes[each.case.build]) if found.described else found
        for each, found in zip(runnable, contracts, strict=True)
    }


def terms(listed: Iterable[Listed]) -> dict[str, Contract]:
    """Case id to contract, without machine code and library."""
    digests = _Digests()
    return {each.case.id: _contract(each, digests) for each in listed}


def _contract(listed: Listed, digests: _Digests | None) -> Contract:
    """All terms but machine code and library; without ``digests``, none that a family's function computes."""
    case, problems = listed.case, listed.probes
    constants = [(name, repr(buffer)) for name, buffer in case.stage.constants]
    launched = [(each.launch, each.defines, each.arguments, each.sequence) for each in (case, *problems)]
    tolerances = [tolerance_of(each) for each in problems]
    found = structs.replace(
        stated(case),
        launch=digest(repr((launched, constants, case.stage.cooperative))),
        edge_problems=len(problems),
        edge_tolerance=digest(repr(tolerances)) if {*tolerances} - {tolerance_of(case)} else None,
    )
    if digests is None:
        return found
    made = [buffer for buffer in case.inputs if callable(buffer.data) and buffer.nbytes <= MOST_DATA_BYTES]
    data = _digest_or_failure(lambda: _digest_of(input_array(np, buffer, 0) for buffer in made)) if made else None
    return structs.replace(
        found,
        reference=digests.of_edges(listed),
        benchmark_data=data,
        benchmark_reference=digests.at_size(case),
    )


class _Digests:
    """Digests of what a family's functions return, computed once for all cases with equal functions and inputs."""

    def __init__(self) -> None:
        self._of_edges: dict[tuple[Case, ...], str] = {}
        self._expected: dict[Any, bytes] = {}

    def of_edges(self, listed: Listed) -> str:
        """A digest of a case's edge-size problems: the size of each and its expected output.

        For a reference function that is its output, for saved arrays the files, for a reference kernel its source and
        launches.
        """
        if listed.probes not in self._of_edges:
            found = hashlib.sha256()
            for problem in listed.probes:
                found.update(repr(problem.size).encode())
                found.update(saved_files(problem).encode() + kernel_text(problem).encode())
                found.update(self._of_expected(problem))
            self._of_edges[listed.probes] = found.hexdigest()[:DIGITS]
        return self._of_edges[listed.probes]

    def at_size(self, case: Case) -> str | None:
        """A digest of the expected output at the case's own size; None if NumPy would take long."""
        if not callable(case.reference) or case.buffer_bytes > MOST_BYTES or case.work.flops > MOST_FLOPS:
            return None
        return _digest_or_failure(lambda: self._of_expected(case))

    def _of_expected(self, problem: Case) -> bytes:
        """Digest of the reference function's outputs and of the magnitudes that the family's ``scale`` computes."""
        functions = [each for each in (problem.reference, problem.scale) if callable(each)]
        if not functions:
            return b""
        buffers = [(at, each) for at, each in enumerate(problem.arguments) if isinstance(each, Buffer)]
        given = tuple(each for each in buffers if each[1].role in (Role.IN, Role.INOUT))
        key = (*functions, given, problem.stage.constants)
        if key not in self._expected:
            inputs = inputs_of(np, problem)
            self._expected[key] = _digest_of(each for function in functions for each in function(np, inputs))
        return self._expected[key]


def _digest_of(arrays: Iterable[Any]) -> bytes:
    found = hashlib.sha256()
    for each in arrays:
        if each is not None:
            array = np.ascontiguousarray(each)
            found.update(repr((array.shape, array.dtype.str)).encode() + array.tobytes())
    return found.digest()


def _digest_or_failure(digest: Callable[[], bytes]) -> str:
    try:
        return digest().hex()[:DIGITS]
    except (Exception, MemoryError) as error:  # a run reports it
        return f"fails: {type(error).__name__}"


def built(case: Case, capability: tuple[int, int]) -> dict[str, Any]:
    """The compiled code of one case for a compute capability: cubin, entry, resources, launch; or its problem."""
    if case.stage.operation is not None:
        return {"problem": "a library call: the project has no machine code of it"}
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
    """The project's cases that a file lists, in its order; unknown ids are ignored."""
    known, _ = listing.listed(config.current().root, Scale.BENCH)
    return [known[name].case for name in path.read_text(encoding="utf-8").split() if name in known]


def main(arguments: list[str]) -> int:
    """Print the requested JSON; exit 2 on bad input."""
    parser = argparse.ArgumentParser(prog="python -m peakgate.run.identity", description=__doc__)
    parser.add_argument("--tier", default="gate", choices=[tier.value for tier in Tier])
    parser.add_argument(
        "--capability", default=None, help="compute capability, such as 9.0 (default: of the first GPU)"
    )
    parser.add_argument("--terms", action="store_true", help="the contracts of all tiers, without compiling")
    parser.add_argument(
        "--changed",
        type=Path,
        metavar="FILE",
        help="call only functions of families that may read one of the files named in FILE: paths in the repository, "
        "separated by NUL",
    )
    parser.add_argument("--built", type=Path, metavar="FILE", help="the compiled code of the cases that FILE lists")
    options = parser.parse_args(arguments)
    try:
        if options.terms:
            every, refused_cases = listing.listed(config.current().root, Scale.BENCH)
            for each in refused_cases:
                raise PeakgateError.repeated(each.reason)
            found: Mapping[str, Any] = terms(every.values())
        else:
            found = _asked_for(options)
    except PeakgateError as error:
        return refused(error)
    print(json.dumps(to_builtins(found, enc_hook=np.generic.item), indent=1))
    return ExitCode.OK


def _asked_for(options: argparse.Namespace) -> dict[str, Any]:
    capability = parse_capability(options.capability)
    if options.built:
        return {case.id: built(case, capability) for case in listed_in(options.built)}
    listed, refused_cases = listing.listed(config.current().root, Scale.BENCH, Tier(options.tier))
    changed = None if options.changed is None else files_in(options.changed)
    found = identities(list(listed.values()), capability, changed)
    found |= {each.id: Contract(problem=each.reason) for each in refused_cases}
    if config.current().benchmarks:
        from peakgate.callables.settings import OPERATION  # noqa: PLC0415
        from peakgate.run.collection import collected  # noqa: PLC0415  (pytest takes long to import)

        # Their machine code is unknown, so they are always measured.
        found |= dict.fromkeys(collected(config.current(), listed), Contract(operation=OPERATION))
    return found


def files_in(names: Path) -> list[Path]:
    """The files that ``names`` lists: paths in the repository, separated by NUL."""
    tree = tree_of(config.current().root)
    return [tree / name for name in names.read_text(encoding="utf-8", errors="surrogateescape").split("\0") if name]


def parse_capability(text: str | None) -> tuple[int, int]:
    """``9.0`` as numbers; without text, that of the first GPU. Raises PeakgateError if there is no GPU."""
    if text is None:
        found = driver.gpu_capability(0)
        if found is None:
            raise PeakgateError(
                "no usable GPU, see nvidia-smi; without one, name the target, such as --capability 9.0", Code.NO_GPU
            )
        return found
    return compute_capability(text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
