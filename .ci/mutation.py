"""Mutate the modules that judge and see whether the tests notice: ``nox -s mutation``, an hour on two processors.

mutmut changes one expression at a time and runs the tests that reach it. A survivor is a gap of the tests, or changes
nothing that anybody can observe: then it stands in ``mutation-survivors.toml`` with the reason. Exit code 1 where less
than 95 % of the mutants are killed, or a survivor is not explained. Decorated functions and constants of a module are
not mutated.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TREE = ROOT / "build" / "mutation"
RECORD = ROOT / ".ci" / "mutation.json"
EXPLAINED = ROOT / ".ci" / "mutation-survivors.toml"
LEAST_KILLED = 0.95

MODULES = (
    *("judge/correctness", "judge/floors", "judge/gate", "judge/metrics", "judge/occupancy", "judge/peaks"),
    *("measure/sampling", "resources/baseline", "resources/compare"),
    *(
        "reports/ab/decide",
        "reports/comparison/judge",
        "reports/comparison/noise",
        "reports/history/detect",
        "reports/history/scan",
    ),
)
TESTS = {
    "suite": (
        *("again", "baseline", "correctness", "figures", "gate", "limits", "occupancy", "resources", "sampling"),
    ),
    "reports": (
        *("ab_decide", "ab_look", "compare", "compare_circumstances", "compare_figures", "compare_gpus"),
        *("compare_library", "compare_properties", "compare_sessions", "compare_unpaired", "floors", "frame"),
        *("history_*", "noise", "scan"),
    ),
}

KILLED = ("killed", "timeout", "caught by type check")
MUTMUT = (sys.executable, "-m", "mutmut")


def main() -> int:
    """Run mutmut on a copy of this tree; write the record; the exit code."""
    _lay_out()
    earlier = _survivors(_results()) if (TREE / "mutants").exists() else []
    _run()
    if earlier:
        _run(*earlier)  # there may be new tests
    results = _results()
    if not results or "not checked" in results.values():
        sys.stderr.write(f"mutmut did not finish; see {TREE}\n")
        return 3
    return _report(results)


def _run(*mutants: str) -> None:
    """Try these mutants, or all that no earlier run has tried."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / ".ci")}
    processes = str(len(os.sched_getaffinity(0)))
    command = (*MUTMUT, "run", "--max-children", processes, *mutants)
    subprocess.run(command, cwd=TREE, env=environment, check=False)


def _results() -> dict[str, str]:
    """The state of each mutant by its name."""
    listed = subprocess.run([*MUTMUT, "results", "--all", "true"], cwd=TREE, check=True, capture_output=True, text=True)
    return dict(line.strip().rsplit(": ", 1) for line in listed.stdout.splitlines() if ": " in line)


def _survivors(results: Mapping[str, str]) -> list[str]:
    return [mutant for mutant, state in results.items() if state not in (*KILLED, "not checked")]


def _lay_out() -> None:
    """Copy the tree so that mutmut finds the package where its name says; kept results of unchanged functions stay."""
    for name in ("src", "suite", "reports", "kernels", "baselines"):
        shutil.rmtree(TREE / name, ignore_errors=True)
    without = shutil.ignore_patterns("__pycache__", "tests")
    shutil.copytree(ROOT / "suite", TREE / "src" / "peakgate", ignore=without)
    shutil.copytree(ROOT / "reports", TREE / "src" / "peakgate" / "reports", ignore=without)
    for name in ("suite/tests", "reports/tests", "kernels", "baselines"):
        shutil.copytree(ROOT / name, TREE / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "conftest.py", TREE)
    shutil.copy(ROOT / "reports" / "README.md", TREE / "reports")
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    settings = text[text.index("[tool.pytest.ini_options]") :].split("\n[tool.ruff]")[0]
    tests = [
        str(path.relative_to(ROOT))
        for room, names in TESTS.items()
        for name in names
        for path in sorted((ROOT / room / "tests").glob(f"test_{name}.py"))
    ]
    mutated = {
        "source_paths": ["src"],
        "only_mutate": [f"src/peakgate/{module}.py" for module in MODULES],
        "also_copy": ["suite", "reports", "kernels", "baselines", "conftest.py"],
        "pytest_add_cli_args_test_selection": tests,
        "pytest_add_cli_args": [
            *("-p", "no:cacheprovider", "-p", "no:unraisableexception", "-p", "no:threadexception"),
            *("-p", "mutation_order", "--hypothesis-profile", "mutation"),
        ],
    }
    lines = [f"{name} = {json.dumps(value)}" for name, value in mutated.items()]
    (TREE / "pyproject.toml").write_text("\n".join([settings, "[tool.mutmut]", *lines, ""]), encoding="utf-8")


def _report(results: dict[str, str]) -> int:
    """Print and record how many were killed, by module, and which survivors nobody explained."""
    explained = {
        (entry["function"], entry["becomes"]): entry["reason"]
        for entry in tomllib.loads(EXPLAINED.read_text(encoding="utf-8")).get("survivor", [])
    }
    counts: dict[str, Counter[str]] = {}
    survivors = []
    for mutant, status in results.items():
        function = mutant.rsplit("__mutmut_", 1)[0]
        module = function.rsplit(".", 1)[0].removeprefix("peakgate.")
        counts.setdefault(module, Counter())["killed" if status in KILLED else "survived"] += 1
        if status not in KILLED:
            was, becomes = _change(mutant)
            name = f"{module}.{function.rsplit('.', 1)[1]}"
            reason = explained.pop((name, becomes), None)
            survivors.append({"function": name, "was": was, "becomes": becomes, "reason": reason})
    total = sum(sum(of.values()) for of in counts.values())
    killed = sum(of["killed"] for of in counts.values()) / total
    unexplained = [survivor for survivor in survivors if survivor["reason"] is None]
    record = {"mutants": total, "killed": killed, "modules": counts, "survivors": survivors}
    RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    for module, of in sorted(counts.items()):
        sys.stdout.write(f"{module}: {of['killed']} of {sum(of.values())} killed\n")
    for survivor in unexplained:
        sys.stdout.write(f"\n{survivor['function']}\n- {survivor['was']}\n+ {survivor['becomes']}\n")
    for function, becomes in explained:
        sys.stdout.write(f"\n{EXPLAINED.name}: no such survivor: {function}: {becomes}\n")
    sys.stdout.write(f"\n{100 * killed:.1f} % of {total} mutants killed, {len(unexplained)} survivors unexplained\n")
    return int(killed < LEAST_KILLED or bool(unexplained) or bool(explained))


def _change(mutant: str) -> tuple[str, str]:
    """The lines that a mutant removes and adds."""
    shown = subprocess.run([*MUTMUT, "show", mutant], cwd=TREE, check=True, capture_output=True, text=True).stdout
    was, becomes = (
        " ".join(
            line[1:].strip() for line in shown.splitlines() if line.startswith(sign) and not line.startswith(sign * 3)
        )
        for sign in "-+"
    )
    return was, becomes


if __name__ == "__main__":
    raise SystemExit(main())
