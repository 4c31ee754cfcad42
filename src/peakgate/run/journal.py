"""From the measuring process to its supervisor: events through a pipe, finished cases in a journal.

An event is a line of JSON. The journal is a file with one line of JSON per record, fsynced, so it survives any end of
the run. Its first line identifies the inputs of the run; ``--resume`` continues a journal with equal inputs. Lines are
only appended, and each has a digest of itself and the line before: reading stops at a line that is cut off, damaged or
edited. A case has one record per process that measured it; a case below its floor is judged by the median of three.
"""

from __future__ import annotations

import hashlib
import json
import os
import statistics
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from peakgate.base.errors import Code, PeakgateError
from peakgate.base.files import open_output, read_limited, remove_output, unwritable
from peakgate.base.formatting import counted
from peakgate.base.records import decode
from peakgate.base.verdict import FAULTY, Judgement, Verdict
from peakgate.judge.floors import UNCHECKED, held_to
from peakgate.run.lock import WRITTEN_THERE, take

FRESH = 75  # EX_TEMPFAIL
"""Exit code of a measuring process that has lost its CUDA context: continue in a new process."""

AGAIN = 76
"""Exit code of a measuring process if cases below their floor are to be measured again, or were: continue as well."""

NAME = "bench.journal"
KEY, ROOFS, CASE, RESTART = "measures", "roofs", "case", "restart"
RESUMED = "resumed"  # marks a restart by --resume: cases that were INCONCLUSIVE before it are measured again
DIGEST = "sha256"

LARGEST_JOURNAL_BYTES = 1 << 30

Record = Mapping[str, Any]
"""One case in one process: ``extra_info`` and ``times_us``, or the supervisor's verdict if the process ended."""

PROCESSES = 3
"""A case below its floor is judged by the median of this many processes: the first and two new ones."""

DECIDED = frozenset({Verdict.PASS, Verdict.BELOW_FLOOR})
"""Verdicts that compare a fraction of peak with a floor."""


class Link:
    """The measuring process's end. Without a descriptor there is no supervisor, and nothing is sent."""

    def __init__(self, descriptor: int | None = None) -> None:
        self._descriptor = descriptor
        if descriptor is not None:
            os.set_inheritable(descriptor, False)  # a child of a case must not keep the pipe open

    @property
    def supervised(self) -> bool:
        return self._descriptor is not None

    def expect(self, step: str, limit_s: float, case: str | None = None) -> None:
        """Announce a step; the supervisor kills this process if the step exceeds its limit."""
        self.send(step=step, limit_s=limit_s, case=case)

    def send(self, **event: Any) -> None:
        """Send one event, unbuffered."""
        if self._descriptor is None:
            return
        left = json.dumps(event).encode() + b"\n"
        while left:
            left = left[os.write(self._descriptor, left) :]


