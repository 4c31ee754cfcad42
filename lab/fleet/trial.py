"""``python -m lab.fleet.trial FOLDER``: run fleets on this machine's GPUs and see that nothing gets lost.

In the project at hand, part by part (``--parts``), each written into FOLDER as it ends:

- ``warm``: a fleet with all GPUs at once, which builds everything;
- ``one``: a fleet of one GPU; ``together``: of all GPUs at once; ``exclusive``: one GPU at a time;
- ``alone``: ``peakgate bench`` of one GPU, without a fleet, twice; ``shard``: the full tier spread over all GPUs;
- ``losses``: a fleet on a cluster, of which one worker is killed midway and, with ``--restart``, the fleet's command
  and the whole cluster too.

``summary.json`` has the wall times, by phase, and what became of every GPU. Other options go to ``peakgate fleet``:
``--device cpu --workers 4`` tries it on the emulator.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import distributed

from peakgate.base.errors import PeakgateError, refused
from peakgate.base.files import write_whole
from peakgate.base.processes import end_group
from peakgate.base.verdict import ExitCode
from peakgate.fleet import dataset, place
from peakgate.fleet.store import AGAIN, newest
from peakgate.fleet.task import CASE_MARK
from peakgate.run import journal

LIMIT_S = 600.0
Process = subprocess.Popen[bytes]
PEAKGATE = (sys.executable, "-P", "-m", "peakgate")
HALF_WAY = 0.4
"""A worker is killed when this fraction of all cases is finished."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts; 0 when every GPU is accounted for and was measured, 1 when not."""
    parser = argparse.ArgumentParser(
        prog="python -m lab.fleet.trial",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", choices=("gpu", "cpu"), default="gpu")
    parser.add_argument("--workers", type=int, help="default: one per GPU")
    parser.add_argument("--restart", action="store_true", help="kill the fleet's command and the cluster too, go on")
    parser.add_argument("--parts", default="alone,exclusive,together,losses", help="in the order to run them")
    options, for_fleet = parser.parse_known_args(arguments)
    gpus = [str(gpu["uuid"]) for gpu in place.inventory()["gpus"]] if options.device == "gpu" else []
    workers = options.workers or len(gpus)
    if not workers:
        return refused(PeakgateError("trial: no GPU answers here; --device cpu --workers 4 tries it without"))
    trial = _Trial(options.folder.absolute(), workers, gpus, for_fleet, restart=options.restart)
    parts = options.parts.split(",")
    if unknown := sorted(set(parts) - trial.parts.keys()):
        return refused(PeakgateError(f"--parts {unknown[0]}: expected some of {', '.join(trial.parts)}"))
    try:
        for name in parts:
            trial.part(name)
    except PeakgateError as error:
        return refused(error)
    trial.trim()
    return ExitCode.OK if trial.whole else ExitCode.REGRESSION


def without_serials(folder: Path) -> None:
    """Take the GPUs' serial numbers out of the fleets' files: a record may be published, they may not."""
    for path in folder.rglob(dataset.DATASET_FILE):
        dataset.write(dataset.read(path).assign(serial=None), path)
    for path in (*folder.rglob("plan.json"), *folder.rglob("gates/*.json")):
        document = json.loads(path.read_text(encoding="utf-8"), object_hook=_without_serial)
        write_whole(path, json.dumps(document, indent=1))


def _without_serial(entry: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if name != "serial"}


class _Trial:
    """The parts that were run, and what came of them."""

    def __init__(
        self, folder: Path, workers: int, gpus: Sequence[str], for_fleet: Sequence[str], *, restart: bool
    ) -> None:
        self._folder, self._workers, self._gpus, self._for_fleet = folder, workers, gpus, list(for_fleet)
        self._device = "gpu" if gpus else "cpu"
        self._summary: dict[str, Any] = {"workers": workers}
        self._cases = 0
        self.parts: dict[str, Callable[[], dict[str, Any]]] = {
            "warm": lambda: self.fleet("--together"),
            "one": lambda: self.fleet(workers=1),
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

    def part(self, name: str) -> None:
        """Run one part, time it and write down what came of it."""
        self._folder.mkdir(parents=True, exist_ok=True)
        began = time.monotonic()
        found = self.parts[name]()
        self._summary[name] = {"wall_s": round(time.monotonic() - began, 1), **found}
        write_whole(self._folder / "summary.json", json.dumps(self._summary, indent=1))
        sys.stdout.write(f"{name}: {json.dumps(self._summary[name])[:600]}\n")
        sys.stdout.flush()

    def alone(self) -> dict[str, Any]:
        """The gate of one GPU, without a fleet: once to build, unless a fleet did, and once to time."""
        device = "cpu" if self._device == "cpu" else "gpu:0"
        command = ["bench", f"--device={device}", f"--out={self._folder / 'alone'}"]
        command += [f"--benchmark-storage={self._folder / 'alone' / 'saved'}", *self._for_fleet]
        environment = {"PEAKGATE_CACHE": str(self._folder / "work" / "cache")}
        codes, walls = [], []
        for _ in range(1 if "warm" in self._summary else 2):
            began = time.monotonic()
            with self._started(command, "alone.txt", environment) as process:
                codes.append(process.wait())
            walls.append(round(time.monotonic() - began, 1))
        return {"exit_codes": codes, "wall_s": walls[-1], "walls_s": walls}

    def fleet(self, *more: str, workers: int | None = None) -> dict[str, Any]:
        """A whole fleet on workers that it starts itself; with one worker, of one GPU."""
        only = {"CUDA_VISIBLE_DEVICES": self._gpus[0]} if workers == 1 and self._gpus else {}
        count = workers or self._workers
        with self._fleet("--workers", str(count), *more, *self._for_fleet, environment=only) as process:
            code = process.wait(LIMIT_S)
        return {"exit_code": code, **self._outcome(count)}

    def losses(self, *, restart: bool) -> dict[str, Any]:
        """A fleet on a cluster of ours; a worker is killed half-way, perhaps all else too."""
        earlier = set(self._fleets())
        more = ["--workers", str(self._workers), "--together"]
        with self._cluster() as address, self._fleet("--scheduler", address, *more, *self._for_fleet) as fleet:
            self._until(max(1, round(HALF_WAY * self._workers * self._cases)), earlier, fleet)
            killed = _kill_a_worker(address)
            if restart:
                self._until(self._finished(earlier) + 1, earlier, fleet)
                fleet.send_signal(signal.SIGKILL)
            code = fleet.wait(LIMIT_S)
        if restart:
            with self._cluster() as address, self._fleet("--scheduler", address, *more, "--resume") as fleet:
                code = fleet.wait(LIMIT_S)
        return {"exit_code": code, "killed": killed, **self._outcome(self._workers)}

    def _fleets(self) -> list[Path]:
        return sorted((self._folder / "fleets" / "fleet").glob("*"))

    def _finished(self, earlier: Collection[Path]) -> int:
        """How many cases have the journals of the fleet at hand, which is none of the earlier ones."""
        names = [path.name for path in self._fleets() if path not in earlier]
        journals = [path for name in names for path in (self._folder / "work" / "gates" / name).rglob(journal.NAME)]
        return sum(path.read_bytes().count(CASE_MARK) for path in journals)

    def _until(self, finished: int, earlier: Collection[Path], process: Process) -> None:
        """Wait until so many cases are finished; a PeakgateError where the fleet ends or it takes too long."""
        end = time.monotonic() + LIMIT_S
        while self._finished(earlier) < finished:
            if process.poll() is not None or time.monotonic() >= end:
                raise PeakgateError("trial: the fleet ended before its worker could be killed; see fleet.txt")
            time.sleep(0.2)

    @contextmanager
    def _cluster(self) -> Iterator[str]:
        """A Dask cluster of worker processes with nannies on this machine; its scheduler's address."""
        with distributed.LocalCluster(
            n_workers=self._workers, threads_per_worker=1, dashboard_address=None, memory_limit=0, silence_logs=40
        ) as cluster:
            yield cluster.scheduler_address

    def _fleet(self, *more: str, environment: Mapping[str, str] | None = None) -> AbstractContextManager[Process]:
        command = ["fleet", f"--device={self._device}", f"--out={self._folder / 'fleets'}"]
        return self._started([*command, f"--work={self._folder / 'work'}", *more], "fleet.txt", environment or {})

    @contextmanager
    def _started(self, command: Sequence[str], log: str, environment: Mapping[str, str]) -> Iterator[Process]:
        """A command of ``peakgate``, ended with the block; its output is added to a log in the folder."""
        with (self._folder / log).open("ab") as output:
            process = subprocess.Popen(
                [*PEAKGATE, *command],
                stdout=output,
                stderr=output,
                start_new_session=True,
                env={**os.environ, **environment},
            )
            try:
                yield process
            finally:
                end_group(process)

    def _outcome(self, workers: int) -> dict[str, Any]:
        store = newest(self._folder / "fleets" / "fleet")
        self._summary["commit"] = store.read()[0].commit[:12]
        gates = {gate["uuid"]: gate for gate in store.gates() if gate["mode"] != AGAIN}
        names = ("outcome", "node", "wall_s", "phases", "workers_lost", "verdicts", "reason")
        self._cases = max([sum((gate.get("verdicts") or {}).values()) for gate in gates.values()], default=0)
        return {
            "fleet": store.name,
            "workers": workers,
            "phases": store.wall(),
            "gates": {uuid: {name: gate.get(name) for name in names} for uuid, gate in gates.items()},
            "not_measured": sorted(uuid for uuid, gate in gates.items() if gate["outcome"] != "measured"),
        }


def _kill_a_worker(address: str) -> str:
    """Kill a worker that measures; which."""
    with distributed.Client(address, timeout=30, set_as_default=False) as client:
        busy = [worker for worker, tasks in client.processing().items() if tasks]
        if not busy:
            raise PeakgateError("trial: no worker measured any more; give the fleet more cases")
        worker, pid = max(client.run(os.getpid, workers=busy).items())
    os.kill(pid, signal.SIGKILL)
    return str(worker)


if __name__ == "__main__":
    sys.exit(main())
