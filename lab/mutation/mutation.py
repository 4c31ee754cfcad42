"""Change the meaning of the modules that judge, one expression at a time, and see whether the tests notice.

``python -m lab.mutation.mutation [MODULE ...]`` collects the tests once and runs them once to see which functions
each calls. Every mutant of ``expressions.py`` then gets a fork of that process, in which the functions of the module
run the mutated code, and which runs the tests that call the changed function until one fails. ``mutation.json`` records
the counts of each module, with the commit, and the survivors; ``survivors.toml`` says why those that are left cannot be
killed. With ``--every N`` one mutant in N is tried, always the same ones. Exit code 1 where less than 98 % were killed
or a survivor is not explained.
"""

from __future__ import annotations

import argparse
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
import sys
import tempfile
import threading
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, islice
from pathlib import Path
from types import FrameType, FunctionType, ModuleType
from typing import Any

import pytest

from lab.mutation.expressions import Mutant, mutants
from lab.pages import ROOT, fill_page, percent, read_json, table
from lab.records import checked_out
from peakgate.base.files import write_whole

HERE = Path(__file__).resolve().parent
RECORD, EXPLAINED = HERE / "mutation.json", HERE / "survivors.toml"
PAGE = HERE / "README.md"
TRACES = ROOT / "build" / "mutation-calls.pickle"
LEAST_KILLED = 0.98
LIMIT_S, TIMES_SLOWER = 10, 10
MOST_TESTS_S = 20.0
"""Processor time of the tests of one mutant, as they took without it."""
TRACED_TOGETHER = 4
BROKEN = 3
"""Exit code of a fork that could not take the mutated code."""
MOST_BYTES = 4 << 30

MODULES = (
    *("base/verdict", "judge/activity", "judge/correctness", "judge/floors", "judge/gate", "judge/magnitudes"),
    *("judge/metrics", "judge/occupancy", "judge/waivers", "compare/judge"),
    *("compare/evidence", "compare/noise", "compare/resample"),
    *("review/protect", "review/changes", "judge/acknowledged", "review/command"),
    *("review/links", "review/trees"),
    *(
        "compare/ab/changed",
        "compare/ab/decide",
        "compare/history/steps",
        "compare/history/trend",
        "compare/floors/command",
    ),
    *(
        "measure/refill",
        "measure/sampling",
        "inspect/resources/baseline",
        "run/identity",
        "run/readable",
        "spec/contract",
    ),
)
TESTS = (
    *("ab_changed", "ab_decide", "ab_look", "ab_schedule", "ab_screening", "ab_verdicts", "activity"),
    *("base", "baseline", "check_gpu_build", "compare", "compare_figures", "compare_gpus"),
    *("compare_properties", "compare_verdicts", "correctness", "data", "evidence", "family", "figures"),
    *("floors", "frame", "gate", "gate_links", "gate_steps", "history_changes", "history_gpus"),
    *("history_series", "history_trend", "limits", "magnitudes", "margins", "narrow_types", "noise"),
    *("occupancy", "protect", "protect_rules", "readable", "reasons", "refill", "remeasure", "resample"),
    *("resources", "sampling", "scan", "selftest", "session", "several_gpus", "state", "table", "terms"),
    *("trend_findings", "waivers"),
)
OPTIONS = ("-q", "-p", "no:cacheprovider", "-p", "no:benchmark", "--capture=sys", "--tb=no")
AHEAD = {"peakgate", "numpy", "pandas", "scipy", "rich", "matplotlib", "hypothesis", "cupy"}
"""Packages that tests import late; imported before the forks, not by each."""


@dataclass(frozen=True)
class Trace:
    """A test without a mutant."""

    failed: bool
    took_s: float
    functions: dict[str, set[str]]
    """Dotted names of what it calls, by the module's file."""

    imports: list[str]


