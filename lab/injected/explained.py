"""Tests whether ``ab --explain`` names the injected mistake first: ``python -m lab.injected.explained OUT``.

Ten of the project's slowdown mutants are written into a copy of the project, and ``peakgate ab --explain`` compares the
copy with an unchanged one on GPU 0. Each mutant's kernel has to be flagged and its injected cause named first.
``--saved`` measures nothing and explains the results of an earlier campaign in OUT, packed or not, again.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lab.injected import mutants
from lab.injected.campaign import compared as measured
from lab.injected.record import read_json
from peakgate.base import config
from peakgate.base.config import Project
from peakgate.base.errors import PeakgateError, refused
from peakgate.base.files import write_whole
from peakgate.base.verdict import ExitCode
from peakgate.case import Case, Scale, Tier
from peakgate.compare.ab.causes import ExplainedSide, FindingCause, MachineCode
from peakgate.compare.ab.explain import SIDES_FILE, Explained, KnownSide, compared
from peakgate.judge.occupancy import Resources
from peakgate.spec import catalogue

FIGURES = "explained.json"
EXPECTED: Mapping[str, FindingCause] = {
    "stride_smem-no-padding": FindingCause.BANK_CONFLICTS,
    "shared_tile_row_row-columns": FindingCause.BANK_CONFLICTS,
    "smem_pad-no-padding": FindingCause.BANK_CONFLICTS,
    "vectorized-no-padding": FindingCause.BANK_CONFLICTS,
    "read_float4-threads-down-columns": FindingCause.SECTORS,
    "soa_one-threads-down-columns": FindingCause.SECTORS,
    "naive-threads-down-columns": FindingCause.SECTORS,
    "registers-launch-bounds-spill": FindingCause.SPILLS,
    "fma_chains-unroll-1": FindingCause.UNROLLING,
    "staged-loads-unroll-1": FindingCause.UNROLLING,
}
"""The injected cause by mutant."""


def chosen(project: Project) -> tuple[list[mutants.Mutant], dict[str, str]]:
    """The listed mutants, and by mutant the first case of the gate tier that it affects."""
    listed = [each for each in mutants.read(mutants.LIST) if each.name in EXPECTED]
    missing = EXPECTED.keys() - {each.name for each in listed}
    if missing:
        raise PeakgateError(f"{mutants.LIST.name} has no mutant {min(missing)!r}; run this in Peakgate's own project")
    cases: list[Case] = catalogue.cases(Scale.BENCH, Tier.GATE)
    touched = mutants.touched(listed, cases, project)
    first = {name: next(case.id for case in cases if case.id in ids) for name, ids in touched.items()}
    return listed, first


def figures(explained: Explained, first: Mapping[str, str]) -> list[dict[str, object]]:
    """By mutant: the case, the injected cause, the named causes, and whether the injected one is first."""
    by_case = {each.case: each for each in explained.cases}
    rows: list[dict[str, object]] = []
    for name, cause in EXPECTED.items():
        found = by_case.get(first[name])
        named = [finding.cause.value for finding in found.findings] if found else []
        row = {"mutant": name, "case": first[name], "injected": cause.value, "named": named}
        rows.append(row | {"right": named[:1] == [cause.value], "said": found.lines if found else []})
    return rows


def explained(folder: Path) -> Explained:
    """Explain the output of ``ab --explain`` in a folder or a packed record again, without a GPU."""
    packed = folder / f"{SIDES_FILE}.xz"
    return read_json(
        packed if packed.exists() else folder / SIDES_FILE,
        lambda content: Explained(tuple(compared(case, *map(_read, both)) for case, both in content.items())),
    )


def _read(entry: Mapping[str, Any]) -> KnownSide:
    side = entry["side"]
    if side is None:
        return KnownSide(None, problem=str(entry["problem"]))
    code = side["code"] and MachineCode(
        side["code"]["instructions"], side["code"]["classes"], tuple(side["code"]["loops"])
    )
    known = ExplainedSide(Resources(**side["resources"]), code, side["counters"])
    return KnownSide(known, str(entry["fingerprint"]), tuple(entry["opcodes"]))


def measure(out: Path, project: Project, listed: Sequence[mutants.Mutant], cases: Sequence[str]) -> None:
    """Run ``ab --explain`` on an unchanged copy of the project and one with the mutants, which it must flag."""
    arguments = ["--explain", "--pairs", "4,4"]
    arguments += [word for case in cases for word in ("-k", case)]
    code, _ = measured(project, lambda head: mutants.apply(head, listed, project), out, arguments, {"sentinels": 0})
    if code != ExitCode.REGRESSION:
        raise PeakgateError(f"ab exited {code}, expected {int(ExitCode.REGRESSION)}; see its message above")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, or read saved results, and print the causes named for each mutant; exit code 1 if two are wrong."""
    parser = argparse.ArgumentParser(prog="python -m lab.injected.explained", description=__doc__)
    parser.add_argument("out", type=Path, metavar="OUT")
    parser.add_argument("--saved", action="store_true", help="explain what is in OUT, measure nothing")
    options = parser.parse_args(arguments)
    try:
        project = config.required()
        listed, first = chosen(project)
        if not options.saved:
            measure(options.out, project, listed, list(first.values()))
        rows = figures(explained(options.out / "explain"), first)
    except PeakgateError as error:
        return refused(error)
    for row in rows:
        sys.stdout.write(
            f"{'right' if row['right'] else 'WRONG'} {row['mutant']}: {row['injected']}; named {row['named']}\n"
        )
    right = sum(bool(row["right"]) for row in rows)
    sys.stdout.write(f"{right} of {len(rows)} injected causes are named first\n")
    write_whole(options.out / FIGURES, json.dumps(rows, indent=1) + "\n")
    return ExitCode.OK if right >= len(rows) - 1 else ExitCode.REGRESSION


if __name__ == "__main__":
    sys.exit(main())
