"""Readers of what a gate compares and posts: artifacts, verdicts, lists of cases, trees of git, gates of a fleet."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import struct
import subprocess
import zipfile
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import fuzz_mutate as mutate
import numpy as np
from fuzz_calls import Finding, call, verb
from fuzz_runs import TIMES_US
from synthetic_runs import document

from peakgate.base.errors import PeakgateError
from peakgate.case import Buffer, Case, Launch, Role, Scalar, Stage, Work
from peakgate.compare.ab import plan
from peakgate.compare.ab.process import SideBroken
from peakgate.fleet.place import GpuPlace
from peakgate.fleet.store import FleetPlan, Store
from peakgate.review import believed
from peakgate.review import comment as render
from peakgate.run import listing
from peakgate.run.case_data import as_data, as_record

COMMIT, URL, FOLDER = "c" * 40, "https://example.org/run", ".judge/out"
VERDICTS: dict[str, Any] = {
    "protect": {"exit_code": 0, "counts": {"failing": 0}},
    "bench": {"exit_code": 0, "verdicts": {"PASS": 3}, "cases": [{"case": "a.b", "verdict": "PASS", "reason": ""}]},
    "ab": {
        "exit_code": 1,
        "counts": {"SLOWER": 1, "SAME": 2},
        "rows": [{"case": "a.b", "verdict": "SLOWER", "reason": "1.30x slower, p < 1e-06"}],
        "explained": {
            "cases": [{"case": "a.b", "file": "kernels/a.cu", "line": 12, "findings": [{"sentence": "More of it."}]}]
        },
    },
}


def artifact(random: Random) -> bytes:
    """A zip of verdicts with damaged bytes, or of one damaged verdict, deflated or not."""
    packed, hostile = io.BytesIO(), random.choice((*VERDICTS, render.GATE, None))
    how = random.choice((zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA))
    with zipfile.ZipFile(packed, "w", how) as archive:
        digests = {}
        for name, content in VERDICTS.items():
            data = mutate.document(content, random) if name == hostile else json.dumps(content).encode()
            archive.writestr(random.choice(("", f"{FOLDER}/")) + f"{name}.json", data)
            digests[f"{name}.json"] = hashlib.sha256(data).hexdigest()
        gate = {"exit_code": 1, "head": COMMIT, "files": digests}
        data = mutate.document(gate, random) if hostile == render.GATE else json.dumps(gate).encode()
        archive.writestr(f"{render.GATE}.json", data)
    data = packed.getvalue()
    return data if hostile is not None and random.random() < 0.7 else mutate.bytes_changed(data, random)


def artifact_read(_folder: Path, data: bytes) -> int:
    """What is posted is bounded, and passes only where every verdict is there and its exit code is 0."""

    def read() -> int:
        files = {"runner": believed.from_artifact(io.BytesIO(data), FOLDER, COMMIT)}
        text = render.render(files, COMMIT, URL)
        check = render.check_run(files, COMMIT, URL)
        json.dumps(check).encode()
        if len(text) > render.LONGEST_COMMENT or (not text.isascii() and "\u202e" in text):
            raise Finding(f"a comment of {len(text)} letters")
        code = render.overall(files)
        found = files["runner"]
        whole = all(isinstance(found.get(name), dict) for name in render.FILES)
        if code == 0 and not (whole and all(found[name]["exit_code"] == 0 for name in render.FILES)):
            raise Finding("passes without every verdict")
        return 0  # what it says, not what reading it ends in

    return call(read).code


TERMS = {"launch": "d" * 12, "bytes": 512, "flops": 0, "buffers": "b" * 12, "tolerance": 1e-5, "tier": "gate"}
IDENTITIES = {name: {"code": "f" * 16, **TERMS} for name in ("a.b", "a.c", "b.d")} | {
    "b.e": {"operation": "cublas", "library": "cublas 13", **TERMS}
}


def identities(random: Random) -> bytes:
    return mutate.document(IDENTITIES, random)


def identities_read(_folder: Path, data: bytes) -> int:
    """A case that differs in the least, or is gone, is never listed as unchanged."""

    def read() -> None:
        base = plan._parsed("base", json.dumps(IDENTITIES).encode())
        try:
            head = plan._parsed("head", data)
        except SideBroken as broken:
            raise PeakgateError(str(broken)) from None
        planned = plan.plan(base, head, sentinels=2, durations_us=TIMES_US)
        plan.reasons(planned, base, head)
        for case in planned.unchanged or {}:
            if base[case] != head[case]:
                raise Finding(f"{case} differs and is unchanged")

    return call(read).code


def case_of(_case: str = "", _number: int | None = None) -> Case:
    """A small case, as a family defines it."""
    return Case(
        family="a",
        stage=Stage("b", "", Path("b.cu")),
        launch=Launch((1, 1, 1), (64, 1, 1)),
        arguments=(Buffer(Role.OUT, (64,)), Buffer(Role.IN, (64,)), Scalar(64)),
        work=Work(512),
        reference=lambda _xp, _inputs: [],
        size="64",
    )


def launches(random: Random) -> bytes:
    """A case of another process, as data."""
    return mutate.document(as_data(case_of()), random)


def launches_read(_folder: Path, data: bytes) -> int:
    """A record of the types that it says, or refused."""

    supplier: Any = SimpleNamespace(tree=Path.cwd())  # where the kernel of the case is

    def read() -> int:
        try:
            found = listing._listed(
                ("a", "b-64"), json.loads(data), lambda: [as_record(json.loads(data), supplier.tree)], supplier
            )
        except (ValueError, RecursionError):  # what is no JSON is refused before
            return 2
        return 0 if isinstance(found, listing.Listed) else 3

    try:
        return call(read).code
    except Finding as finding:
        if str(finding).startswith("exit code 2 with 0 lines"):
            return 2
        raise


def message(random: Random) -> bytes:
    """What the process of a change's families writes into its pipe."""
    written = io.BytesIO()
    listing._send(written, {"several": True}, [np.arange(6, dtype=np.float32).reshape(2, 3), None, np.ones(2, bool)])
    data = written.getvalue()
    size = struct.unpack_from("<Q", data)[0]
    if random.random() < 0.7:
        text = mutate.document(json.loads(data[8 : 8 + size]), random)
        return struct.pack("<Q", len(text)) + text + data[8 + size :]
    return mutate.bytes_changed(data, random)


