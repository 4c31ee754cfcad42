"""What ``nox -s bench`` prints, as a document shows it: from a saved run, by the table the run itself printed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from peakgate.reports.runfile import CaseResult, Run
from peakgate.run.table import Row, counts, render
from peakgate.verdict import Verdict

FAMILY, SIZE = "transpose", "8192"
WIDTH = 80


def terminal(run: Run) -> list[str]:
    """Lines of Markdown: one family on one size as the terminal shows it, and the run's closing line."""
    shown = [_row(result) for result in run.cases.values() if (result.family, result.size) == (FAMILY, SIZE)]
    verdicts = [result.verdict for result in run.cases.values() if result.verdict]
    closing = ["…", f"{len(run.cases)} cases on {run.slug}: {counts(verdicts)}"]
    text = render(_one_a_stage(shown), closing, width=WIDTH, colour=False)
    return ["```text", *text.splitlines(), "```"]


def _one_a_stage(rows: Sequence[Row]) -> list[Row]:
    """The first row of each stage: the listed best block comes first."""
    stages = Counter[str]()
    first = []
    for row in rows:
        stage = row.case.split("-")[0]
        if not stages[stage]:
            first.append(row)
        stages[stage] += 1
    return first


def _row(result: CaseResult) -> Row:
    return Row(
        case=result.case,
        family=result.family or "",
        time_us=result.time_us,
        gbs=result.gbs,
        tflops=result.tflops,
        bound=result.bound,
        peak_fraction=result.peak_fraction,
        floor=result.floor,
        verdict=result.verdict or Verdict.NO_FLOOR,
        reason=result.reason,
    )