class Lines:
    """The supervisor's end: bytes in, complete events out. Lines that are not JSON objects are ignored."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[dict[str, Any]]:
        """The events that this data completes."""
        *whole, self._rest = (self._rest + data).split(b"\n")
        events = []
        for line in whole:
            with suppress(ValueError):
                events.append(json.loads(line))
        return [event for event in events if isinstance(event, dict)]


class Journal:
    """The journal of the current run; a lock keeps other runs out of its folder."""

    def __init__(self, folder: Path, wait_s: float = 0.0) -> None:
        """Open and lock it, after waiting up to ``wait_s`` for another run that holds the lock.

        Raises CannotDecide if that run has not ended by then, PeakgateError if it cannot be written.
        """
        self.path = folder / NAME
        until_s = time.monotonic() + wait_s
        while True:
            try:
                with open_output(self.path, "ab") as stream:
                    self._descriptor = os.dup(stream.fileno())
            except OSError as error:
                raise unwritable(self.path, error) from None
            try:
                take(self._descriptor, str(folder), max(until_s - time.monotonic(), 0.0), lambda: WRITTEN_THERE)
                if os.path.samestat(os.fstat(self._descriptor), self.path.stat()):
                    break
            except FileNotFoundError:
                pass
            except BaseException:
                os.close(self._descriptor)
                raise
            os.close(self._descriptor)  # the run that we waited for has removed this file: the next is another
        self.records, self._digest, self._whole_bytes = _read(self.path)

    def clear(self) -> None:
        """Begin a new run."""
        self.records, self._digest, self._whole_bytes = [], "", 0
        self._cut()

    def resume(self, key: Mapping[str, Any]) -> int:
        """Continue the run in it; return its number of finished cases. PeakgateError names inputs that have changed.

        INCONCLUSIVE cases are measured again. A case below its floor is finished after ``PROCESSES`` processes, as in
        a run that was not interrupted.
        """
        if not self.records and b"\n" in read_limited(self.path, LARGEST_JOURNAL_BYTES):
            raise PeakgateError(
                f"{self.path}: its first line is damaged or of another version; measure again without --resume",
                Code.CHANGED,
            )
        before = self.records[0].get(KEY) or {} if self.records else key
        changed = [name for name in key if key[name] is None or before.get(name) != key[name]]
        if changed:
            raise PeakgateError(
                f"{self.path}: --resume continues a run only where {', '.join(changed)} is the same; "
                "measure again without it",
                Code.CHANGED,
            )
        self._cut()
        if not self.records:
            self.append({KEY: dict(key)})
        kept = _by_case([*self.records, {RESUMED: True}])
        done = sum(not wanted_again(records) for records in kept.values())
        self.append({RESTART: f"resumed with {counted(done, 'finished case')}", RESUMED: True})
        return done

    def append(self, record: Mapping[str, Any]) -> None:
        """Append one record and fsync it. Raises PeakgateError if it cannot be written, such as on a full disk."""
        self.records.append(dict(record))
        left, self._digest = line(record, self._digest)
        try:
            while left:
                left = left[os.write(self._descriptor, left) :]
            os.fsync(self._descriptor)
        except OSError as error:
            raise unwritable(self.path, error) from None

    def _cut(self) -> None:
        """Truncate the file after the last valid line."""
        try:
            os.ftruncate(self._descriptor, self._whole_bytes)
        except OSError as error:
            raise unwritable(self.path, error) from None

    @property
    def cases(self) -> list[str]:
        """The ids of the measured cases, without repeats."""
        return list(_by_case(self.records))

    def cases_since(self, count: int) -> list[str]:
        """The ids of the cases in the records after the first ``count``."""
        return [record[CASE] for record in self.records[count:] if CASE in record]

    @property
    def again(self) -> list[str]:
        """The ids of the cases below their floor that the next process measures again."""
        return [case for case, records in _by_case(self.records).items() if wanted_again(records)]

    def close(self, *, keep: bool) -> None:
        """Close it; with ``keep`` the file stays if it has a case."""
        if not keep or not self.cases:
            remove_output(self.path)
        os.close(self._descriptor)


@dataclass(frozen=True, slots=True)
class Finished:
    """The results of a run's earlier processes: records by case, measured roofs, and why processes were restarted.

    ``cases`` are finished cases. ``again`` are cases below their floor that are measured again, with the number of
    processes that measured them. ``below`` are finished cases that were below their floor at first.
    """

    cases: Mapping[str, Any] = field(default_factory=dict)
    again: Mapping[str, int] = field(default_factory=dict)
    below: Collection[str] = ()
    roofs: Mapping[str, float] | None = None
    restarts: Sequence[str] = ()


def finished(path: Path) -> Finished:
    """Read the results of earlier processes from a journal."""
    records, _, _ = _read(path)
    found = _by_case(records)
    to_do = {case: len(each) for case, each in found.items() if wanted_again(each)}
    return Finished(
        {case: settled(each) for case, each in found.items() if case not in to_do},
        to_do,
        {
            case
            for case, each in found.items()
            if len(each) > 1 and case not in to_do and _verdict(each[0]) is Verdict.BELOW_FLOOR
        },
        next((record[ROOFS] for record in records if ROOFS in record), None),
        [record[RESTART] for record in records if RESTART in record],
    )


def line(record: Mapping[str, Any], before: str = "") -> tuple[bytes, str]:
    """A record as a line of a journal, and its digest; ``before`` is the digest of the previous line."""
    digest = _digest(record, before)
    return json.dumps({**record, DIGEST: digest}).encode() + b"\n", digest


def _digest(record: Mapping[str, Any], before: str) -> str:
    return hashlib.sha256((before + json.dumps(record)).encode()).hexdigest()[:16]


def _by_case(records: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """The records of each case, one per process, in order; without those that a resumed run measures again."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for record in records:
        if RESUMED in record:
            decided = {
                case: [each for each in of_case if _verdict(each) is not Verdict.INCONCLUSIVE]
                for case, of_case in found.items()
            }
            found = {case: of_case for case, of_case in decided.items() if of_case}
        if CASE in record:
            found.setdefault(record[CASE], []).append(record)
    return found


