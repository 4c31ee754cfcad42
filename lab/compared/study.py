"""How often `compare` flags unchanged code, and which slowdowns it flags: one run against one.

``python -m lab.compared.study RECORD.json --rule NAME`` needs no GPU. Each part judges pairs of sessions of unchanged
code by ``peakgate.compare.judge.compare``, and again with some of NEW's cases slowed. The sessions are committed ones
of H200s, resampled (seeded), or drawn by generators of this file, which share no code with ``compare``. The record has
the rates of each NAME, so that the page shows an earlier rule's next to today's (``lab.fill``).
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pandas as pd

from lab.pages import ROOT, percent, read_json, table
from lab.records import whole_runs
from peakgate.base.files import write_whole
from peakgate.base.formatting import percent as in_percent
from peakgate.base.verdict import Verdict
from peakgate.compare.judge import compare
from peakgate.runfile.frame import to_frame
from peakgate.runfile.saved import Run

KEPT = (
    *("baselines/nvidia-h200/runs/*.json.gz", "baselines/nvidia-h200/ladder/20261124T191445-full.json.gz"),
    *("lab/floors/runs/*.json.xz", "lab/fleet/trial-*/*/runs/*.json.xz", "lab/compared/*-full.json.xz"),
)
RECORD = Path(__file__).with_name("h200.json")
PROCESSES = ROOT / "lab" / "injected" / "h200" / "same.csv.gz"

HOST_CALLS = "pageable"
"""Transfers of pageable memory depend on the host; they are excluded, since only the oldest sessions have them."""

SLOWED = (0.01, 0.02, 0.03, 0.05, 0.08, 0.12)
"""Injected slowdowns, each in every SLOWED_EVERYth case, starting at a random one."""

SLOWED_EVERY = 20
SHORT_US, LONG_US = 60.0, 100.0
DRAWN_CASES = 60
GPUS = "peakgate.compare.gpus"
REFIT = "two GPUs, 0 others known, what is usual without the two"
Matrix = np.ndarray[Any, np.dtype[np.float64]]


class Pair(NamedTuple):
    """One comparison: session numbers, BASE and NEW first, then the other saved ones.

    With ``refit`` the usual difference between GPUs is estimated from the GPUs without these two.
    """

    source: str
    sessions: tuple[int, ...]
    seed: int
    refit: bool = False


class Source(NamedTuple):
    """Rows of sessions from ``to_frame``; a session's times are replaced by its column of ``times``."""

    rows: pd.DataFrame
    times: pd.DataFrame
    uuids: Sequence[str]


@cache
def profiles() -> tuple[Run, ...]:
    """Every committed run of a whole tier of unchanged code, oldest first."""
    return tuple(sorted(whole_runs(*KEPT), key=lambda run: run.taken))


def of_runs(runs: Sequence[Run]) -> Source:
    """One session per run, of the cases that all runs have with the machine code that most have."""
    rows = to_frame(runs)
    code = rows["fingerprint"].fillna("")
    usual = code.groupby(rows["case"]).agg(lambda each: each.value_counts().index[0])
    rows = rows[(code == rows["case"].map(usual)) & ~rows["case"].str.contains(HOST_CALLS)].dropna(subset="time_us")
    times = rows.pivot(index="case", columns="run", values="time_us")[[str(run.path) for run in runs]].dropna()
    return Source(rows[rows["case"].isin(times.index)], times, [str(run.uuid) for run in runs])


@cache
def source(name: str) -> Source:
    """The sessions of this name."""
    if name == "gpus":
        first = {run.uuid: run for run in reversed(profiles())}
        return of_runs(sorted(first.values(), key=lambda run: run.taken))
    if name == "full":
        return of_runs([run for run in profiles() if run.tier == "full"])
    if name.startswith("GPU-"):
        return of_runs([run for run in profiles() if run.uuid == name and run.tier == "gate"])
    template = to_frame([run for run in profiles() if run.tier == "gate"][-1:])
    if name == "processes":
        table = pd.read_csv(PROCESSES).pivot_table(index="case", columns=["pair", "side"], values="time_us")
        return Source(template[template["case"].isin(table.index)], table.dropna(), ["GPU-1"] * table.shape[1])
    generator = GENERATORS[name]
    drawn = template.drop_duplicates("case").head(DRAWN_CASES).assign(bound="memory", fingerprint="of-a-drawn-kernel")
    times = np.exp(generator(np.random.default_rng(list(GENERATORS).index(name)), 200))
    return Source(drawn, pd.DataFrame(times, index=drawn["case"]), ["GPU-1"] * times.shape[1])


