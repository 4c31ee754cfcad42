"""Which sessions there are, read quickly: each file once, many at a time, and by an index the next time.

A file that was read before is known by path, size and time of change, and taken from an index beside the other caches.
The index is a copy and nothing more: one that is missing, broken or cannot be written costs time, never an answer.
"""

from __future__ import annotations

import gc
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson
from peakgate.common.errors import PeakgateError
from peakgate.common.files import write_whole
from peakgate.reports.runs.runfile import (
    PLAIN_NUMBERS,
    UNUSABLE,
    Run,
    about,
    load_document,
    read_median,
    refuse,
    session_facts,
    text_of,
)

INDEX_SCHEMA = 3

FEWEST_TO_SHARE = 100
"""Fewer new files than this are read here: another process takes as long to start as a score of them to read."""

UUID = re.compile(r"(?P<short>[A-Z]+-[0-9a-f]{8})(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

ENVIRONMENT = ("driver", "cuda_driver", "nvrtc", "cupy", "cublas", "vbios", "power_limit_w", "ecc", "mig")
"""Facts of a run's machine that its times may depend on, and that no commit changes."""

SAME_IN_BOTH = ("taken", "commit", "dirty", "slug", "uuid", "driver", "tier", "whole")
"""The facts that a run and its session have under one name."""

State = tuple[int, int]
"""A file's time of change in nanoseconds and its size in bytes."""


@dataclass(frozen=True, slots=True)
class Session:
    """A saved run in short: what choosing runs, a history and the noise between sessions need of it.

    ``times_us`` are the medians of the cases it could decide, but for ``host_bound_us``, of those whose time depends on
    the host as much as on the GPU. Of both, ``fingerprints`` are the cubin hashes and ``clocks_mhz`` the SM clocks
    while they were timed, where known, and ``libraries`` the cases that the driver or a vendor's library did.
    ``whole`` is False for a selection of cases. Unknown texts are None, an unknown commit is ``unknown``.
    ``environment`` are the facts of ``ENVIRONMENT`` that the run knows, as texts.
    """

    path: str
    taken: datetime
    commit: str
    dirty: bool
    slug: str
    uuid: str | None
    driver: str | None
    tier: str | None
    whole: bool
    times_us: Mapping[str, float]
    fingerprints: Mapping[str, str]
    environment: Mapping[str, str] = field(default_factory=dict)
    clocks_mhz: Mapping[str, float] = field(default_factory=dict)
    libraries: frozenset[str] = frozenset()
    host_bound_us: Mapping[str, float] = field(default_factory=dict)

    @property
    def timed_us(self) -> Mapping[str, float]:
        """The median of every case that it could decide."""
        return {**self.times_us, **self.host_bound_us}


@dataclass(frozen=True, slots=True)
class Reading:
    """The sessions found, and a line for each oddity that did not keep them from being read."""

    sessions: tuple[Session, ...]
    notes: tuple[str, ...]


def shortly(name: str) -> str:
    """A driver as it is, a GPU by the first part of its uuid: ``GPU-820987e0`` is enough to distinguish GPUs."""
    found = UUID.fullmatch(name)
    return found["short"] if found else name


def gpu_label(uuid: str | None) -> str:
    """``GPU-820987e0``, or ``an unknown GPU``."""
    return "an unknown GPU" if uuid is None else shortly(uuid)


Entries = dict[str, tuple[State, Session | str]]
"""By path: the state a file was read in, and its session or the line that says why it is none."""


def read_session(file: Path) -> Session | str:
    """The session in ``file``, or why there is none.

    Of each case only id, median, verdict and fingerprint are checked, which takes a third of ``load_run``'s time.
    """
    try:
        return _session(file)
    except PeakgateError as error:
        return str(error)


def read_sessions(files: Sequence[Path], index: Path) -> Reading:
    """Every run among ``files``; what is no run is passed over with a note. ``index`` is brought up to date."""
    known: Entries = {}
    with suppress(OSError):
        known = from_text(index.read_bytes()) or {}
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
    own, *others = (names[start::processes] for start in range(processes))
    with ThreadPoolExecutor(len(others)) as threads:
        elsewhere = threads.map(_read_elsewhere, others)
        return {name: entry for share in (read_here(own), *elsewhere) for name, entry in share.items()}


def _read_elsewhere(names: Sequence[str]) -> Entries:
    """Read these files in a process of their own; here if that cannot be started."""
    done = subprocess.run(
        [sys.executable, "-m", "peakgate.reports.runs.index"],
        input=json.dumps(list(names)).encode(),
        capture_output=True,
        check=False,
    )
    entries = from_text(done.stdout) if done.returncode == 0 else None
    return read_here(names) if entries is None else entries


def to_text(entries: Entries) -> bytes:
    """A digest, then the entries as JSON; sessions share lists of cases and fingerprints, which seldom change."""
    lists: dict[tuple[str | float | None, ...], int] = {}
    records: dict[str, dict[str, Any]] = {}
    for name, (state, found) in entries.items():
        records[name] = {"state": state}
        if isinstance(found, str):
            records[name]["error"] = found
            continue
        facts = {key: getattr(found, key) for key in Session.__slots__}
        shared: dict[str, Iterable[str | float | None]] = {
            "cases": found.timed_us,
            "fingerprints": map(found.fingerprints.get, found.timed_us),
            "clocks_mhz": map(found.clocks_mhz.get, found.timed_us),
            "libraries": sorted(found.libraries),
            "host_bound_us": found.host_bound_us,
        }
        facts |= {"taken": found.taken.isoformat(), "times_us": list(found.timed_us.values())}
        facts |= {key: lists.setdefault(tuple(values), len(lists)) for key, values in shared.items()}
        records[name]["session"] = facts
    document = {"schema": INDEX_SCHEMA, "lists": [list(each) for each in lists], "records": records}
    try:
        body = orjson.dumps(document)
    except TypeError:  # half a surrogate pair in a name, which only Python's own writer takes
        body = json.dumps(document).encode()
    return b"%s\n%s\n" % (_digest(body), body)


def from_text(text: bytes) -> Entries | None:
    """What ``to_text`` wrote; None for anything else, damaged or edited."""
    digest, _, body = text.rstrip(b"\n").partition(b"\n")
    if digest != _digest(body):
        return None
    try:
        document = orjson.loads(body)
        if document["schema"] != INDEX_SCHEMA:
            return None
        return {name: _entry(record, document["lists"]) for name, record in document["records"].items()}
    except (RecursionError, ValueError, KeyError, IndexError, TypeError, AttributeError):
        return None


def _digest(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest().encode()


def in_short(run: Run | Session) -> Session:
    """What a history and the noise between sessions need of a run that was read in full."""
    if isinstance(run, Session):
        return run
    usable = [each for case, each in run.cases.items() if each.verdict not in UNUSABLE and case not in run.unmeasured]
    return Session(
        path=str(run.path),
        **{name: getattr(run, name) for name in SAME_IN_BOTH},
        times_us={each.case: each.time_us for each in usable if not each.host_bound},
        fingerprints={each.case: each.fingerprint for each in usable if each.fingerprint},
        environment=environment(run.gpu),
        clocks_mhz={each.case: each.sm_clock_mhz for each in usable if each.sm_clock_mhz},
        libraries=frozenset(each.case for each in usable if each.library),
        host_bound_us={each.case: each.time_us for each in usable if each.host_bound},
    )


def _session(file: Path) -> Session:
    document = load_document(file)
    not_measured = about(file, document).get("not_measured", [])
    if not isinstance(not_measured, list):
        refuse(file, "peakgate.not_measured is not a list", "measure again")
    undecided = [each.get("case") for each in not_measured if isinstance(each, dict)]
    times_us: dict[str, float] = {}
    host_bound_us: dict[str, float] = {}
    fingerprints, clocks_mhz, libraries, cases = {}, {}, set(), set()
    for index, benchmark in enumerate(document["benchmarks"]):
        extra, case, median_s = read_median(file, benchmark, index)
        if case in cases:
            refuse(file, f"case {case} is in it twice", "measure again: a case id names one benchmark")
        cases.add(case)
        if str(extra.get("verdict")) in UNUSABLE or case in undecided:
            continue
        (host_bound_us if extra.get("host_bound") else times_us)[case] = median_s * 1e6
        if fingerprint := text_of(file, extra, "fingerprint", case):
            fingerprints[case] = fingerprint
        elif extra.get("registers") is None:
            libraries.add(case)
        clock_mhz: Any = extra.get("sm_clock_mhz")
        if type(clock_mhz) in PLAIN_NUMBERS and clock_mhz > 0:
            clocks_mhz[case] = float(clock_mhz)
    gpu = document["machine_info"]["gpu"]
    return Session(
        **session_facts(file, document) | {"path": str(file)},
        slug=str(gpu["slug"]),
        uuid=None if gpu.get("uuid") is None else str(gpu["uuid"]),
        driver=None if gpu.get("driver") is None else str(gpu["driver"]),
        times_us=times_us,
        fingerprints=fingerprints,
        environment=environment(gpu),
        clocks_mhz=clocks_mhz,
        libraries=frozenset(libraries),
        host_bound_us=host_bound_us,
    )


def environment(gpu: Mapping[str, Any]) -> dict[str, str]:
    """What a run's machine record says of ``ENVIRONMENT``."""
    return {name: str(gpu[name]) for name in ENVIRONMENT if gpu.get(name) is not None}


def _entry(record: Mapping[str, Any], lists: Sequence[Sequence[Any]]) -> tuple[State, Session | str]:
    changed_ns, size = record["state"]
    if "error" in record:
        return (changed_ns, size), str(record["error"])
    facts = dict(record["session"])
    cases = lists[facts.pop("cases")]
    facts["taken"] = datetime.fromisoformat(facts["taken"])
    facts["times_us"] = dict(zip(cases, facts["times_us"], strict=True))
    for name in ("fingerprints", "clocks_mhz"):
        facts[name] = {case: each for case, each in zip(cases, lists[facts[name]], strict=True) if each}
    facts["host_bound_us"] = {case: facts["times_us"].pop(case) for case in lists[facts["host_bound_us"]]}
    facts["libraries"] = frozenset(lists[facts["libraries"]])
    return (changed_ns, size), Session(**facts)


if __name__ == "__main__":
    gc.disable()  # a tenth of the time, in a process that reads, answers and ends
    sys.stdout.buffer.write(to_text(read_here(json.load(sys.stdin))))
