"""Floors of another commit: a change is judged by the baselines it is to be merged into, not by its own."""

from __future__ import annotations

import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

from peakgate.common.errors import PeakgateError
from peakgate.judge.floors import Floors, load_floors

FLOORS = "floors.toml"


def floors_at(ref: str, baselines: Path, gpu: str) -> Floors:
    """The floors of a GPU as of the commit ``ref``; none, ``present`` False, where that commit has no file of them.

    ``baselines`` is their folder in the working tree, which need not have the file. A case that has a floor there and
    is not known here is no error. A PeakgateError names a ref that is no commit, and a mistake in the file.
    """
    folder = _existing(baselines)
    if _git(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}").returncode:
        raise PeakgateError(f"--baselines-from {ref}: no commit of that name here; fetch it, then name it again")
    path = (baselines.absolute() / gpu / FLOORS).relative_to(folder).as_posix()
    shown = _git(folder, "show", "--end-of-options", f"{ref}:./{path}")
    name = Path(f"{ref}:{baselines.name}/{gpu}/{FLOORS}")
    if shown.returncode:
        return Floors(name)
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / FLOORS
        copy.write_bytes(shown.stdout)
        try:
            return replace(load_floors(copy, gpu=gpu), path=name)
        except PeakgateError as error:
            raise PeakgateError(str(error).replace(str(copy), str(name))) from None


def _existing(folder: Path) -> Path:
    """The nearest folder that is there: git is asked from it, paths are relative to it."""
    return next(each for each in (folder.absolute(), *folder.absolute().parents) if each.is_dir())


def _git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(["git", *arguments], cwd=folder, capture_output=True, check=False)
    except FileNotFoundError:
        raise PeakgateError("--baselines-from needs git, which is not installed") from None
