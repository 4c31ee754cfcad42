"""Temporary folders, which do not outlive what uses them.

Those that a killed process left go when the next one is made. Each is locked by its process for as long as that runs,
however it ends, in a container that shares the place too.
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
    """Remove a folder with all in it, however deep; what cannot be removed stays."""
    subprocess.run(["rm", "-rf", "--", str(path)], stderr=subprocess.DEVNULL, check=False)


@contextmanager
def scratch_folder(purpose: str, place: Path | None = None) -> Iterator[Path]:
    """A new folder in ``place``, or where temporary ones are, for the length of the block.

    Folders there of processes that are gone are removed first.
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
    """A folder and what holds its lock, by whose end it is free."""
    while True:
        path = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{purpose}.", dir=place))
        with suppress(FileNotFoundError):  # another process, or thread, came before the lock, and removed it
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            with suppress(OSError):  # NFS without locks: no folder is removed there either
                fcntl.flock(lock, fcntl.LOCK_SH)
            if path.exists():
                return path, lock
            os.close(lock)


def _remove_abandoned(path: Path) -> None:
    """Remove a folder of ours that no process holds."""
    with suppress(OSError):
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            if os.fstat(lock).st_uid == os.getuid():
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove_tree(path)
        finally:
            os.close(lock)
