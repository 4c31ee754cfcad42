"""Judge a fleet that was measured, and write and print its reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import pandas as pd
from peakgate.common.files import write_whole
from peakgate.reports.fleet import analysis, dataset, page, report, shard_report, sharded
from peakgate.reports.fleet.analysis import Analysis
from peakgate.reports.fleet.phases import MEASURED, Phases, in_words
from peakgate.reports.fleet.store import Store
from peakgate.reports.render.console import VerdictConsole
from peakgate.reports.render.terminal import line


def suspects(store: Store) -> list[str]:
    """The GPUs of a fleet to measure again."""
    return analysis.suspects(analysis.analyse(dataset.of_store(store)))


def conclude(store: Store, past: Sequence[Path], phases: Phases) -> int:
    """Judge a fleet beside earlier ones, write its reports and print them; the exit code."""
    table, shares = dataset.of_store(store), store.shares()
    if shares is None:
        found = judged(store, table, [*past, *_earlier(store)])
        written, show = write(found, store.folder), partial(report.show, found)
        code = found.exit_code
    else:
        spread = sharded.judge(table, shares, store.gates())
        dataset.write(table, store.folder / dataset.FILE)
        texts = shard_report.written(spread, store.folder / "shard")
        written, show = _write(texts), partial(shard_report.show, spread)
        code = spread.exit_code
    phases.ends("report")
    if MEASURED in phases.seconds:
        store.add_wall(phases.seconds)
    console = VerdictConsole()
    show(console)
    if wall := store.wall():
        line(console, in_words(wall), "dim")
    files = sorted([store.folder / dataset.FILE, *written])
    console.print(f"exit {int(code)}; {', '.join(map(str, files))}", soft_wrap=True)
    return code


def judged(store: Store, table: pd.DataFrame, past: Sequence[Path]) -> Analysis:
    """Write the fleet's data set and judge it, beside the data sets of earlier fleets."""
    dataset.write(table, store.folder / dataset.FILE)
    earlier = [dataset.read(path / dataset.FILE if path.is_dir() else path) for path in past]
    return analysis.analyse(table, pd.concat(earlier, ignore_index=True) if earlier else None)


def write(found: Analysis, folder: Path) -> list[Path]:
    """Write every report of a fleet; the paths."""
    return _write(report.written(found, folder / "fleet") | {folder / "fleet.html": page.page(found)})


def _write(texts: Mapping[Path, str]) -> list[Path]:
    for path, text in texts.items():
        write_whole(path, text)
    return list(texts)


def _earlier(store: Store) -> list[Path]:
    """The data sets of earlier fleets beside this one."""
    return sorted(path for path in store.folder.parent.glob(f"*/{dataset.FILE}") if path.parent.name < store.name)
