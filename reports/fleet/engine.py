"""Place one gate per GPU on the workers of a Dask cluster, and take up again what was lost.

Each gate is pinned to a worker that sees its GPU. A node measures one GPU at a time, or all at once. A gate whose
worker dies is measured again on the same GPU; a GPU that no worker reaches any more is LOST. When the scheduler is
gone its gates are submitted again as soon as it is back.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import distributed
from peakgate.common.errors import CannotDecide, PeakgateError
from peakgate.reports.fleet import place, task
from peakgate.reports.fleet.place import GpuPlace, Worker
from peakgate.run import inputs

GATE_ATTEMPTS = 2
"""So many workers may die under a GPU's gate before the GPU is LOST."""

ENGINE_POLL_S = 0.1
FRESH_S = 10.0
"""What a worker said of its GPUs is their state before a gate that begins so soon after."""

REFRESH_S = 2.0
GateResult = dict[str, Any]


class Engine:
    """The workers of one cluster, and the gates that run on them.

    ``connect`` makes a client of the cluster's scheduler; it is called again when the scheduler was gone. ``answers``
    is what every worker says of itself (``place.answer``) where that is known; without it they are asked. It waits
    ``wait_s`` for a scheduler that is gone, and as long for a worker that reaches a GPU.
    """

    def __init__(
        self,
        connect: Callable[[], distributed.Client],
        wait_s: float,
        say: Callable[[str], object],
        answers: Mapping[str, Any] | None = None,
    ) -> None:
        self._connect, self._wait_s, self._say, self._answers = connect, wait_s, say, answers
        self._client = connect()
        self._harness = inputs.harness()
        self._known: dict[str, Worker] = {}
        self._capacity: dict[str, int] = {}
        self._refreshed = float("-inf")
        self._served: set[str] = set()

    def close(self) -> None:
        """Leave the cluster; what still runs there ends by itself."""
        self._client.close()

    def wait_for_workers(self, count: int) -> None:
        """Wait until so many workers are there; CannotDecide when they do not come."""
        try:
            self._client.wait_for_workers(count, timeout=self._wait_s)
        except TimeoutError:
            there = len(self._client.nthreads())
            raise CannotDecide(
                f"fleet: {there} of {count} workers in {self._wait_s:.0f} s; start more: dask worker ADDRESS"
            ) from None

    def workers(self) -> list[Worker]:
        """The workers that are there now; new ones are asked what they see."""
        if time.monotonic() - self._refreshed >= REFRESH_S:
            self._capacity = dict(self._client.nthreads())
            if new := [address for address in self._capacity if address not in self._known]:
                for address, answered in self._ask(new).items():
                    if isinstance(answered, Mapping):
                        self._known[address] = place.worker(address, answered, self._harness)
            self._refreshed = time.monotonic()
        return [self._known[address] for address in self._capacity if address in self._known]

    def _ask(self, addresses: list[str]) -> Mapping[str, Any]:
        if self._answers is not None:
            return dict.fromkeys(addresses, self._answers)
        answered: Mapping[str, Any] = self._client.run(place.answer, workers=addresses, on_error="return")
        return answered

    def _reconnect(self, why: Exception | None) -> None:
        """A client of the scheduler that is back; CannotDecide when it does not come back."""
        self._say(f"the scheduler is gone{f' ({why})' if why else ''}; waiting for it")
        until = time.monotonic() + self._wait_s
        self._client.close(timeout=1)
        while True:
            try:
                self._client = self._connect()
            except (OSError, TimeoutError):
                if time.monotonic() >= until:
                    raise CannotDecide(
                        f"the scheduler is gone for {self._wait_s:.0f} s; start it again, "
                        "then `peakgate fleet --resume`"
                    ) from None
                time.sleep(ENGINE_POLL_S)
            else:
                self._refreshed = float("-inf")
                self._served.clear()
                return

    def measure(
        self,
        places: Iterable[GpuPlace],
        job: Callable[[GpuPlace], task.Job],
        archive: bytes,
        *,
        together: bool,
        finished: Callable[[GateResult], object],
    ) -> None:
        """Measure at every place; ``finished`` gets what became of each, in the order in which they finish."""
        gates = _Gates({each.uuid: each for each in places}, job, finished)
        try:
            while gates.open:
                problem = None
                if self._client.status == "running":
                    try:
                        self._step(gates, archive, together=together)
                    except (OSError, TimeoutError, distributed.CancelledError) as error:
                        problem = error
                        self._refreshed = float("-inf")  # a worker that is just going: look again
                if self._client.status != "running":
                    self._reconnect(problem)
                    gates.submit_again()
                time.sleep(ENGINE_POLL_S)
        finally:
            for future, _ in gates.running.values():
                future.cancel()

    def _step(self, gates: _Gates, archive: bytes, *, together: bool) -> None:
        before = self._refreshed
        by_node: dict[str, list[Worker]] = {}
        for each in self.workers():
            by_node.setdefault(each.node, []).append(each)
        addresses = set(self._capacity)
        for uuid, (future, address) in list(gates.running.items()):
            found = _taken(future, there=address in addresses)
            if found is not None:
                gates.ended(uuid, found, worker_lost=address not in addresses, say=self._say)
        self._submit(gates, by_node, archive, together=together)
        if self._refreshed != before:
            for uuid, where in list(gates.pending.items()):
                if any(place.reaches(each, where) for each in by_node.get(where.node, ())):
                    gates.reached[uuid] = time.monotonic()
                elif time.monotonic() - gates.reached[uuid] >= self._wait_s:
                    problems = (each.problem for each in self._known.values() if each.node == where.node)
                    why = next(filter(None, problems), "no worker reaches it")
                    gates.lost(uuid, f"{why}, for {self._wait_s:.0f} s")

    def _submit(self, gates: _Gates, by_node: Mapping[str, list[Worker]], archive: bytes, *, together: bool) -> None:
        """Submit what the workers have room for."""
        load = Counter(address for _, address in gates.running.values())
        busy = {gates.places[uuid].node for uuid in gates.running}
        for uuid, where in list(gates.pending.items()):
            if where.node in busy and not together:
                continue
            able = place.preferred(by_node.get(where.node, ()), where)
            free = [each for each in able if load[each.address] < self._capacity[each.address]]
            if not free:
                continue
            chosen = min(free, key=lambda each: load[each.address])
            wanted = replace(gates.job(where), seen=_seen(chosen, where))
            self._serve(chosen, wanted, archive)
            future = self._client.submit(
                task.gate, wanted, workers=[chosen.address], allow_other_workers=False, pure=False, retries=0
            )
            gates.running[uuid] = future, chosen.address
            del gates.pending[uuid]
            load[chosen.address] += 1
            busy.add(where.node)

    def _serve(self, worker: Worker, job: task.Job, archive: bytes) -> None:
        """See to it that a worker's node has the project."""
        if worker.address in self._served:
            return
        here, digest = [worker.address], job.plan.digest
        if not self._client.run(task.has_archive, job.work, digest, workers=here)[worker.address]:
            self._client.run(task.receive, job.work, digest, archive, workers=here)
        self._served.add(worker.address)


