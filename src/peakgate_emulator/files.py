"""Reads source files, which are untrusted, and manages the cache folder."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from peakgate_emulator.errors import SourceError, UnwritableCache

CACHE_VARIABLE = "PEAKGATE_CACHE"
LARGEST_SOURCE_BYTES = 64 * 2**20
_PREFIX = "peakgate.build."


def cache_folder() -> Path:
    """The cache folder: ``$PEAKGATE_CACHE``, or else ``.cache`` in the working directory; absolute."""
    return Path(os.environ.get(CACHE_VARIABLE) or ".cache").resolve()


def read_source(path: Path) -> bytes:
    """The content of a regular file of at most 64 MiB, opened without blocking; SourceError for anything else."""
    expected = f"{path}: expected the readable source of a kernel"
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise SourceError(f"{expected} (not a regular file)")
            content = stream.read(LARGEST_SOURCE_BYTES + 1)
    except (OSError, ValueError) as error:
        raise SourceError(f"{expected} ({getattr(error, 'strerror', None) or error})") from None
    if len(content) > LARGEST_SOURCE_BYTES:
        raise SourceError(f"{expected} (more than {LARGEST_SOURCE_BYTES >> 20} MiB)")
    return content


def write_whole(path: Path, text: str) -> None:
    """Write a text to ``path`` atomically, creating its folder. UnwritableCache if that fails."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, scratch = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace", newline="") as stream:
            stream.write(text)
        Path(scratch).replace(path)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raise UnwritableCache in place of an OSError, as of a full, read-only or missing folder."""
    try:
        yield
    except OSError as error:
        raise UnwritableCache(
            f"{path}: builds cannot be kept there ({error.strerror or error}); point {CACHE_VARIABLE} at a writable "
            "folder"
        ) from error


@contextmanager
def alone(lock: Path) -> Iterator[None]:
    """Hold an exclusive lock on a file for the block, if the file system has locks."""
    with writing(lock.parent):
        lock.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        with suppress(OSError):  # NFS without locks: two processes may do the same work
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def scratch_folder(place: Path) -> Iterator[Path]:
    """A new folder in ``place`` for the block; folders of ended processes are removed first."""
    for other in place.glob(f"{_PREFIX}*"):
        with suppress(OSError):  # in use, or gone
            _remove_abandoned(other)
    path, lock = _held(place)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock)


def _held(place: Path) -> tuple[Path, int]:
    """A new folder, and the descriptor that holds its lock; closing it releases the lock."""
    while True:
        with writing(place):
            path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place))
        with suppress(FileNotFoundError):  # another process removed it before it was locked
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            with suppress(OSError):  # NFS without locks: folders are not removed there
                fcntl.flock(lock, fcntl.LOCK_SH)
            if path.exists():
                return path, lock
            os.close(lock)


def _remove_abandoned(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails while its process holds the lock
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(descriptor)
