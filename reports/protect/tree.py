"""A tree against a commit: files that changed, as git lists them, and the contracts of its cases.

Contracts are read in a process of its own: a project's Python never runs in the judge's.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from peakgate.common import git
from peakgate.common.errors import PeakgateError
from peakgate.reports.protect.changes import NONE, FileChange

LINK_MODE = "120000"
ID_DIGITS = 12

TIMEOUT_S = 300.0
Contracts = Mapping[str, Mapping[str, Any]]


def changed(commit: str, root: Path) -> list[FileChange]:
    """Files that differ between ``commit`` and the working tree at ``root``, untracked ones included; paths from it.

    A renamed file is a deleted and an added one. Contents are named by the first digits of git's hash of them.
    """
    how = ("--raw", "--no-renames", "--no-ext-diff", "--abbrev=40", "-z")
    fields = _text(root, "diff", *how, commit, "--").split("\0")[:-1]
    found = []
    for about, path in zip(fields[::2], fields[1::2], strict=True):
        _, mode, before, _, state = about.removeprefix(":").split(" ")
        found.append(_change(root, state[0], path, mode == LINK_MODE, before))
    untracked = _text(root, "ls-files", "--others", "--exclude-standard", "-z").split("\0")[:-1]
    found += [_change(root, "A", path, (root / path).is_symlink(), "") for path in untracked]
    return found


def files(commit: str, folder: Path) -> list[str]:
    """The files below ``folder`` as of ``commit``, relative to it."""
    listed = _text(folder.parent, "ls-tree", "-r", "--name-only", "-z", commit, "--", f"{folder.name}/")
    return [name.removeprefix(f"{folder.name}/") for name in listed.split("\0")[:-1]]


def text(commit: str, folder: Path, name: str) -> str:
    """The file ``name``, relative to ``folder``, as of ``commit``."""
    return _text(folder.parent, "show", f"{commit}:./{folder.name}/{name}")


def contracts(tree: Path, name: str) -> Contracts:
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


def _change(root: Path, state: str, path: str, link: bool, before: str) -> FileChange:
    after = NONE
    if state != "D":
        after = "link" if link else _blob_id((root / path).read_bytes())
    known = before.strip("0")
    return FileChange(state, path, link, before[:ID_DIGITS] if known else NONE, after)


def _blob_id(content: bytes) -> str:
    """The first digits of the name git gives to a file's content."""
    header = f"blob {len(content)}\0".encode()
    return hashlib.sha1(header + content, usedforsecurity=False).hexdigest()[:ID_DIGITS]


def _text(folder: Path, *arguments: str) -> str:
    return git.ask(folder, *arguments).decode("utf-8", errors="surrogateescape")