def message_read(_folder: Path, data: bytes) -> int:
    """Arrays of the size that was agreed on, or refused as a broken pipe or other data are."""

    def read() -> None:
        try:
            _, arrays = listing._received(io.BytesIO(data), 1 << 20)
        except (EOFError, *listing._UNREADABLE) as error:
            raise PeakgateError("the list of its cases is invalid") from error
        if sum(each.nbytes for each in arrays if each is not None) > 1 << 20:
            raise Finding("more than the limit is taken")

    return call(read).code


PLAN = FleetPlan("f", "digest", "inside", "commit", False, ("-k", "x"), "gpu", False, "harness")
FACTS = {
    "serial": "1",
    "name": "NVIDIA H200",
    "slug": "nvidia-h200",
    "driver": "580",
    "ecc": True,
    "power_limit_w": 700,
}


def fleet(folder: Path) -> Store:
    store = Store(folder / "fleets" / "20270101T000000")
    if store.folder.exists():
        return store
    store.begin(PLAN, [GpuPlace(f"GPU-{each}", "node", "rack", False, FACTS) for each in range(3)])
    for each in range(3):
        run = document(TIMES_US, day=1)
        path = store.run_file(f"GPU-{each}", "exclusive")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(run))
        store.add_gate(GATE | {"uuid": f"GPU-{each}"})
    return store


GATE: dict[str, Any] = {
    "uuid": "GPU-0",
    "mode": "exclusive",
    "outcome": "measured",
    "started": "2026-11-22T00:00:00",
    "exit_code": 0,
    "wall_s": 12.5,
    "before": {"temperature_c": 40, "power_w": 80.0},
    "after": {"temperature_c": 60, "power_w": 90.0, "serial": "2"},
}


def gate(random: Random) -> bytes:
    return mutate.document(GATE, random)


def gate_reported(folder: Path, data: bytes) -> int:
    """A fleet of which one gate failed, or cannot be read, never passes."""
    store = fleet(folder)
    (store.folder / "gates" / "GPU-0-exclusive.json").write_bytes(data)
    found = verb("fleet", "--report", store.folder, "--out", folder / "fleet-out")
    if found.code == 0 and json.loads(data).get("exit_code") not in (0, None, 0.0, False):
        raise Finding("passes although a gate failed")
    return found.code


