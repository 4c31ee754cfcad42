"""The folder of a fleet, written while it runs: plan, finished gates, and lost workers.

It is named by its start time and contains ``plan.json`` (what is measured, and all GPUs), ``events.txt`` (lost workers
and schedulers), ``gates/`` (results of gates), ``runs/<pass>/`` (run files), ``wall.json`` (the command's wall time by
phase), and for a sharded tier ``shares.json`` (which GPU measures which cases).
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import time
from collections import deque
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, to_builtins

from peakgate.base import records
from peakgate.base.errors import Code, PeakgateError
from peakgate.base.files import open_output, output_folder, unwritable, write_whole
from peakgate.base.formatting import short
from peakgate.base.processes import seconds_since_start_of
from peakgate.base.records import Finite
from peakgate.fleet.place import GpuPlace

EXCLUSIVE, TOGETHER, AGAIN, SHARD = "exclusive", "together", "again", "shard"
"""Passes: one GPU of a node at a time, all at once, suspects again, one tier spread over all GPUs."""

GATE_ATTEMPTS = 2
"""A GPU is LOST after so many workers died while running its gate."""

WRITERS = 16
FACTS = "plan.json"
EVENTS = "events.txt"
WALL = "wall.json"
SHARES_FILE = "shares.json"

GATES_PHASE = "gates"
"""The phase of measuring, absent in a command that only reports."""


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """What a fleet measures, equal for every GPU and for --resume."""

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
        """The first pass over all GPUs."""
        return SHARD if self.shard else TOGETHER if self.together else EXCLUSIVE


@dataclass(frozen=True, slots=True)
class Shares:
    """The cases that each GPU measures: the ``common`` ones of all, and its own by uuid."""

    common: tuple[str, ...]
    own: dict[str, tuple[str, ...]]

    def of(self, uuid: str) -> tuple[str, ...]:
        """The cases of one GPU."""
        return (*self.common, *self.own[uuid])

    @property
    def cases(self) -> tuple[str, ...]:
        """Every case, once."""
        return (*self.common, *(case for cases in self.own.values() for case in cases))


class Facts(Struct):
    """``plan.json``."""

    schema: Literal[1]
    plan: FleetPlan
    places: list[GpuPlace]


class GateNames(Struct):
    """The validated entries of a gate's file."""

    uuid: str
    mode: Literal["exclusive", "together", "again", "shard"]
    outcome: Literal["measured", "unfit", "refused", "crashed", "lost"]
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None


class Store:
    """The folder of one fleet."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.gathered: set[str] = set()
        """Gates that this process has added to the fleet's table (``dataset.gather``)."""

    @property
    def name(self) -> str:
        return self.folder.name

    def begin(self, plan: FleetPlan, places: Iterable[GpuPlace]) -> None:
        """Write the plan and the places; called again when places join."""
        write_whole(self.folder / FACTS, json.dumps(to_builtins(Facts(1, plan, list(places))), indent=1))

    def read(self) -> tuple[FleetPlan, dict[str, GpuPlace]]:
        """The plan and the places by uuid; PeakgateError if the folder is not a fleet of this version."""
        found = records.read(self.folder / FACTS, Facts, "name a folder that this version of `peakgate fleet` wrote")
        return found.plan, {each.uuid: each for each in found.places}

    def add_event(self, text: str) -> None:
        """Append an event of workers or scheduler to events.txt."""
        path = self.folder / EVENTS
        try:
            with open_output(path, "a") as file:
                file.write(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {text}\n")
        except OSError as error:
            raise unwritable(path, error) from None

    def add_gates(self, results: Iterable[Mapping[str, Any]]) -> None:
        """Save the results of gates in parallel, since most of the time is spent waiting for fsync."""
        with ThreadPoolExecutor(WRITERS) as pool:
            deque(pool.map(self.add_gate, results), maxlen=0)

    def add_gate(self, result: Mapping[str, Any]) -> None:
        """Save the result of one gate, after its run file, so that a saved gate always has its run."""
        result = dict(result)
        if "run" in result:
            run = gzip.decompress(base64.b64decode(result.pop("run")))
            write_whole(self.run_file(result["uuid"], result["mode"]), run)
        write_whole(self.folder / "gates" / f"{result['uuid']}-{result['mode']}.json", json.dumps(result, indent=1))

    def run_file(self, uuid: str, mode: str) -> Path:
        return self.folder / "runs" / mode / f"{uuid}.json"

    def add_wall(self, seconds: Mapping[str, float]) -> None:
        """Save the measuring command's wall time by phase."""
        write_whole(self.folder / WALL, json.dumps(dict(seconds), indent=1))

    def wall(self) -> dict[str, float]:
        """The wall time by phase; empty if the command was interrupted."""
        return records.read(self.folder / WALL, dict[str, Finite], "delete it", absent={})

    def add_shares(self, shares: Shares) -> None:
        """Save which GPU measures which cases."""
        write_whole(self.folder / SHARES_FILE, json.dumps(to_builtins(shares), indent=1))

    def shares(self) -> Shares | None:
        """Which GPU measures which cases; None if not assigned."""
        path = self.folder / SHARES_FILE
        return records.read(path, Shares, "begin a new fleet") if path.is_file() else None

    def gates(self) -> list[dict[str, Any]]:
        """The results of all finished gates, sorted by uuid; PeakgateError for a damaged file."""
        found, remedy = [], "delete it: its gate runs again"
        for path in sorted((self.folder / "gates").glob("*.json")):
            named = records.read(path, GateNames, remedy)
            if path.stem != f"{named.uuid}-{named.mode}":
                gate = f"the gate of {short(named.uuid)}, {named.mode}"
                raise PeakgateError(f"{path}: holds {gate}; {remedy}", Code.NO_RUN)
            found.append(records.read(path, dict[str, Any], remedy))
        return found


def new(root: Path) -> Store:
    """The folder of a new fleet, named by the time."""
    while True:
        store = Store(root / f"{datetime.now(UTC):%Y%m%dT%H%M%S%f}")
        try:
            with output_folder(root) as folder:
                os.mkdir(store.folder.name, dir_fd=folder)
        except FileExistsError:
            continue
        except OSError as error:
            raise unwritable(store.folder, error) from None
        return store


def newest(root: Path) -> Store:
    """The fleet that started last; PeakgateError without any."""
    found = sorted(path.parent for path in root.glob(f"*/{FACTS}"))
    if not found:
        raise PeakgateError(
            f"{root}: no fleet here to continue or report; `peakgate fleet` measures one", Code.WHICH_RUN
        )
    return Store(found[-1])


class FleetPhases:
    """The wall time of this process by phase; the first phase begins with the process."""

    def __init__(self) -> None:
        self._last = time.monotonic() - seconds_since_start_of(os.getpid())
        self.seconds: dict[str, float] = {}

    def ends(self, name: str) -> None:
        """End the current phase and add its time to ``name``."""
        now = time.monotonic()
        self.seconds[name] = round(self.seconds.get(name, 0.0) + now - self._last, 3)
        self._last = now


def in_words(seconds: Mapping[str, float]) -> str:
    """``wall time 14.1 s: start 1.2, gates 12.0, ...``."""
    parts = ", ".join(f"{name} {value:.1f}" for name, value in seconds.items())
    return f"wall time {sum(seconds.values()):.1f} s: {parts}"