def _read(path: Path) -> tuple[list[dict[str, Any]], str, int]:
    """The records of the valid lines, the digest of the last one, and their size in bytes.

    Reading stops at the first line that is cut off or damaged.
    """
    records: list[dict[str, Any]] = []
    digest, whole_bytes = "", 0
    for text in read_limited(path, LARGEST_JOURNAL_BYTES).split(b"\n")[:-1]:
        try:
            record = decode(text, dict[str, Any], path, "measure again")
        except PeakgateError:
            break
        if record.pop(DIGEST, None) != _digest(record, digest):
            break
        records.append(record)
        digest = _digest(record, digest)
        whole_bytes += len(text) + 1
    return records, digest, whole_bytes


def wanted_again(records: Sequence[Record]) -> bool:
    """Whether the next process measures this case again: below its floor at first, fewer than ``PROCESSES`` so far."""
    if _verdict(records[0]) is not Verdict.BELOW_FLOOR or _fault(records) is not None:
        return False
    return len(records) < PROCESSES


def settled(records: Sequence[Record]) -> Record:
    """The one record of a case; for a case below its floor at first, that of the median process.

    Its verdict is that of the median, its reason names each process's fraction of peak. A fault in any process counts.
    If a process could not decide, the case is INCONCLUSIVE with the figures of the first process.
    """
    if len(records) == 1 or _verdict(records[0]) is not Verdict.BELOW_FLOOR:
        return records[-1]
    if (fault := _fault(records)) is not None:
        return fault
    fractions = [record["extra_info"]["peak_fraction"] if _verdict(record) in DECIDED else None for record in records]
    judgement = judge_again(fractions, records[0]["extra_info"]["floor"])
    chosen = records[0]
    if judgement.verdict in DECIDED:
        chosen = sorted(records, key=lambda record: float(record["extra_info"]["peak_fraction"]))[len(records) // 2]
    entry = chosen["extra_info"]
    unchecked = UNCHECKED if entry["relative_error"] is None else ""
    judged = {"verdict": judgement.verdict.value, "reason": judgement.reason + unchecked}
    return {**chosen, "extra_info": {**entry, **judged}}


def judge_again(peak_fractions: Sequence[float | None], floor: float) -> Judgement:
    """Judge a case that was below its floor by the median fraction of peak of three processes, the first included.

    Several, because some effects last as long as a process: placement in memory, a library's choice of kernel. A
    fraction is None if the process could not decide; with fewer than three decided the case is INCONCLUSIVE.
    """
    decided = [fraction for fraction in peak_fractions if fraction is not None]
    if len(decided) < PROCESSES:
        return Judgement(
            Verdict.INCONCLUSIVE,
            f"below its floor of {floor:.3g} at first; only {len(decided)} of {PROCESSES} processes could decide",
        )
    each = ", ".join(f"{fraction:.3g}" for fraction in decided)
    return held_to(statistics.median(decided), floor, f"median of {len(decided)} processes: {each}")


def share_below(below: int, of: int) -> str:
    """How many cases were below their floor, as a phrase; above a quarter it suggests to check the GPU first."""
    advice = "; more than a quarter: suspect the GPU first (nvidia-smi -q -d PERFORMANCE)" if 4 * below > of else ""
    return f"{below} of {of} cases below their floor at first{advice}"


def _verdict(record: Record) -> Verdict:
    return Verdict((record.get("extra_info") or record)["verdict"])


def _fault(records: Sequence[Record]) -> Record | None:
    return next((record for record in records if _verdict(record) in FAULTY), None)
