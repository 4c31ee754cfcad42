"""Change the meaning of the modules that judge, one expression at a time, and see whether the tests notice.

``python -m lab.mutation.mutation [MODULE ...]`` collects the tests once and runs them once to see which lines each
reaches. Every mutant of ``expressions.py`` then gets a fork of that process, in which the functions of the module run
the mutated code, and which runs the tests that reach the changed lines until one fails. ``mutation.json`` records the
counts of each module, with the commit, and the survivors; ``survivors.toml`` says why those that are left cannot be
killed. Exit code 1 where less than 95 % were killed or a survivor is not explained.
"""

from __future__ import annotations

import ast
import contextlib
import gc
import hashlib
import importlib
import json
import math
import os
import pickle
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import pytest
from peakgate.core.files import write_whole
from peakgate.reports.pages.markers import table

from lab.mutation.expressions import Mutant, mutants
from lab.pages import fill_page, percent

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
RECORD, EXPLAINED = HERE / "mutation.json", HERE / "survivors.toml"
PAGE = HERE / "README.md"
TRACES = ROOT / "build" / "mutation.pickle"
LEAST_KILLED = 0.95
LIMIT_S, TIMES_SLOWER = 10, 10
MOST_TESTS_S = 10.0
"""Time of the tests of one mutant, as they took alone."""
BROKEN = 3
"""Exit code of a fork that could not take the mutated code."""
MOST_BYTES = 4 << 30
TRACED_CALLS = 50
"""Of one function by one test: later ones seldom reach other lines, and tracing them takes most of the time."""

MODULES = (
    *("core/verdict", "judge/activity", "judge/correctness", "judge/floors", "judge/gate", "judge/magnitudes"),
    *("judge/metrics", "judge/occupancy", "judge/waivers", "reports/comparison/judge"),
    *("reports/comparison/evidence", "reports/comparison/noise", "reports/comparison/resample"),
    *("reports/gate/protect", "reports/gate/changes", "reports/gate/acknowledged", "reports/gate/command"),
    *("reports/ab/decide", "reports/history/scan", "reports/history/trend", "reports/floors/command"),
    *("measure/refill", "measure/sampling", "check/resources/baseline", "run/identity", "run/terms"),
)
TESTS = {
    "suite": (
        *("activity", "base", "baseline", "correctness", "data", "figures", "gate", "limits", "occupancy"),
        *("refill", "remeasure", "resources", "sampling", "session", "terms", "waivers"),
    ),
    "reports": (
        *("ab_decide", "ab_look", "ab_schedule", "compare", "compare_figures", "compare_gpus", "compare_properties"),
        *("compare_verdicts", "floors", "frame", "gate_steps", "history_changes", "history_gpus", "history_series"),
        *("history_trend", "margins", "noise", "protect", "protect_rules", "scan"),
    ),
}
OPTIONS = ("-q", "-p", "no:cacheprovider", "-p", "no:benchmark", "--capture=sys", "--tb=no")
AHEAD = {"peakgate", "numpy", "pandas", "scipy", "rich", "matplotlib", "hypothesis", "cupy"}
"""Packages that tests import late; imported before the forks, not by each."""
SIMPLE = (bool, int, float, str, type(None))


@dataclass(frozen=True)
class Trace:
    """A test without a mutant."""

    failed: bool
    took_s: float
    lines: dict[str, set[int]]
    imports: list[str]


