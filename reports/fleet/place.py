"""The GPUs of a cluster, each named by its uuid, and through which workers each can be reached.

A worker answers for the GPUs that it sees. Several workers of a node may see the same ones; a GPU belongs to its node.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from peakgate.common import records
from peakgate.common.errors import PeakgateError
from peakgate.run import inputs

NODE_VARIABLES = ("PEAKGATE_NODE", "SLURMD_NODENAME", "NODE_NAME")
"""Where a worker's node is named, in this order; else it is the host's name. In a container that is the container's."""

NO_GPUS: Mapping[str, Any] = {"gpus": [], "problem": None}
RACK_VARIABLE = "PEAKGATE_RACK"
INVENTORY_LIMIT_S = 120.0


@dataclass(frozen=True, slots=True)
class GpuPlace:
    """One GPU, or one slot of the emulator; ``facts`` is its inventory (``peakgate.device.inventory``)."""

    uuid: str
    node: str
    rack: str | None
    emulated: bool
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Worker:
    """One Dask worker: its address, its node and rack, and the GPUs it sees.

    ``problem`` says why it sees no GPU, or cannot measure; None where it can. ``asked_s`` is when it was asked, by
    ``time.monotonic`` of the process that asked.
    """

    address: str
    node: str
    rack: str | None
    gpus: tuple[Mapping[str, Any], ...]
    problem: str | None
    asked_s: float = float("-inf")


def inventory(uuid: str | None = None) -> dict[str, Any]:
    """The GPUs that this process may use, or the one of this uuid, by ``peakgate.device.inventory``."""
    only = {} if uuid is None else {"CUDA_VISIBLE_DEVICES": uuid}
    found = subprocess.run(
        [sys.executable, "-P", "-m", "peakgate.device.inventory"],
        capture_output=True,
        check=False,
        timeout=INVENTORY_LIMIT_S,
        cwd=Path.home(),
        stdin=subprocess.DEVNULL,
        env={**os.environ, **only},
    )
    try:
        answered = records.decode(found.stdout, dict[str, Any], Path("its inventory"), "")
    except PeakgateError:
        answered = {"gpus": [], "problem": f"its inventory ended with exit code {found.returncode}"}
    return answered


def answer(gpus: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What this process would say of itself as a worker, but its address, with its inventory. Runs on the worker."""
    node = next((os.environ[name] for name in NODE_VARIABLES if os.environ.get(name)), socket.gethostname())
    return {
        "node": node,
        "rack": os.environ.get(RACK_VARIABLE),
        "harness": inputs.harness(),
        **(inventory() if gpus is None else gpus),
    }


def worker(address: str, answered: Mapping[str, Any], harness: str) -> Worker:
    """A worker by what it answered; ``harness`` is the digest of the Peakgate that asks."""
    problem = answered["problem"]
    if answered["harness"] != harness:
        problem = "it runs another Peakgate than this command; install the same one on every node"
    return Worker(
        address, answered["node"], answered["rack"], tuple(answered["gpus"]), problem, asked_s=time.monotonic()
    )


def gpu_places(workers: Iterable[Worker]) -> dict[str, GpuPlace]:
    """The GPUs that these workers see, by uuid, node by node in CUDA's order."""
    found: dict[str, GpuPlace] = {}
    for each in sorted(workers, key=lambda each: (each.node, each.address)):
        for facts in each.gpus:
            uuid = str(facts["uuid"])
            found.setdefault(uuid, GpuPlace(uuid, each.node, each.rack, emulated=False, facts=facts))
    return dict(sorted(found.items(), key=lambda item: (item[1].node, str(item[1].facts.get("pci_bus_id")))))


def emulator_places(workers: Iterable[Worker]) -> dict[str, GpuPlace]:
    """As many slots of the emulator per node as it has workers; a slot is no worker, so that it outlives one."""
    found: dict[str, GpuPlace] = {}
    counted: dict[str, int] = {}
    for each in sorted(workers, key=lambda each: (each.node, each.address)):
        slot = counted.get(each.node, 0)
        counted[each.node] = slot + 1
        uuid = f"CPU-{each.node}-{slot}"
        found[uuid] = GpuPlace(uuid, each.node, each.rack, emulated=True)
    return found


def reaches(worker: Worker, place: GpuPlace) -> bool:
    """Whether a worker can measure at a place: it is on its node and, for a GPU, sees it."""
    if worker.problem is not None:
        return False
    seen = place.emulated or any(facts["uuid"] == place.uuid for facts in worker.gpus)
    return worker.node == place.node and seen


def preferred(workers: Iterable[Worker], place: GpuPlace) -> list[Worker]:
    """The workers that reach a place, first the one whose first GPU it is, as dask-cuda hands them out."""
    able = [each for each in workers if reaches(each, place)]
    return sorted(able, key=lambda each: (not each.gpus or each.gpus[0]["uuid"] != place.uuid, each.address))
