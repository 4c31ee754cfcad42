"""Files of the emulator: sources, which may be anything, and the folder in which builds are kept."""

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
    """Where builds are kept: ``$PEAKGATE_CACHE``, else ``.cache`` in the working directory; absolute."""
    return Path(os.environ.get(CACHE_VARIABLE) or ".cache").resolve()


def read_source(path: Path) -> bytes:
    """The content of a regular file of at most 64 MiB, opened without waiting; SourceError for anything else."""
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
    """Put a text at ``path``, making its folder; a reader sees no part of it. UnwritableCache where it cannot be."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, scratch = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace", newline="") as stream:
            stream.write(text)
        Path(scratch).replace(path)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """UnwritableCache in place of what the system says of a full, read-only or missing folder."""
    try:
        yield
    except OSError as error:
        raise UnwritableCache(
            f"{path}: builds cannot be kept there ({error.strerror or error}); point {CACHE_VARIABLE} at a writable "
            "folder"
        ) from error


@contextmanager
def alone(lock: Path) -> Iterator[None]:
    """Keep other processes and threads that name the same file out of the block, where the file system can."""
    with writing(lock.parent):
        lock.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        with suppress(OSError):  # NFS without locks: two may do the same work
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def scratch_folder(place: Path) -> Iterator[Path]:
    """A new folder in ``place`` for the length of the block; those of processes that are gone are removed first."""
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
    """A folder and what holds its lock, by whose end it is free."""
    while True:
        with writing(place):
            path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place))
        with suppress(FileNotFoundError):  # another process came before the lock, and removed it
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            with suppress(OSError):  # NFS without locks: no folder is removed there either
                fcntl.flock(lock, fcntl.LOCK_SH)
            if path.exists():
                return path, lock
            os.close(lock)


def _remove_abandoned(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # whose process lives holds it
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(descriptor)