class Forks:
    """Pytest plugin: instead of running the tests, try the mutants of these modules and keep the survivors."""

    def __init__(self, modules: Sequence[str], scratch: Path) -> None:
        self.modules = {module: importlib.import_module(_dotted(module)) for module in modules}
        self.scratch = scratch
        self.counts: dict[str, Counter[str]] = defaultdict(Counter)
        self.survivors: list[dict[str, str]] = []
        self.running: dict[int, tuple[str, Mutant]] = {}
        self.killed_by: dict[tuple[str, str], list[str]] = defaultdict(list)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Trace all tests, then try all mutants."""
        traces = self._trace(session)
        failed = [test for test, trace in traces.items() if trace.failed]
        if failed:
            pytest.exit(f"the tests fail without a mutant: {' '.join(failed)}", 3)
        for imported in {each for trace in traces.values() for each in trace.imports if each.split(".")[0] in AHEAD}:
            with contextlib.suppress(ImportError):
                importlib.import_module(imported)
        gc.freeze()
        took_s = {test: trace.took_s for test, trace in traces.items()}
        items = {item.nodeid: item for item in session.items}
        for name, module in self.modules.items():
            file = str(module.__file__)
            reaching = {test: trace.lines[file] for test, trace in traces.items() if file in trace.lines}
            of_others = {test: sum(map(len, traces[test].lines.values())) - len(reaching[test]) for test in reaching}
            started = time.monotonic()
            tree = ast.parse(Path(file).read_text(encoding="utf-8"))
            plain = [items[test] for test in _within(sorted(reaching, key=of_others.__getitem__), took_s)]
            unchanged = _fork(self.scratch, plain, math.inf, module, tree)
            if os.waitpid(unchanged, 0)[1]:
                pytest.exit(f"{name}: its tests fail in a fork without a mutant", 3)
            for mutant in mutants(tree):
                tests = self._tests(name, mutant, reaching, took_s, of_others)
                while len(self.running) >= len(os.sched_getaffinity(0)):
                    self._wait()
                limit_s = LIMIT_S + TIMES_SLOWER * sum(took_s[test] for test in tests)
                process = _fork(self.scratch, [items[test] for test in tests], limit_s, module, tree)
                self.running[process] = (name, mutant)
            while self.running:
                self._wait()
            of = self.counts[name]
            took = time.monotonic() - started
            sys.stderr.write(f"{name}: {of['killed']} of {sum(of.values())} killed, {took:.0f} s\n")
        return True

    def _tests(
        self,
        name: str,
        mutant: Mutant,
        reaching: dict[str, set[int]],
        took_s: dict[str, float],
        of_others: dict[str, int],
    ) -> list[str]:
        """The tests that reach a mutant's lines, or its module where its lines run at the import; likely ones first."""
        lines = set(range(mutant.first_line, mutant.last_line + 1))
        tests = [test for test, of in reaching.items() if of & lines] or list(reaching)
        likely = self.killed_by[name, mutant.within]
        return _within(sorted(tests, key=lambda test: (-likely.count(test), of_others[test], took_s[test])), took_s)

    def _wait(self) -> None:
        """Take down what became of the mutant that ends next."""
        process, status = os.wait()
        name, mutant = self.running.pop(process)
        report = self.scratch / f"{process}.txt"
        code = os.waitstatus_to_exitcode(status)
        if code == BROKEN:
            raise RuntimeError(f"{name}: cannot take the mutant {mutant}")
        survived = code == 0
        self.counts[name]["survived" if survived else "killed"] += 1
        if survived:
            within = f"{name.replace('/', '.')}.{mutant.within}".rstrip(".")
            self.survivors.append({"within": within, "was": mutant.was, "becomes": mutant.becomes})
            sys.stderr.write(f"{within}:{mutant.first_line}\n  - {mutant.was[:300]}\n  + {mutant.becomes[:300]}\n")
        elif report.exists():
            self.killed_by[name, mutant.within].append(report.read_text(encoding="utf-8"))
        shutil.rmtree(self.scratch / str(process), ignore_errors=True)

    def _trace(self, session: pytest.Session) -> dict[str, Trace]:
        """What `_traced` has of all tests, from the kept traces of earlier runs where test and modules are the same."""
        known: dict[str, tuple[str, Trace]] = pickle.loads(TRACES.read_bytes()) if TRACES.exists() else {}  # noqa: S301
        missing = [
            item
            for item in session.items
            if item.nodeid not in known or known[item.nodeid][0] != _state(item.path, known[item.nodeid][1])
        ]
        TRACES.parent.mkdir(exist_ok=True)
        tracing: set[int] = set()
        for path in dict.fromkeys(item.path for item in missing):
            if len(tracing) >= len(os.sched_getaffinity(0)):
                tracing.remove(os.wait()[0])
            found = self.scratch / f"{path.stem}.pickle"
            process = os.fork()
            if not process:
                os.environ["PYTEST_DEBUG_TEMPROOT"] = str(self.scratch)
                traces = _traced([item for item in missing if item.path == path])
                found.write_bytes(pickle.dumps({test: (_state(path, of), of) for test, of in traces.items()}))
                os._exit(0)
            tracing.add(process)
        while tracing:
            tracing.remove(os.wait()[0])
        for each in self.scratch.glob("*.pickle"):
            known |= pickle.loads(each.read_bytes())  # noqa: S301
        TRACES.write_bytes(pickle.dumps(known))
        return {item.nodeid: known[item.nodeid][1] for item in session.items}


