"""Read many run files quickly: each once, and many at a time.

A file that was read before is known by path, size and time of change, and taken from an index beside the other caches.
The index is a copy and nothing more: one that is missing, broken or cannot be written costs time, never an answer.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from peakgate.common.errors import PeakgateError
from peakgate.common.files import write_whole
from peakgate.reports.history.session import Entries, Session, from_text, read_session, to_text

FEWEST_TO_SHARE = 100
"""Fewer new files than this are read here: another process takes as long to start as a score of them to read."""

PACKAGES = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Reading:
    """The sessions found, and a line for each oddity that did not keep them from being read."""

    sessions: tuple[Session, ...]
    notes: tuple[str, ...]


def read_sessions(files: Sequence[Path], index: Path) -> Reading:
    """Every run among ``files``; what is no run is passed over with a note. ``index`` is brought up to date."""
    known = _known(index)
    states = {str(file.absolute()): file.stat() for file in files}
    entries = {
        name: known[name]
        for name, state in states.items()
        if name in known and known[name][0] == (state.st_mtime_ns, state.st_size)
    }
    fresh = _read([name for name in states if name not in entries])
    found = [(entries | fresh)[name][1] for name in states]
    notes = [f"passed over: {each}" for each in found if isinstance(each, str)]
    if fresh:
        elsewhere = {name: entry for name, entry in known.items() if name not in states and Path(name).exists()}
        try:
            write_whole(index, to_text(elsewhere | entries | fresh))
        except PeakgateError as error:
            notes.append(f"every run will be read again next time: {error}")
    return Reading(tuple(each for each in found if isinstance(each, Session)), tuple(notes))


def _known(index: Path) -> Entries:
    try:
        return from_text(index.read_bytes()) or {}
    except OSError:
        return {}


def read_here(names: Sequence[str]) -> Entries:
    """Read these files one after the other, in this process."""
    entries: Entries = {}
    for name in names:
        status = os.stat(name)  # noqa: PTH116  # names are what other processes are sent
        entries[name] = (status.st_mtime_ns, status.st_size), read_session(Path(name))
    return entries


def _read(names: Sequence[str]) -> Entries:
    """Read these files, many of them in as many processes as there are processors."""
    processes = len(os.sched_getaffinity(0)) if len(names) >= FEWEST_TO_SHARE else 1
    if processes == 1:
        return read_here(names)
    with ThreadPoolExecutor(processes) as threads:
        shares = threads.map(_read_elsewhere, [names[start::processes] for start in range(processes)])
        return {name: entry for share in shares for name, entry in share.items()}


def _read_elsewhere(names: Sequence[str]) -> Entries:
    """Read these files in a process of their own; here if that cannot be started."""
    paths = [str(PACKAGES), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    done = subprocess.run(
        [sys.executable, "-m", "peakgate.reports.history.reading"],
        input=json.dumps(list(names)).encode(),
        capture_output=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in paths if path)},
        check=False,
    )
    entries = from_text(done.stdout) if done.returncode == 0 else None
    return read_here(names) if entries is None else entries


if __name__ == "__main__":
    gc.disable()  # a tenth of the time, in a process that reads, answers and ends
    sys.stdout.write(to_text(read_here(json.load(sys.stdin))))
