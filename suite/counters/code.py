"""``python -m peakgate.counters.code CASES``: what the compiler makes of each case, one JSON object; needs no GPU.

CASES is a file of case ids, one per line. Case id to ``cubin`` (a path in the cache), ``entry``, ``fingerprint``,
``resources`` and ``launch``; ``{"problem": ...}`` for a case that does not build or is an operation of the device.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from peakgate.build.cubin import BuildError, cubin
from peakgate.case import Case, Scale
from peakgate.common.errors import PeakgateError, refused
from peakgate.project import catalogue
from peakgate.run.identity import parse_capability
from peakgate.verdict import ExitCode


def described(case: Case, capability: tuple[int, int]) -> dict[str, Any]:
    """One case, built for a compute capability."""
    if case.stage.operation is not None:
        return {"problem": "an operation of the device, with no machine code of the project"}
    try:
        built = cubin(case.stage, case.defines, capability)
    except BuildError as error:
        return {"problem": str(error)}
    return {
        "cubin": str(built.path),
        "entry": built.entry,
        "source": str(case.stage.source),
        "fingerprint": built.fingerprint,
        "resources": asdict(built.resources),
        "launch": asdict(case.launch),
    }


def chosen(path: Path) -> list[Case]:
    """The project's cases that a file lists, in its order; others are left out."""
    known = {case.id: case for case in catalogue.cases(Scale.BENCH)}
    return [known[name] for name in path.read_text(encoding="utf-8").split() if name in known]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what is known of the cases; exit 2 on bad input."""
    parser = argparse.ArgumentParser(prog="python -m peakgate.counters.code", description=__doc__)
    parser.add_argument("cases", type=Path, metavar="CASES")
    parser.add_argument("--capability", default=None, help="compute capability, 9.0 say (default: of the first GPU)")
    options = parser.parse_args(arguments)
    try:
        capability = parse_capability(options.capability)
        found = {case.id: described(case, capability) for case in chosen(options.cases)}
    except PeakgateError as error:
        return refused(error)
    sys.stdout.write(json.dumps(found, indent=1) + "\n")
    return ExitCode.OK


if __name__ == "__main__":
    sys.exit(main())
