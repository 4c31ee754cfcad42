"""Ranks as processes that are forked from a test: none of them imports anything again."""

from __future__ import annotations

import json
import os
import sys
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from peakgate.base import ranks

_NUMBERS = count(1)


@dataclass(frozen=True)
class Ended:
    """How a rank ended: exit code, all that it printed, and the value that it returned, if any."""

    code: int
    output: str
    value: Any = None


def variables(rank: int, size: int, port: int) -> dict[str, str]:
    """What torchrun tells a rank of one host."""
    given = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size, "MASTER_PORT": port}
    return {name: str(value) for name, value in given.items()}


def in_ranks(folder: Path, run: Callable[[], Any], size: int = 2) -> list[Ended]:
    """Call a function in so many ranks and wait for all; its value must be one that JSON can represent."""
    port, children = 100_000 * next(_NUMBERS) + os.getpid() % 100_000, []
    sys.stdout.flush()
    sys.stderr.flush()
    for rank in range(size):
        with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # pytest-xdist has a thread
            child = os.fork()
        if child == 0:
            _run(folder, rank, variables(rank, size, port), run)
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    ended = []
    for rank, code in enumerate(codes):
        value = folder / f"value-{rank}"
        found = json.loads(value.read_text()) if value.exists() else None
        ended.append(Ended(code, (folder / f"output-{rank}").read_text(errors="replace"), found))
        value.unlink(missing_ok=True)
    return ended


def _run(folder: Path, rank: int, environment: dict[str, str], run: Callable[[], Any]) -> None:
    code = 70
    try:
        os.environ.update(environment)
        ranks.WAIT_LIMIT_S = 20.0
        output = os.open(folder / f"output-{rank}", os.O_CREAT | os.O_TRUNC | os.O_RDWR)
        os.dup2(output, 1)
        os.dup2(output, 2)
        sys.stdout, sys.stderr = (os.fdopen(at, "w", buffering=1, closefd=False) for at in (1, 2))
        found = run()
        (folder / f"value-{rank}").write_text(json.dumps(found))
        code = found if isinstance(found, int) else 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def pytest_in_ranks(folder: Path, *arguments: str, size: int = 2) -> list[Ended]:
    """pytest in a folder in so many ranks, as `torchrun -m pytest` starts it."""

    def run() -> int:
        os.chdir(folder)
        return int(pytest.main(["-q", "-p", "no:cacheprovider", f"--rootdir={folder}", *arguments]))

    return in_ranks(folder, run, size)
