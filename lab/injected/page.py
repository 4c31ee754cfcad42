"""Evaluates the rule of ``ab`` on the record of a campaign, as Markdown tables.

``python -m lab.injected.page RECORD [--whole RECORD] [--page PAGE]`` prints the tables, or fills the blocks of a page.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from kernels.ladder.markers import read_document
from lab.injected import coverage, rates
from lab.injected.record import MUTANTS, Cell, Experiment, read_facts, read_json, read_times
from lab.injected.resample import Pairing, medians
from lab.pages import percent, show, table
from peakgate.base.errors import PeakgateError, refused
from peakgate.base.verdict import ExitCode, Verdict
from peakgate.compare.ab import decide
from peakgate.compare.ab.schedule import PAIRS_ALPHA
from peakgate.compare.resample import rate_at_most

GATES = 1000
EXPLAINED = "explained.json"
FLAGGED = frozenset({Verdict.SLOWER, Verdict.BELOW_FLOOR})


def tables(record: Path, gates: int, whole_runs: Path | None = None) -> dict[str, str]:
    """The page's tables by block: whole runs of ``ab``, and ``gates`` gates resampled from the processes of ``record``.

    The whole runs and the mutants are those of the record ``whole_runs``, if it is given.
    """
    earlier, truth = read_facts(record)
    known, _ = read_facts(whole_runs or record)
    same, steps = (medians(read_times(record, each)) for each in (Experiment.SAME, Experiment.STEPS))
    whole = {each: [gate for gate in known if gate.experiment is each] for each in Experiment}
    flagged, detection = rates.whole_detection(whole[Experiment.STEPS], steps), rates.detection(steps, gates)
    unchanged = {"whole runs of `ab`": (rates.whole_gates(whole[Experiment.SAME]), len(whole[Experiment.SAME]))}
    if whole_runs:
        gates_before = [gate for gate in earlier if gate.experiment is Experiment.SAME]
        unchanged["whole runs of `ab`, by the rule of their commit"] = (
            rates.whole_gates(gates_before),
            len(gates_before),
        )
    for pairing in Pairing:
        resampled = rates.resampled_gates(same, gates, pairing)
        unchanged[f"resampled: {pairing.value}"] = resampled, same.pairs // rates.gate_pairs()
    return {
        "injected-rule": rule(),
        "injected-false-positives": false_positives(unchanged),
        "injected-detected": detected(flagged, detection),
        "injected-shifts": shifts(rates.shifts(steps), truth),
        "injected-mutants": mutants(
            read_json((whole_runs or record) / MUTANTS, lambda content: list(content["mutants"]))
        ),
        **coverage.tables(record),
        **({"injected-explained": explained(record)} if (record / EXPLAINED).exists() else {}),
    }


def rule() -> str:
    """The constants of the rule that decides resampled gates."""
    suspect = f"p < {decide.SCREEN_P:g}, over {_percent_of_shift(decide.SCREEN_SHIFT)}"
    confirming = f"up to {rates.gate_pairs() - rates.SCREENING_PAIRS}"
    flagged = f"over {_percent_of_shift(decide.SMALLEST_PAIRS_SHIFT)}"
    return table(
        ("screening pairs", "suspect", "confirming pairs", "flagged", "error of all cases together"),
        [
            (
                f"{', '.join(map(str, decide.SCREENING_LOOKS))} or {rates.SCREENING_PAIRS}",
                suspect,
                confirming,
                flagged,
                percent(PAIRS_ALPHA),
            )
        ],
    )


def false_positives(unchanged: Mapping[str, tuple[pd.DataFrame, int]]) -> str:
    """Gates of unchanged code (``rates.COLUMNS``), with upper 95 % confidence bounds of the false-positive rate.

    The number with each frame is that of gates that can be drawn without sharing a process.
    """
    head: tuple[str, ...] = ("gates", "how many", "flagged something slower", "true rate at most (95 %)")
    head += ("at most, by gates that share no process", "flagged something faster", "left something open")
    rows = []
    for name, (gates, disjoint) in unchanged.items():
        if gates.empty:
            continue
        slower, faster, left_open = (int(gates[column].sum()) for column in rates.COLUMNS[:3])
        rate = slower / len(gates)
        bounds = [percent(rate_at_most(rate, count) if count else 1.0) for count in (len(gates), disjoint)]
        row = (name, str(len(gates)), f"{slower} ({percent(rate)})", bounds[0], f"{bounds[1]} ({disjoint})")
        rows.append((*row, str(faster), str(left_open), f"{gates['confirming_pairs'].mean():.1f}"))
    return table((*head, "confirming pairs (mean)"), rows)


def detected(whole: Mapping[Cell, tuple[int, int]], resampled: Mapping[Cell, float]) -> str:
    """Slowed copies that whole runs of ``ab`` flagged slower; in brackets the detection rate of resampled gates."""
    texts = {cell: f"{slower} of {judged}" for cell, (slower, judged) in whole.items()}
    return _by_cell(texts | {cell: f"{texts[cell]} ({percent(rate)})" for cell, rate in resampled.items()})


def shifts(measured: Mapping[Cell, float], truth: Mapping[Cell, float]) -> str:
    """The measured change of each cell; in brackets its distance from the ground truth, in percentage points."""
    texts = {cell: f"{100 * math.expm1(shift):.2f} %" for cell, shift in measured.items()}
    known = measured.keys() & truth.keys()
    return _by_cell(texts | {cell: f"{texts[cell]} ({100 * (measured[cell] - truth[cell]):+.2f})" for cell in known})


def mutants(judged: Iterable[Mapping[str, Any]]) -> str:
    """Every slowdown mutant and the verdicts on its cases, the most slowed first."""
    rows = []
    for mutant in judged:
        cases = mutant["cases"] or [{"case": "not measured", "verdict": None, "change_percent": None}]
        flagged = sum(case["verdict"] in FLAGGED for case in cases)
        slower, counted = cases[0]["change_percent"] or 0.0, f"{flagged} of {len(mutant['cases'])}"
        rows.append((slower, (mutant["name"], mutant["reason"], cases[0]["case"], f"{slower:.1f} %", counted)))
    rows.sort(key=lambda row: row[0], reverse=True)
    return table(("mutant", "what it is", "most slowed case", "slower by", "cases flagged"), (row for _, row in rows))


def explained(record: Path) -> str:
    """The mutants measured with ``--explain``: injected cause, whether it was named first, first sentence."""
    rows = [
        (each["mutant"], each["injected"], "yes" if each["right"] else "no", each["said"][0].replace("|", "\\|"))
        for each in read_json(record / EXPLAINED, list)
    ]
    return table(("mutant", "injected", "named first", "first sentence"), rows)


def _by_cell(texts: Mapping[Cell, str]) -> str:
    """A table with a row per duration and a column per injected slowdown."""
    durations, shares = (sorted({getattr(cell, name) for cell in texts}) for name in ("duration_us", "permille"))
    return table(
        ("duration", *(f"{share / 10:g} %" for share in shares)),
        ((f"{duration} µs", *(texts.get(Cell(duration, share), "–") for share in shares)) for duration in durations),
    )


def _percent_of_shift(log_shift: float) -> str:
    return f"{100 * math.expm1(log_shift):.2g} %"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables or fill a page; exit code 2 if the record or the page is missing."""
    parser = argparse.ArgumentParser(prog="python -m lab.injected.page", description=__doc__)
    parser.add_argument("record", type=Path, help="folder of a campaign's record")
    parser.add_argument("--whole", type=Path, metavar="RECORD", help="whole runs and mutants of another record")
    parser.add_argument("--page", type=Path, help="Markdown file whose blocks to fill, instead of printing the tables")
    parser.add_argument("--gates", type=int, default=GATES, metavar="N", help=f"to resample (default: {GATES})")
    options = parser.parse_args(arguments)
    if options.gates < 1:
        parser.error(f"--gates {options.gates}: expected 1 or more")
    try:
        if options.page is not None:
            read_document(options.page)  # whether it is there: the tables take a minute
        show(tables(options.record, options.gates, options.whole), options.page)
    except PeakgateError as error:
        return refused(error)
    return ExitCode.OK


if __name__ == "__main__":
    sys.exit(main())
