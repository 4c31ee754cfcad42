"""The folder of a fleet, written while it runs: every finished gate, where it was measured, and what was lost.

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
"""Passes: one GPU of a node at a time, all at once, suspects again, one tier spread over all."""

GATE_ATTEMPTS = 2
"""So many workers may die under a GPU's gate before the GPU is LOST."""

WRITERS = 16
FACTS = "plan.json"
EVENTS = "events.txt"
WALL = "wall.json"
SHARES_FILE = "shares.json"

GATES_PHASE = "gates"
"""The phase that a command which only reports does not have."""


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """The work of a fleet: the same on every GPU, and the same when it is resumed."""

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


@dataclass(frozen=True, slots=True)
class Shares:
    """Which cases each GPU measures, by uuid: its own, and the ``common`` ones of all, in that order."""

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
    """The entries of a gate's file that are required; its run file is found by them."""

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
        """Gates that this process has put into the fleet's table (``dataset.gather``)."""

    @property
    def name(self) -> str:
        return self.folder.name

    def begin(self, plan: FleetPlan, places: Iterable[GpuPlace]) -> None:
        """Write down what is measured and where; called again when places join."""
        write_whole(self.folder / FACTS, json.dumps(to_builtins(Facts(1, plan, list(places))), indent=1))

    def read(self) -> tuple[FleetPlan, dict[str, GpuPlace]]:
        """The plan and the places by uuid; a PeakgateError where there is no fleet that this version can read."""
        found = records.read(self.folder / FACTS, Facts, "name a folder that this version of `peakgate fleet` wrote")
        return found.plan, {each.uuid: each for each in found.places}

    def add_event(self, text: str) -> None:
        """Keep what happened to workers and scheduler."""
        path = self.folder / EVENTS
        try:
            with open_output(path, "a") as file:
                file.write(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {text}\n")
        except OSError as error:
            raise unwritable(path, error) from None

    def add_gates(self, results: Iterable[Mapping[str, Any]]) -> None:
        """Keep what became of some gates, at once: most of the time goes to the disk's confirmations."""
        with ThreadPoolExecutor(WRITERS) as pool:
            deque(pool.map(self.add_gate, results), maxlen=0)

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
        """The wall time by phase; empty where the command was interrupted or of an earlier version."""
        return records.read(self.folder / WALL, dict[str, Finite], "delete it", absent={})

    def add_shares(self, shares: Shares) -> None:
        """Write down which GPU measures which cases."""
        write_whole(self.folder / SHARES_FILE, json.dumps(to_builtins(shares), indent=1))

    def shares(self) -> Shares | None:
        """Which GPU measures which cases; None where they were not assigned yet."""
        path = self.folder / SHARES_FILE
        return records.read(path, Shares, "begin a new fleet") if path.is_file() else None

    def gates(self) -> list[dict[str, Any]]:
        """The result of every finished gate, in the order of uuids."""
        return [_gate(path) for path in sorted((self.folder / "gates").glob("*.json"))]


def _gate(path: Path) -> dict[str, Any]:
    remedy = "delete it: its gate runs again"
    named = records.read(path, GateNames, remedy)
    if path.stem != f"{named.uuid}-{named.mode}":
        raise PeakgateError(f"{path}: is the gate of {short(named.uuid)}, {named.mode}; {remedy}", Code.NO_RUN)
    return records.read(path, dict[str, Any], remedy)


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


def name_of_fleet(name: str) -> bool:
    """Whether a text can be the name of a fleet's folder: letters and digits."""
    return name.isalnum()


def newest(root: Path) -> Store:
    """The fleet that began last; a PeakgateError where there is none."""
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
        """The phase at hand ends now, under this name; phases of one name add up."""
        now = time.monotonic()
        self.seconds[name] = round(self.seconds.get(name, 0.0) + now - self._last, 3)
        self._last = now


def in_words(seconds: Mapping[str, float]) -> str:
    """``wall time 14.1 s: start 1.2, gates 12.0, ...``."""
    parts = ", ".join(f"{name} {value:.1f}" for name, value in seconds.items())
    return f"wall time {sum(seconds.values()):.1f} s: {parts}"
