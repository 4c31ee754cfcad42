"""The part of a fleet that runs on Dask workers: offering GPUs, and one gate on one GPU as a task.

The gate is a subprocess, so that a fault or lack of memory affects only that gate. Each gate has a folder on the node:
a task that runs again after its worker or the scheduler was lost finds the result there, or the journal of finished
cases, from which ``bench`` continues.
"""

from __future__ import annotations

import asyncio
import base64
import fcntl
import gzip
import json
import os
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import distributed

from peakgate.base import records
from peakgate.base.errors import Code, PeakgateError
from peakgate.base.files import CACHE_VARIABLE, CUPY_VARIABLE, remove_tree, write_whole
from peakgate.base.processes import end_group, end_of, last_words, own_module
from peakgate.base.verdict import ExitCode
from peakgate.fleet import archive, place
from peakgate.fleet.place import Worker
from peakgate.fleet.store import FleetPlan
from peakgate.run import journal
from peakgate.run.places import VERDICT_FILE
from peakgate.runfile.saved import trimmed

GATE_POLL_S = 0.1
FRESH_S = 10.0
"""Facts of a GPU up to this age are used as its state before a gate."""

SETTLE_S = 30.0
"""A killed gate occupies its GPU a little longer: time allowed for another process to end."""

LAST_WORDS = 2000
RESULT = "result.json"
CLOSING = frozenset({"closing", "closing_gracefully", "closed", "failed"})


@dataclass(frozen=True, slots=True)
class Job:
    """One gate of a fleet: GPU and pass.

    ``work`` is a folder on the node, ``~`` for the worker's home; ``cases`` a share of the tier, empty for all of it.
    """

    plan: FleetPlan
    uuid: str
    mode: str
    emulated: bool
    work: str
    wait_s: float
    cases: tuple[str, ...] = ()

    @property
    def gate(self) -> str:
        return f"{self.uuid}-{self.mode}"


_seen: dict[str, tuple[float, Mapping[str, Any]]] = {}
"""Time and facts of the last query of each of this worker's GPUs, by uuid."""


def has_archive(work: str, digest: str) -> bool:
    """Whether this worker's node has unpacked the archive."""
    return archive.unpacked(_work(work) / "projects", digest) is not None


async def offer(
    work: str,
    digest: str,
    data: bytes | None,
    harness: str,
    inventory: Mapping[str, Any] | None,
    *,
    dask_worker: distributed.Worker,
) -> Worker:
    """Unpack the archive on this worker's node, if given, and offer Dask the worker's GPUs.

    ``inventory`` is the worker's, if known. Runs on the worker's event loop without blocking it.
    """
    await asyncio.to_thread(archive.unpacked, _work(work) / "projects", digest, data)
    answered = await asyncio.to_thread(place.answer, dask_worker.state.nthreads, harness, inventory)
    _seen.update({str(facts["uuid"]): (time.monotonic(), facts) for facts in answered.gpus})
    if answered.resources:
        await dask_worker.set_resources(**answered.resources)
    return answered


def gate(job: Job) -> dict[str, Any]:
    """Run a gate on this worker and return the record for ``Store.add_gate``.

    ``outcome`` is ``measured``, ``unfit``, ``crashed`` (no run file) or ``refused`` (bad input); ``run`` is the
    compressed run file without samples. If the worker is closing, Dask moves the gate to another one.
    """
    folder = _work(job.work) / "gates" / job.plan.fleet / job.gate
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "task.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a task that the scheduler considers lost may still be running
        finished = folder / RESULT
        if finished.is_file():
            return records.read(finished, dict[str, Any], "delete it: its gate runs again")
        result = _measure(job, folder)
        write_whole(finished, json.dumps(result))
        for other in folder.parent.parent.glob(f"*/{folder.name}"):
            if other != folder and (other / RESULT).is_file():  # of an earlier fleet, which collected it
                remove_tree(other)
    return result


