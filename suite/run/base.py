"""The commit a change is to be merged into: its tree and its floors. A change is judged by these, not by its own."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from peakgate.common.errors import PeakgateError
from peakgate.judge.floors import Floors, load_floors

FLOORS = "floors.toml"


def commit_of(ref: str, folder: Path) -> str:
    """The commit that ``ref`` names in the repository around ``folder``; PeakgateError where there is none."""
    done = _git(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
    if done.returncode:
        raise PeakgateError(f"--baselines-from {ref}: no commit of that name here; fetch it, then name it again")
    return done.stdout.decode().strip()


@contextmanager
def exported(ref: str, root: Path, baselines: Path) -> Iterator[Path]:
    """The folder of the project ``root`` as of ``ref``, among a scratch copy of its repository, without ``baselines``.

    The copy is removed at the end. PeakgateError for a ref that is no commit and a tree that cannot be copied.
    """
    commit = commit_of(ref, root)
    top = Path(_git(root, "rev-parse", "--show-toplevel").stdout.decode().removesuffix("\n"))
    without = baselines.resolve()
    left_out = [f":(exclude){without.relative_to(top.resolve())}"] if without.is_relative_to(top.resolve()) else []
    with tempfile.TemporaryDirectory(prefix="peakgate-base-") as scratch:
        archive, tree = Path(scratch) / "tree.tar", Path(scratch) / "tree"
        packed = _git(top, "archive", "--format=tar", f"--output={archive}", commit, "--", ".", *left_out)
        tree.mkdir()
        unpacking = ["tar", "-xf", str(archive), "-C", str(tree)]
        for done in (packed, subprocess.run(unpacking, capture_output=True, check=False)):
            if done.returncode:
                reported = " ".join(done.stderr.decode(errors="replace").split())
                raise PeakgateError(f"--baselines-from {ref}: its tree cannot be copied to {scratch}: {reported}")
        archive.unlink()
        yield tree / root.resolve().relative_to(top.resolve())


def floors_at(ref: str, baselines: Path, gpu: str) -> Floors:
    """The floors of a GPU as of the commit ``ref``; none, ``present`` False, where that commit has no file of them.

    ``baselines`` is their folder in the working tree, which need not have the file. A case that has a floor there and
    is not known here is no error. A PeakgateError names a ref that is no commit, and a mistake in the file.
    """
    folder = _existing(baselines)
    commit_of(ref, folder)
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
