"""What a fleet costs beside its gates: ``python -m lab.fleet.overhead OUT.json``.

``gates``: the engine runs so many gates on as many workers as are named, all real but the gates, each of which waits a
second and answers with the run file of a committed gate. The rest of the wall time is the engine's.

``report``: ``peakgate fleet --report`` of a simulated fleet (``generator``) from its run files, and from its Parquet
file alone: wall time, processor time and the most memory.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import json
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import dask
import distributed
import msgspec
import numpy as np

from lab.fleet import generator
from lab.pages import ROOT
from lab.records import unpack
from peakgate.base.files import write_whole
from peakgate.base.text import Progress, say
from peakgate.base.verdict import ExitCode, Verdict
from peakgate.fleet import measure, task
from peakgate.fleet.archive import ProjectArchive
from peakgate.fleet.place import GpuPlace, thread_of
from peakgate.fleet.store import EXCLUSIVE, TOGETHER, FleetPlan, Store
from peakgate.runfile.figures import computed
from peakgate.runfile.schema import CaseRecord

GATE_S = 1.0
RUN = "lab/fleet/trial-*/exclusive/runs/*.json.xz"
Json = dict[str, Any]


@cache
def run_file() -> Json:
    """A committed gate of an H200, without samples."""
    return dict(json.loads(unpack(min(ROOT.glob(RUN)))))


@cache
def _packed() -> str:
    return base64.b64encode(gzip.compress(json.dumps(run_file(), indent=1).encode(), mtime=0)).decode()


def gate(job: task.Job) -> Json:
    """What ``task.gate`` answers, after a second."""
    time.sleep(GATE_S)
    return {"uuid": job.uuid, "mode": job.mode, "outcome": "measured", "run": _packed(), "before": {}, "after": {}}


def plan(name: str) -> FleetPlan:
    """A plan that names no project."""
    return FleetPlan(name, "digest", ".", "commit", False, (), "cpu", True, "harness")


def gates(workers: int, count: int) -> Json:
    """Wall time of a pass of so many gates on so many workers, threads of this process, without their profilers."""
    dask.config.set({"distributed.worker.profile.enabled": False, "distributed.admin.system-monitor.interval": "30s"})
    task.gate = gate  # the engine submits it
    with tempfile.TemporaryDirectory() as scratch:
        store = Store(Path(scratch, "fleet"))
        packed = ProjectArchive("digest", b"", ".", None, False)
        Path(scratch, "work", "projects", "digest").mkdir(parents=True)
        local = distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=False,
            dashboard_address=None,
            memory_limit=0,
            silence_logs=40,
        )
        with local:
            cluster = measure.Cluster(local.scheduler_address, workers, "cpu", f"{scratch}/work", 120.0)
            progress = Progress(sys.stderr, every_s=1e9)
            with measure.engine(cluster, store, packed, progress) as engine:
                node = next(iter(engine.workers().values())).node
                where = [GpuPlace(f"CPU-{at:05d}", node, None, emulated=True) for at in range(count)]
                assert where[0].resource == thread_of(node)
                store.begin(plan("fleet"), where)
                began = time.monotonic()
                measure.run_pass(
                    found=engine, store=store, plan=plan("fleet"), where=where, mode=TOGETHER, progress=progress
                )
                wall_s = time.monotonic() - began
        measured = len(store.gates())
    ideal_s = GATE_S * -(-count // workers)
    return {"workers": workers, "gates": measured, "wall_s": round(wall_s, 2), "overhead_s": round(wall_s - ideal_s, 2)}


def write_fleet(folder: Path, count: int, processes: int) -> None:
    """The folder of a fleet of so many simulated H200s."""
    known = generator.profiles()
    drawn = generator.draw(known, generator.MEASURED, count, np.random.default_rng(count))
    uuids = [f"GPU-{at:08x}-0000-0000-0000-000000000000" for at in range(count)]
    slug = run_file()["machine_info"]["gpu"]["slug"]
    facts = {"slug": slug, "driver": run_file()["machine_info"]["gpu"]["driver"], "name": "NVIDIA H200"}
    places = [
        GpuPlace(uuid, f"node{node}", f"rack{rack}", emulated=False, facts={**facts, "uuid": uuid})
        for uuid, node, rack in zip(uuids, drawn.nodes, drawn.racks, strict=True)
    ]
    Store(folder).begin(plan(folder.name), places)
    (folder / "gates").mkdir()
    (folder / "runs" / EXCLUSIVE).mkdir(parents=True)
    times = drawn.log_us.apply(np.exp).to_dict("records")
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        pool.starmap(partial(_write_gate, folder), zip(uuids, times, strict=True), chunksize=64)


def _write_gate(folder: Path, uuid: str, times_us: dict[str, float]) -> None:
    """A gate and its run file; cases that the simulation lacks keep their time."""
    document = run_file()
    document["machine_info"]["gpu"]["uuid"] = uuid
    for each in document["benchmarks"]:
        time_us = times_us.get(each["extra_info"]["case"])
        if time_us is not None:
            _slow(document, each, time_us)
    started = "2026-11-24T00:00:00+00:00"
    about = {"uuid": uuid, "mode": EXCLUSIVE, "outcome": "measured", "started": started, "exit_code": 0, "wall_s": 10.0}
    (folder / "gates" / f"{uuid}-{EXCLUSIVE}.json").write_bytes(msgspec.json.encode(about))
    (folder / "runs" / EXCLUSIVE / f"{uuid}.json").write_bytes(msgspec.json.encode(document))


def _slow(document: Json, benchmark: Json, time_us: float) -> None:
    """Give a benchmark another time, and the rates and the verdict that go with it."""
    info, stats = benchmark["extra_info"], benchmark["stats"]
    for name in ("median", "min", "max"):
        stats[name] *= time_us / info["time_us"]
    record = msgspec.convert(info, CaseRecord)
    for name, value, _ in computed(record, stats["median"] * 1e6, document["machine_info"]["gpu"]):
        info[name] = value if info[name] is not None else None
    if info["floor"] is not None and info["peak_fraction"] is not None:
        passes = info["peak_fraction"] >= info["floor"]
        info["verdict"] = (Verdict.PASS if passes else Verdict.BELOW_FLOOR).value


def report(count: int, processes: int) -> list[Json]:
    """``peakgate fleet --report`` of so many GPUs: from run files, then from the Parquet file."""
    found = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "fleet", "20261124T000000000000")
        write_fleet(folder, count, processes)
        for source, path in (("run files", folder), ("Parquet", folder / "fleet.parquet")):
            before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
            command = [sys.executable, "-c", CHILD, f"--report={path}", f"--out={scratch}"]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
            wall_s, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            most_mib = int(done.stdout.splitlines()[-1])
            about = {"source": source, "gpus": count, "exit_code": done.returncode, "most_memory_mib": most_mib}
            found.append(about | {"wall_s": round(wall_s, 1), "processor_s": round(cpu_s, 1)})
    return found


CHILD = """
import resource, sys
from peakgate.fleet import command
code = command.main("fleet", sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
sys.exit(code)
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure both and write the record."""
    parser = argparse.ArgumentParser(prog="python -m lab.fleet.overhead", description=__doc__)
    parser.add_argument("record", type=Path)
    parser.add_argument("--parts", default="gates,report", help="each replaces what the record has of it")
    parser.add_argument("--workers", type=int, default=150)
    parser.add_argument("--gates", type=int, default=1500)
    parser.add_argument("--gpus", type=int, default=10_000)
    parser.add_argument("--processes", type=int, default=1, help="that write the simulated fleet")
    options = parser.parse_args(arguments)
    found: Json = json.loads(options.record.read_bytes()) if options.record.is_file() else {}
    found["cores"] = os.cpu_count()
    parts: dict[str, Callable[[], list[Json]]] = {
        "gates": lambda: [gates(options.workers, options.gates)],
        "report": lambda: report(options.gpus, options.processes),
    }
    for name in options.parts.split(","):
        found[name] = parts[name]()
        write_whole(options.record, json.dumps(found, indent=1))
        say(f"{name}: {json.dumps(found[name])}\n")
    return ExitCode.OK


if __name__ == "__main__":
    sys.exit(main())
