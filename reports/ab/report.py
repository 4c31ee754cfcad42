"""The report of an A/B, and all outputs of ``ab`` and ``decide``."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from peakgate.core.report import Report, write_json
from peakgate.core.text import Progress, counted, warn
from peakgate.core.verdict import ExitCode, Verdict
from peakgate.reports.ab.asides import energy_table
from peakgate.reports.ab.explain import Explained, explain
from peakgate.reports.ab.folders import SideFolder
from peakgate.reports.ab.judge import comparison
from peakgate.reports.ab.means import Phases
from peakgate.reports.ab.process import SideBroken
from peakgate.reports.ab.record import AbRecord, times
from peakgate.reports.ab.schedule import Side
from peakgate.reports.comparison.command import report as compared
from peakgate.reports.write import files


def explained(placed: tuple[SideFolder, SideFolder], record: AbRecord, options: argparse.Namespace) -> Explained | None:
    """Why each case is slower that the record flags; None where none is, or the experiment was interrupted."""
    slower = [row.case for row in comparison(record).records if row.verdict == Verdict.SLOWER]
    if not slower or record.interrupted:
        return None
    Progress(sys.stderr).show(f"explaining {counted(len(slower), 'case')}")
    index = int(options.device.partition(":")[2] or 0)
    return explain(placed, slower, (options.out / "explain").resolve(), index=index)


def report(
    record: AbRecord, options: argparse.Namespace, phases: Phases | None = None, explained: Explained | None = None
) -> ExitCode:
    """Write every output and print the findings, last the verdict's line; the exit code of the comparison."""
    start = time.monotonic()
    judged = comparison(record)
    found = compared(judged, command="ab", strict=options.strict)
    fields: dict[str, Any] = {"stopped": record.stopped, "processes": len(record.processes)}
    paired = [row for row in judged.records if row.low_percent is not None]
    fields["intervals_percent"] = {row.case: (row.low_percent, row.high_percent) for row in paired}
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
    code = ExitCode.INTERRUPTED if record.interrupted else found.exit_code
    whole = replace(found, exit_code=code, tables=tables, notes=notes, fields={**found.fields, **fields})
    files.deliver(whole, options.out, files.FORMATS, everything=options.all, summary=True)
    return found.exit_code


def broken_head(broken: SideBroken, out: Path) -> ExitCode:
    """A head that cannot be measured is a regression: one line, and the verdict file."""
    warn(" ".join(str(broken).split()))
    found = Report("ab", ExitCode.REGRESSION, Verdict.WRONG, fields={"reason": str(broken), "rows": []})
    write_json(found, out / "ab.json")
    return found.exit_code
