"""What a history needs of one saved run, read from its file or from an index of many.

It imports little: processes that do nothing but read start often and should start fast.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
from peakgate.common.errors import PeakgateError
from peakgate.common.schema import SCHEMA
from peakgate.reports import strict
from peakgate.reports.runfile import load_run
from peakgate.verdict import Verdict

INDEX_SCHEMA = 1
UNUSABLE = frozenset({Verdict.WRONG, Verdict.INCONCLUSIVE})
UUID = re.compile(r"(?P<short>[A-Z]+-[0-9a-f]{8})(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

State = tuple[int, int]
"""A file's time of change in nanoseconds and its size in bytes."""


@dataclass(frozen=True, slots=True)
class Session:
    """What a history needs of one saved run.

    ``times_us`` are the medians of the cases it could decide, without those that are a matter of the host as much as of
    the GPU; ``fingerprints`` the cubin hashes of those that have one.
    ``whole`` is False for a selection of cases. Unknown texts are None, an unknown commit is ``unknown``.
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


def shortly(name: str) -> str:
    """A driver as it is, a chip by the first part of its uuid: ``GPU-820987e0`` is enough to tell chips apart."""
    found = UUID.fullmatch(name)
    return found["short"] if found else name


def chip(uuid: str | None) -> str:
    """``chip GPU-820987e0``, or ``an unknown chip``."""
    return "an unknown chip" if uuid is None else f"chip {shortly(uuid)}"


Entries = dict[str, tuple[State, Session | str]]
"""By path: the state a file was read in, and its session or the line that says why it is none."""


def read_session(file: Path) -> Session | str:
    """The session in ``file``, or why there is none, in the words of the strict reader.

    This one checks a few fields of each case only, which takes a third of the time.
    """
    try:
        return _session(str(file), _parsed(file.read_bytes()))
    except (OSError, RecursionError, ValueError, KeyError, TypeError, AttributeError):
        try:
            load_run(file)
        except PeakgateError as error:
            return str(error)
    return f"{file}: unlike the runs this version writes; measure again"


def _parsed(text: bytes) -> Any:
    """The JSON in a file, by the quick parser; what it will not take (NaN, a byte order mark) by Python's own."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return json.loads(text)


def to_text(entries: Entries) -> str:
    """The entries as JSON; sessions share their lists of cases and of fingerprints, which seldom change."""
    lists: dict[tuple[str | None, ...], int] = {}
    records: dict[str, dict[str, Any]] = {}
    for name, (state, found) in entries.items():
        records[name] = {"state": state}
        if isinstance(found, str):
            records[name]["error"] = found
            continue
        facts = {key: getattr(found, key) for key in Session.__slots__}
        cases, prints = tuple(found.times_us), tuple(found.fingerprints.get(case) for case in found.times_us)
        facts |= {
            "taken": found.taken.isoformat(),
            "times_us": list(found.times_us.values()),
            "fingerprints": lists.setdefault(prints, len(lists)),
            "cases": lists.setdefault(cases, len(lists)),
        }
        records[name]["session"] = facts
    document = {"schema": INDEX_SCHEMA, "lists": [list(each) for each in lists], "records": records}
    return json.dumps(document, separators=(",", ":")) + "\n"


def from_text(text: str | bytes) -> Entries | None:
    """What ``to_text`` wrote; None for anything else."""
    try:
        document = json.loads(text)
        if document["schema"] != INDEX_SCHEMA:
            return None
        return {name: _entry(record, document["lists"]) for name, record in document["records"].items()}
    except (RecursionError, ValueError, KeyError, IndexError, TypeError, AttributeError):
        return None


def _session(path: str, document: Mapping[str, Any]) -> Session:
    """What a history needs of a run file; any of the errors ``read_session`` catches where it is not there."""
    about, commit, gpu = document["peakgate"], document.get("commit_info") or {}, document["machine_info"]["gpu"]
    taken = datetime.fromisoformat(document["datetime"])
    undecided = {each["case"] for each in about.get("not_measured", [])}
    times_us, fingerprints, cases = {}, {}, set()
    for benchmark in document["benchmarks"]:
        extra, median_s = benchmark["extra_info"], benchmark["stats"]["median"]
        case = extra["case"]
        cases.add(case)
        if strict.wrong_time(median_s):
            raise ValueError(f"median of {case}")
        if extra.get("verdict") in UNUSABLE or case in undecided or extra.get("host_bound"):
            continue
        times_us[case] = median_s * 1e6
        if extra.get("fingerprint"):
            fingerprints[case] = extra["fingerprint"]
    _check(path, gpu, about, fingerprints, cases)
    if not cases or len(cases) < len(document["benchmarks"]) or document["peakgate_schema"] != SCHEMA:
        raise ValueError(path)
    return Session(
        path=path,
        taken=taken if taken.tzinfo else taken.replace(tzinfo=UTC),
        commit=str(commit.get("id") or "unknown"),
        dirty=bool(commit.get("dirty", False)),
        slug=str(gpu["slug"]),
        uuid=None if gpu.get("uuid") is None else str(gpu["uuid"]),
        driver=None if gpu.get("driver") is None else str(gpu["driver"]),
        tier=about.get("tier"),
        whole=about.get("whole") is not False,
        times_us=times_us,
        fingerprints=fingerprints,
    )


def _check(path: str, gpu: Any, about: Any, fingerprints: Mapping[str, Any], cases: set[str]) -> None:
    """A ValueError where the strict reader would refuse the file; it says why."""
    texts = [*cases, *fingerprints.values()]
    if not all(isinstance(text, str) and not strict.too_long(text) for text in texts):
        raise ValueError(path)
    if strict.wrong_gpu(gpu) or strict.wrong_folder(Path(path), gpu["slug"]) or strict.wrong_tier(about.get("tier")):
        raise ValueError(path)


def _entry(record: Mapping[str, Any], lists: Sequence[Sequence[str | None]]) -> tuple[State, Session | str]:
    changed_ns, size = record["state"]
    if "error" in record:
        return (changed_ns, size), str(record["error"])
    facts = dict(record["session"])
    cases, prints = lists[facts.pop("cases")], lists[facts["fingerprints"]]
    facts["taken"] = datetime.fromisoformat(facts["taken"])
    facts["times_us"] = dict(zip(cases, facts["times_us"], strict=True))
    facts["fingerprints"] = {case: each for case, each in zip(cases, prints, strict=True) if each}
    return (changed_ns, size), Session(**facts)
