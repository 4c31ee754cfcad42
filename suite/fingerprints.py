"""``python -m suite.fingerprints``: the machine code of every case, without running any.

Prints one JSON object, case id to fingerprint, for the GPU that is there or the architecture named with
``--capability 9.0``. Cases of the device's own operations have no machine code of ours and are left out. Two commits
whose fingerprints of a case are equal cannot differ in it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor

from suite import catalogue
from suite.build import BuildError, cubin
from suite.case import Case, Scale, Tier
from suite.device import driver
from suite.errors import PeakgateError, refused
from suite.verdict import ExitCode


def fingerprints(cases: list[Case], capability: tuple[int, int]) -> dict[str, str | None]:
    """Case id to fingerprint; None for a case whose kernel does not compile."""
    built = [case for case in cases if case.stage.source is not None and case.stage.min_capability <= capability]

    def fingerprint(case: Case) -> str | None:
        try:
            return cubin(case.stage, case.defines, capability).fingerprint
        except BuildError:
            return None

    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        return dict(zip((case.id for case in built), pool.map(fingerprint, built), strict=True))


def main(arguments: list[str]) -> int:
    """Print the fingerprints; exit 2 on bad input."""
    parser = argparse.ArgumentParser(prog="python -m suite.fingerprints", description=__doc__)
    parser.add_argument("--tier", default="gate", choices=[tier.value for tier in Tier])
    parser.add_argument("--capability", default=None, help="compute capability, 9.0 say (default: of the first GPU)")
    options = parser.parse_args(arguments)
    try:
        capability = _capability(options.capability)
        found = fingerprints(catalogue.cases(Scale.BENCH, Tier(options.tier)), capability)
    except PeakgateError as error:
        return refused(error)
    print(json.dumps(found, indent=1))
    return ExitCode.OK


def _capability(text: str | None) -> tuple[int, int]:
    if text is None:
        found = driver.gpu_capability(0)
        if found is None:
            raise PeakgateError(
                "no GPU answers, see nvidia-smi; by itself this command builds for --capability 9.0 say"
            )
        return found
    major, dot, minor = text.partition(".")
    if not (dot and major.isdigit() and minor.isdigit()):
        raise PeakgateError(f"--capability {text!r}: expected two numbers and a dot, 9.0 say")
    return int(major), int(minor)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
