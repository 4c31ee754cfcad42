"""How often change points are wrong, and which steps they find; writes the record and the page that shows it.

``python -m lab.history.study RECORD.json [--page README.md] [--histories N]`` needs no GPU. Each part is written as
soon as it is done; those of other tools and of the rule before, which the record has too, stay as they were measured.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from lab.history import first_days, pool
from lab.history.drawn import frame_of
from lab.pages import fill_page, read_json, table
from peakgate.base.files import write_whole
from peakgate.base.verdict import Verdict
from peakgate.compare.history.series import history
from peakgate.compare.history.suite import Cause, ChangePoint, find_changes
from peakgate.compare.history.trend import find_trend
from peakgate.compare.noise import Floats
from peakgate.compare.resample import rate_at_most
from peakgate.runfile.saved import load_run

CASES, SESSIONS = 200, 35
AGES = (5, 10, 15, 20, 25)
STEPS = (0.02, 0.01)
CELL = 2
"""Cases with the same step in one history."""

ODD_SHARE, ODD = 0.02, 0.03
RUNS = Path("baselines/nvidia-h200/runs")
GPU_SESSIONS = 30
FIRST_DAYS = Path(__file__).with_name("first_days.json")
POOL = Path(__file__).with_name("pool.json")
SUITE = -1
"""Stands for the suite as a whole among the rows that a rule finds."""

Rule = Callable[[Floats], set[int]]
EachOf = Callable[..., Iterable[Any]]
"""``map``, or that of a pool of processes."""


def synthetic(random: np.random.Generator) -> Floats:
    """Unchanged cases with an SD of 0.3 to 0.7 %; one session in fifty of a case is 3 % slow."""
    sds = random.uniform(0.003, 0.007, (CASES, 1))
    levels = random.uniform(1, 8, (CASES, 1))
    slow = ODD * (random.random((CASES, SESSIONS)) < ODD_SHARE)
    noisy: Floats = levels + sds * random.standard_normal((CASES, SESSIONS)) + slow
    return noisy


def stepped(log_time: Floats) -> tuple[Floats, dict[tuple[float, int], list[int]]]:
    """The same with the first cases slower since AGES sessions, and which cases are."""
    changed, rows, first = log_time.copy(), {}, 0
    for step in STEPS:
        for age in AGES:
            rows[step, age] = list(range(first, first + CELL))
            changed[first : first + CELL, -age:] += np.log1p(step)
            first += CELL
    return changed, rows


def by_changes(log_time: Floats) -> set[int]:
    """Rows that are SLOWER or FASTER, as the command reports them, and SUITE where the suite as a whole is."""
    trend = find_trend(history(frame_of(log_time)))
    found = [*trend.findings, *([trend.together] if trend.together else [])]
    return {int(each.case[-3:] or SUITE) for each in found if each.verdict in {Verdict.SLOWER, Verdict.FASTER}}


def rates(rule: Rule, histories: int, seed: int, each_of: EachOf = map) -> dict[str, Any]:
    """Unchanged histories with a false positive, and the share of each kind of step found in them."""
    random = np.random.default_rng(seed)
    unchanged = [synthetic(random) for _ in range(histories)]
    changed = [stepped(log_time) for log_time in unchanged]
    wrong = sum(map(bool, each_of(rule, unchanged)))
    found = dict.fromkeys(((step, age) for step in STEPS for age in AGES), 0)
    for (_, rows), flagged in zip(changed, each_of(rule, [log_time for log_time, _ in changed]), strict=True):
        for cell, its in rows.items():
            found[cell] += len(flagged & set(its))
    cells = [{"step": step, "age": age, "found": count, "of": CELL * histories} for (step, age), count in found.items()]
    return {"histories": histories, "false_positives": wrong, "cells": cells}


def points_of(log_time: Floats, uuids: Sequence[str], drivers: Sequence[str]) -> tuple[ChangePoint, ...]:
    """The change points of a history of these log times."""
    return find_changes(history(frame_of(log_time, uuids, drivers))).points


def resampled(histories: int, seed: int, each_of: EachOf = map, runs: Path = RUNS) -> dict[str, Any]:
    """Histories of whole sessions of the saved runs, each GPU's in turn, each with a change of driver in its middle.

    With the driver a third of the cases get 1 to 5 % slower and a third as much faster, on every GPU.
    """
    known = [run for path in sorted(runs.glob("*-gate.json*")) if (run := load_run(path)).uuid]
    cases = sorted(set.intersection(*(set(each.times_us) for each in known)))
    times = {
        uuid: np.log([[each.times_us[case] for case in cases] for each in known if each.uuid == uuid]).T
        for uuid in dict.fromkeys(each.uuid for each in known)
    }
    random = np.random.default_rng(seed)
    drawn: list[tuple[Floats, Sequence[str], Sequence[str]]] = []
    truths: list[Floats] = []
    for _ in range(histories):
        columns: list[Floats] = []
        uuids: list[str] = []
        drivers: list[str] = []
        sign = random.integers(-1, 2, len(cases))
        truth = np.array(sign * np.log1p(random.uniform(0.01, 0.05, len(cases))), dtype=np.float64)
        for uuid in random.permutation([each for each in times if each]).tolist():
            own = times[uuid][:, random.integers(0, times[uuid].shape[1], GPU_SESSIONS)].copy()
            own[:, GPU_SESSIONS // 2 :] += truth[:, None]
            columns.append(own)
            drivers += ["580"] * (GPU_SESSIONS // 2) + ["590"] * (GPU_SESSIONS - GPU_SESSIONS // 2)
            uuids += [uuid] * GPU_SESSIONS
        drawn.append((np.hstack(columns), uuids, drivers))
        truths.append(truth)
    blamed, shifts, seen, environment = 0, 0, 0, 0
    for truth, found in zip(truths, each_of(points_of, *zip(*drawn, strict=True)), strict=True):
        blamed += any(each.cause is Cause.COMMITS for each in found)
        at_driver = {int(each.case[-3:]) for each in found if each.cause is Cause.ENVIRONMENT}
        environment += len(at_driver)
        large = np.flatnonzero(np.abs(truth) > np.log1p(0.03))
        shifts += len(large)
        seen += sum(row in at_driver for row in large.tolist())
    return {
        "histories": histories,
        "cases": len(cases),
        "gpus": len(times),
        "sessions": GPU_SESSIONS * len(times),
        "blamed_on_a_commit": blamed,
        "driver_shifts_found": environment,
        "driver_shifts_over_3_percent": shifts,
        "of_those_found": seen,
    }


def main(arguments: list[str]) -> None:
    """Measure, write each part, and fill the page."""
    parser = argparse.ArgumentParser(prog="study", description=__doc__)
    parser.add_argument("record", type=Path)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--histories", type=int, default=0, help="0 only fills the page from the record")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, help="of the search; by default one per processor")
    options = parser.parse_args(arguments)
    record: dict[str, Any] = json.loads(options.record.read_text()) if options.record.exists() else {}
    with ProcessPoolExecutor(options.processes) as workers:
        for name, part in _parts(options, workers.map) if options.histories else ():
            record[name] = part
            write_whole(options.record, json.dumps(record, indent=1) + "\n")
    if options.page:
        fill_page(options.page, blocks(record))


def _parts(options: argparse.Namespace, each_of: EachOf) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "change points", rates(by_changes, options.histories, options.seed, each_of)
    yield "resampled", resampled(max(4, 3 * options.histories // 5), options.seed, each_of)


def blocks(record: dict[str, Any]) -> dict[str, str]:
    """The blocks of the page."""
    young = read_json(FIRST_DAYS)
    return {
        "history-study": rules(record),
        "history-resampled": sentence(record),
        "history-first-days": "\n".join(first_days.table(young)),
        "history-pool": pool.sentence(read_json(POOL)),
    }


def rules(record: dict[str, Any]) -> str:
    """One row per rule."""
    rows = []
    for name, part in record.items():
        if "cells" in part:
            shares = [
                " / ".join(f"{100 * c['found'] / c['of']:.1f}" for c in part["cells"] if c["step"] == step) + " %"
                for step in STEPS
            ]
            rows.append((name, f"{part['false_positives']} of {part['histories']}", *shares))
    found = f"2 % step found {' / '.join(map(str, AGES))} sessions later"
    return table(("rule", "unchanged histories with a false positive", found, "1 % step"), rows)


def sentence(record: dict[str, Any]) -> str:
    """Results of the resampled histories."""
    part = record["resampled"]
    share = part["of_those_found"] / part["driver_shifts_over_3_percent"]
    limit = rate_at_most(part["blamed_on_a_commit"] / part["histories"], part["histories"])
    return (
        f"In {part['blamed_on_a_commit']} of {part['histories']} histories resampled from the sessions of "
        f"{part['gpus']} H200s ({part['cases']} cases, {part['sessions']} sessions, the driver changed on each GPU) a "
        f"change point was put down to commits: with 95 % confidence at most {100 * limit:.1f} % of such histories. "
        f"{100 * share:.1f} % of the driver's shifts over 3 % were found and put down to the driver."
    )


if __name__ == "__main__":
    main(sys.argv[1:])