class Forks:
    """Pytest plugin: instead of running the tests, try the mutants of these modules and keep the survivors."""

    def __init__(self, modules: Sequence[str], scratch: Path, commit: str, every: int) -> None:
        self.modules = {module: importlib.import_module(_dotted(module)) for module in modules}
        self.scratch = scratch
        self.commit, self.every = commit, every
        self.counts: dict[str, Counter[str]] = defaultdict(Counter)
        self.survivors: list[dict[str, str]] = []
        self.running: dict[int, tuple[str, Mutant]] = {}
        self.killed_by: dict[tuple[str, str], list[str]] = defaultdict(list)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Trace all tests, then try all mutants."""
        traces = self._trace(session)
        failed = [test for test, trace in traces.items() if trace.failed]
        if failed:
            sys.stderr.write(f"left out, for they fail without a mutant: {' '.join(failed)}\n")
            traces = {test: trace for test, trace in traces.items() if not trace.failed}
        for imported in {each for trace in traces.values() for each in trace.imports if each.split(".")[0] in AHEAD}:
            with contextlib.suppress(ImportError):
                importlib.import_module(imported)
        gc.freeze()
        took_s = {test: trace.took_s for test, trace in traces.items()}
        items = {item.nodeid: item for item in session.items}
        for name, module in self.modules.items():
            file = str(module.__file__)
            beside = {items[test].path for test, trace in traces.items() if file in trace.functions}
            reaching = {
                test: trace.functions.get(file, set()) for test, trace in traces.items() if items[test].path in beside
            }
            of_others = {
                test: sum(map(len, traces[test].functions.values())) - len(reaching[test]) for test in reaching
            }
            started = time.monotonic()
            original, tree = (ast.parse(Path(file).read_text(encoding="utf-8")) for _ in range(2))
            plain = [items[test] for test in _within(reaching, took_s)]
            defined = [each for each in tree.body if isinstance(each, ast.FunctionDef | ast.ClassDef)]
            unchanged = _fork(self.scratch, plain, math.inf, module, defined)
            if os.waitpid(unchanged, 0)[1]:
                sys.stderr.write(f"{name}: not tried, its tests fail in a fork without a mutant\n")
                continue
            for mutant in islice(mutants(tree), None, None, self.every):
                tests = self._tests(name, mutant, reaching, took_s, of_others)
                while len(self.running) >= len(os.sched_getaffinity(0)):
                    self._wait()
                limit_s = LIMIT_S + TIMES_SLOWER * sum(took_s[test] for test in tests)
                differing = _differing(original, tree)  # found in the fork
                process = _fork(self.scratch, [items[test] for test in tests], limit_s, module, differing)
                self.running[process] = (name, mutant)
            while self.running:
                self._wait()
            of = self.counts[name]
            took = time.monotonic() - started
            sys.stderr.write(f"{name}: {of['killed']} of {sum(of.values())} killed, {took:.0f} s\n")
            self._record(name)
        return True

    def _record(self, name: str) -> None:
        """Put a module's counts and survivors into the record, where the others stay."""
        record = read_json(RECORD)["modules"]
        inside = f"{name.replace('/', '.')}."
        survivors = [each for each in self.survivors if f"{each['within']}.".startswith(inside)]
        found = {"commit": self.commit, "every": self.every, **self.counts[name], "survivors": survivors}
        record[name] = found
        kept = {module: record[module] for module in sorted(record) if module in MODULES}
        write_whole(RECORD, json.dumps({"modules": kept}, indent=1) + "\n")

    def _tests(
        self,
        name: str,
        mutant: Mutant,
        reaching: dict[str, set[str]],
        took_s: dict[str, float],
        of_others: dict[str, int],
    ) -> list[str]:
        """The tests that call a mutant's function, or else all of a file that calls the module; likely ones first."""
        tests = [test for test, of in reaching.items() if mutant.within in of] or list(reaching)
        likely = self.killed_by[name, mutant.within]
        return sorted(_within(tests, took_s), key=lambda test: (-likely.count(test), of_others[test], took_s[test]))

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
            sys.stderr.write(f"{within}:{mutant.line}\n  - {mutant.was[:300]}\n  + {mutant.becomes[:300]}\n")
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
        by_file = [list(of) for _, of in groupby(missing, key=lambda item: item.path)]
        for number, items in enumerate(part for of in by_file for part in _parts(of)):
            if len(tracing) >= len(os.sched_getaffinity(0)):
                tracing.remove(os.wait()[0])
            found = self.scratch / f"{number}.pickle"
            process = os.fork()
            if not process:
                os.environ["PYTEST_DEBUG_TEMPROOT"] = str(self.scratch)
                traces = _traced(items)
                found.write_bytes(pickle.dumps({test: (_state(items[0].path, of), of) for test, of in traces.items()}))
                os._exit(0)
            tracing.add(process)
        while tracing:
            tracing.remove(os.wait()[0])
        for each in self.scratch.glob("*.pickle"):
            known |= pickle.loads(each.read_bytes())  # noqa: S301
        TRACES.write_bytes(pickle.dumps(known))
        return {item.nodeid: known[item.nodeid][1] for item in session.items}


