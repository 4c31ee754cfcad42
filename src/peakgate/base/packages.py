"""From where this installation of Peakgate came, and from which folders this process imports."""

from __future__ import annotations

import json
import os
import shlex
import site
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit


def recorded_origin() -> dict[str, Any]:
    """Where this installation came from, as pip recorded it (PEP 610); empty if it came from an index, or is none."""
    from importlib import metadata  # noqa: PLC0415  # slow, and only an error or `init` asks

    try:
        found: dict[str, Any] = json.loads(metadata.distribution("peakgate").read_text("direct_url.json") or "{}")
    except metadata.PackageNotFoundError:  # imported from PYTHONPATH
        return {}
    return found


def install_command(extra: str) -> str:
    """The command that adds an extra to this installation: from the clone or the address that it came from."""
    name, origin = f"peakgate[{extra}]", recorded_origin()
    if "dir_info" in origin:
        clone = unquote(urlsplit(origin["url"]).path)
        editable = "-e " if origin["dir_info"].get("editable") else ""
        return f"pip install {editable}{shlex.quote(f'{clone}[{extra}]')}"
    if "vcs_info" in origin:
        vcs = origin["vcs_info"]
        name += f" @ {vcs['vcs']}+{origin['url']}@{vcs['commit_id']}"
    elif "url" in origin:
        name += f" @ {origin['url']}"
    return f"pip install {shlex.quote(name)}"


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
