"""The small project of `nox -s kill` and `nox -s disks`, and checks of the files that a run leaves."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from peakgate.base.files import UnreadableFile
from peakgate.run import journal

SIZES = (33, 64, 96, 257, 512, 1024)
FAMILY = f"""
from peakgate.family import In, Out, Value, kernel

FAMILY = kernel(
    "scale.cu",
    arguments=lambda n: [Out(n), In(n), Value(n)],
    grid=lambda n: -(-n // 256),
    block=256,
    bytes=lambda n: 8 * n,
    reference=lambda xp, x: 2 * x,
    sizes={list(SIZES)},
    small_sizes={list(SIZES)},
)
"""
KERNEL = """
extern "C" __global__ void scale(float *out, const float *in, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = 2.0f * in[i];
    }
}
"""
LIMIT_S = 300.0
"""Timeout of a run of the small project, ample even on a busy machine."""


class Broken(Exception):
    """A check failed."""


class Project:
    """The small project, and one folder per run."""

    def __init__(self, folder: Path, cache: Path) -> None:
        self.root = folder / "project"
        kernels = self.root / "kernels" / "scale"
        kernels.mkdir(parents=True)
        (self.root / "peakgate.toml").write_text("")
        (kernels / "family.py").write_text(FAMILY)
        (kernels / "scale.cu").write_text(KERNEL)
        git = ("git", "-c", "user.name=kill", "-c", "user.email=kill@example.com")
        for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "small"]):
            subprocess.run([*git, *words], cwd=self.root, check=True)
        self._environment = os.environ | {"PEAKGATE_CACHE": str(cache), "NO_COLOR": "1"}

    def start(self, out: Path, *arguments: str, **options: Any) -> subprocess.Popen[str]:
        command = (sys.executable, "-m", "peakgate", "bench", "--device=cpu", f"--out={out / 'out'}")
        saving = (f"--benchmark-json={out / 'out' / 'run.json'}", f"--benchmark-storage={out / 'saved'}")
        return subprocess.Popen(
            [*command, *saving, *arguments],
            cwd=self.root,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            **options,
        )

    def run(self, out: Path, *arguments: str, **options: Any) -> tuple[int, str]:
        process = self.start(out, *arguments, **options)
        output, _ = process.communicate(timeout=LIMIT_S)
        return process.returncode, output


def decided(folder: Path) -> dict[str, str]:
    """The records of the finished cases in a run's journal, as JSON; undecided ones are measured again."""
    path = folder / "out" / journal.NAME
    try:
        found = journal.finished(path).cases
    except UnreadableFile as error:
        if not error.missing:
            raise
        return {}
    return {case: json.dumps(record) for case, record in found.items() if record.get("verdict") != "INCONCLUSIVE"}


def cases(folder: Path) -> list[str]:
    """The cases of a run's verdict."""
    return [case["case"] for case in json.loads((folder / "out" / "bench.json").read_text())["cases"]]


def left(folder: Path, found: Counter[str]) -> None:
    """Check that every JSON file is whole and the folder's lock is free."""
    staged = folder / "out" / "bench.staged"
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        if path.name.startswith(".") or staged in path.parents:
            found["scratch files left, which nobody reads"] += 1
        elif path.suffix == ".json":
            try:
                json.loads(path.read_bytes())
            except ValueError:
                raise Broken(f"{folder.name}: {path.name} is half written ({path.stat().st_size} bytes)") from None
            found["whole files"] += 1
    lock = folder / "out" / journal.NAME
    if lock.exists():
        with lock.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Broken(f"{folder.name}: the folder is still locked") from None
