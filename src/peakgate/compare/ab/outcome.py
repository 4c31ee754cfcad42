"""Runs an experiment, or reads one back for ``--from``, and reports it.

A module of its own because the command starts before this is imported: pandas and SciPy import slowly.
"""

from __future__ import annotations

import argparse
import shlex
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from peakgate.base import progress
from peakgate.base.formatting import counted
from peakgate.base.verdict import UNDECIDED, ExitCode, Verdict
from peakgate.compare.ab.asides import energy_table
from peakgate.compare.ab.experiment import Choice, run_experiment
from peakgate.compare.ab.explain import Explained, explain
from peakgate.compare.ab.folders import SideFolder
from peakgate.compare.ab.means import Means, Phases, import_beside
from peakgate.compare.ab.record import AbRecord, PairSettings, times
from peakgate.compare.ab.schedule import Side
from peakgate.compare.ab.verdicts import comparison
from peakgate.compare.report import report as compared
from peakgate.compare.result import Comparison
from peakgate.render import files
from peakgate.runfile.find import Archive

# Imports matplotlib, which is slow to import and needed only at the end: in the background while processes measure.
PICTURES = "peakgate.render.pictures"


def measured(
    placed: tuple[SideFolder, SideFolder], options: argparse.Namespace, means: Means
) -> tuple[AbRecord, Comparison | None, Explained | None]:
    """Measure both sides; with ``--explain`` also compare them and explain the slower cases.

    Raises SideBroken if a side cannot prove its kernels.
    """
    import_beside(PICTURES, daemon=True)
    settings = PairSettings(options.tier, options.device, *options.pairs)
    choice = Choice(
        tuple(options.parts),
        options.sentinels,
        options.measure_unchanged,
        options.all_pairs,
        options.judged_by_base,
        options.energy,
        durations_us(),
    )
    record = run_experiment(placed, settings, choice, means)
    if not options.explain or record.interrupted:
        return record, None, None
    judged = comparison(record)
    slower = [row.case for row in judged.records if row.verdict == Verdict.SLOWER]
    if not slower:
        return record, judged, None
    with progress.shown(f"explaining {counted(len(slower), 'case')}"):
        return record, judged, explain(placed, slower, (options.out / "explain").resolve(), options.device)


def durations_us() -> Mapping[str, float]:
    """Times in the newest saved run, by which sentinels are spread over short and long kernels; empty without one."""
    newest = Archive().newest(1)
    return newest[0].times_us if newest else {}


def report(
    record: AbRecord,
    options: argparse.Namespace,
    phases: Phases | None = None,
    judged: Comparison | None = None,
    explained: Explained | None = None,
) -> ExitCode:
    """Write all outputs, print the findings and last the verdict, and return the exit code, which is in the files too.

    An interrupted experiment returns INTERRUPTED; if it is decided again (without ``phases``), only if no case could be
    decided.
    """
    start = time.monotonic()
    judged = judged or comparison(record)
    found = compared(judged, command="ab", strict=options.strict)
    fields: dict[str, Any] = {"stopped": record.stopped, "processes": len(record.processes)}
    fields["intervals_percent"] = {
        row.case: (row.low_percent, row.high_percent) for row in judged.records if row.low_percent is not None
    }
    tables, notes = list(found.tables), list(found.notes)
    energies = energy_table(
        {
            case: (times(record, Side.BASE, case).results, times(record, Side.HEAD, case).results)
            for case in record.plan.timed
        }
    )
    tables[:0] = [energies] if energies else []
    if explained is not None:
        fields["explained"] = explained.document()
        tables.insert(0, explained.table())
        notes += explained.notes
    if phases is not None:
        fields["wall_s"] = phases.document()
        tables.append(phases.table(time.monotonic() - start))
    unmeasured = {*record.plan.sentinels, *(record.plan.unchanged or {})}
    decided = any(row.verdict not in UNDECIDED for row in judged.records if row.case not in unmeasured)
    code = ExitCode.INTERRUPTED if record.interrupted and (phases or not decided) else found.exit_code
    slower = [row.case for row in judged.records if row.verdict == Verdict.SLOWER]
    asked = bool(slower and options.sides and not options.explain)
    following = shlex.join(["peakgate", "ab", *options.sides, "-k", slower[0], "--explain"]) if asked else ""
    whole = replace(
        found, exit_code=code, tables=tables, notes=notes, fields={**found.fields, **fields}, next=following
    )
    return files.deliver(whole, options.out, files.FORMATS, everything=options.all, summary=True)
