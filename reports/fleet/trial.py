"""``python -m peakgate.reports.fleet.trial FOLDER``: run fleets on this machine's GPUs and see that nothing gets lost.

In the project at hand, part by part (``--parts``), each written into FOLDER as it ends:

- ``warm``: a fleet with all GPUs at once, which builds everything;
- ``one``: a fleet of one GPU; ``together``: of all GPUs at once; ``exclusive``: one GPU at a time;
- ``alone``: ``peakgate bench`` of one GPU, without a fleet, twice; ``shard``: the full tier spread over all GPUs;
- ``losses``: a fleet with a scheduler and workers of its own, of which one is killed midway and, with ``--restart``,
  the scheduler too.

``summary.json`` has the wall times, by phase, and what became of every GPU. Other options go to ``peakgate fleet``:
``--device cpu --workers 4`` tries it on the emulator.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import distributed
from peakgate.common.errors import PeakgateError, refused
from peakgate.common.files import write_whole
from peakgate.common.processes import end_group
from peakgate.reports.fleet import dataset, place
from peakgate.reports.fleet import store as stores
from peakgate.reports.fleet.store import CASES
from peakgate.verdict import ExitCode

LIMIT_S = 600.0
PEAKGATE = (sys.executable, "-P", "-m", "peakgate")
HALF_WAY = 0.4
"""A worker is killed when this fraction of all cases is finished."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts; 0 when every GPU is accounted for and was measured, 1 when not."""
    parser = argparse.ArgumentParser(
        prog="python -m peakgate.reports.fleet.trial",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", choices=("gpu", "cpu"), default="gpu")
    parser.add_argument("--workers", type=int, help="default: one per GPU")
    parser.add_argument(
        "--restart", action="store_true", help="restart the scheduler too, with the fleet's command killed"
    )
    parser.add_argument("--parts", default="alone,exclusive,together,losses", help="in the order to run them")
    options, for_fleet = parser.parse_known_args(arguments)
    gpus = [str(gpu["uuid"]) for gpu in place.inventory()["gpus"]] if options.device == "gpu" else []
    workers = options.workers or len(gpus)
    folder = options.folder.absolute()
    if not workers:
        return refused(PeakgateError("trial: no GPU answers here; --device cpu --workers 4 tries it without"))
    folder.mkdir(parents=True, exist_ok=True)
    parts = options.parts.split(",")
    trial = _Trial(folder, workers, gpus, for_fleet, restart=options.restart)
    if unknown := sorted(set(parts) - trial.parts.keys()):
        return refused(PeakgateError(f"--parts {unknown[0]}: expected some of {', '.join(trial.parts)}"))
    try:
        for name in parts:
            trial.part(name, trial.parts[name])
    except PeakgateError as error:
        return refused(error)
    trial.trim()
    return ExitCode.OK if trial.whole else ExitCode.REGRESSION


def without_serials(folder: Path) -> None:
    """Take the GPUs' serial numbers out of the fleets' files: a record may be published, they may not."""
    for path in folder.rglob(dataset.FILE):
        dataset.write(dataset.read(path).assign(serial=None), path)
    for path in (*folder.rglob("plan.json"), *folder.rglob("gates/*.json")):
        write_whole(path, json.dumps(_without_serials(json.loads(path.read_text(encoding="utf-8"))), indent=1))


def _without_serials(document: Any) -> Any:
    if isinstance(document, dict):
        return {name: _without_serials(value) for name, value in document.items() if name != "serial"}
    return [_without_serials(each) for each in document] if isinstance(document, list) else document


class _Trial:
    """The parts that were run, and what came of them."""

    def __init__(
        self, folder: Path, workers: int, gpus: Sequence[str], for_fleet: Sequence[str], *, restart: bool
    ) -> None:
        self._folder, self._workers, self._gpus, self._for_fleet = folder, workers, gpus, list(for_fleet)
        self._device = "gpu" if gpus else "cpu"
        self._summary: dict[str, Any] = {"workers": workers}
        self._cases = 0
        self._before = ""
        self._finished_at_kill = 0
        self.parts: dict[str, Callable[[], dict[str, Any]]] = {
            "warm": lambda: self.fleet("--together"),
            "one": self.one,
            "together": lambda: self.fleet("--together"),
            "exclusive": self.fleet,
            "alone": self.alone,
            "shard": lambda: self.fleet("--shard"),
            "losses": lambda: self.losses(restart=restart),
        }

    @property
    def whole(self) -> bool:
        """Whether every part measured at every place."""
        parts = [part for part in self._summary.values() if isinstance(part, dict) and "gates" in part]
        return all(len(part["gates"]) == part["workers"] and not part["not_measured"] for part in parts)

    def trim(self) -> None:
        """Leave reports, run files without samples, and logs; the rest can be made again."""
        for path in (self._folder / "alone", self._folder / "work" / "cache", self._folder / "work" / "projects"):
            shutil.rmtree(path, ignore_errors=True)
        for path in (self._folder / "work").rglob("*.json"):
            path.unlink()
        without_serials(self._folder)

    def part(self, name: str, run: Callable[[], dict[str, Any]]) -> None:
        """Run one part, time it and write down what came of it."""
        began = time.monotonic()
        found = run()
        self._summary[name] = {"wall_s": round(time.monotonic() - began, 1), **found}
        write_whole(self._folder / "summary.json", json.dumps(self._summary, indent=1))
        sys.stdout.write(f"{name}: {json.dumps(self._summary[name])[:600]}\n")
        sys.stdout.flush()

    def alone(self) -> dict[str, Any]:
        """The gate of one GPU, without a fleet: once to build, unless a fleet did, and once to time."""
        device = "cpu" if self._device == "cpu" else "gpu:0"
        command = [*PEAKGATE, "bench", f"--device={device}", f"--out={self._folder / 'alone'}"]
        command += [f"--benchmark-storage={self._folder / 'alone' / 'saved'}", *self._for_fleet]
        environment = dict(os.environ) | {"PEAKGATE_CACHE": str(self._folder / "work" / "cache")}
        codes, walls = [], []
        for _ in range(1 if "warm" in self._summary else 2):
            began = time.monotonic()
            with (self._folder / "alone.txt").open("ab") as log:
                codes.append(subprocess.run(command, check=False, stdout=log, stderr=log, env=environment).returncode)
            walls.append(round(time.monotonic() - began, 1))
        return {"exit_codes": codes, "wall_s": walls[-1], "walls_s": walls}

    def fleet(self, *more: str) -> dict[str, Any]:
        """A whole fleet on workers that it starts itself."""
        code = self._run(["--workers", str(self._workers), *more])
        return {"exit_code": code, **self._outcome(self._workers)}

    def one(self) -> dict[str, Any]:
        """A fleet of one GPU of this machine."""
        only = {"CUDA_VISIBLE_DEVICES": self._gpus[0]} if self._gpus else {}
        code = self._run(["--workers", "1"], environment=only)
        return {"exit_code": code, **self._outcome(1)}

    def losses(self, *, restart: bool) -> dict[str, Any]:
        """A fleet on a scheduler and workers of ours; a worker is killed half-way, perhaps all else too."""
        port = _free_port()
        address = f"tcp://127.0.0.1:{port}"
        with suppress(PeakgateError):
            self._before = stores.newest(self._folder / "fleets" / "fleet").name
        more = ["--scheduler", address, "--workers", str(self._workers), "--together"]
        with ExitStack() as stack:
            scheduler = stack.enter_context(_cluster(address, self._workers, self._folder / "cluster-1.txt"))
            fleet = stack.enter_context(self._started(more))
            killed = self._kill_a_worker(address, fleet)
            if restart:
                _wait(lambda: self._finished() >= self._finished_at_kill + 1, fleet)
                fleet.send_signal(signal.SIGKILL)
                fleet.wait()
                scheduler.send_signal(signal.SIGKILL)
                scheduler.wait()
            else:
                fleet.wait(LIMIT_S)
            code = fleet.returncode
        if restart:
            with _cluster(address, self._workers, self._folder / "cluster-2.txt"):
                code = self._run([*more, "--resume"], for_fleet=False)
        return {"exit_code": code, "killed": killed, **self._outcome(self._workers)}

    def _kill_a_worker(self, address: str, fleet: subprocess.Popen[bytes]) -> str:
        """Kill a worker that measures once part of the cases is finished; which."""
        wanted = max(1, round(HALF_WAY * self._workers * self._cases))
        _wait(lambda: self._finished() >= wanted, fleet)
        with distributed.Client(address, timeout=30, set_as_default=False) as client:
            busy = [worker for worker, tasks in client.processing().items() if tasks]
            if not busy:
                raise PeakgateError("trial: no worker measured any more; give the fleet more cases")
            pids = client.run(os.getpid, workers=busy)
        worker, pid = max(pids.items())
        os.kill(pid, signal.SIGKILL)
        self._finished_at_kill = self._finished()
        return str(worker)

    def _finished(self) -> int:
        """How many cases the fleet at hand has finished."""
        try:
            newest = stores.newest(self._folder / "fleets" / "fleet")
            return 0 if newest.name == self._before else (newest.folder / CASES).read_bytes().count(b"\n")
        except (OSError, PeakgateError):
            return 0

    def _run(self, more: Sequence[str], *, for_fleet: bool = True, environment: Mapping[str, str] | None = None) -> int:
        with self._started(more, for_fleet=for_fleet, environment=environment) as process:
            return process.wait(LIMIT_S)

    @contextmanager
    def _started(
        self, more: Sequence[str], *, for_fleet: bool = True, environment: Mapping[str, str] | None = None
    ) -> Iterator[subprocess.Popen[bytes]]:
        command = [*PEAKGATE, "fleet", f"--device={self._device}", f"--out={self._folder / 'fleets'}"]
        command += [f"--work={self._folder / 'work'}", *more, *(self._for_fleet if for_fleet else [])]
        with (self._folder / "fleet.txt").open("ab") as log:
            process = subprocess.Popen(
                command, stdout=log, stderr=log, start_new_session=True, env={**os.environ, **(environment or {})}
            )
            try:
                yield process
            finally:
                end_group(process)

    def _outcome(self, workers: int) -> dict[str, Any]:
        store = stores.newest(self._folder / "fleets" / "fleet")
        self._summary["commit"] = store.read()[0].commit[:12]
        gates = {gate["uuid"]: gate for gate in store.gates() if gate["mode"] != "again"}
        names = ("outcome", "node", "wall_s", "phases", "workers_lost", "verdicts", "reason")
        self._cases = max([sum((gate.get("verdicts") or {}).values()) for gate in gates.values()], default=0)
        return {
            "fleet": store.name,
            "workers": workers,
            "phases": store.wall(),
            "gates": {uuid: {name: gate.get(name) for name in names} for uuid, gate in gates.items()},
            "not_measured": sorted(uuid for uuid, gate in gates.items() if gate["outcome"] != "measured"),
        }


@contextmanager
def _cluster(address: str, workers: int, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A Dask scheduler, which is given, and workers with nannies, as a user starts them; ended with the block."""
    port = address.rpartition(":")[2]
    dask = [sys.executable, "-P", "-m", "dask"]
    commands = (
        [*dask, "scheduler", "--host", "127.0.0.1", "--port", port, "--no-dashboard"],
        [*dask, "worker", address, "--nworkers", str(workers), "--nthreads", "1", "--no-dashboard"],
    )
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        started = [subprocess.Popen(each, stdout=output, stderr=output, start_new_session=True) for each in commands]
        try:
            yield started[0]
        finally:
            for process in reversed(started):
                end_group(process)


def _wait(until: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    """Wait until something is so; a PeakgateError where the process ends or it takes too long."""
    end = time.monotonic() + LIMIT_S
    while not until():
        if process.poll() is not None or time.monotonic() >= end:
            raise PeakgateError("trial: the fleet ended before its worker could be killed; see fleet.txt in the folder")
        time.sleep(0.2)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    sys.exit(main())
