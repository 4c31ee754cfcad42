"""Results of `history` on one real pool: whole gates of H200s on whatever GPUs and hosts were available.

``python -m lab.history.pool RECORD.json`` judges the history after every session from START on, as a team would have
read it, then makes cases slower in its newest sessions. ``python -m lab.history.pool --keep RUN...`` adds gates, and
writes a line on each to ``gates.csv``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lab import records
from lab.pages import percent, read_json
from peakgate.base.files import write_whole
from peakgate.base.formatting import counted
from peakgate.base.streams import say
from peakgate.base.verdict import FAILING, Verdict
from peakgate.compare.history.causes import Cause
from peakgate.compare.resample import rate_at_most
from peakgate.reports import change_points, trend
from peakgate.runfile.frame import to_frame

HERE = Path(__file__).parent
GATES = (
    "baselines/nvidia-h200/runs/*-gate.json.gz",
    "lab/floors/runs/*.json.xz",
    "lab/fleet/trial-*/*/runs/*.json.xz",
    "lab/history/gates/*.json.xz",
)
LINES = HERE / "gates.csv"
START = 20
STEPS = ((0.05, 1), (0.02, 3))
"""Injected steps: size, and number of newest sessions."""

QUIET, PLANTED, ROUNDS = 0.007, 12, 5
"""Largest SD between sessions of a GPU of cases that get a step, number of such cases, number of repetitions."""


def gates() -> pd.DataFrame:
    """All whole gates, oldest first, in the format of ``peakgate.reports.load``."""
    return to_frame(sorted(records.whole_runs(*GATES), key=lambda run: run.taken))


def sessions(frame: pd.DataFrame) -> list[str]:
    """The runs of a frame, oldest first."""
    return [str(run) for run in frame.groupby("run")["taken"].first().sort_values().index]


def until(frame: pd.DataFrame, end: int) -> pd.DataFrame:
    """The first ``end`` sessions of the history."""
    return frame[frame["run"].isin(sessions(frame)[:end])]


def quiet_cases(frame: pd.DataFrame) -> list[str]:
    """Cases of every session whose SD between sessions of a GPU is below QUIET."""
    log_time = np.log(frame["time_us"])
    own = log_time - log_time.groupby([frame["case"], frame["gpu_uuid"]]).transform("mean")
    spread = own.groupby(frame["case"]).std()
    counts = frame.groupby("case")["run"].nunique()
    return [str(case) for case in spread.index if spread[case] < QUIET and counts[case] == counts.max()]


def planted(frame: pd.DataFrame, size: float, age: int, cases: Sequence[str]) -> pd.DataFrame:
    """The history with some cases slower by ``size`` in the newest ``age`` sessions."""
    slower = frame["case"].isin(cases) & frame["run"].isin(sessions(frame)[-age:])
    return frame.assign(time_us=frame["time_us"].where(~slower, frame["time_us"] * (1 + size)))


def walked(frame: pd.DataFrame) -> dict[str, Any]:
    """Verdicts on unchanged code after every session from START on."""
    verdicts: Counter[str] = Counter()
    cases: Counter[str] = Counter()
    named = set()
    for end in range(START, len(sessions(frame)) + 1):
        until_then = until(frame, end)
        found = trend(until_then)
        verdicts[found.attrs["verdict"]] += 1
        cases.update(found["verdict"].tolist())
        points = change_points(until_then)
        named |= set(points.loc[points["cause"] == Cause.COMMITS, "case"])
    return {"verdicts": dict(verdicts), "cases": dict(cases), "named": sorted(named)}


def end_on_a_known_gpu(frame: pd.DataFrame, age: int) -> int:
    """The last length at which the newest ``age`` sessions, and as many before (at least two), are of one GPU.

    Not where two commits alternate there, which `history` puts in the order of the commits.
    """
    known = frame.groupby("run")[["gpu_uuid", "commit"]].first().loc[sessions(frame)]
    gpus, commits = known["gpu_uuid"].tolist(), known["commit"].tolist()
    count = age + max(2, age)
    return next(
        end
        for end in range(len(gpus), 0, -1)
        if len(set(gpus[end - count : end])) == 1
        and len([*groupby(commits[end - count : end])]) == len(set(commits[end - count : end]))
    )


def seen(frame: pd.DataFrame, size: float, age: int, seed: int = 0) -> tuple[int, int]:
    """Number of slowed cases that are reported, and of others."""
    frame = until(frame, end_on_a_known_gpu(frame, age))
    chosen = np.random.default_rng(seed).choice(quiet_cases(frame), PLANTED, replace=False).tolist()
    found = trend(planted(frame, size, age, chosen))
    reported = set(found.loc[found["verdict"].isin([Verdict.SLOWER.value, Verdict.UNCONFIRMED.value]), "case"])
    return len(reported & set(chosen)), len(reported - set(chosen))


def study(frame: pd.DataFrame) -> dict[str, Any]:
    """The record."""
    steps = []
    for size, age in STEPS:
        found = [seen(frame, size, age, seed) for seed in range(ROUNDS)]
        right, others = (sum(counts) for counts in zip(*found, strict=True))
        steps.append({"size": size, "age": age, "of": PLANTED * ROUNDS, "seen": right, "others": others})
    return {
        "commit": records.checked_out(),
        "sessions": len(sessions(frame)),
        "gpus": int(frame["gpu_uuid"].nunique()),
        "days": int(frame["taken"].dt.date.nunique()),
        "unchanged": walked(frame),
        "steps": steps,
    }


def sentence(record: Mapping[str, Any]) -> str:
    """The record in words."""
    walked = record["unchanged"]
    ends = sum(walked["verdicts"].values())
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(walked["verdicts"].items()))
    steps = " and ".join(
        f"one of {percent(each['size'])} in the newest {counted(each['age'], 'session')} "
        f"in {each['seen']} of {each['of']} (and {counted(each['others'], 'other case')})"
        for each in record["steps"]
    )
    cases = {verdict: counted(walked["cases"].get(verdict, 0), "time") for verdict in ("SLOWER", "UNCONFIRMED")}
    return (
        f"{record['sessions']} whole gates of H200s on {record['gpus']} GPUs over {record['days']} days, as hosts came "
        f"({record['commit']}), read after every session from the {START}th on: {verdicts} of {ends}; a case is SLOWER "
        f"{cases['SLOWER']} and UNCONFIRMED {cases['UNCONFIRMED']}, and commits are named of "
        f"{counted(len(walked['named']), 'case')}. Where a GPU measured twice, a quiet case's step is seen: {steps}."
    )


def lines(frame: pd.DataFrame) -> pd.DataFrame:
    """A line on each gate: when, where and at which commit, its failed cases, and the case closest to its floor."""
    judged = frame.assign(failed=frame["verdict"].isin(FAILING), above=frame["peak_fraction"] / frame["floor"] - 1)
    figures = {"cases": ("case", "size"), "failed": ("failed", "sum"), "closest": ("case", "first")}
    facts = {name: (name, "first") for name in ("taken", "commit", "gpu_uuid", "gpu_driver")}
    runs = judged.sort_values("above").groupby("run")
    return runs.agg(**facts, **figures, above_floor=("above", "first")).round({"above_floor": 4}).sort_values("taken")


def passing() -> str:
    """How many gates failed, in words."""
    kept = pd.read_csv(LINES)
    failed, count = int((kept["failed"] > 0).sum()), len(kept)
    most = percent(rate_at_most(failed / count, count))
    return (
        f"Of {count} whole gates of unchanged code that are kept ([a line each](../../lab/history/gates.csv), "
        f"{kept['gpu_uuid'].nunique()} H200s that the floors were not set from) {failed} failed: at most {most} of "
        "such gates do (95 % confidence)."
    )


def blocks() -> dict[str, str]:
    """The page's block."""
    return {"history-pool": sentence(read_json(HERE / "pool.json"))}


def main(arguments: Sequence[str]) -> int:
    """Pack runs, or study the pool and write its record."""
    parser = argparse.ArgumentParser(prog="python -m lab.history.pool", description=__doc__)
    parser.add_argument("record", nargs="?", type=Path)
    parser.add_argument("--keep", nargs="+", type=Path, default=[], metavar="RUN")
    options = parser.parse_args(arguments)
    for run in options.keep:
        say(f"{records.pack_run(HERE / 'gates', read_json(run))}\n")
    if options.keep:
        lines(to_frame(records.whole_runs(GATES[-1]))).to_csv(LINES, index=False)
    if options.record:
        write_whole(options.record, json.dumps(study(gates()), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
