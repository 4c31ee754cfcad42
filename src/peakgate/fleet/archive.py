"""Packs the project into one archive, named by its hash, so that every GPU of a fleet measures the same files."""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import io
import json
import os
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from msgspec import structs

from peakgate.base import git
from peakgate.base.config import Project
from peakgate.base.errors import Code, PeakgateError
from peakgate.base.files import file_digest, remove_tree
from peakgate.compare.ab.process import SideBroken, build_side
from peakgate.run.inputs import ARCHIVE, Tree, tree

LARGEST_ARCHIVE_BYTES = 512_000_000
"""The archive is sent to every node; a larger one probably contains unintended files."""

NEVER = frozenset({".git", ".cache", ".benchmarks", ".peakgate", ".venv", ".nox", "__pycache__"})
"""Folders to leave out of a project outside git."""


@dataclass(frozen=True, slots=True)
class ProjectArchive:
    """A packed project: ``digest`` is the sha256 of ``data``; ``inside`` the project's folder within the archive.

    ``dirty``: there are changes on top of ``commit``.
    """

    digest: str
    data: bytes
    inside: str
    commit: str | None
    dirty: bool


def pack(project: Project, out: Path) -> ProjectArchive:
    """Pack files that git tracks or does not ignore (without git: all), except saved runs and the folder ``out``.

    Packs the whole repository of the project, which may include files from elsewhere in it. The same files give the
    same archive. Raises PeakgateError if the archive is too large.
    """
    try:
        top = git.top_of(project.root)
    except PeakgateError:  # no repository
        top = project.root
    known, files = tree(project, out), list(_files(top, project, out))
    if known.commit is None:
        contents = [f"{path.relative_to(top)} {file_digest(path)}" for path in files]
        digest = hashlib.sha256("\n".join(contents).encode()).hexdigest()
        known = Tree(f"no-git-{digest[:16]}", digest)
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=4, mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for path in files:
            archive.add(path, path.relative_to(top).as_posix(), recursive=False, filter=_anonymous)
        about = json.dumps(structs.asdict(known)).encode()
        entry = tarfile.TarInfo((project.root.relative_to(top) / ARCHIVE).as_posix())
        entry.size = len(about)
        archive.addfile(entry, io.BytesIO(about))
    data = packed.getvalue()
    if len(data) > LARGEST_ARCHIVE_BYTES:
        raise PeakgateError(
            f"{top}: the archive has {len(data)} bytes, expected at most {LARGEST_ARCHIVE_BYTES}; "
            "ignore what kernels do not need (.gitignore)",
            Code.UNREADABLE,
        )
    unchanged = hashlib.sha256().hexdigest()
    dirty = not str(known.commit).startswith("no-git-") and known.changes != unchanged
    inside = project.root.relative_to(top).as_posix()
    return ProjectArchive(hashlib.sha256(data).hexdigest(), data, inside, known.commit, dirty)


def unpacked(folder: Path, digest: str, data: bytes | None = None) -> Path | None:
    """The folder of an unpacked archive below ``folder``; unpacks ``data`` if it does not exist.

    None if it does not exist and ``data`` is None. PeakgateError if ``digest`` does not match ``data``.
    """
    place = folder / digest
    if place.is_dir():
        return place
    if data is None:
        return None
    if hashlib.sha256(data).hexdigest() != digest:
        raise PeakgateError(
            f"archive {digest[:12]}: damaged during the transfer; start the fleet again with --resume", Code.MALFORMED
        )
    if not hasattr(tarfile, "data_filter"):  # older versions of Python would extract outside the folder
        version = ".".join(map(str, sys.version_info[:3]))
        raise PeakgateError(f"Python {version}: a fleet's worker needs 3.11.4 or later", Code.INSTALLATION)
    folder.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=folder, prefix=f".{digest[:12]}."))
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
            archive.extractall(scratch, filter="data")
    except tarfile.TarError as error:
        remove_tree(scratch)
        raise PeakgateError(
            f"archive {digest[:12]}: cannot be unpacked ({error}); links may not lead out of it", Code.MALFORMED
        ) from None
    try:
        scratch.rename(place)
    except OSError:  # another worker of this node was first
        if not place.is_dir():
            raise
    finally:
        remove_tree(scratch)
    return place


def build(project: Path, log: Path) -> None:
    """Run the project's own build once per node, whose workers share the unpacked folder.

    Raises PeakgateError, which names the log, if the build fails.
    """
    done = project / ".peakgate" / "built"
    done.parent.mkdir(exist_ok=True)
    with (done.parent / "build.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if done.exists():
            return
        log.parent.mkdir(parents=True, exist_ok=True)
        try:
            build_side("the project", project, os.environ, log)
        except SideBroken as broken:
            raise PeakgateError.repeated(str(broken), Code.SIDE) from None
        done.touch()


def _files(top: Path, project: Project, out: Path) -> Iterator[Path]:
    """The regular files and links to pack, in a fixed order."""
    try:
        # git cannot list submodules' files and untracked files in one call.
        listed = git.ask(top, "ls-files", "-z", "--recurse-submodules")
        listed += git.ask(top, "ls-files", "-z", "--others", "--exclude-standard")
        names = {top / os.fsdecode(name) for name in listed.split(b"\0") if name}
    except PeakgateError:
        names = {path for path in top.rglob("*") if not NEVER & set(path.relative_to(top).parts)}
    saved = (project.runs, project.out, out.absolute(), *project.baselines.glob("*/runs"))
    for path in sorted(names):
        if (path.is_symlink() or path.is_file()) and not any(map(path.is_relative_to, saved)):
            yield path


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Reset owner and time, which are not part of the project."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mtime = 0
    return entry