def usual(without: Sequence[int]) -> tuple[float, float]:
    """Usual differences of all GPUs except these: SD of long cases, SD in µs of the time hosts add to short ones."""
    times = source("gpus").times.drop(columns=source("gpus").times.columns[list(without)])
    middle = times.median(axis=1)
    variance = np.log(times[middle >= LONG_US]).var(axis=1)
    added = times[middle < SHORT_US].sub(middle[middle < SHORT_US], axis="index").median()
    return float(np.sqrt(variance.mean())), float(added.std())


def steady(rng: np.random.Generator, sessions: int) -> Matrix:
    """Independent normal sessions; SD of a case 0.1 to 0.5 %."""
    level = rng.uniform(np.log(5), np.log(3000), (DRAWN_CASES, 1))
    sd = np.exp(rng.uniform(np.log(0.001), np.log(0.005), (DRAWN_CASES, 1)))
    return np.asarray(level + sd * rng.standard_normal((DRAWN_CASES, sessions)))


def heavy_tails(rng: np.random.Generator, sessions: int) -> Matrix:
    """As ``steady``, with Student's t with 4 degrees of freedom instead."""
    level = rng.uniform(np.log(5), np.log(3000), (DRAWN_CASES, 1))
    sd = np.exp(rng.uniform(np.log(0.0005), np.log(0.0025), (DRAWN_CASES, 1)))
    return np.asarray(level + sd * rng.standard_t(4, (DRAWN_CASES, sessions)))


def two_levels(rng: np.random.Generator, sessions: int) -> Matrix:
    """As ``steady``, with four cases at one of two levels 2 % apart, chosen at random in each session."""
    found = steady(rng, sessions)
    found[:4] += 0.02 * rng.integers(0, 2, (4, sessions))
    return found


def odd_processes(rng: np.random.Generator, sessions: int) -> Matrix:
    """As ``steady``, with one session in thirty in which every launch takes half to one microsecond longer."""
    found = steady(rng, sessions)
    longer = rng.uniform(0.5, 1.0, sessions) * (rng.random(sessions) < 1 / 30)
    return np.asarray(np.log(np.exp(found) + np.minimum(longer, 0.1 * np.exp(found))))


GENERATORS: dict[str, Callable[[np.random.Generator, int], Matrix]] = {
    "steady": steady,
    "heavy tails": heavy_tails,
    "two levels": two_levels,
    "odd processes": odd_processes,
}


def session(of: Source, number: int, slowed: Matrix | None = None) -> pd.DataFrame:
    """One session's rows, its cases' times multiplied by ``slowed``."""
    run = of.times.columns[number]
    mine = of.rows[of.rows["run"] == run] if isinstance(run, str) else of.rows
    taken = pd.Timestamp("2026-11-01", tz="UTC") + pd.Timedelta(hours=number)
    times = of.times.iloc[:, number] * (1.0 if slowed is None else slowed)
    mine = mine[mine["case"].isin(times.index)]
    return mine.assign(
        run=f"{number}.json", taken=taken, gpu_uuid=of.uuids[number], verdict="PASS", time_us=mine["case"].map(times)
    )


def judged(pair: Pair) -> dict[str, Any]:
    """Whether unchanged code was flagged, the number of undecided cases, and which injected slowdowns were flagged."""
    if pair.refit:
        case_sd, host_sd_us = usual(pair.sessions[:2])
        with mock.patch(f"{GPUS}.CASE_SD", case_sd), mock.patch(f"{GPUS}.HOST_SD_US", host_sd_us):
            return judged(pair._replace(refit=False))
    of, (base, new, *others) = source(pair.source), pair.sessions
    saved = pd.concat([session(of, number) for number in others]) if others else None
    unchanged = compare(session(of, base), session(of, new), saved)
    cases = of.times.index
    size = np.zeros(len(cases))
    for place, slowdown in enumerate(SLOWED):
        size[(np.arange(len(cases)) + pair.seed) % SLOWED_EVERY == 3 * place] = slowdown
    slower = compare(session(of, base), session(of, new, 1 + size), saved).set_index("case")["verdict"]
    flagged, long = (slower.reindex(cases) == Verdict.SLOWER).to_numpy(), of.times.median(axis=1).to_numpy() >= SHORT_US
    verdicts = [*unchanged["verdict"], (unchanged.attrs["suite"] or {}).get("verdict")]
    return {
        "slower": Verdict.SLOWER in verdicts,
        "faster": Verdict.FASTER in verdicts,
        "cases": unchanged.loc[unchanged["verdict"].isin([Verdict.SLOWER, Verdict.FASTER]), "case"].tolist(),
        "open": int((unchanged["verdict"] == Verdict.INCONCLUSIVE).sum()),
        "detected": [
            [int(flagged[chosen].sum()), int(chosen.sum())]
            for slowdown in SLOWED
            for chosen in ((size == slowdown) & long, (size == slowdown) & ~long)
        ],
    }


