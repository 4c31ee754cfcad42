"""Measure a fleet: the cluster, the passes over its GPUs, and what is kept as they finish."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import distributed
from peakgate.common.errors import CannotDecide
from peakgate.common.output import warn
from peakgate.common.progress import Progress
from peakgate.common.text import counted
from peakgate.reports.fleet import place, task
from peakgate.reports.fleet.archive import ProjectArchive
from peakgate.reports.fleet.engine import Engine
from peakgate.reports.fleet.place import GpuPlace
from peakgate.reports.fleet.store import SHARD, TOGETHER, FleetPlan, Store

AT_ONCE = (TOGETHER, SHARD)
"""Passes that load all GPUs of a node at the same time."""

FINAL = ("measured", "crashed", "refused")
"""What becomes of a gate that is not measured again."""

CLUSTER_START_LIMIT_S = 60
LOOPBACK = "127.0.0.1:0"
"""Where Dask's HTTP servers listen: any free port, for nobody outside this machine."""

PROGRESS_EVERY_S = 30.0


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where to measure: the scheduler's address (None: this machine), how many workers to start or to wait for.

    ``work`` is the folder on the nodes; ``wait_s`` how long to wait for a scheduler, a worker or another run on a GPU.
    """

    scheduler: str | None
    workers: int | None
    device: str
    work: str
    wait_s: float


@contextmanager
def engine(
    cluster: Cluster, store: Store, progress: Progress, inventory: Mapping[str, Any] = place.NO_GPUS
) -> Iterator[Engine]:
    """The workers of a cluster; of this machine, one per GPU of its ``inventory``, where no scheduler is named.

    Workers of this machine are threads: what could end a process is in the gates' own.
    """

    def connect() -> distributed.Client:
        return distributed.Client(address, timeout=min(CLUSTER_START_LIMIT_S, cluster.wait_s + 1), set_as_default=False)

    def say(text: str) -> None:
        progress.clear()
        warn(text)
        store.add_event(text)

    with ExitStack() as stack:
        address, answers = cluster.scheduler, None
        if address is None:
            count = cluster.workers or _workers_here(cluster.device, inventory)
            servers = dict.fromkeys(("dashboard_address", "worker_dashboard_address"), LOOPBACK)
            started = {"n_workers": count, "threads_per_worker": 1, "processes": False, "memory_limit": 0}
            local = stack.enter_context(distributed.LocalCluster(**started, **servers, silence_logs=40))
            address, answers = local.scheduler_address, place.answer(inventory)
        try:
            found = Engine(connect, cluster.wait_s, say, answers)
        except (OSError, TimeoutError, ValueError) as error:
            raise CannotDecide(
                f"--scheduler {address}: no Dask scheduler answers ({error}); start one: dask scheduler"
            ) from None
        stack.callback(found.close)
        found.wait_for_workers(cluster.workers or 1)
        yield found


def places(found: Engine, device: str) -> dict[str, GpuPlace]:
    """The places of a cluster by uuid: GPUs, or slots of the emulator; CannotDecide where there is none."""
    workers = found.workers()
    seen = place.emulator_places(workers) if device == "cpu" else place.gpu_places(workers)
    able = {uuid: where for uuid, where in seen.items() if any(place.reaches(each, where) for each in workers)}
    if not able:
        problems = sorted({f"{each.node}: {each.problem or 'no GPU answers'}" for each in workers})
        raise CannotDecide(
            f"fleet: no GPU to measure on {len(workers)} workers ({'; '.join(problems[:3])}); "
            "--device cpu tries it without"
        )
    return seen


def run_pass(
    *,
    found: Engine,
    store: Store,
    plan: FleetPlan,
    where: Sequence[GpuPlace],
    mode: str,
    packed: ProjectArchive,
    cluster: Cluster,
    progress: Progress,
) -> None:
    """Measure one pass at the places that have no result of it yet, and keep each result as it comes."""
    final = {gate["uuid"] for gate in store.gates() if gate["mode"] == mode and gate["outcome"] in FINAL}
    left = [each for each in where if each.uuid not in final]
    shares = store.shares()
    together, began = mode in AT_ONCE, time.monotonic()
    outcomes: Counter[str] = Counter()

    def job(each: GpuPlace) -> task.Job:
        cases = shares.of(each.uuid) if shares else ()
        return task.Job(plan, each.uuid, mode, each.emulated, cluster.work, cluster.wait_s, cases=cases)

    def finished(result: dict[str, Any]) -> None:
        store.add_gate(result)
        outcomes[result["outcome"]] += 1
        done, counts = outcomes.total(), ", ".join(f"{count} {outcome}" for outcome, count in outcomes.items())
        left_s = None if together else (time.monotonic() - began) / done * (len(left) - done)
        progress.show(f"{mode}: {done} of {counted(len(left), 'gate')}: {counts}", left_s)

    found.measure(left, job, packed.data, together=together, finished=finished)
    progress.clear()


def _workers_here(device: str, inventory: Mapping[str, Any]) -> int:
    if device == "cpu":
        return 1
    if not inventory["gpus"]:
        raise CannotDecide(
            f"fleet: no GPU answers on this machine ({inventory['problem'] or 'see nvidia-smi'}); name a cluster, "
            "--scheduler tcp://HOST:8786, or try it with --device cpu --workers 4"
        )
    return len(inventory["gpus"])
