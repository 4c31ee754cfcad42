"""Temporary folders that are removed at the end of their use.

A folder that a killed process left is removed when the next one is made: each is locked while its process runs, and the
lock also works between containers that share the place.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX = "peakgate."


def remove_tree(path: Path) -> None:
    """Remove a folder with its contents at any depth; what cannot be removed is left."""
    subprocess.run(["rm", "-rf", "--", str(path)], stderr=subprocess.DEVNULL, check=False)


@contextmanager
def scratch_folder(purpose: str, place: Path | None = None) -> Iterator[Path]:
    """A new folder in ``place``, or in the folder for temporary files, removed at the end of the block.

    Abandoned folders there, of processes that have ended, are removed first.
    """
    place = (place or Path(tempfile.gettempdir())).resolve()
    for each in place.glob(f"{PREFIX}*"):
        _remove_abandoned(each)
    path, lock = _locked(purpose, place)
    try:
        yield path
    finally:
        remove_tree(path)
        os.close(lock)


def _locked(purpose: str, place: Path) -> tuple[Path, int]:
    """A new folder and the descriptor that holds its lock."""
    while True:
        path = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{purpose}.", dir=place))
        with suppress(FileNotFoundError):  # another process or thread removed it before it was locked
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            with suppress(OSError):  # NFS without locks, where abandoned folders are not removed
                fcntl.flock(lock, fcntl.LOCK_SH)
            if path.exists():
                return path, lock
            os.close(lock)


def _remove_abandoned(path: Path) -> None:
    """Remove a folder of this user that no process has locked."""
    with suppress(OSError):
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            if os.fstat(lock).st_uid == os.getuid():
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove_tree(path)
        finally:
            os.close(lock)
