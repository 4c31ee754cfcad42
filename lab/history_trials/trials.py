"""Scores a history rule on drawn histories: rates with exact intervals, by setting, as a CSV.

The rule is that of this interpreter's environment, called as documented: ``peakgate.reports.trend`` and
``change_points``. Seeds depend only on the setting and the number of the repetition: two rules see the same histories.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import json
import sys
import tempfile
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import frames
import histories
import noise
import pandas as pd
from histories import History, Plan
from scipy.stats import binomtest
from settings import SETTINGS, Setting, wanted

import peakgate.reports

GATES = Path(__file__).resolve().parents[2] / "baselines/nvidia-h200/runs"
COLUMNS = ("group", "setting", "metric", "count", "of", "rate", "low95", "high95", "wanted", "met", "cpu_s")
CALLED_SLOWER = ("SLOWER", "UNCONFIRMED")
AT_MOST_1 = "<=0.01"


def binomial_limits(count: int, of: int, level: float = 0.95) -> tuple[float, float]:
    """The exact (Clopper-Pearson) interval of a rate."""
    if not of:
        return 0.0, 1.0
    interval = binomtest(count, of).proportion_ci(level, "exact")
    return float(interval.low), float(interval.high)


@dataclass
class Judged:
    """The rule's result for a history."""

    verdict: str
    exit_code: int
    named: list[tuple[str, int | None, int | None, float]]  # case, good and bad commit and percent, of cause "commits"
    rows: dict[str, dict[str, Any]]  # of trend, by case; empty if not computed
    notes: list[str]


def judge(runs: pd.DataFrame, *, rows: bool, points: bool) -> Judged:
    """Apply the rule: its change points, its rows or both. Rows are also computed if the verdict is not PASS."""
    named: list[tuple[str, int | None, int | None, float]] = []
    attrs: dict[str, Any] = {}
    if points:
        found = peakgate.reports.change_points(runs)
        attrs = found.attrs
        for point in found[found["cause"] == "commits"].to_dict("records"):
            ends = (frames.commit_number(point["good_commit"]), frames.commit_number(point["bad_commit"]))
            named.append((point["case"], *ends, point["change_percent"]))
    by_case: dict[str, dict[str, Any]] = {}
    if rows or attrs["verdict"] != "PASS":
        table = peakgate.reports.trend(runs)
        attrs = table.attrs
        by_case = {row["case"]: row for row in table.astype(object).where(table.notna(), None).to_dict("records")}
    return Judged(attrs["verdict"], attrs["exit_code"], named, by_case, list(map(str, attrs["notes"])))


@dataclass
class Tally:
    """Counts of a setting by metric, with the required rate of each, in order of first use."""

    counts: dict[str, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0]))
    wanted: dict[str, str] = field(default_factory=dict)

    def add(self, metric: str, happened: bool, wanted: str = "") -> None:
        self.counts[metric][0] += int(happened)
        self.counts[metric][1] += 1
        self.wanted.setdefault(metric, wanted)


def _met(wanted: str, count: int, of: int) -> str:
    if not wanted:
        return ""
    low, high = binomial_limits(count, of)
    limit = float(wanted[2:])
    if wanted[0] == "<":
        inside, sure = count / of <= limit, high <= limit or low > limit
    else:
        inside, sure = count / of >= limit, low >= limit or high < limit
    return ("yes" if inside else "no") if sure else ("open, inside" if inside else "open, outside")


def _holds(good: int | None, bad: int | None, commit: int | None) -> bool:
    return None not in {good, bad, commit} and good < commit <= bad  # type: ignore[operator]


def _unchanged(tallies: Iterable[Tally], judged: Judged, plan: Plan, *, drift: bool) -> None:
    """Count results for unchanged code; if the environment changed times, UNCONFIRMED may not name a commit."""
    moved = bool(plan.drift) or plan.driver in {"six", "all"}
    states = {row["verdict"] for row in judged.rows.values()}
    accused = any(row["verdict"] == "UNCONFIRMED" and row["command"] for row in judged.rows.values())
    for tally in tallies:
        tally.add("a commit is named", bool(judged.named), AT_MOST_1)
        if moved:
            tally.add("a commit is named, or accused by UNCONFIRMED", bool(judged.named) or accused, AT_MOST_1)
        else:
            tally.add("any case UNCONFIRMED", "UNCONFIRMED" in states, AT_MOST_1)
        tally.add("PASS", judged.verdict == "PASS", "<=0" if drift else "")
        tally.add("INCONCLUSIVE as a whole", judged.verdict == "INCONCLUSIVE")


