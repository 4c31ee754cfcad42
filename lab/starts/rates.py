"""How often `ab` is wrong, and finds 0.5 %, where one process samples both builds: ``python -m lab.starts.rates``.

Gates of all cases of ``replicates.PAIR_RECORDS`` are resampled (seeded) from its pairs of equal code, and decided as
`ab` does: ``lab.injected`` does so with processes. ``rates.json`` has what came of them; ``overlap --page`` shows it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lab.injected.rates import CONFIRMING_PAIRS, SCREENING_PAIRS, gate_pairs
from lab.injected.resample import as_screened, shuffled
from lab.pages import read_json, table
from lab.starts.replicates import PAIR_RECORDS, read
from peakgate.base.files import write_whole
from peakgate.compare.ab.decide import CaseStatus, decide
from peakgate.compare.ab.schedule import looks
from peakgate.compare.noise import Floats

RATES = Path(__file__).with_name("rates.json")
GATES = 1000
SHIFTS_PERCENT = (0.0, 0.5, 1.0)


def measured() -> tuple[list[str], Floats, Floats]:
    """The cases of the record, their log times, and their log ratios by case and pair."""
    processes = read(*PAIR_RECORDS)
    cases = [row["case"] for row in processes[0][1:]]
    rows = {case: [row for of in processes for row in of[1:] if row["case"] == case] for case in cases}
    log_time = np.log([np.mean([row["us"] for row in rows[case]]) for case in cases])
    ratios = np.log([[ratio for row in rows[case] for ratio in row["pair_ratios"]] for case in cases])
    return cases, log_time, ratios


def gates(log_time: Floats, ratios: Floats, shift_percent: float) -> Iterator[tuple[int, pd.DataFrame]]:
    """Resampled gates, in each of which one case, the next in turn, is slower by so much: its row, and the decisions.

    The pairs of each case are drawn by themselves, with the sign of their log ratio at random.
    """
    rng = np.random.default_rng(0)
    for gate in range(GATES):
        slower = gate % len(ratios)
        drawn = np.array([row[shuffled(len(row), gate_pairs(), rng)] for row in ratios])
        drawn *= rng.choice((-1.0, 1.0), size=drawn.shape)
        drawn[slower] += math.log1p(shift_percent / 100)
        screen = as_screened(drawn[:, :SCREENING_PAIRS], log_time)
        confirm, judged = drawn[:, SCREENING_PAIRS:], [True] * len(ratios)
        yield slower, decide(screen, confirm, log_time, looks(CONFIRMING_PAIRS), judged)


def rates() -> list[dict[str, Any]]:
    """A row for each shift: gates with a false flag, and with an open case; the share that found each slower case."""
    cases, log_time, ratios = measured()
    rows = []
    for shift_percent in SHIFTS_PERCENT:
        false = left_open = 0
        found: dict[str, list[bool]] = {case: [] for case in cases}
        for slower, decided in gates(log_time, ratios, shift_percent):
            flagged = (decided["status"] == CaseStatus.FLAGGED).to_numpy()
            right = shift_percent > 0 and bool(flagged[slower]) and decided["direction"][slower] > 0
            found[cases[slower]].append(right)
            false += int(flagged.sum() > right)
            left_open += bool((decided["status"] == CaseStatus.OPEN).any())
        row: dict[str, Any] = {"shift_percent": shift_percent, "gates": GATES, "false": false, "open": left_open}
        rows.append(
            row | {"found": {case: float(np.mean(each)) for case, each in found.items()} if shift_percent else {}}
        )
    return rows


def page() -> str:
    """The table of the page."""
    rows = []
    for row in read_json(RATES):
        false, left_open = (f"{row[name]} of {row['gates']}" for name in ("false", "open"))
        found = row["found"]
        least = min(found, key=found.__getitem__) if found else ""
        said = (
            f"{100 * np.mean(list(found.values())):.1f} % (least {least}: {100 * found[least]:.0f} %)" if found else ""
        )
        rows.append((f"{row['shift_percent']:g} %", false, left_open, said))
    return table(
        ("one case is slower by", "gates with a false flag", "with an open case", "the slower case is found"), rows
    )


def main() -> None:
    """Resample, and write the record."""
    write_whole(RATES, json.dumps(rates(), indent=1) + "\n")


if __name__ == "__main__":
    main()