def _state(test: Path, trace: Trace) -> str:
    """What a trace holds for: the test's file, and the modules that it reaches."""
    return hashlib.sha256(
        test.read_bytes() + b"".join(Path(file).read_bytes() for file in sorted(trace.lines))
    ).hexdigest()


def _traced(items: list[pytest.Item]) -> dict[str, Trace]:
    """How each test ends, how long it takes, the lines of each module that it reaches and the modules it imports."""
    files = {str(importlib.import_module(_dotted(module)).__file__) for module in MODULES}
    traces: dict[str, Trace] = {}
    lines: dict[str, set[int]] = {}
    calls: Counter[CodeType] = Counter()

    def trace(frame: FrameType, _: str, __: object) -> Any:
        calls[frame.f_code] += 1
        if frame.f_code.co_filename not in files or calls[frame.f_code] > TRACED_CALLS:
            return None
        lines.setdefault(frame.f_code.co_filename, set()).add(frame.f_lineno)
        return trace

    for item, following in zip(items, [*items[1:], None], strict=True):
        lines, calls = {}, Counter()
        before, modules, started = item.session.testsfailed, set(sys.modules), time.monotonic()
        threading.settrace(trace)
        sys.settrace(trace)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        sys.settrace(None)
        threading.settrace(None)
        failed, took_s = item.session.testsfailed > before, time.monotonic() - started
        traces[item.nodeid] = Trace(failed, took_s, lines, sorted(set(sys.modules) - modules))
    return traces


def _within(tests: list[str], took_s: dict[str, float]) -> list[str]:
    """The first of these tests, for as long as they may take: a mutant that only later ones would kill survives."""
    until_s = accumulate(took_s[test] for test in tests)
    return [test for test, end_s in zip(tests, until_s, strict=True) if end_s <= MOST_TESTS_S]