def _stepped(tally: Tally, judged: Judged, history: History, names: list[str]) -> None:
    suite = len(history.guilty) == len(names) > 2
    cells: dict[tuple[float, int], list[tuple[bool, bool, bool, bool, bool]]] = defaultdict(list)
    for case, (commit, size) in history.guilty.items():
        name, age = names[case], history.ages[case]
        row = judged.rows[name]
        points = [point for point in judged.named if point[0] == name]
        right = any(_holds(good, bad, commit) for _, good, bad, _ in points)
        called = row["verdict"] in CALLED_SLOWER
        exact = any((good, bad) == (commit - 1, commit) for _, good, bad, _ in points)
        placed = called and _holds(row["good"], row["bad"], commit)
        right_place = right if age >= 5 else placed
        exact = exact if age >= 5 else placed and (row["good"], row["bad"]) == (commit - 1, commit)
        open_ = row["verdict"] == "INCONCLUSIVE"
        cells[size, age].append((called or right, right_place, exact, row["verdict"] == "SAME", open_))
    for (size, age), found in sorted(cells.items()):
        # Cases of one history are not independent: if several stepped together, they count once, by majority.
        cell = f"{size:.1%} at age {age}" + (", most of its cases" if len(found) > 1 else "")
        limit = None if suite or history.plan.cases <= 2 else wanted(size, age)
        seen, right, exact, same, open_ = (sum(each) > len(found) / 2 for each in zip(*found, strict=True))
        tally.add(f"{cell}: seen", seen, "" if limit is None else f">={limit:g}")
        tally.add(f"{cell}: right place, by commits" if age >= 5 else f"{cell}: right place", right)
        tally.add(f"{cell}: exact place", exact)
        if history.plan.cases <= 2:
            tally.add(f"{cell}: said SAME", same, "<=0.05" if size >= 0.05 else "")
            tally.add(f"{cell}: INCONCLUSIVE", open_)
    # Of another case, or a place that does not include the case's commit.
    guilty = {names[case]: commit for case, (commit, _) in history.guilty.items()}
    innocent = any(not _holds(good, bad, guilty.get(case)) for case, good, bad, _ in judged.named)
    tally.add("an innocent case or place is named", innocent, AT_MOST_1)
    tally.add("PASS", judged.verdict == "PASS", "<=0.05" if suite else "")
    unconfirmed = any(row["verdict"] == "UNCONFIRMED" for case, row in judged.rows.items() if case not in guilty)
    tally.add("an innocent case is UNCONFIRMED", unconfirmed, "" if suite else AT_MOST_1)


def _last(tally: Tally, judged: Judged, history: History, ask: Callable[[History], Judged]) -> dict[str, Any]:
    """Compare with the same history whose newest session is on another GPU of the pool."""
    other = (int(history.gpu[-1]) + 1) % history.plan.gpus
    answers = [judged, ask(history.run_last_on(other))]
    verdicts = {answer.verdict for answer in answers}
    cases = [{case: row["verdict"] for case, row in answer.rows.items()} for answer in answers]
    tally.add("verdict depends on the GPU that ran last", len(verdicts) > 1, AT_MOST_1)
    tally.add("a case's verdict does", any(each != cases[0] for each in cases), "")
    return {"verdicts": [answer.verdict for answer in answers]}


def _rows(setting: tuple[str, str], tally: Tally, seconds: float) -> Iterator[tuple[Any, ...]]:
    for metric, (count, of) in tally.counts.items():
        low, high = binomial_limits(count, of)
        wanted = tally.wanted[metric]
        numbers = (count, of, round(count / of, 4), round(low, 4), round(high, 4))
        yield (*setting, metric, *numbers, wanted, _met(wanted, count, of), round(seconds, 1))


