"""How often the 99 % intervals of ``ab`` include the true change, for simulated changes.

``python -m lab.injected.coverage RECORD`` simulates gates at the variances of the record's unchanged pairs and writes
COVERAGE beside them; the page's table is filled from it. In every gate a tenth of the cases is changed by 0.3 to 5 %,
slower or faster. The noise is that of the measured pairs; Student's t; or Student's t with two modes in some cases, as
in kernels whose arrays have one address per process; then only these cases are counted.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lab.injected.rates import CONFIRMING_PAIRS, SCREENING_PAIRS, gate_pairs
from lab.injected.record import Experiment, read_json, read_times
from lab.injected.resample import Medians, Pairing, as_screened, medians, unchanged
from lab.pages import table
from peakgate.base.errors import PeakgateError, refused
from peakgate.base.files import write_whole
from peakgate.base.streams import say
from peakgate.base.verdict import ExitCode
from peakgate.compare.ab.decide import CaseStatus, decide, half_width, interval
from peakgate.compare.ab.schedule import looks
from peakgate.compare.noise import MAD_TO_SD, Floats
from peakgate.runfile.frame import records

COVERAGE = "coverage.json"
GATES = 200
CHANGES = (0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.05)
CHANGED_SHARE = 0.1
T_DF = 6.0
MODES_SHARE, MODE_CHANCES, MODE_JUMPS = 0.1, (0.1, 0.2, 0.5), (0.01, 0.03)
"""Share of the cases with a second mode, probabilities of a process to be in it, and how much slower it is: three
kernels with arrays of 1 GiB had modes 1 to 3 % apart, with a fifth to a half of the processes in the rarer one."""

NOT_FLAGGED = "not flagged"
COLUMNS = ["noise", "flagged", "changed", "held", "width"]
"""For each case of a gate: the noise, its flag, whether it was changed, whether its interval includes the true change,
half the interval's width."""

Counted = NDArray[np.bool_]
Noise = Callable[[np.random.Generator], tuple[Floats, Counted]]


def noises(measured: Medians, pairs: int) -> dict[str, Noise]:
    """By name: log ratios of ``pairs`` pairs of unchanged code (case, pair), and which cases are counted."""
    ratios = measured.head - measured.base
    sd: Floats = MAD_TO_SD * np.nanmedian(np.abs(ratios), axis=1, keepdims=True)
    shape = (len(measured.cases), pairs)
    every = np.ones(shape[0], dtype=bool)

    def student(rng: np.random.Generator) -> Floats:
        drawn: Floats = sd * rng.standard_t(T_DF, shape) / math.sqrt(T_DF / (T_DF - 2))
        return drawn

    def modes(rng: np.random.Generator) -> tuple[Floats, Counted]:
        jumps = rng.choice(MODE_JUMPS, (shape[0], 1)) * (rng.random((shape[0], 1)) < MODES_SHARE)
        chances = rng.choice(MODE_CHANCES, (shape[0], 1))
        base, head = (jumps * (rng.random(shape) < chances) for _ in range(2))
        return student(rng) + head - base, jumps[:, 0] > 0

    return {
        "measured pairs": lambda rng: (unchanged(measured, pairs, Pairing.AS_MEASURED, rng), every),
        "Student's t": lambda rng: (student(rng), every),
        "two modes": modes,
    }


def simulated(measured: Medians, gates: int, seed: int = 0) -> pd.DataFrame:
    """Decide ``gates`` gates of each noise as ``ab`` does: a row of COLUMNS per case."""
    rng = np.random.default_rng(seed)
    found = noises(measured, gate_pairs())
    rows = [
        (name, *row) for name, noise in found.items() for _ in range(gates) for row in _gate(measured, *noise(rng), rng)
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def _gate(
    measured: Medians, ratios: Floats, counted: Counted, rng: np.random.Generator
) -> Iterator[tuple[object, ...]]:
    """Change some of the cases and decide all; yields rows of those that are counted."""
    count = len(ratios)
    size = np.log1p(rng.choice(CHANGES, count)) * rng.choice((-1.0, 1.0), count)
    truth = size * (rng.random(count) < CHANGED_SHARE)
    shifted = ratios + truth[:, None]
    screen = as_screened(shifted[:, :SCREENING_PAIRS], measured.log_time)
    confirm = shifted[:, SCREENING_PAIRS:]
    decided = decide(screen, confirm, measured.log_time, looks(CONFIRMING_PAIRS), [True] * count)
    for kept, true, counts in zip(records(decided), truth, counted, strict=True):
        if not kept.status or not counts:
            continue
        flagged = {1: "SLOWER", -1: "FASTER"}.get(kept.direction) if kept.status == CaseStatus.FLAGGED else None
        low, high = interval(kept)
        yield flagged or NOT_FLAGGED, bool(true), low <= true <= high, half_width(kept, kept.interval_tail)


def summary(cases: pd.DataFrame) -> list[dict[str, object]]:
    """By noise, flag and whether the case was changed: cases, intervals with the true change, half the median width."""
    rows = []
    for (noise, flagged, changed), group in cases.groupby(COLUMNS[:3], sort=False):
        found = {"held": int(group["held"].sum()), "width": round(100 * math.expm1(group["width"].median()), 3)}
        rows.append({"noise": noise, "flagged": flagged, "changed": changed, "cases": len(group), **found})
    return rows


def tables(record: Path) -> dict[str, str]:
    """The page's block from COVERAGE; empty if the record has none."""
    if not (record / COVERAGE).exists():
        return {}
    rows = [
        (
            row["noise"],
            f"{row['flagged']}, {'changed' if row['changed'] else 'unchanged'}",
            row["cases"],
            f"{100 * row['held'] / row['cases']:.2f} %",
            f"{row['width']:.2f} %",
        )
        for row in read_json(record / COVERAGE, lambda content: list(content["rows"]))
    ]
    head = ("noise", "cases", "how many", "interval holds the truth", "half its width (median)")
    return {"injected-coverage": table(head, rows)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Simulate and write COVERAGE into the record; exit code 2 if there is no record."""
    parser = argparse.ArgumentParser(prog="python -m lab.injected.coverage", description=__doc__)
    parser.add_argument("record", type=Path, help="folder of a campaign's record")
    parser.add_argument("--gates", type=int, default=GATES, metavar="N", help=f"of each noise (default: {GATES})")
    options = parser.parse_args(arguments)
    try:
        measured = medians(read_times(options.record, Experiment.SAME))
        rows = summary(simulated(measured, options.gates))
        write_whole(options.record / COVERAGE, json.dumps({"gates": options.gates, "rows": rows}, indent=1) + "\n")
    except PeakgateError as error:
        return refused(error)
    say(f"{options.record / COVERAGE}: written\n")
    return ExitCode.OK


if __name__ == "__main__":
    sys.exit(main())