def _fork(scratch: Path, items: list[pytest.Item], limit_s: float, module: ModuleType, tree: ast.Module) -> int:
    """Run the tests with the mutated module in a process of its own until one fails; its number."""
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        own = scratch / str(os.getpid())
        own.mkdir()
        os.environ["PYTEST_DEBUG_TEMPROOT"] = str(own)
        resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES))  # an endless loop may fill a list
        if math.isfinite(limit_s):
            resource.setrlimit(resource.RLIMIT_CPU, (int(limit_s), int(limit_s) + 5))
            signal.alarm(int(3 * limit_s))
        fresh = ModuleType(module.__name__)
        fresh.__file__ = module.__file__
        exec(compile(tree, str(module.__file__), "exec"), vars(fresh))  # noqa: S102  (our own, one expression changed)
        code = BROKEN
        _install(module, fresh)
        code = 1
        for item, following in zip(items, [*items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if item.session.testsfailed:
                (scratch / f"{os.getpid()}.txt").write_text(item.nodeid, encoding="utf-8")
                break
        code = int(any(item.session.testsfailed for item in items))
    finally:
        os._exit(code)


def _install(module: ModuleType, fresh: ModuleType) -> None:
    """Give the functions of an imported module the code of another, wherever they were imported; constants too."""
    for name, new in vars(fresh).items():
        old = vars(module).get(name)
        if not name.startswith("__") and _is_plain(old) and old != new:
            for other in list(sys.modules.values()):
                if vars(other).get(name) is old:
                    setattr(other, name, new)
        elif getattr(old, "__module__", None) == module.__name__:
            for was, becomes in zip(_functions(old), _functions(new), strict=True):
                _replace(was, becomes)


def _is_plain(value: object) -> bool:
    """Whether a value is made of numbers and texts alone, which are equal in both modules where nothing changed."""
    if isinstance(value, dict):
        return all(map(_is_plain, (*value, *value.values())))
    return all(map(_is_plain, value)) if isinstance(value, tuple | frozenset) else isinstance(value, SIMPLE)


def _replace(was: FunctionType, becomes: FunctionType) -> None:
    was.__code__ = becomes.__code__
    if _is_plain(becomes.__defaults__ or ()):
        was.__defaults__ = becomes.__defaults__
    if _is_plain(becomes.__kwdefaults__ or {}):
        was.__kwdefaults__ = becomes.__kwdefaults__


def _functions(value: object) -> Iterator[FunctionType]:
    """The functions of a function, a method, a property or a class, whatever decorates them."""
    if isinstance(value, FunctionType):
        yield from _functions(value.__wrapped__) if hasattr(value, "__wrapped__") else iter([value])
    elif isinstance(value, type):
        for name in sorted(vars(value)):
            yield from _functions(vars(value)[name]) if not isinstance(vars(value)[name], type) else ()
    else:
        for name in ("__wrapped__", "__func__", "fget", "func"):
            if isinstance(getattr(value, name, None), FunctionType):
                yield from _functions(getattr(value, name))
                return


def _dotted(module: str) -> str:
    return f"peakgate.{module.replace('/', '.')}"


def main(chosen: Sequence[str]) -> int:
    """Try the mutants of the chosen modules, or of all; write the record, where the others stay; exit code."""
    modules = [module for module in MODULES if not chosen or module in chosen]
    rooms = {"reports" if module.startswith("reports/") else "suite" for module in modules}
    tests = [
        str(path.relative_to(ROOT))
        for room in rooms
        for name in TESTS[room]
        for path in sorted((ROOT / room / "tests").glob(f"test_{name}.py"))
    ]
    described = ["git", "describe", "--always", "--dirty"]
    commit = subprocess.run(described, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
    with tempfile.TemporaryDirectory() as scratch:
        forks = Forks(modules, Path(scratch))
        code = pytest.main([*OPTIONS, "--hypothesis-profile=mutation", "--rootdir", str(ROOT), *tests], [forks])
    if len(forks.counts) < len(modules):
        return int(code) or 1
    record = json.loads(RECORD.read_text(encoding="utf-8")) if chosen else {"modules": {}}
    found = {name: {"commit": commit, **forks.counts[name]} for name in modules}
    for name in modules:
        inside = f"{name.replace('/', '.')}."
        found[name]["survivors"] = [each for each in forks.survivors if f"{each['within']}.".startswith(inside)]
    record["modules"] = dict(sorted((record["modules"] | found).items()))
    write_whole(RECORD, json.dumps(record, indent=1) + "\n")
    fill_page(PAGE, blocks())
    return judge(record)


def blocks() -> dict[str, str]:
    """The counts of each module, as the page has them."""
    rows = []
    reasons = explained()
    for name, of in json.loads(RECORD.read_text(encoding="utf-8"))["modules"].items():
        known = sum(_reason(each, reasons) is not None for each in of["survivors"])
        mutated = of.get("killed", 0) + of.get("survived", 0)
        rows.append([name, mutated, percent(of.get("killed", 0) / mutated), of.get("survived", 0), known, of["commit"]])
    return {"mutation": table(["module", "mutants", "killed", "survived", "of these explained", "commit"], rows)}


def judge(record: dict[str, Any]) -> int:
    """Print the share that was killed and the survivors that nobody explained; exit code."""
    modules = record["modules"].values()
    killed, survived = (sum(of.get(what, 0) for of in modules) for what in ("killed", "survived"))
    reasons = explained()
    left = [each for of in modules for each in of["survivors"] if not _reason(each, reasons)]
    for each in left:
        sys.stdout.write("{within}\n- {was}\n+ {becomes}\n".format(**each))
    share = killed / (killed + survived)
    total = killed + survived
    sys.stdout.write(f"{killed} of {total} killed, {100 * share:.1f} %; {len(left)} survivors unexplained\n")
    return int(share < LEAST_KILLED or bool(left))


def explained() -> list[dict[str, str]]:
    """Why survivors cannot be killed: one by where it is, before and after; all of a function by where alone."""
    entries: list[dict[str, str]] = tomllib.loads(EXPLAINED.read_text(encoding="utf-8")).get("survivor", [])
    return entries


def _reason(survivor: dict[str, str], reasons: list[dict[str, str]]) -> str | None:
    matching = (each for each in reasons if survivor | each == survivor | {"reason": each["reason"]})
    return next((each["reason"] for each in matching), None)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
