"""Pytest plugin of ``mutation.py``: try mutants in forks of one collected session, short tests first.

mutmut starts pytest anew for every mutant, which takes longer than most mutants live. With MUTANTS, a file of names,
each of them gets a process that runs the tests that reach its function until one fails; the exit codes are written to
MUTANTS.json. Which tests these are, and how long they take, is in mutmut's statistics, in the folder that it runs in.
"""

from __future__ import annotations

import json
import math
import os
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

NO_TESTS = 33
TIMEOUT = -signal.SIGXCPU
"""Names of these states in mutmut."""

MOST_BYTES = 4 << 30
SAVE_EVERY_S = 10.0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the tests by how long they took when mutmut first ran them."""
    duration_s = _statistics().get("duration_by_test", {})
    items.sort(key=lambda item: (round(duration_s.get(item.nodeid, 0.0), 2), item.nodeid))


def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Try the mutants of the file instead of running the tests, where there is one."""
    if "MUTANTS" not in os.environ:
        return None
    names = Path(os.environ["MUTANTS"])
    mutants = names.read_text(encoding="utf-8").split()
    statistics = _statistics()
    if _code(os.waitpid(_start(session, "", session.items, math.inf), 0)[1]) != 0:
        pytest.exit("the tests fail without a mutant", 3)
    found: dict[str, int] = {}
    running: dict[int, str] = {}
    saved = time.monotonic()
    for mutant in [*mutants, *[""] * len(os.sched_getaffinity(0))]:  # the last ones wait for those before them
        reached = set(statistics["tests_by_mangled_function_name"].get(mutant.rsplit("__mutmut_", 1)[0], ()))
        items = [item for item in session.items if item.nodeid in reached]
        if mutant and not items:
            found[mutant] = NO_TESTS
            continue
        if running and (not mutant or len(running) >= len(os.sched_getaffinity(0))):
            process, status = os.wait()
            found[running.pop(process)] = _code(status)
        if mutant:
            limit_s = 5 + 3 * sum(statistics["duration_by_test"][item.nodeid] for item in items)
            running[_start(session, mutant, items, limit_s)] = mutant
        if not mutant or time.monotonic() - saved > SAVE_EVERY_S:
            names.with_suffix(".json").write_text(json.dumps(found), encoding="utf-8")
            saved = time.monotonic()
            sys.stderr.write(f"{len(found)} of {len(mutants)} mutants, {list(found.values()).count(0)} survive\n")
    return True


def _start(session: pytest.Session, mutant: str, items: list[pytest.Item], limit_s: float) -> int:
    """Run the tests in a process of their own until one fails; its number."""
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        os.environ["MUTANT_UNDER_TEST"] = mutant
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        if math.isfinite(limit_s):
            resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(limit_s), math.ceil(limit_s) + 5))
            resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES))  # an endless loop may fill a list
        for item, following in zip(items, [*items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.testsfailed:
                break
        code = int(session.testsfailed > 0)
    finally:
        os._exit(code)


def _code(status: int) -> int:
    """0 where all tests passed, 1 where one failed, TIMEOUT where a signal ended them."""
    code = os.waitstatus_to_exitcode(status)
    return TIMEOUT if code < 0 else code


def _statistics() -> dict[str, Any]:
    path = Path("mutmut-stats.json")
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found
