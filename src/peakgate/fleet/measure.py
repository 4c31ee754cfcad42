"""Measures a fleet: one gate per GPU as a task on a Dask cluster, pass by pass, saving each result as it arrives.

Every worker offers Dask one resource per GPU that it sees, named by uuid, and a gate requires that of its GPU. If a
worker dies and another one on the node sees the GPU, Dask moves the gate there; otherwise this module submits it again
when a worker offers the GPU. A GPU is LOST if that takes too long or happens too often.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import distributed

from peakgate.base.errors import CannotDecide, Code, PeakgateError
from peakgate.base.formatting import counted
from peakgate.base.progress import Progress
from peakgate.base.streams import warn
from peakgate.fleet import place, task
from peakgate.fleet.archive import ProjectArchive
from peakgate.fleet.place import GpuPlace, Worker
from peakgate.fleet.store import GATE_ATTEMPTS, SHARD, TOGETHER, FleetPlan, Store
from peakgate.run import inputs

AT_ONCE = (TOGETHER, SHARD)
"""Passes that use all GPUs of a node at the same time."""

FINAL = ("measured", "crashed", "refused")
"""Outcomes of gates that are not measured again."""

LOOPBACK = "127.0.0.1:0"
"""Address of Dask's HTTP servers: any free port on the loopback interface."""

ENGINE_POLL_S, REFRESH_S = 0.1, 2.0
RESULT_LIMIT_S = 60.0
COLLECTED_AT_ONCE = 32


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where to measure: the scheduler's address (None: this machine), and the number of workers to start or wait for.

    ``work`` is the folder on the nodes, ``wait_s`` the time to wait for a scheduler, a worker or another run on a GPU.
    """

    scheduler: str | None
    workers: int | None
    work: str
    wait_s: float


@contextmanager
def engine(
    cluster: Cluster,
    store: Store,
    packed: ProjectArchive,
    progress: Progress,
    inventory: Mapping[str, Any] = place.NO_GPUS,
) -> Iterator[Engine]:
    """The workers of a cluster; without a scheduler, of this machine, one per GPU in ``inventory``.

    Workers of this machine are threads, since gates run in processes of their own.
    """

    def say(text: str) -> None:
        progress.clear()
        warn(text)
        store.add_event(text)

    with ExitStack() as stack:
        address = cluster.scheduler
        if address is None:
            count = cluster.workers or max(len(inventory["gpus"]), 1)
            servers = dict.fromkeys(("dashboard_address", "worker_dashboard_address"), LOOPBACK)
            started = {"n_workers": count, "threads_per_worker": 1, "processes": False, "memory_limit": 0}
            local = stack.enter_context(distributed.LocalCluster(**started, **servers, silence_logs=40))
            address = local.scheduler_address
        try:
            client = distributed.Client(address, timeout=cluster.wait_s + 1, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise CannotDecide(
                f"--scheduler {address}: no Dask scheduler answers ({error}); start one: dask scheduler", Code.UPSTREAM
            ) from None
        stack.callback(client.close)
        count = cluster.workers or 1
        try:
            client.wait_for_workers(count, timeout=cluster.wait_s)
        except TimeoutError:
            there = f"{len(client.nthreads())} of {count} workers in {cluster.wait_s:.0f} s"
            raise CannotDecide(f"fleet: {there}; start more: dask worker ADDRESS", Code.UPSTREAM) from None
        yield Engine(client, packed, cluster, say, inventory if cluster.scheduler is None else None)


def places(found: Engine, device: str) -> dict[str, GpuPlace]:
    """The GPUs, or slots of the emulator, of a cluster by uuid; CannotDecide without any."""
    workers = found.workers()
    seen = place.emulator_places(workers) if device == "cpu" else place.gpu_places(workers)
    if not any(each.resource in offered(workers) for each in seen.values()):
        problems = sorted({f"{each.node}: {each.problem or 'no usable GPU'}" for each in workers.values()})
        raise CannotDecide(
            f"fleet: no GPU to measure on {counted(len(workers), 'worker')} ({'; '.join(problems[:3])}); "
            "name a cluster, --scheduler tcp://HOST:8786, or try it with --device cpu --workers 4",
            Code.NO_GPU,
        )
    return seen


def offered(workers: Mapping[str, Worker]) -> Counter[str]:
    """The sum of the workers' resources."""
    found: Counter[str] = Counter()
    for each in workers.values():
        found.update(each.resources)
    return found


