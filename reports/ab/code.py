"""What a side's code is, as far as it can be told without running a kernel."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from reports.ab.folders import Folder
from reports.ab.process import SideBroken, last_words
from reports.ab.schedule import Which
from suite.errors import PeakgateError

FINGERPRINTS = Path("suite", "fingerprints.py")
LAUNCH_FILES = (Path("suite", "case.py"), Path("suite", "data.py"))
"""Beside the families: what decides on which data and in which shape a kernel is launched."""

NO_GPU = "no GPU answers"
"""How a side's `suite.fingerprints` begins when there is none: a fault of the machine, not of the side."""


@dataclass(frozen=True, slots=True)
class SideCode:
    """A side's cases and how it launches them.

    ``fingerprints``: case to hash of its machine code, None where it does not build; None for a side that is too old
    to tell. ``launches``: file to hash of what decides how kernels are launched; a family's own file under its name,
    what all share under the empty name.
    """

    fingerprints: Mapping[str, str | None] | None
    launches: Mapping[str, str]


def read_codes(
    folders: Sequence[Folder], tier: str, environments: Sequence[Mapping[str, str]]
) -> tuple[SideCode, SideCode]:
    """Both sides' code, compiled at the same time.

    SideBroken when a side's fingerprints cannot be had, PeakgateError when there is no GPU to build for.
    """
    with ThreadPoolExecutor(max_workers=2) as pool:
        base, head = pool.map(partial(_read_code, tier), Which, folders, environments)
    return base, head


def _read_code(tier: str, which: Which, folder: Folder, environment: Mapping[str, str]) -> SideCode:
    launches = launch_hashes(folder.path)
    if not (folder.path / FINGERPRINTS).is_file():
        return SideCode(None, launches)
    command = [sys.executable, "-m", "suite.fingerprints", "--tier", tier]
    done = subprocess.run(command, cwd=folder.path, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0 and last_words(done.stderr).startswith(NO_GPU):
        raise PeakgateError(
            "ab measures on a GPU and none answers on this machine: see `nvidia-smi`; without a GPU, `nox -s check` "
            "proves kernels right and `nox -s resources` compares their registers and spills"
        )
    if done.returncode != 0:
        raise SideBroken(which, f"`python -m suite.fingerprints` exits {done.returncode}: {last_words(done.stderr)}")
    return SideCode(_parsed(which, done.stdout), launches)


def launch_hashes(root: Path) -> dict[str, str]:
    """Family name to hash of its file; under ``""`` the hash of what all families share."""
    own = {path.stem: path for folder in _family_folders(root) for path in sorted(folder.glob("[!_]*.py"))}
    defining = {name: path for name, path in own.items() if "FAMILY" in path.read_text(encoding="utf-8")}
    shared = [path for name, path in sorted(own.items()) if name not in defining]
    shared += [root / path for path in LAUNCH_FILES if (root / path).is_file()]
    hashes = {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in defining.items()}
    return hashes | {"": hashlib.sha256(b"\0".join(path.read_bytes() for path in shared)).hexdigest()}


def _family_folders(root: Path) -> list[Path]:
    """Where the side finds families: its own folder, and what the environment names, seen from the side's root."""
    extra = os.environ.get("PEAKGATE_FAMILIES", "")
    return [root / "suite" / "families", *(root / folder for folder in extra.split(os.pathsep) if folder)]


def _parsed(which: Which, output: str) -> dict[str, str | None]:
    try:
        found = json.loads(output)
    except json.JSONDecodeError:
        raise SideBroken(which, "`python -m suite.fingerprints` printed no JSON") from None
    if not isinstance(found, dict):
        raise SideBroken(which, "`python -m suite.fingerprints` printed no table of cases")
    return {str(case): None if code is None else str(code) for case, code in found.items()}
