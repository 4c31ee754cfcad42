"""Runs tests against changed modules, for ``meaning`` and ``mutation``."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

from lab.pages import ROOT

LIMIT_S = 500
MOST_BYTES = 4 << 30
"""Memory limit of a test's process, since an endless loop may fill a list."""


class Change(NamedTuple):
    """A changed text of a file in ``src/``, and the tests that should detect it."""

    name: str
    file: str
    text: str
    tests: Sequence[str]


def caught(changes: Iterable[Change], jobs: int) -> list[bool]:
    """For each change, whether a test fails or does not end; the changed copy of ``src/`` is imported first."""
    copies: SimpleQueue[Path] = SimpleQueue()
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(jobs) as pool:
        for number in range(jobs):
            copy = Path(scratch, str(number))
            shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
            (copy / "docs").symlink_to(ROOT / "docs")  # the package finds pages by its own location
            copies.put(copy)
        return list(pool.map(partial(_try, copies), changes, count(1)))


def _try(copies: SimpleQueue[Path], change: Change, number: int) -> bool:
    copy = copies.get()
    file = copy / change.file
    was = file.read_text(encoding="utf-8")
    file.write_text(change.text, encoding="utf-8")
    os.utime(file, (number, number))  # cached bytecode is identified by this time, in seconds, and the size
    command = ["prlimit", f"--data={MOST_BYTES}", sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    command += ["--hypothesis-profile=mutation", "--basetemp", str(copy / "temporary"), *change.tests]
    environment = os.environ | {"PYTHONPATH": str(copy / "src")}
    try:
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return True
    finally:
        file.write_text(was, encoding="utf-8")
        copies.put(copy)
    if done.returncode not in (0, 1, 2, 4):  # 2 and 4: a test file that cannot be imported
        raise RuntimeError(f"{change.name}: {done.stdout.decode(errors='replace')[-1000:]}")
    return done.returncode != 0