def run_pass(
    *, found: Engine, store: Store, plan: FleetPlan, where: Sequence[GpuPlace], mode: str, progress: Progress
) -> None:
    """Measure one pass at the places that have no result of it yet, and save each result as it arrives."""
    final = {gate["uuid"] for gate in store.gates() if gate["mode"] == mode and gate["outcome"] in FINAL}
    left = [each for each in where if each.uuid not in final]
    shares = store.shares()
    together, began = mode in AT_ONCE, time.monotonic()
    outcomes: Counter[str] = Counter()

    def job(each: GpuPlace) -> task.Job:
        cases = shares.of(each.uuid) if shares else ()
        return task.Job(plan, each.uuid, mode, each.emulated, found.cluster.work, found.cluster.wait_s, cases)

    progress.step(mode, len(left), "gate")
    for batch in found.measure(left, job, together=together):
        store.add_gates({**result, "uuid": each.uuid, "mode": mode, "node": each.node} for each, result in batch)
        outcomes.update(result["outcome"] for _, result in batch)
        done, counts = outcomes.total(), ", ".join(f"{count} {outcome}" for outcome, count in outcomes.items())
        left_s = None if together else (time.monotonic() - began) / done * (len(left) - done)
        progress.step(f"{mode}: {counts}", len(left), "gate", done=done, seconds_left=left_s)
    progress.clear()


@dataclass(slots=True, eq=False)
class _Gate:
    """The gate of one GPU in a pass: its Dask task if submitted, and the number of workers that died running it.

    ``served_s`` is when a worker was last available for it, by ``time.monotonic``.
    """

    where: GpuPlace
    future: Any = None
    workers_lost: int = 0
    served_s: float = field(default_factory=time.monotonic)

    @property
    def cancelled(self) -> bool:
        """Whether Dask dropped its task, because the scheduler was lost."""
        return self.future is not None and self.future.cancelled()

    def withdraw(self) -> None:
        """Cancel its task, if it was submitted."""
        if self.future is not None:
            self.future.cancel()
            self.future = None


