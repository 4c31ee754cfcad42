"""Tests whether the tests detect changes of the judging modules, one expression at a time.

``python -m lab.mutation.mutation [MODULE ...]`` tries every mutant of ``expressions.py`` with the tests of its module;
``--every N`` one in N, always the same ones. ``mutation.json`` has the counts of each module, with the commit, and the
survivors; ``survivors.toml`` says why the remaining ones cannot be killed. Exit code 1 if less than 98 % were killed or
a survivor is not explained.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import sys
import tomllib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from lab.mutation.expressions import Mutant, mutants
from lab.mutation.trial import Change, caught
from lab.pages import ROOT, percent, read_json, table
from lab.records import checked_out
from peakgate.base.files import write_whole

HERE = Path(__file__).resolve().parent
RECORD, EXPLAINED = HERE / "mutation.json", HERE / "survivors.toml"
LEAST_KILLED = 0.98
TESTS = {
    "base/verdict": "judge/figures judge/gate compare/ab_verdicts",
    "judge/activity": "judge/activity",
    "judge/correctness": "judge/correctness measure/refill run/narrow_types session/session",
    "judge/floors": "judge/baseline judge/gate judge/state compare/floors compare/margins session/session "
    "run/remeasure",
    "judge/magnitudes": "judge/magnitudes judge/correctness",
    "judge/metrics": "judge/figures judge/gate judge/state",
    "judge/occupancy": "judge/occupancy",
    "judge/state": "judge/state",
    "judge/waivers": "judge/waivers inspect/check_mutants",
    "judge/work": "judge/work",
    "compare/judge": "compare/compare compare/compare_gpus compare/compare_verdicts compare/evidence",
    "compare/evidence": "compare/evidence compare/compare_figures compare/compare_verdicts compare/reasons",
    "compare/noise": "compare/noise compare/ab_decide compare/evidence compare/scan",
    "compare/resample": "compare/resample compare/selftest",
    "review/protect": "review/protect review/protect_rules",
    "review/changes": "review/protect review/protect_rules",
    "judge/acknowledged": "review/protect review/protect_rules compare/history_changes",
    "review/command": "review/gate_command review/gate_steps",
    "review/links": "review/gate_links",
    "review/trees": "review/gate_steps",
    "compare/ab/changed": "compare/ab_changed",
    "compare/ab/decide": "compare/ab_decide compare/ab_look compare/ab_screening compare/ab_verdicts",
    "compare/history/steps": "compare/scan compare/history_changes",
    "compare/history/trend": "compare/history_trend compare/trend_findings compare/history_changes",
    "compare/floors/proposals": "compare/floors compare/margins",
    "measure/refill": "measure/refill callables/unchanged",
    "measure/sampling": "measure/sampling measure/limits judge/state",
    "inspect/resources/baseline": "inspect/resources inspect/resources_run",
    "run/identity": "run/readable spec/terms spec/family",
    "run/readable": "run/readable",
    "spec/contract": "spec/terms spec/family review/protect compare/ab_changed",
}
"""The test files of each module."""


def mutated(module: str) -> Iterator[tuple[Mutant, Change]]:
    """Every mutant of a module, with its change."""
    file = f"src/peakgate/{module}.py"
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    tests = [f"tests/{room}/test_{name}.py" for room, name in (each.split("/") for each in TESTS[module].split())]
    for mutant in mutants(tree):
        yield mutant, Change(f"{module}:{mutant.line}", file, ast.unparse(tree), tests)


def tried(module: str, every: int, jobs: int, commit: str) -> dict[str, Any]:
    """Try one mutant in ``every``; the module's entry of the record. RuntimeError if the unchanged module fails."""
    found = list(islice(mutated(module), None, None, every))
    first = found[0][1]
    control = first._replace(text=(ROOT / first.file).read_text(encoding="utf-8"))
    fails, *killed = caught([control, *(change for _, change in found)], jobs)
    if fails:
        raise RuntimeError(f"{module}: its tests fail without a mutant")
    within = module.replace("/", ".")
    survivors = [
        {"within": f"{within}.{mutant.within}".rstrip("."), "was": mutant.was, "becomes": mutant.becomes}
        for (mutant, _), dead in zip(found, killed, strict=True)
        if not dead
    ]
    counts = {"killed": len(found) - len(survivors), "survived": len(survivors)}
    return {"commit": commit, "every": every, **counts, "survivors": survivors}


def main() -> int:
    """Try the mutants of the chosen modules, or of all, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("modules", nargs="*", metavar="MODULE", choices=[[], *TESTS], default=[])
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only the first of each N mutants")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    commit = checked_out()  # before the record changes
    for module in options.modules or TESTS:
        modules = read_json(RECORD)["modules"]
        modules[module] = tried(module, options.every, options.jobs, commit)
        kept = {name: of for name, of in sorted(modules.items()) if name in TESTS}
        write_whole(RECORD, json.dumps({"modules": kept}, indent=1) + "\n")
    return judge(read_json(RECORD))


def blocks() -> dict[str, str]:
    """The page's block: counts of each module."""
    rows = []
    reasons = explained()
    for name, of in read_json(RECORD)["modules"].items():
        known = sum(_reason(each, reasons) is not None for each in of["survivors"])
        mutated = of.get("killed", 0) + of.get("survived", 0)
        tried = mutated if of.get("every", 1) == 1 else f"{mutated}, one in {of['every']}"
        rows.append([name, tried, percent(of.get("killed", 0) / mutated), of.get("survived", 0), known, of["commit"]])
    return {"mutation": table(["module", "mutants", "killed", "survived", "of these explained", "commit"], rows)}


def judge(record: dict[str, Any]) -> int:
    """Print the killed share and the unexplained survivors; returns the exit code."""
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
    """Groups of survivors with a reason; each is given by its place, or also the old, or also the new expression."""
    groups: list[dict[str, Any]] = tomllib.loads(EXPLAINED.read_text(encoding="utf-8"))["group"]
    return groups


def _reason(survivor: dict[str, str], groups: list[dict[str, Any]]) -> str | None:
    its = [survivor[name] for name in ("within", "was", "becomes")]
    return next((group["reason"] for group in groups for each in group["survivors"] if its[: len(each)] == each), None)


if __name__ == "__main__":
    raise SystemExit(main())
