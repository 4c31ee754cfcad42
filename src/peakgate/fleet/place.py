"""Lists the GPUs of a cluster by uuid, and the Dask workers that see them.

Several workers of a node may see the same GPU.
"""

from __future__ import annotations

import os
import socket
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from peakgate.base import records
from peakgate.base.errors import PeakgateError
from peakgate.base.processes import Asked, own_module
from peakgate.run import inputs

NODE_VARIABLES = ("PEAKGATE_NODE", "SLURMD_NODENAME", "NODE_NAME")
"""Environment variables with the name of a worker's node, in this order; without them the host name is used."""

NO_GPUS: Mapping[str, Any] = {"gpus": [], "problem": None}
RACK_VARIABLE = "PEAKGATE_RACK"
INVENTORY_LIMIT_S = 120.0


@dataclass(frozen=True, slots=True)
class GpuPlace:
    """One GPU, or one slot of the emulator; ``facts`` is its inventory (``peakgate.device.nvml``)."""

    uuid: str
    node: str
    rack: str | None
    emulated: bool
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def resource(self) -> str:
        """The Dask resource that its gate requires: the GPU, or a thread of the node."""
        return thread_of(self.node) if self.emulated else self.uuid


@dataclass(frozen=True, slots=True)
class Worker:
    """One Dask worker: its node and rack, the GPUs it sees, and the number of gates that it can run at once.

    ``problem`` is why it sees no GPU or cannot measure, None if it can.
    """

    node: str
    rack: str | None
    gpus: tuple[Mapping[str, Any], ...]
    threads: int
    problem: str | None

    @property
    def resources(self) -> dict[str, float]:
        """Its Dask resources: one per GPU, and its threads; empty if it cannot measure."""
        if self.problem is not None:
            return {}
        return {thread_of(self.node): self.threads, **{str(facts["uuid"]): 1 for facts in self.gpus}}


def thread_of(node: str) -> str:
    """The Dask resource that a gate in the emulator requires."""
    return f"thread of {node}"


def inventory(uuid: str | None = None) -> dict[str, Any]:
    """The GPUs that this process may use, or the GPU ``uuid``, from ``peakgate.device.nvml``."""
    environment = dict(os.environ) if uuid is None else {**os.environ, "CUDA_VISIBLE_DEVICES": uuid}
    command = own_module("peakgate.device.nvml")
    with Asked(command, INVENTORY_LIMIT_S, cwd=Path.home(), env=environment) as asked:
        done = asked.finish()
    try:
        return records.decode(done.output, dict[str, Any], Path("its inventory"), "")
    except PeakgateError:
        return {"gpus": [], "problem": f"its inventory failed: {done.problem or 'no output'}"}


def answer(threads: int, harness: str, gpus: Mapping[str, Any] | None = None) -> Worker:
    """Describe this process as a worker; ``harness`` is the digest of the Peakgate that asks."""
    node = next((os.environ[name] for name in NODE_VARIABLES if os.environ.get(name)), socket.gethostname())
    found = inventory() if gpus is None else gpus
    problem = found["problem"]
    if inputs.harness() != harness:
        problem = "its version of Peakgate differs from this command's; install the same one on every node"
    return Worker(node, os.environ.get(RACK_VARIABLE), tuple(found["gpus"]), threads, problem)


def gpu_places(workers: Mapping[str, Worker]) -> dict[str, GpuPlace]:
    """The GPUs that the workers (by address) see, by uuid, sorted by node and PCI bus id."""
    found: dict[str, GpuPlace] = {}
    for each in _in_order(workers):
        for facts in each.gpus:
            uuid = str(facts["uuid"])
            found.setdefault(uuid, GpuPlace(uuid, each.node, each.rack, emulated=False, facts=facts))
    return dict(sorted(found.items(), key=lambda item: (item[1].node, str(item[1].facts.get("pci_bus_id")))))


def emulator_places(workers: Mapping[str, Worker]) -> dict[str, GpuPlace]:
    """One slot of the emulator per worker with threads; a slot belongs to the node and outlives the worker."""
    slots: Counter[str] = Counter()
    found: dict[str, GpuPlace] = {}
    for each in filter(lambda each: each.threads, _in_order(workers)):
        uuid = f"CPU-{each.node}-{slots[each.node]}"
        slots[each.node] += 1
        found[uuid] = GpuPlace(uuid, each.node, each.rack, emulated=True)
    return found


def _in_order(workers: Mapping[str, Worker]) -> Iterable[Worker]:
    return [workers[address] for address in sorted(workers, key=lambda address: (workers[address].node, address))]