def _parts(items: list[pytest.Item]) -> Iterator[list[pytest.Item]]:
    """The tests of a file in parts that are traced beside each other."""
    return (items[start : start + TRACED_TOGETHER] for start in range(0, len(items), TRACED_TOGETHER))


def _state(test: Path, trace: Trace) -> str:
    """What a trace holds for: the test's file, and the modules whose functions it calls."""
    return hashlib.sha256(
        test.read_bytes() + b"".join(Path(file).read_bytes() for file in sorted(trace.functions))
    ).hexdigest()


def _traced(items: list[pytest.Item]) -> dict[str, Trace]:
    """How each test ends, how long it takes, the functions of each module that it calls and the modules it imports."""
    files = {str(importlib.import_module(_dotted(module)).__file__) for module in MODULES}
    traces: dict[str, Trace] = {}
    functions: dict[str, set[str]] = {}

    def trace(frame: FrameType, _: str, __: object) -> None:
        if frame.f_code.co_filename in files:
            called = frame.f_code.co_qualname.replace(".<locals>", "")
            functions.setdefault(frame.f_code.co_filename, set()).add(called)

    for item, following in zip(items, [*items[1:], None], strict=True):
        functions = {}
        before, modules, started_s = item.session.testsfailed, set(sys.modules), _spent_s()
        threading.settrace(trace)
        sys.settrace(trace)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        sys.settrace(None)
        threading.settrace(None)
        failed, took_s = item.session.testsfailed > before, _spent_s() - started_s
        traces[item.nodeid] = Trace(failed, took_s, functions, sorted(set(sys.modules) - modules))
    return traces


def _spent_s() -> float:
    """The processor time of this process and of those that it waited for, whatever else the machine does."""
    return sum(os.times()[:4])


def _within(tests: Iterable[str], took_s: dict[str, float]) -> list[str]:
    """The shortest of these tests, for as long as they may take: a mutant that only longer ones would kill survives."""
    shortest = sorted(tests, key=took_s.__getitem__)
    until_s = accumulate(took_s[test] for test in shortest)
    return [test for test, end_s in zip(shortest, until_s, strict=True) if end_s <= MOST_TESTS_S]


def _fork(
    scratch: Path, items: list[pytest.Item], limit_s: float, module: ModuleType, statements: Iterable[ast.stmt]
) -> int:
    """Run the tests in a process of its own, where a module has these statements anew, until one fails; its number."""
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
        for statement in statements:
            before = dict(vars(module))
            text = compile(ast.Module([statement], []), str(module.__file__), "exec")
            exec(text, vars(module))  # noqa: S102  (our own, one expression changed)
            code = BROKEN
            _take(module, before)
            code = 1
        for item, following in zip(items, [*items[1:], None], strict=False):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if item.session.testsfailed:
                (scratch / f"{os.getpid()}.txt").write_text(item.nodeid, encoding="utf-8")
                break
        code = int(any(item.session.testsfailed for item in items))
    finally:
        os._exit(code)


