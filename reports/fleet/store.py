"""What a fleet leaves on disk while it runs: every finished gate, where it was measured, and what was lost.

A folder per fleet, named by when it began: ``plan.json`` (what is measured, and every GPU), ``events.txt`` (what was
lost), ``gates/`` (what became of each gate), ``runs/<pass>/`` (run files), ``wall.json`` (where the command's wall time
went), and of a sharded tier ``shares.json`` (which GPU measures what).
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from peakgate.common.errors import PeakgateError
from peakgate.common.files import unwritable, write_whole
from peakgate.common.processes import seconds_since_start_of
from peakgate.reports.fleet.place import Place
from peakgate.reports.fleet.shard.tier import Shares

EXCLUSIVE, TOGETHER, AGAIN, SHARD = "exclusive", "together", "again", "shard"
"""Passes: one GPU of a node at a time, all at once, suspects again, one tier spread over all."""

FACTS = "plan.json"
EVENTS = "events.txt"
WALL = "wall.json"
SHARES = "shares.json"
SCHEMA = 1

MEASURED = "gates"
"""The phase that a command which only reports does not have."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a fleet measures: the same on every GPU, and the same when it is resumed."""

    fleet: str
    digest: str
    inside: str
    commit: str
    dirty: bool
    arguments: tuple[str, ...]
    device: str
    together: bool
    harness: str
    shard: bool = False

    @property
    def mode(self) -> str:
        """The pass over all GPUs that it begins with."""
        return SHARD if self.shard else TOGETHER if self.together else EXCLUSIVE


class Store:
    """The folder of one fleet."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def name(self) -> str:
        return self.folder.name

    def begin(self, plan: Plan, places: Iterable[Place]) -> None:
        """Write down what is measured and where; called again when places join."""
        document = {
            "schema": SCHEMA,
            "plan": asdict(plan),
            "places": [asdict(each) for each in places],
        }
        write_whole(self.folder / FACTS, json.dumps(document, indent=1))

    def read(self) -> tuple[Plan, dict[str, Place]]:
        """The plan and the places by uuid; a PeakgateError where there is no fleet that this version can read."""
        path = self.folder / FACTS
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            if document["schema"] != SCHEMA:
                raise PeakgateError(
                    f"{path}: schema {document['schema']}, expected {SCHEMA}; use the Peakgate that wrote it"
                )
            plan = Plan(**document["plan"] | {"arguments": tuple(document["plan"]["arguments"])})
            places = {each["uuid"]: Place(**each) for each in document["places"]}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise PeakgateError(f"{path}: no fleet ({error}); name a folder that `peakgate fleet` wrote") from None
        return plan, places

    def add_event(self, text: str) -> None:
        """Keep what happened to workers and scheduler."""
        path = self.folder / EVENTS
        try:
            with path.open("a", encoding="utf-8") as file:
                file.write(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {text}\n")
        except OSError as error:
            raise unwritable(path, error) from None

    def add_gate(self, result: Mapping[str, Any]) -> None:
        """Keep what became of one gate, and its run file: the run first, so that a gate that is there has its run."""
        result = dict(result)
        if "run" in result:
            run = gzip.decompress(base64.b64decode(result.pop("run")))
            write_whole(self.run_file(result["uuid"], result["mode"]), run)
        write_whole(self.folder / "gates" / f"{result['uuid']}-{result['mode']}.json", json.dumps(result, indent=1))

    def run_file(self, uuid: str, mode: str) -> Path:
        return self.folder / "runs" / mode / f"{uuid}.json"

    def add_wall(self, seconds: Mapping[str, float]) -> None:
        """Keep where the wall time of the command that measured went, by phase."""
        write_whole(self.folder / WALL, json.dumps(dict(seconds), indent=1))

    def wall(self) -> dict[str, float]:
        """What was kept of it; empty where the command was interrupted or of an earlier version."""
        found: dict[str, float] = self._read(WALL) or {}
        return found

    def add_shares(self, shares: Shares) -> None:
        """Write down which GPU measures which cases."""
        write_whole(self.folder / SHARES, json.dumps(asdict(shares), indent=1))

    def shares(self) -> Shares | None:
        """Which GPU measures which cases; None where they were not assigned yet."""
        if (document := self._read(SHARES)) is None:
            return None
        return Shares(tuple(document["common"]), {uuid: tuple(cases) for uuid, cases in document["own"].items()})

    def _read(self, name: str) -> Any:
        path = self.folder / name
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None

    def gates(self) -> list[dict[str, Any]]:
        """What became of every finished gate, in the order of uuids."""
        return [json.loads(path.read_text(encoding="utf-8")) for path in sorted((self.folder / "gates").glob("*.json"))]


def new(root: Path) -> Store:
    """The folder of a new fleet, named by the time."""
    while True:
        store = Store(root / f"{datetime.now(UTC):%Y%m%dT%H%M%S%f}"[: len(str(root)) + 1 + 18])
        try:
            store.folder.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise unwritable(store.folder, error) from None
        return store


def newest(root: Path) -> Store:
    """The fleet that began last; a PeakgateError where there is none."""
    found = sorted(path.parent for path in root.glob(f"*/{FACTS}"))
    if not found:
        raise PeakgateError(f"{root}: no fleet here to continue or report; `peakgate fleet` measures one")
    return Store(found[-1])


class Phases:
    """Where the wall time of this process went, phase after phase; what came before the first mark is the first."""

    def __init__(self) -> None:
        self._last = time.monotonic() - seconds_since_start_of(os.getpid())
        self.seconds: dict[str, float] = {}

    def ends(self, name: str) -> None:
        """The phase at hand ends now, under this name; phases of one name add up."""
        now = time.monotonic()
        self.seconds[name] = round(self.seconds.get(name, 0.0) + now - self._last, 3)
        self._last = now


def in_words(seconds: Mapping[str, float]) -> str:
    """``wall time 14.1 s: start 1.2, gates 12.0, ...``."""
    parts = ", ".join(f"{name} {value:.1f}" for name, value in seconds.items())
    return f"wall time {sum(seconds.values()):.1f} s: {parts}"
