"""The report of an A/B: all outputs of ``ab`` and ``decide``."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from peakgate.common.files import write_whole
from peakgate.common.output import say, warn
from peakgate.common.progress import Progress
from peakgate.common.text import as_json, counted
from peakgate.reports.ab.explain import Explained, ExplainedProject, explain
from peakgate.reports.ab.folders import SideFolder
from peakgate.reports.ab.judge import comparison, interrupted
from peakgate.reports.ab.phases import Phases
from peakgate.reports.ab.process import SideBroken, side_environment
from peakgate.reports.ab.store import AbRecord
from peakgate.reports.render import outputs, terminal
from peakgate.reports.render.terminal import VerdictConsole
from peakgate.verdict import ExitCode, Verdict


def explained(placed: tuple[SideFolder, SideFolder], record: AbRecord, options: argparse.Namespace) -> Explained | None:
    """Why each case is slower that the record flags; None where none is, or the experiment was interrupted."""
    rows = comparison(record).frame
    slower = rows.loc[rows["verdict"] == Verdict.SLOWER, "case"].to_list()
    if not slower or interrupted(record):
        return None
    Progress(sys.stderr).show(f"explaining {counted(len(slower), 'case')}")
    index = int(options.device.partition(":")[2] or 0)
    base, head = (ExplainedProject(folder.path, side_environment(folder.path)) for folder in placed)
    return explain((base, head), slower, (options.out / "explain").resolve(), index=index)


def report(
    record: AbRecord, options: argparse.Namespace, phases: Phases | None = None, explained: Explained | None = None
) -> ExitCode:
    """Write every output and print the findings, last the verdict's line; the exit code."""
    start = time.monotonic()
    found = comparison(record)
    code = ExitCode.INTERRUPTED if interrupted(record) else found.exit_code(strict=options.strict)
    document = json.loads(outputs.verdict_json(found, strict=options.strict))
    document |= {"command": "ab", "exit_code": int(code), "stopped": record.stopped, "processes": len(record.processes)}
    texts = outputs.texts(found, "ab", strict=options.strict)
    if explained is not None:
        document["explained"] = explained.document()
        texts["ab.md"] += explained.markdown()
    if phases is not None:
        document["wall_s"] = phases.document()
    texts["ab.json"] = as_json(document)
    for name, text in texts.items():
        write_whole(options.out / name, text)
    outputs.summarize(found, strict=options.strict)
    console = VerdictConsole()
    terminal.show(found, console, everything=options.all)
    if explained is not None:
        say(explained.text())
    if phases is not None:
        say("\n".join(["", *phases.lines(time.monotonic() - start)]))
    terminal.last_line(found, console, strict=options.strict, written=[options.out / name for name in texts])
    return found.exit_code(strict=options.strict)


def broken_head(broken: SideBroken, out: Path) -> ExitCode:
    """A head that cannot be measured is a regression: one line, and the verdict file."""
    warn(" ".join(str(broken).split()))
    verdict = {
        "schema": outputs.VERDICT_SCHEMA,
        "command": "ab",
        "verdict": Verdict.WRONG,
        "exit_code": int(ExitCode.REGRESSION),
    }
    write_whole(out / "ab.json", json.dumps(verdict | {"reason": str(broken), "rows": []}, indent=1) + "\n")
    return ExitCode.REGRESSION
