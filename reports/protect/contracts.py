"""The contracts of a tree's cases, read in a process of its own: a project's Python never runs in the judge's."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from peakgate.common.errors import PeakgateError

TIMEOUT_S = 300.0
Contracts = Mapping[str, Mapping[str, Any]]


def read(tree: Path, name: str) -> Contracts:
    """Case id to the terms of ``peakgate.run.contract``, of the project at ``tree``; errors call it ``name``."""
    command = [sys.executable, "-m", "peakgate.run.contract"]
    try:
        done = subprocess.run(command, cwd=tree, capture_output=True, check=False, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise PeakgateError(
            f"{name}: its cases were not listed within {TIMEOUT_S:.0f} s; see its family files"
        ) from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise PeakgateError(f"{name}: its cases cannot be listed: {said[-1] if said else done.returncode}")
    try:
        found = json.loads(done.stdout)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(terms, dict) for terms in found.values()):
        raise PeakgateError(f"{name}: its cases were listed as something else than JSON; a family file prints")
    return found