class _Gates:
    """The gates of one pass: those to submit, those that run, and how often a worker died under each."""

    def __init__(
        self, places: dict[str, GpuPlace], job: Callable[[GpuPlace], task.Job], finished: Callable[[GateResult], object]
    ) -> None:
        self.places, self.job, self._finished = places, job, finished
        self.pending = dict(places)
        self.running: dict[str, tuple[Any, str]] = {}
        """By uuid the gate's future and the address of its worker."""
        self.reached = dict.fromkeys(places, time.monotonic())
        self._deaths: Counter[str] = Counter()

    @property
    def open(self) -> bool:
        return bool(self.pending or self.running)

    def ended(self, uuid: str, found: GateResult, *, worker_lost: bool, say: Callable[[str], object]) -> None:
        """Take a gate's result; without one (empty) it is measured again, unless that happened too often."""
        del self.running[uuid]
        if found:
            self._finish(uuid, found)
            return
        if worker_lost:
            self._deaths[uuid] += 1
            say(f"{uuid}: its worker was lost")
        self.pending[uuid] = self.places[uuid]
        self.reached[uuid] = time.monotonic()
        if self._deaths[uuid] >= GATE_ATTEMPTS:
            self.lost(uuid, f"{self._deaths[uuid]} workers died under its gate")

    def lost(self, uuid: str, reason: str) -> None:
        """Give a GPU up."""
        del self.pending[uuid]
        self._finish(uuid, {"outcome": "lost", "reason": reason})

    def submit_again(self) -> None:
        """The scheduler, and with it everything that ran, was gone; no worker is to blame."""
        for uuid in self.running:
            self.pending[uuid] = self.places[uuid]
        self.running.clear()
        self.reached = dict.fromkeys(self.places, time.monotonic())

    def _finish(self, uuid: str, found: GateResult) -> None:
        where = self.places[uuid]
        about = {"uuid": uuid, "mode": self.job(where).mode, "node": where.node, "workers_lost": self._deaths[uuid]}
        self._finished(found | about)


def _taken(future: Any, *, there: bool) -> GateResult | None:
    """What a gate that ended left: its result, or nothing (empty) where it has to be measured again; None: it runs.

    ``there`` is whether its worker still is.
    """
    if future.status == "pending" and there:
        return None
    if future.status == "pending":
        future.cancel()  # the task would wait for this very worker for ever
    if future.status == "finished":
        return dict(future.result(timeout=60))
    error = future.exception(timeout=60) if future.status == "error" else None
    if isinstance(error, PeakgateError):
        return {"outcome": "refused", "reason": str(error)}
    if error is not None and not isinstance(error, RuntimeError | distributed.KilledWorker):
        return {"outcome": "crashed", "reason": f"{type(error).__name__}: {error}"}
    return {}


def _seen(worker: Worker, where: GpuPlace) -> Mapping[str, Any] | None:
    """What a worker said of a GPU a moment ago; None where that is too long ago."""
    fresh = time.monotonic() - worker.asked_s <= FRESH_S
    return next((dict(facts) for facts in worker.gpus if fresh and facts["uuid"] == where.uuid), None)
