"""Mutate the modules that judge and see whether the tests notice: ``nox -s mutation -- [MODULE ...]``.

mutmut changes one expression at a time and finds the tests that reach it; ``mutation_loop.py`` runs these. A survivor
is a gap of the tests, or changes nothing that anybody can observe: then it stands in ``survivors.toml`` with the
reason. The modules can be tried one by one. Results of unchanged functions are kept in build/mutation, so a run
that was interrupted goes on; what it had tried is a random sample. Exit code 1 where fewer than 95 % are killed or
a survivor is not explained, 3 where some were not tried. Decorated functions and constants of a module are not mutated,
options of commands (``_parser``) and the wording of messages are not tried: tests assert decisions, not sentences.
"""

from __future__ import annotations

import ast
import difflib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import tomllib
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from random import Random

ROOT = Path(__file__).resolve().parents[2]
TREE = ROOT / "build" / "mutation"
HERE = Path(__file__).resolve().parent
RECORD = HERE / "mutation.json"
EXPLAINED = HERE / "survivors.toml"
LEAST_KILLED = 0.95
SEED = 38

MODULES = (
    *("judge/activity", "judge/correctness", "judge/floors", "judge/gate", "judge/magnitudes", "judge/metrics"),
    *("judge/occupancy", "judge/waivers"),
    *("measure/refill", "measure/sampling", "check/resources/baseline", "run/identity", "run/terms"),
    *("reports/ab/decide", "reports/comparison/evidence", "reports/comparison/judge", "reports/comparison/noise"),
    *("reports/comparison/resample", "reports/floors/command", "reports/gate/command", "reports/history/scan"),
    *("reports/history/trend", "reports/gate/acknowledged", "reports/gate/changes", "reports/gate/protect"),
)
TESTS = {
    "suite": (
        *("activity", "base", "baseline", "correctness", "data", "figures", "gate", "limits", "occupancy"),
        *("refill", "remeasure", "resources", "sampling", "session", "terms", "waivers"),
    ),
    "reports": (
        *("ab_decide", "ab_look", "compare", "compare_figures", "compare_gpus", "compare_properties"),
        *("compare_verdicts", "floors", "frame", "gate_steps", "history_*", "noise", "protect", "protect_rules"),
        *("scan",),
    ),
}
WITHOUT = (
    "suite/tests/test_waivers.py::test_check_reports_a_waived_defect_with_its_reason_and_fails_on_an_entry_for_none",
)
"""Tests that start processes of Peakgate: mutmut's mutants work in its own process only."""

KILLED = ("killed", "timeout", "caught by type check")
MUTMUT = (sys.executable, "-m", "mutmut")
ANY = "peakgate.judge.gate.x__against_floor__mutmut_1"


def main(chosen: Sequence[str]) -> int:
    """Run mutmut on a copy of this tree, try the mutants of the chosen modules or of all; write the record; exit code.

    ValueError for a module that is not one of MODULES.
    """
    modules = {module.replace("/", ".") for module in (chosen or MODULES)}
    if not modules <= {module.replace("/", ".") for module in MODULES}:
        raise ValueError(f"{' '.join(chosen)}: expected some of {' '.join(MODULES)}")
    _keep()  # what an interrupted run found
    _lay_out()
    # One mutant is enough for mutmut to make them all, and to time the tests and see which functions they reach.
    subprocess.run([*MUTMUT, "run", ANY], cwd=TREE, env=_environment(), check=False)
    before = _results()
    wanted = {mutant: state for mutant, state in before.items() if _module(mutant) in modules}
    untried = [mutant for mutant, state in wanted.items() if state == "not checked" and not _of_words(mutant)]
    survived = [mutant for mutant, state in wanted.items() if state not in (*KILLED, "not checked")]
    explained = Counter(function for function, _ in _explained())
    known = {function for function, count in Counter(map(_function, survived)).items() if count <= explained[function]}
    wanted_again = [mutant for mutant in survived if _function(mutant) not in known]  # there may be new tests
    tried = untried + wanted_again
    Random(SEED).shuffle(tried)  # noqa: S311  (so that what an interrupted run tried is a sample of all)
    _try(tried)
    return _report(_results())


def _try(mutants: Sequence[str]) -> None:
    """Try these mutants, and put what becomes of them where mutmut keeps it."""
    names = TREE / "mutants" / "names.txt"
    names.write_text("\n".join(mutants), encoding="utf-8")
    settings = tomllib.loads((TREE / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mutmut"]
    with tempfile.TemporaryDirectory() as temporary:
        environment = _environment() | {"MUTANTS": str(names), "PYTEST_DEBUG_TEMPROOT": temporary}
        options = ("--rootdir=.", "--capture=sys", "--tb=native", "-q", "-o", "tmp_path_retention_policy=none")
        command = (sys.executable, "-m", "pytest", *options, *settings["pytest_add_cli_args"])
        tests = settings["pytest_add_cli_args_test_selection"]
        subprocess.run([*command, *tests], cwd=TREE / "mutants", env=environment, check=False)
    _keep()


def _keep() -> None:
    """Put what ``mutation_loop.py`` found where mutmut keeps it."""
    found = TREE / "mutants" / "names.json"
    codes = json.loads(found.read_text(encoding="utf-8")) if found.exists() else {}
    for kept in (TREE / "mutants").rglob("*.meta"):
        content = json.loads(kept.read_text(encoding="utf-8"))
        content["exit_code_by_key"] |= {name: codes[name] for name in content["exit_code_by_key"] if name in codes}
        kept.write_text(json.dumps(content, indent=4), encoding="utf-8")
    found.unlink(missing_ok=True)


def _environment() -> dict[str, str]:
    """The plugin and the mutated package are found before anything else."""
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(HERE), str(TREE / "mutants" / "src")])}