class Scorer:
    """Draws and judges histories; has the pooled counts."""

    def __init__(self, gates: Path) -> None:
        self.source = max(gates.glob("*gate.json.gz"))
        self.records = noise.read(gates)
        self.template = peakgate.reports.load(self.source)
        self.pooled = Tally(wanted={"PASS": ""})

    def frame(self, history: History) -> pd.DataFrame:
        return frames.frame(history, self.records, self.template)

    def score(self, setting: Setting, repetitions: int, tally: Tally) -> Iterator[dict[str, Any]]:
        """Judge ``repetitions`` histories of a setting; yields details of each."""
        for repetition in range(repetitions):
            seed = zlib.crc32(f"{setting.group}/{setting.name}/{setting.plan.steps}/{repetition}".encode())
            history = histories.draw(setting.plan, self.records, seed)
            old = any(age >= 5 for age in history.ages.values())
            unchanged = setting.kind in {"unchanged", "drift"}
            ask_rows, ask_points = not unchanged, unchanged or (old and setting.kind == "step")
            judged = judge(self.frame(history), rows=ask_rows, points=ask_points)
            names = frames.case_names(history, self.records)
            more: dict[str, Any] = {}
            if unchanged:
                _unchanged((tally, self.pooled), judged, setting.plan, drift=setting.kind == "drift")
            elif setting.kind == "step":
                _stepped(tally, judged, history, names)
            else:
                more = _last(tally, judged, history, lambda one: judge(self.frame(one), rows=True, points=False))
            shown = [row for case, row in judged.rows.items() if row["verdict"] != "SAME" or case in more]
            keep = ("case", "verdict", "reason", "change_percent", "good", "bad")
            yield {
                "group": setting.group,
                "setting": setting.name,
                "seed": seed,
                "verdict": judged.verdict,
                "named": judged.named[:10],
                "guilty": [[names[case], *truth, history.ages[case]] for case, truth in history.guilty.items()][:10],
                "notes": judged.notes[:5],
                "rows": [{key: row[key] for key in keep} for row in shown[:8]],
                **more,
            }


def _run(arguments: argparse.Namespace) -> None:
    scorer = Scorer(arguments.gates)
    sys.stdout.write(f"rule of {Path(peakgate.reports.__file__).parent}\n")
    # Settings of one name are one row of the table.
    together: dict[tuple[str, str], list[Setting]] = defaultdict(list)
    for setting in SETTINGS:
        if (not arguments.group or setting.group in arguments.group) and (setting.quick or not arguments.quick):
            together[setting.group, setting.name].append(setting)
    with arguments.out.open("w", newline="") as file, arguments.out.with_suffix(".jsonl").open("w") as details:
        table = csv.writer(file)
        table.writerow(COLUMNS)
        for name, settings in together.items():
            tally, began = Tally(), time.process_time()
            for setting in settings:
                count = max(5, setting.repetitions // 5) if arguments.quick else setting.repetitions
                for answer in scorer.score(setting, round(count * arguments.times), tally):
                    details.write(json.dumps(answer, default=str) + "\n")
            table.writerows(_rows(name, tally, time.process_time() - began))
            file.flush()
            details.flush()
            if arguments.verbose:
                sys.stdout.write(f"{time.process_time():6.0f} s  {name}\n")
                sys.stdout.flush()
        if scorer.pooled.counts:
            table.writerows(_rows(("all", "unchanged histories of this table"), scorer.pooled, time.process_time()))
    sys.stdout.write(f"{time.process_time():.0f} s of a core; {arguments.out}\n")


def main() -> None:
    """Parse the arguments and score outside any repository."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="the CSV to write; beside it a .jsonl of what was said of each history")
    parser.add_argument("--gates", type=Path, default=GATES, help="folder of the recorded gates")
    parser.add_argument("--group", action="append", help="only this group of settings; again for more")
    parser.add_argument("--quick", action="store_true", help="a fifth of the histories of half the settings")
    parser.add_argument("--times", type=float, default=1.0, help="so many times the repetitions")
    parser.add_argument("--verbose", action="store_true", help="a line per setting")
    arguments = parser.parse_args()
    arguments.out, arguments.gates = arguments.out.resolve(), arguments.gates.resolve()
    with tempfile.TemporaryDirectory() as empty, contextlib.chdir(empty):
        _run(arguments)


if __name__ == "__main__":
    main()
