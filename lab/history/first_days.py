"""How soon `history` reports a step, and how often it reports one in an unchanged history.

``python -m lab.history.first_days FILE`` draws histories of 60 cases and 30 sessions by generators of its own, which
share nothing with what judges them, and writes the rates; `lab.history.study` shows them on its page. Real sessions are
those below baselines/, each GPU's walked day by day.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lab.history.drawn import frame_of
from lab.pages import percent
from peakgate.base.files import write_whole
from peakgate.base.verdict import Verdict
from peakgate.compare.history.levels import SHORTEST
from peakgate.compare.history.series import history
from peakgate.compare.history.trend import find_trend
from peakgate.render.files import table_line
from peakgate.runfile.frame import HISTORY_COLUMNS, to_frame
from peakgate.runfile.saved import load_run

CASES, SESSIONS, STEPPED = 60, 30, 6
RUNS = Path("baselines/nvidia-h200/runs")
STEPS = ((0.05, 1), (0.10, 1), (1.00, 1), (0.02, 3), (0.02, 10))
"""Size, and sessions since; the last is for a change point."""

Draw = Callable[[np.random.Generator], np.ndarray[Any, Any]]
SEEN = (Verdict.UNCONFIRMED, Verdict.SLOWER)


def normal(rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Independent sessions; SD of a case 0.1 to 0.5 %."""
    sd = np.exp(rng.uniform(np.log(0.001), np.log(0.005), (CASES, 1)))
    found: np.ndarray[Any, Any] = sd * rng.standard_normal((CASES, SESSIONS))
    return found


def with_odd_sessions(rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """The same, and one session in fifty of a case 3 % slow."""
    found = normal(rng)
    found += 0.03 * (rng.random((CASES, SESSIONS)) < 0.02)
    return found


def with_two_levels(rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """The same as ``normal``, and four cases at one of two levels 2 % apart, by a fair coin in each session."""
    found = normal(rng)
    found[:4] += 0.02 * rng.integers(0, 2, (4, SESSIONS))
    return found


def with_memory(correlation: float) -> Draw:
    """States that last: noise whose neighbours are correlated; SD of a case 0.1 to 0.2 %."""

    def draw(rng: np.random.Generator) -> np.ndarray[Any, Any]:
        found = rng.uniform(0.001, 0.002, (CASES, 1)) * rng.standard_normal((CASES, SESSIONS))
        for session in range(1, SESSIONS):
            new = np.sqrt(1 - correlation**2) * found[:, session]
            found[:, session] = correlation * found[:, session - 1] + new
        return found

    return draw


NOISES: dict[str, Draw] = {
    "independent": normal,
    "one session in fifty 3 % slow": with_odd_sessions,
    "four cases with two levels": with_two_levels,
    **{f"correlated by {correlation}": with_memory(correlation) for correlation in (0.3, 0.6, 0.8)},
}


def judged(sessions: pd.DataFrame) -> dict[str, Verdict]:
    """The verdict of each case at the end of these sessions."""
    return {each.case: each.verdict for each in find_trend(history(sessions)).findings}


def one(noise: str, seed: int) -> dict[str, Any]:
    """A drawn history unchanged, and once more with each of STEPS in a tenth of its cases."""
    rng = np.random.default_rng([seed, list(NOISES).index(noise)])
    base = np.log(rng.uniform(5, 5000, (CASES, 1))) + NOISES[noise](rng)
    verdicts = {*judged(frame_of(base)).values()}
    found: dict[str, Any] = {"unconfirmed": int(Verdict.UNCONFIRMED in verdicts), "seen": []}
    found["changed"] = int(bool(verdicts & {Verdict.SLOWER, Verdict.FASTER}))
    rows = rng.choice(CASES, STEPPED, replace=False)
    for size, age in STEPS:
        stepped = base.copy()
        stepped[rows, SESSIONS - age :] += np.log1p(size)
        verdict = judged(frame_of(stepped))
        wanted = SEEN if age < SHORTEST else SEEN[1:]
        found["seen"].append(sum(verdict[f"drawn.case{row:03d}"] in wanted for row in rows))
    return found


def real_days() -> dict[str, Any]:
    """Each GPU's saved sessions, day by day from the tenth on: in how many a case is UNCONFIRMED."""
    kept = sorted(map(load_run, RUNS.glob("*.json*")), key=lambda each: each.taken)
    days = reported = 0
    cases: list[str] = []
    for uuid in sorted({each.uuid or "" for each in kept}):
        own = [each for each in kept if each.uuid == uuid]
        for end in range(10, len(own) + 1):
            verdicts = judged(to_frame(own[:end], HISTORY_COLUMNS))
            open_now = [case for case, verdict in verdicts.items() if verdict is Verdict.UNCONFIRMED]
            days, reported = days + 1, reported + bool(open_now)
            cases += open_now
    return {"sessions": days, "with_unconfirmed": reported, "cases": cases}


def study(histories: int) -> dict[str, Any]:
    """Every rate."""
    found: dict[str, Any] = {"histories": histories, "steps": STEPS, "noises": {}}
    with ProcessPoolExecutor() as pool:
        for noise in NOISES:
            drawn = list(pool.map(one, [noise] * histories, range(histories), chunksize=4))
            seen = np.sum([each["seen"] for each in drawn], axis=0) / (STEPPED * histories)
            found["noises"][noise] = {
                "unconfirmed": sum(each["unconfirmed"] for each in drawn),
                "changed": sum(each["changed"] for each in drawn),
                "seen": seen.round(4).tolist(),
            }
    found["real"] = real_days()
    return found


def table(record: dict[str, Any]) -> Iterator[str]:
    """A row for each kind of noise."""
    steps = [f"{100 * size:.0f} %, {age}" for size, age in record["steps"]]
    yield table_line(("noise", "unchanged: UNCONFIRMED", "a change point", *(f"detected: {each}" for each in steps)))
    yield table_line(("---", *["--:"] * (2 + len(steps))))
    for noise, each in record["noises"].items():
        rates = (f"{each[name]} of {record['histories']}" for name in ("unconfirmed", "changed"))
        yield table_line((noise, *rates, *map(percent, each["seen"])))
    real = record["real"]
    yield ""
    named = f": {', '.join(sorted({*real['cases']}))}" if real["cases"] else ""
    yield f"Of {real['sessions']} sessions of H200s below `baselines/` {real['with_unconfirmed']} have one{named}."


def main(arguments: Sequence[str]) -> int:
    """Run the study and write its record."""
    parser = argparse.ArgumentParser(prog="python -m lab.history.first_days", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--histories", type=int, default=200)
    options = parser.parse_args(arguments)
    write_whole(options.file, json.dumps(study(options.histories)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