class Engine:
    """The workers of one cluster, and the gates that run on them.

    ``inventory`` is that of every worker, if known. Waits ``cluster.wait_s`` for a lost scheduler, and as long for a
    worker that sees a GPU.
    """

    def __init__(
        self,
        client: distributed.Client,
        packed: ProjectArchive,
        cluster: Cluster,
        say: Callable[[str], object],
        inventory: Mapping[str, Any] | None = None,
    ) -> None:
        self.cluster = cluster
        self._client, self._packed, self._say, self._inventory = client, packed, say, inventory
        self._workers: dict[str, Worker] = {}
        self._refreshed_s = float("-inf")
        self._events: deque[Any] = deque()

    def _listen(self) -> None:
        """Subscribe to Dask's events on workers."""
        self._client.subscribe_topic("all", lambda event: self._events.append(event[1]))

    def workers(self) -> dict[str, Worker]:
        """The current workers by address; new ones get the project and offer Dask their GPUs."""
        there = self._client.nthreads()
        new = [address for address in there if address not in self._workers]
        self._workers = {address: each for address, each in self._workers.items() if address in there}
        if new:
            project = (self.cluster.work, self._packed.digest)
            answered = dict(self._client.run(task.has_archive, *project, workers=new, on_error="return"))
            for here, data in ((True, None), (False, self._packed.data)):
                about = (*project, data, inputs.harness(), self._inventory)
                if asked := [address for address, found in answered.items() if found is here]:
                    answered |= self._client.run(task.offer, *about, workers=asked, on_error="return")
            self._workers |= {
                address: _worker(address, answer)
                for address, answer in answered.items()
                if not isinstance(answer, OSError)  # it is shutting down, or is asked again
            }
        self._refreshed_s = time.monotonic()
        return dict(self._workers)

    def measure(
        self, where: Sequence[GpuPlace], job: Callable[[GpuPlace], task.Job], *, together: bool
    ) -> Iterator[list[tuple[GpuPlace, dict[str, Any]]]]:
        """Measure at every place; yields lists of new results."""
        gates = [_Gate(each) for each in where]
        self._listen()
        try:
            while gates:
                ended: list[tuple[_Gate, dict[str, Any]]] = []
                try:
                    if self._client.status != "running" or any(each.cancelled for each in gates):
                        self._wait_for_scheduler(gates)
                    self._refresh(gates)
                    self._submit(gates, job, together=together)
                    ended = self._ended(gates)
                except (OSError, TimeoutError, distributed.CancelledError):
                    self._refreshed_s = float("-inf")  # a worker or the scheduler is shutting down: look again
                if ended:
                    gone = {id(each) for each, _ in ended}
                    gates = [each for each in gates if id(each) not in gone]
                    yield [(each.where, {**result, "workers_lost": each.workers_lost}) for each, result in ended]
                time.sleep(ENGINE_POLL_S)
        finally:
            for each in gates:
                each.withdraw()
            if self._client.status == "running":
                self._client.unsubscribe_topic("all")

    def _wait_for_scheduler(self, gates: Sequence[_Gate]) -> None:
        """Wait until Dask's client has reconnected; all tasks are lost then. CannotDecide if it fails."""
        self._say("the scheduler was lost; waiting for it")
        for each in gates:
            each.future = None
        while self._client.status == "connecting":
            time.sleep(ENGINE_POLL_S)
        if self._client.status != "running":
            raise CannotDecide(
                f"no scheduler for {self.cluster.wait_s:.0f} s; restart it, then `peakgate fleet --resume`",
                Code.UPSTREAM,
            )
        self._listen()
        self._workers.clear()
        self._events.clear()  # workers lost with their scheduler say nothing about their GPUs
        self._refreshed_s = float("-inf")
        for each in gates:
            each.served_s, each.workers_lost = time.monotonic(), 0

    def _refresh(self, gates: Sequence[_Gate]) -> None:
        """Every REFRESH_S, look for new workers and for gates without a worker.

        Dask does not reconsider a task when an existing worker offers more resources: such a gate is submitted again.
        """
        now = time.monotonic()
        if now - self._refreshed_s < REFRESH_S:
            return
        there = offered(self.workers())
        assigned = {key for keys in self._client.processing().values() for key in keys}
        for each in gates:
            if each.future is not None and each.future.key not in assigned and not each.future.done():
                if now - each.served_s >= REFRESH_S:
                    each.withdraw()
            elif each.future is not None or each.where.resource in there:
                each.served_s = now

    def _submit(self, gates: Sequence[_Gate], job: Callable[[GpuPlace], task.Job], *, together: bool) -> None:
        """Submit as many gates as the nodes have threads (``together``), or one gate per node."""
        there = offered(self._workers)
        room = Counter(
            {each.node: there[place.thread_of(each.node)] if together else 1 for each in self._workers.values()}
        )
        room.subtract(each.where.node for each in gates if each.future is not None)
        for each in gates:
            where = each.where
            if each.future is None and room[where.node] > 0 and where.resource in there:
                taken = {where.resource: 1}
                each.future = self._client.submit(task.gate, job(where), resources=taken, pure=False)
                each.served_s = time.monotonic()
                room[where.node] -= 1

    def _ended(self, gates: Sequence[_Gate]) -> list[tuple[_Gate, dict[str, Any]]]:
        """The results of finished gates; one without a result is submitted again, up to GATE_ATTEMPTS times."""
        self._count_deaths(gates)
        found = []
        done = [each for each in gates if each.future is not None and each.future.done()]
        with ThreadPoolExecutor(COLLECTED_AT_ONCE) as pool:  # each result is on a different worker
            results = dict(zip(map(id, done), pool.map(_taken, [each.future for each in done]), strict=True))
        for each in gates:
            result = results.get(id(each))
            if result is None and each.workers_lost >= GATE_ATTEMPTS:
                result = _lost(f"{each.workers_lost} workers died while running its gate")
            elif each.future is None and time.monotonic() - each.served_s >= self.cluster.wait_s:
                problems = (one.problem for one in self._workers.values() if one.node == each.where.node)
                why = next(filter(None, problems), "no worker reaches it")
                result = _lost(f"{why}, for {self.cluster.wait_s:.0f} s")
            if result is not None:
                each.withdraw()
                found.append((each, result))
            elif each.future is not None and each.future.done():
                each.withdraw()
        return found

    def _count_deaths(self, gates: Sequence[_Gate]) -> None:
        """Report workers that Dask has lost, and count them for the gates that they were running."""
        while self._events:
            event = self._events.popleft()
            if isinstance(event, Mapping) and event.get("action") == "remove-worker":
                self._workers.pop(event["worker"], None)
                for each in gates:
                    if each.future is not None and each.future.key in event["processing-tasks"]:
                        each.workers_lost += 1
                        self._say(f"{each.where.uuid}: its worker was lost")


def _worker(address: str, answer: Worker | Exception) -> Worker:
    """A worker from its answer; one that failed offers no GPU. Raises a PeakgateError that it answered."""
    if isinstance(answer, Worker):
        return answer
    if isinstance(answer, PeakgateError):
        raise answer
    problem = f"it cannot run this Peakgate ({type(answer).__name__}: {answer}); install the same one on every node"
    return Worker(address, None, (), 0, problem)


def _lost(reason: str) -> dict[str, Any]:
    return {"outcome": "lost", "reason": reason}


def _taken(future: Any) -> dict[str, Any] | None:
    """The result of a gate's task; None if it must be measured again."""
    error = future.exception(timeout=RESULT_LIMIT_S)
    if error is None:
        return dict(future.result(timeout=RESULT_LIMIT_S))
    if isinstance(error, PeakgateError):
        return {"outcome": "refused", "reason": str(error)}
    if isinstance(error, distributed.KilledWorker | distributed.CancelledError):
        return None
    return {"outcome": "crashed", "reason": f"{type(error).__name__}: {error}"}
