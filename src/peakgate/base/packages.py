"""The folders of Peakgate's packages, and those from which this process imports."""

from __future__ import annotations

import os
import site
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
PACKAGES = (PACKAGE, PACKAGE.with_name("peakgate_emulator"))
"""The folders of this package and of the emulator."""


def import_path(*apart_from: Path) -> list[str]:
    """Import folders besides those of Python itself: those of PYTHONPATH and the user's site-packages.

    A process without the environment needs them as its PYTHONPATH to import Peakgate. Without relative folders and
    without those in or around ``apart_from``, such as the tree of a change.
    """
    named = [] if sys.flags.ignore_environment else os.environ.get("PYTHONPATH", "").split(os.pathsep)
    named += [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    there = (path for path in map(Path, dict.fromkeys(named)) if path.is_absolute() and path.exists())
    return [str(path) for path in there if not any(overlap(path, tree) for tree in apart_from)]


def overlap(one: Path, other: Path) -> bool:
    """Whether one of two folders is the other or within it, with links resolved."""
    one, other = one.resolve(), other.resolve()
    return one.is_relative_to(other) or other.is_relative_to(one)
