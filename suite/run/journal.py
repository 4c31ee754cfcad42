"""The cases of a run that are finished, in a file that survives whatever ends the run: a line of JSON each, fsynced.

The first line names what was measured; ``--resume`` continues a journal that names the same.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from peakgate.common.errors import PeakgateError
from peakgate.common.files import unwritable
from peakgate.run import again

NAME = "bench.journal"
KEY, ROOFS, CASE, RESTART = "measures", "roofs", "case", "restart"


class Journal:
    """The journal of the run at hand; one run at a time writes to a folder."""

    def __init__(self, folder: Path) -> None:
        """Open it as an earlier run left it; PeakgateError where another run is at work or nothing can be written."""
        self.path = folder / NAME
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise unwritable(self.path, error) from None
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._descriptor)
            raise PeakgateError(f"{folder}: another run writes its verdict here; name another folder: --out") from None
        self.records = _read(self.path)

    def clear(self) -> None:
        """Begin a new run."""
        self.records = []
        try:
            os.ftruncate(self._descriptor, 0)
        except OSError as error:
            raise unwritable(self.path, error) from None

    def resume(self, key: Mapping[str, Any]) -> int:
        """Continue the run that is in it; how many cases it finished. PeakgateError says what is not as it was.

        A case that it could not decide is measured again; one below its floor is measured in as many processes as in
        a run that was not interrupted, and is not finished before.
        """
        before = (self.records[0].get(KEY) or {}) if self.records else key
        changed = [name for name in key if key[name] is None or before.get(name) != key[name]]
        if changed:
            raise PeakgateError(
                f"{self.path}: --resume continues a run only where {', '.join(changed)} is the same; "
                "measure anew without it"
            )
        kept = [record for record in self.records[1:] if not _undecided(record)]
        self.clear()
        for record in ({KEY: dict(key)}, *kept):
            self.append(record)
        done = len(self.cases) - len(self.again)
        self.append({RESTART: f"resumed with {done} finished cases"})
        return done

    def append(self, record: Mapping[str, Any]) -> None:
        """Keep one record, on disk when this returns; PeakgateError where the disk is full."""
        self.records.append(dict(record))
        try:
            left = json.dumps(record).encode() + b"\n"
            while left:
                left = left[os.write(self._descriptor, left) :]
            os.fsync(self._descriptor)
        except OSError as error:
            raise unwritable(self.path, error) from None

    @property
    def cases(self) -> list[str]:
        """The ids of the cases that were measured, each once."""
        return list(_by_case(self.records))

    def cases_since(self, count: int) -> list[str]:
        """The ids of the cases in the records after the first ``count``."""
        return [record[CASE] for record in self.records[count:] if CASE in record]

    @property
    def again(self) -> list[str]:
        """The ids of the cases below their floor that the next process measures again."""
        return [case for case, records in _by_case(self.records).items() if again.wanted(records)]

    def close(self, *, keep: bool) -> None:
        """Close it; keep the file where there is something to resume."""
        if not keep or not self.cases:
            self.path.unlink(missing_ok=True)
        os.close(self._descriptor)


@dataclass(frozen=True, slots=True)
class Finished:
    """What earlier processes of a run left: records by case, the roofs they measured, why there had to be another.

    ``cases`` are those that need no more measuring; ``again`` those to be measured again, below their floor so far;
    ``below`` those finished ones that several processes measured.
    """

    cases: Mapping[str, Any] = field(default_factory=dict)
    again: Collection[str] = ()
    below: Collection[str] = ()
    roofs: Mapping[str, float] | None = None
    restarts: Sequence[str] = ()


def finished(path: Path) -> Finished:
    """Read a journal for the process that takes its cases over."""
    records = _read(path)
    found = _by_case(records)
    to_do = {case for case, each in found.items() if again.wanted(each)}
    return Finished(
        {case: again.settled(each) for case, each in found.items() if case not in to_do},
        to_do,
        {case for case, each in found.items() if len(each) > 1 and case not in to_do},
        next((record[ROOFS] for record in records if ROOFS in record), None),
        [record[RESTART] for record in records if RESTART in record],
    )


def _by_case(records: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """The records of each case, one per process that measured it, in order."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for record in records:
        if CASE in record:
            found.setdefault(record[CASE], []).append(record)
    return found


def _undecided(record: Mapping[str, Any]) -> bool:
    """A case that an interrupted run could not decide is measured again."""
    return bool((record.get("extra_info") or record).get("verdict") == "INCONCLUSIVE")


def _read(path: Path) -> list[dict[str, Any]]:
    """The whole lines; what was cut off in the middle of a line, and all after it, was not finished."""
    records: list[dict[str, Any]] = []
    for line in path.read_bytes().split(b"\n")[:-1]:
        try:
            record = json.loads(line)
        except ValueError:
            break
        if not isinstance(record, dict):
            break
        records.append(record)
    return records