def designs() -> Iterator[tuple[str, list[Pair]]]:
    """Every part of the study, by name, with its pairs."""
    full = range(len(source("full").uuids))
    yield (
        "two GPUs, the full tier",
        [Pair("full", pair, seed) for seed, pair in enumerate(itertools.permutations(full, 2))],
    )
    count = len(source("gpus").uuids)
    every = enumerate(itertools.permutations(range(count), 2))
    yield REFIT, [Pair("gpus", pair, seed, refit=True) for seed, pair in every]
    rng = np.random.default_rng(35)
    for known in (0, 5, count - 2):
        pairs = []
        for seed, (base, new) in enumerate(itertools.permutations(range(count), 2)):
            others = rng.permutation([each for each in range(count) if each not in {base, new}])[:known]
            pairs.append(Pair("gpus", (base, new, *others.tolist()), seed))
        yield f"two GPUs, {known} others known", pairs
    kept = [run.uuid for run in profiles() if run.tier == "gate"]
    for saved in (0, 8):
        pairs = []
        for uuid in dict.fromkeys(str(each) for each in kept if kept.count(each) >= 10):
            for seed, (base, new) in enumerate(itertools.permutations(range(len(source(uuid).uuids)), 2)):
                left = [each for each in range(len(source(uuid).uuids)) if each not in {base, new}]
                pairs.append(Pair(uuid, (base, new, *rng.permutation(left)[:saved].tolist()), seed))
        yield f"one GPU, {saved} others saved: gate sessions of three GPUs", pairs
    for name, saved, pairs_of in (
        *(("processes", saved, 200) for saved in (0, 5, 8, 15)),
        *((name, saved, 400 if saved else 100) for name in GENERATORS for saved in (0, 8)),
    ):
        sessions = len(source(name).uuids)
        drawn = [rng.choice(sessions, 2 + saved, replace=False) for _ in range(pairs_of)]
        label = "100 processes" if name == "processes" else f"drawn, {name}"
        pairs = [Pair(name, tuple(each.tolist()), seed) for seed, each in enumerate(drawn)]
        yield f"one GPU, {saved} others saved: {label}", pairs


def rates(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Sums over a part's comparisons."""
    named = [case for each in found for case in each["cases"]]
    sums = np.sum([each["detected"] for each in found], axis=0).reshape(len(SLOWED), 2, 2)
    return {
        "pairs": len(found),
        **{name: sum(each[name] for each in found) for name in ("slower", "faster")},
        "open": round(sum(each["open"] for each in found) / len(found), 2),
        "cases": {case: named.count(case) for case in sorted(set(named), key=lambda each: (-named.count(each), each))},
        "detected": sums.tolist(),
    }


def blocks() -> dict[str, str]:
    """The blocks of the page: the shares of pairs and of slowed cases that were flagged, before and now."""
    record = read_json(RECORD)
    now, before = (record[rule]["parts"] for rule in ("now", "before"))
    unchanged, slowed = [], []
    for name, part in now.items():
        both = [before[name], part] if name in before else [part]
        shares = [", ".join(percent(each[way] / each["pairs"]) for way in ("slower", "faster")) for each in both]
        unchanged.append((name, part["pairs"], *([""] if len(both) < 2 else []), *shares, f"{part['open']:g}"))
        if "drawn" in name or name not in before:  # drawn sessions are similar to the processes
            continue
        for at, duration in enumerate((f"from {SHORT_US:g} µs", f"under {SHORT_US:g} µs")):
            found = [[percent(each[at][0] / max(each[at][1], 1)) for each in of["detected"]] for of in both]
            if part["detected"][0][at][1]:
                slowed.append((name, duration, *map(", ".join, zip(*found, strict=True))))
    sizes = [in_percent(100 * each) for each in record["now"]["slowed"]]
    head = ("sessions", "pairs", "before: SLOWER, FASTER", "now: SLOWER, FASTER", "now: cases open per pair")
    return {
        "compared-false-positives": table(head, unchanged),
        "compared-detected": table(("sessions", "duration", *sizes), slowed),
    }


def main(arguments: Sequence[str]) -> int:
    """Judge every part and write the rates into the record under the rule's name."""
    parser = argparse.ArgumentParser(prog="python -m lab.compared.study", description=__doc__)
    parser.add_argument("record", type=Path)
    parser.add_argument("--rule", required=True)
    parser.add_argument("--only", default="", help="parts with this text in their names")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args(arguments)
    record: dict[str, Any] = json.loads(options.record.read_text("utf-8")) if options.record.exists() else {}
    with ProcessPoolExecutor(options.processes) as pool:
        for name, pairs in designs():
            if options.only in name:
                found = list(pool.map(judged, pairs, chunksize=8))
                record.setdefault(options.rule, {"slowed": SLOWED, "parts": {}})["parts"][name] = rates(found)
                write_whole(options.record, json.dumps(record, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