def _results() -> dict[str, str]:
    """The state of each mutant by its name."""
    listed = subprocess.run([*MUTMUT, "results", "--all", "true"], cwd=TREE, check=True, capture_output=True, text=True)
    return dict(line.strip().rsplit(": ", 1) for line in listed.stdout.splitlines() if ": " in line)


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
            *("-p", "mutation_loop", "--hypothesis-profile", "mutation"),
            *(f"--deselect={test}" for test in WITHOUT),
        ],
    }
    lines = [f"{name} = {json.dumps(value)}" for name, value in mutated.items()]
    (TREE / "pyproject.toml").write_text("\n".join([settings, "[tool.mutmut]", *lines, ""]), encoding="utf-8")
    _renew()


def _renew() -> None:
    """Copy anew what an earlier run copied and does not mutate: mutmut leaves files that are there as they are."""
    mutated = {TREE / "src" / "peakgate" / f"{module}.py" for module in MODULES}
    for name in ("src", "suite", "reports", "kernels", "baselines"):
        earlier = TREE / "mutants" / name
        if earlier.is_dir():
            shutil.copytree(
                TREE / name,
                earlier,
                dirs_exist_ok=True,
                ignore=lambda folder, names: {each for each in names if Path(folder, each) in mutated},
            )


def _report(results: dict[str, str]) -> int:
    """Print and record how many were killed, by module, and which survivors nobody explained."""
    explained = _explained()
    counts: dict[str, Counter[str]] = {}
    survivors = []
    for mutant, status in results.items():
        if _of_words(mutant):
            continue
        module = _module(mutant)
        outcome = "killed" if status in KILLED else "not tried" if status == "not checked" else "survived"
        counts.setdefault(module, Counter())[outcome] += 1
        if outcome == "survived":
            was, becomes = _change(mutant)
            reason = explained.pop((_function(mutant), becomes), None)
            survivors.append({"function": _function(mutant), "was": was, "becomes": becomes, "reason": reason})
    every = sum(counts.values(), Counter())
    killed = every["killed"] / max(1, every["killed"] + every["survived"])
    unexplained = [survivor for survivor in survivors if survivor["reason"] is None]
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    record = {"commit": commit.stdout.strip(), **every, "modules": dict(sorted(counts.items())), "survivors": survivors}
    RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    for module, of in sorted(counts.items()):
        sys.stdout.write(f"{module}: {of['killed']} killed, {of['survived']} survived, {of['not tried']} not tried\n")
    for survivor in unexplained:
        sys.stdout.write(f"\n{survivor['function']}\n- {survivor['was']}\n+ {survivor['becomes']}\n")
    for function, becomes in explained:
        sys.stdout.write(f"\n{EXPLAINED.name}: no such survivor: {function}: {becomes}\n")
    sys.stdout.write(
        f"\n{100 * killed:.1f} % killed, {len(unexplained)} survivors unexplained, {every['not tried']} not tried\n"
    )
    if every["not tried"]:
        return 3
    return int(killed < LEAST_KILLED or bool(unexplained) or bool(explained))


def _explained() -> dict[tuple[str, str], str]:
    """Function and line of each survivor that somebody explained, and the reason."""
    entries = tomllib.loads(EXPLAINED.read_text(encoding="utf-8")).get("survivor", [])
    return {(entry["function"], entry["becomes"]): entry["reason"] for entry in entries}


def _function(mutant: str) -> str:
    return mutant.rsplit("__mutmut_", 1)[0].removeprefix("peakgate.")


def _module(mutant: str) -> str:
    return _function(mutant).rsplit(".", 1)[0]


def _of_words(mutant: str) -> bool:
    """Whether a mutant changes nothing but text of several words, or the options of a command."""
    if _function(mutant).endswith(".x__parser"):
        return True
    original, mutated = _both(mutant)
    changed = [line for line in set(original) ^ set(mutated) if " " in line.partition('"')[2]]
    if not changed:
        return False  # by far the most, at once
    before, after = _tree(original), _tree(mutated)
    for tree in (before, after):
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value.strip():
                node.value = ""
    return ast.dump(before) == ast.dump(after)


def _tree(lines: Sequence[str]) -> ast.Module:
    """A function, whose name `_functions` has removed."""
    return ast.parse(textwrap.dedent("\n".join(lines)).replace("def (", "def function(", 1))


def _change(mutant: str) -> tuple[str, str]:
    """The lines that a mutant removes and adds."""
    changed = list(difflib.ndiff(*_both(mutant)))
    was, becomes = (" ".join(line[2:].strip() for line in changed if line.startswith(sign)) for sign in "-+")
    return was, becomes


def _both(mutant: str) -> tuple[list[str], list[str]]:
    """The lines of the function and of its mutant."""
    module, _, name = mutant.rpartition(".")
    functions = _functions(module)
    return functions[f"{name.rsplit('__mutmut_', 1)[0]}__mutmut_orig"], functions[name]


@cache
def _functions(module: str) -> dict[str, list[str]]:
    """The lines of every original and mutated function of a module, under one name of their own."""
    text = (TREE / "mutants" / "src" / Path(*module.split("."))).with_suffix(".py").read_text(encoding="utf-8")
    lines = text.splitlines()
    return {
        node.name: [line.replace(node.name, "") for line in lines[node.lineno - 1 : node.end_lineno]]
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef) and "__mutmut_" in node.name
    }


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
