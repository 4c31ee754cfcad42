"""Temporary folders that do not outlive what uses them: those that a killed process left go when the next one is made.

A folder is locked by its process for as long as that runs, however it ends, in a container that shares the place too.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX = "peakgate."


@contextmanager
def scratch_folder(purpose: str) -> Iterator[Path]:
    """A new folder for the length of the block; folders of processes that are gone are removed first."""
    place = Path(tempfile.gettempdir()).resolve()
    for each in place.glob(f"{PREFIX}*"):
        _remove_abandoned(each)
    path, lock = _locked(purpose)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock)


def _locked(purpose: str) -> tuple[Path, int]:
    """A folder and what holds its lock, by whose end it is free."""
    while True:
        path = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{purpose}.")).resolve()
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(lock, fcntl.LOCK_SH)
        if path.exists():
            return path, lock
        os.close(lock)  # another process came before the lock, and removed it


def _remove_abandoned(path: Path) -> None:
    """Remove a folder of ours that no process holds."""
    with suppress(OSError):
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            if os.fstat(lock).st_uid == os.getuid():
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(lock)