def _measure(job: Job, folder: Path) -> dict[str, Any]:
    plan = job.plan
    project = archive.unpacked(_work(job.work) / "projects", plan.digest)
    if project is None:
        raise PeakgateError(
            f"archive {plan.digest[:12]}: not on this node; start the fleet again with --resume", Code.UPSTREAM
        )
    begun, started = time.monotonic(), datetime.now(UTC).isoformat(timespec="seconds")
    before = {} if job.emulated else _settled_facts(job)
    common: dict[str, Any] = {"uuid": job.uuid, "mode": job.mode, "started": started, "before": before}
    if before.get("unfit"):
        return common | {"outcome": "unfit", "reason": "; ".join(before["unfit"]), "wall_s": 0.0}
    archive.build(project / plan.inside, folder / "build.log")
    code = _bench(job, project / plan.inside, folder, resume=_may_resume(job, folder))
    if code == ExitCode.BAD_INPUT and _may_resume(job, folder):
        (folder / journal.NAME).unlink()  # for example of another driver or harness: measure again
        code = _bench(job, project / plan.inside, folder, resume=False)
    after = {} if job.emulated else _facts(job.uuid)
    common |= {"after": after, "exit_code": code, "wall_s": round(time.monotonic() - begun, 3)}
    log = end_of(folder / "log.txt")
    run = folder / "run.json"
    if not (run.is_file() and (folder / VERDICT_FILE).is_file()):
        outcome = "refused" if code in (ExitCode.BAD_INPUT, ExitCode.DEFECT) else "crashed"
        reason = f"{last_words(log)} (exit code {code})"
        return common | {"outcome": outcome, "reason": reason, "log": log[-LAST_WORDS:]}
    document = records.read(run, dict[str, Any], "begin a new fleet")
    document["commit_info"]["dirty"] = plan.dirty
    packed = gzip.compress(trimmed(document).encode(), mtime=0)
    return common | {"outcome": "measured", "reason": "", "run": base64.b64encode(packed).decode()}


def _bench(job: Job, project: Path, folder: Path, *, resume: bool) -> int:
    """Run ``peakgate bench`` and return its exit code."""
    environment = dict(os.environ) | {
        CACHE_VARIABLE: str(_work(job.work) / "cache"),
        CUPY_VARIABLE: str(_work(job.work) / "cache" / "cupy"),
        "GIT_CEILING_DIRECTORIES": str(_work(job.work)),
    }
    if not job.emulated:
        environment["CUDA_VISIBLE_DEVICES"] = job.uuid
    command = own_module("peakgate", "bench", f"--device={'cpu' if job.emulated else 'gpu:0'}", f"--out={folder}")
    command += [f"--benchmark-json={folder / 'run.json'}", f"--benchmark-storage={folder / 'storage'}"]
    if job.cases:
        listed = folder / "cases.txt"
        write_whole(listed, "\n".join(job.cases))
        command.append(f"--peakgate-cases={listed}")
    command += [
        f"--peakgate-commit={job.plan.commit}",
        f"--wait={job.wait_s:g}",
        *(["--resume"] if resume else []),
        *job.plan.arguments,
    ]
    worker = distributed.get_worker()
    with (folder / "log.txt").open("wb") as log:
        process = subprocess.Popen(
            command,
            cwd=project,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        while process.poll() is None:
            time.sleep(GATE_POLL_S)
            if worker.status.name in CLOSING:
                end_group(process)
                raise distributed.Reschedule
    return process.returncode


def _may_resume(job: Job, folder: Path) -> bool:
    path = folder / journal.NAME
    return path.is_file() and path.stat().st_size > 0 and not {"--strict-gate", "--resume"} & set(job.plan.arguments)


def _settled_facts(job: Job) -> dict[str, Any]:
    """The GPU's facts once no other process uses it, or after SETTLE_S."""
    until = time.monotonic() + SETTLE_S
    asked_s, facts = _seen.get(job.uuid, (float("-inf"), {}))
    if time.monotonic() - asked_s > FRESH_S:
        facts = _facts(job.uuid)
    while True:
        others = (facts.get("preflight") or {}).get("other_processes")
        if not others or time.monotonic() >= until:
            return dict(facts)
        time.sleep(1.0)
        facts = _facts(job.uuid)


def _facts(uuid: str) -> dict[str, Any]:
    found = place.inventory(uuid)
    mine = [dict(facts) for facts in found["gpus"] if facts["uuid"] == uuid]
    gone = found["problem"] or "the driver no longer lists this GPU; see dmesg for an Xid"
    return mine[0] if mine else {"unfit": [gone]}


def _work(work: str) -> Path:
    return Path(work).expanduser()
