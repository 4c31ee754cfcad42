"""Judge a fleet that was measured, and write and print its reports."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from peakgate.common.files import write_whole
from peakgate.reports.fleet import analysis, dataset, page, report
from peakgate.reports.fleet.analysis import Analysis
from peakgate.reports.fleet.report import Report
from peakgate.reports.fleet.shard.judge import Sharded, judge
from peakgate.reports.fleet.store import MEASURED, Phases, Store, in_words
from peakgate.reports.render.console import VerdictConsole
from peakgate.reports.render.terminal import line


def suspects(store: Store) -> list[str]:
    """The GPUs of a fleet to measure again."""
    return analysis.suspects(analysis.analyse(dataset.of_store(store)))


def conclude(store: Store, past: Sequence[Path], phases: Phases) -> int:
    """Judge a fleet beside earlier ones, write its reports and print them; the exit code."""
    table, shares = dataset.of_store(store), store.shares()
    dataset.write(table, store.folder / dataset.FILE)
    found = judge(table, shares) if shares else analysis.analyse(table, _earlier(store, past))
    written, files = write(found, store.folder)
    phases.ends("report")
    if MEASURED in phases.seconds:
        store.add_wall(phases.seconds)
    console = VerdictConsole()
    report.show(written, console)
    if wall := store.wall():
        line(console, in_words(wall), "dim")
    files = sorted([store.folder / dataset.FILE, *files])
    console.print(f"exit {int(found.exit_code)}; {', '.join(map(str, files))}", soft_wrap=True)
    return found.exit_code


def write(found: Analysis | Sharded, folder: Path) -> tuple[Report, list[Path]]:
    """Write every output of a judged fleet or tier; its report, and the paths."""
    if isinstance(found, Sharded):
        written, texts = report.of_tier(found), {}
    else:
        written = report.of_fleet(found)
        texts = {"fleet.html": page.page(found, written)}
    stem = "shard" if isinstance(found, Sharded) else "fleet"
    texts |= {f"{stem}{ending}": text(written) for ending, text in report.WRITERS.items()}
    for name, text in texts.items():
        write_whole(folder / name, text)
    return written, [folder / name for name in texts]


def _earlier(store: Store, past: Sequence[Path]) -> pd.DataFrame | None:
    """The data sets of ``past`` and of the earlier fleets beside this one; None where there is none."""
    beside = [path for path in store.folder.parent.glob(f"*/{dataset.FILE}") if path.parent.name < store.name]
    named = [path / dataset.FILE if path.is_dir() else path for path in past]
    tables = [dataset.read(path) for path in [*named, *sorted(beside)]]
    return pd.concat(tables, ignore_index=True) if tables else None
