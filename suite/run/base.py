"""The commit a change is to be merged into: its tree and its floors. A change is judged by these, not by its own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from peakgate.common import git
from peakgate.common.errors import PeakgateError
from peakgate.judge.floors import Floors, load_floors

FLOORS = "floors.toml"


def commit_of(ref: str, folder: Path) -> str:
    """The commit that ``ref`` names in the repository around ``folder``; PeakgateError where there is none."""
    return git.commit_of(ref, folder, "--baselines-from")


@contextmanager
def exported(ref: str, root: Path, baselines: Path) -> Iterator[Path]:
    """The folder of the project ``root`` as of ``ref``, among a scratch copy of its repository, without ``baselines``.

    The copy is removed at the end. PeakgateError for a ref that is no commit and a tree that cannot be copied.
    """
    commit = commit_of(ref, root)
    top = git.top_of(root)
    without = baselines.resolve()
    left_out = [f":(exclude){without.relative_to(top.resolve())}"] if without.is_relative_to(top.resolve()) else []
    with tempfile.TemporaryDirectory(prefix="peakgate-base-") as scratch:
        tree = Path(scratch) / "tree"
        git.export(commit, top, tree, ".", *left_out)
        yield tree / root.resolve().relative_to(top.resolve())


def floors_at(ref: str, baselines: Path, gpu: str) -> Floors:
    """The floors of a GPU as of the commit ``ref``; none, ``present`` False, where that commit has no file of them.

    ``baselines`` is their folder in the working tree, which need not have the file. A case that has a floor there and
    is not known here is no error. A PeakgateError names a ref that is no commit, and a mistake in the file.
    """
    folder = next(each for each in (baselines.absolute(), *baselines.absolute().parents) if each.is_dir())
    commit_of(ref, folder)
    path = (baselines.absolute() / gpu / FLOORS).relative_to(folder).as_posix()
    name = Path(f"{ref}:{baselines.name}/{gpu}/{FLOORS}")
    try:
        text = git.ask(folder, "show", "--end-of-options", f"{ref}:./{path}")
    except PeakgateError:
        return Floors(name)
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / FLOORS
        copy.write_bytes(text)
        try:
            return replace(load_floors(copy, gpu=gpu), path=name)
        except PeakgateError as error:
            raise PeakgateError(str(error).replace(str(copy), str(name))) from None
