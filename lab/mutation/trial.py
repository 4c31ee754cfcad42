"""Runs tests against changed modules, for ``meaning`` and ``mutation``."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

from lab.pages import ROOT

FOUND = (1, 2, 4, -signal.SIGALRM)
"""Exit codes of tests that detect a change: 2 and 4, a file that cannot be imported; the signal, no end in time."""


class Change(NamedTuple):
    """A changed text of a file in ``src/``, and the tests that should detect it."""

    name: str
    file: str
    text: str
    tests: Sequence[str]


class Copy(NamedTuple):
    """A copy of ``src/``, and the process that runs tests with it."""

    folder: Path
    process: subprocess.Popen[str]


def caught(changes: Iterable[Change], jobs: int) -> list[bool]:
    """For each change, whether a test fails or does not end; the changed copy of ``src/`` is imported first."""
    copies: SimpleQueue[Copy] = SimpleQueue()
    with ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory())
        for number in range(jobs):
            folder = Path(scratch, str(number))
            shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
            (folder / "docs").symlink_to(ROOT / "docs")  # the package finds pages by its own location
            process = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("forks.py")), str(folder / "printed")],
                cwd=ROOT,
                env=os.environ | {"PYTHONPATH": str(folder / "src")},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            stack.enter_context(process)
            copies.put(Copy(folder, process))
        pool = stack.enter_context(ThreadPoolExecutor(jobs))
        return list(pool.map(partial(_try, copies), changes, count(1)))


def _try(copies: SimpleQueue[Copy], change: Change, number: int) -> bool:
    copy = copies.get()
    folder, process = copy
    file = folder / change.file
    was = file.read_text(encoding="utf-8")
    file.write_text(change.text, encoding="utf-8")
    os.utime(file, (number, number))  # cached bytecode is identified by this time, in seconds, and the size
    arguments = ["-q", "-x", "-p", "no:cacheprovider", "--hypothesis-profile=mutation"]
    arguments += ["--basetemp", str(folder / "temporary"), *change.tests]
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(f"{json.dumps(arguments)}\n")
        process.stdin.flush()
        code = int(process.stdout.readline())
        if code not in (0, *FOUND):
            raise RuntimeError(f"{change.name}: {(folder / 'printed').read_text(errors='replace')[-1000:]}")
    finally:
        file.write_text(was, encoding="utf-8")
        copies.put(copy)
    return code != 0