def fleet_plan(random: Random) -> bytes:
    content = {
        "schema": 1,
        "plan": {
            **{name: getattr(PLAN, name) for name in ("fleet", "digest", "inside", "commit", "dirty", "device")},
            "arguments": ["-k", "x"],
            "together": False,
            "harness": "harness",
            "shard": False,
        },
        "places": [
            {"uuid": f"GPU-{each}", "node": "node", "rack": "rack", "emulated": False, "facts": FACTS}
            for each in range(3)
        ],
    }
    return mutate.document(content, random)


def plan_reported(folder: Path, data: bytes) -> int:
    store = fleet(folder)
    (store.folder / "gates" / "GPU-0-exclusive.json").write_text(json.dumps(GATE))
    (store.folder / "plan.json").write_bytes(data)
    try:
        return verb("fleet", "--report", store.folder, "--out", folder / "fleet-out").code
    finally:
        shutil.rmtree(store.folder.parent)


FLOORS = 'schema = 1\ngpu = "nvidia-h200"\n[floors]\n"a.fast-1" = 0.5\n"b.c" = 0.6\n'


def tree(random: Random) -> bytes:
    """Edits of a tree, as JSON: what is put at which path."""
    paths = (
        *("baselines", "baselines/nvidia-h200", "baselines/nvidia-h200/floors.toml", "peakgate.toml", "kernels"),
        *("baselines/nvidia-h200/runs/a.json", "baselines/nvidia-h200/runs/new.json", "baselines/acknowledged.toml"),
        *("kernels/a/family.py", "a\nb", "-rf", ":(top)x", "x" * 250, "baselines/\u202e", "b\u00e9\udcff"),
    )
    kinds = ("file", "folder", "FIFO", "link out", "endless", "link to itself", "repository", "gone", "floors", "large")
    edits = [(random.choice(paths), random.choice(kinds)) for _ in range(random.choice((1, 1, 2, 3)))]
    return json.dumps([*edits, mutate.lines(FLOORS, random).decode("utf-8", "replace")]).encode()


def protected(folder: Path, data: bytes) -> int:
    """A floor that is lower, or gone, never passes; whatever a path is, protect ends in one line."""
    *edits, text = json.loads(data)
    repository = folder / "tree"
    if not repository.exists():
        _commit(repository)
    _restore(repository)
    floors_edited = False
    for path, kind in edits:
        floors_edited |= _edit(repository / path, kind, text)
    found = verb("protect", "--base", "HEAD", "--baselines", repository / "baselines", "--no-contracts")
    floors = repository / "baselines" / "nvidia-h200" / "floors.toml"
    kept = floors.is_file() and '"a.fast-1" = 0.5' in floors.read_text(errors="replace")
    if found.code == 0 and not kept and not floors_edited:
        raise Finding(f"passes without the floors: {edits}")
    return found.code


def _git(repository: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, *arguments], cwd=repository, check=True, capture_output=True)


def _commit(repository: Path) -> None:
    runs = repository / "baselines" / "nvidia-h200" / "runs"
    runs.mkdir(parents=True)
    (runs / "a.json").write_text(json.dumps(document(TIMES_US)))
    (runs.parent / "floors.toml").write_text(FLOORS)
    (repository / "kernels" / "a").mkdir(parents=True)
    (repository / "kernels" / "a" / "family.py").write_text("")
    (repository / "peakgate.toml").write_text("")
    _git(repository, "init", "-q")
    _git(repository, "add", ".")
    _git(repository, "commit", "-q", "-m", "base")


def _restore(repository: Path) -> None:
    for path in repository.iterdir():
        if path.name != ".git":
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    _git(repository, "checkout", "-q", "-f", "HEAD", "--", ".")


def _edit(path: Path, kind: str, text: str) -> bool:
    """Put something at a path; whether it may hold floors that were written on purpose."""
    try:
        if kind != "folder" or not path.is_dir():
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        if kind in ("file", "floors"):
            path.write_text(text if kind == "floors" else "{}", encoding="utf-8", errors="surrogateescape")
        elif kind == "folder":
            path.mkdir(exist_ok=True)
        elif kind == "FIFO":
            os.mkfifo(path)
        elif kind in ("link out", "endless", "link to itself"):
            path.symlink_to({"link out": "/etc/hostname", "endless": "/dev/zero", "link to itself": path.name}[kind])
        elif kind == "repository":
            path.mkdir()
            _git(path, "init", "-q")
        elif kind == "large":
            with path.open("wb") as file:
                file.truncate(1 << 30)
    except (OSError, ValueError, subprocess.CalledProcessError):
        return False  # an earlier edit is in the way
    return kind == "floors" and path.name == "floors.toml"