def _take(module: ModuleType, before: dict[str, Any]) -> None:
    """Carry what a statement of a module gave anew to all that import from it.

    A value is replaced wherever it was imported. A function or a class stays what it is and takes the other's code.
    """
    names = vars(module)
    for name, old in before.items():
        new = names[name]
        if new is old:
            continue
        if getattr(old, "__module__", None) == module.__name__ and list(_functions(old)):
            names[name] = old
            for was, becomes in zip(_functions(old), _functions(new), strict=True):
                was.__code__, was.__defaults__ = becomes.__code__, becomes.__defaults__
                was.__kwdefaults__ = becomes.__kwdefaults__
            continue
        for other in list(sys.modules.values()):
            if vars(other).get(name) is old:
                setattr(other, name, new)
    for value in before.values():
        if hasattr(value, "cache_clear"):
            value.cache_clear()


def _differing(original: ast.Module, tree: ast.Module) -> Iterator[ast.stmt]:
    """The statements of a module that differ from its text, and those that need what these name to be run."""
    changed: set[str] = set()
    for was, becomes in zip(original.body, tree.body, strict=True):
        if changed & set(_used_at_import(becomes)) or ast.dump(was) != ast.dump(becomes):
            names = [each for each in ast.walk(becomes) if isinstance(each, ast.Name)]
            given = {each.id for each in names if isinstance(each.ctx, ast.Store)}
            changed |= {becomes.name} if isinstance(becomes, ast.FunctionDef | ast.ClassDef) else given
            yield becomes


def _used_at_import(node: ast.AST) -> Iterator[str]:
    """The names that a statement needs when it is run, which the bodies of its functions do not."""
    if isinstance(node, ast.FunctionDef | ast.Lambda):
        for each in (*node.args.defaults, *filter(None, node.args.kw_defaults), *getattr(node, "decorator_list", ())):
            yield from _used_at_import(each)
    elif isinstance(node, ast.Name):
        yield node.id
    else:
        for child in ast.iter_child_nodes(node):
            yield from _used_at_import(child)


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


def main(arguments: Sequence[str]) -> int:
    """Try the mutants of the chosen modules, or of all; write the record and the page; exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("modules", nargs="*", metavar="MODULE", choices=[[], *MODULES], default=[])
    parser.add_argument(
        "--every", type=int, default=1, metavar="N", help="only the first of each N mutants of a module"
    )
    options = parser.parse_args(arguments)
    chosen = options.modules
    modules = [module for module in MODULES if not chosen or module in chosen]
    tests = [
        str(path.relative_to(ROOT)) for name in TESTS for path in sorted((ROOT / "tests").glob(f"*/test_{name}.py"))
    ]
    with tempfile.TemporaryDirectory() as scratch:
        forks = Forks(modules, Path(scratch), checked_out(), options.every)
        code = pytest.main([*OPTIONS, "--hypothesis-profile=mutation", "--rootdir", str(ROOT), *tests], [forks])
    if len(forks.counts) < len(modules):
        return int(code) or 1
    fill_page(PAGE, blocks())
    return judge(read_json(RECORD))


def blocks() -> dict[str, str]:
    """The counts of each module, as the page has them."""
    rows = []
    reasons = explained()
    for name, of in read_json(RECORD)["modules"].items():
        known = sum(_reason(each, reasons) is not None for each in of["survivors"])
        mutated = of.get("killed", 0) + of.get("survived", 0)
        tried = mutated if of.get("every", 1) == 1 else f"{mutated}, one in {of['every']}"
        rows.append([name, tried, percent(of.get("killed", 0) / mutated), of.get("survived", 0), known, of["commit"]])
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


def explained() -> list[dict[str, Any]]:
    """Why survivors cannot be killed, in groups: of each where it is, or also what it was, or what it becomes too."""
    groups: list[dict[str, Any]] = tomllib.loads(EXPLAINED.read_text(encoding="utf-8"))["group"]
    return groups


def _reason(survivor: dict[str, str], groups: list[dict[str, Any]]) -> str | None:
    its = [survivor[name] for name in ("within", "was", "becomes")]
    return next((group["reason"] for group in groups for each in group["survivors"] if its[: len(each)] == each), None)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
