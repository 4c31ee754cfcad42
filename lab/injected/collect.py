"""Makes the record of a campaign: ``python -m lab.injected.collect OUT --commit ID --record DIR``.

OUT is the folder of a campaign with whole runs of ``ab`` of every kind. If it also has the pairs from which gates are
resampled, the record has the times of each process and case from their run files.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pandas as pd

from lab.injected.campaign import TIMING, VERDICTS
from lab.injected.record import COLUMNS, FACTS, MUTANTS, SCHEMA, Experiment, Gate, read_json, write_times
from peakgate.base.errors import PeakgateError, refused
from peakgate.base.files import write_whole
from peakgate.base.streams import say
from peakgate.base.verdict import ExitCode, Verdict
from peakgate.compare.ab.record import AbRecord, Process, load_record, timed
from peakgate.compare.ab.schedule import Phase
from peakgate.runfile.saved import Run

GROUND_TRUTH = "ground_truth.json"
TIMES = {Experiment.SAME: Experiment.SAME_PAIRS, Experiment.STEPS: Experiment.PAIRS}
"""Experiments in the record, and those whose processes' times are stored under their names."""


def collect(out: Path, commit: str, target: Path) -> list[Path]:
    """Write the record and return the paths of its files.

    Raises PeakgateError, and writes nothing, if results are missing or inconsistent.
    """
    folders = [path.parent for path in sorted(out.glob(f"*/{TIMING}"))]
    finished = [_finished(folder) for folder in folders]
    measured = {gate.experiment for gate, _ in finished}
    pairs = measured & set(TIMES.values())
    for name in Experiment if pairs else set(Experiment) - set(TIMES.values()):
        if name not in measured:
            raise PeakgateError(f"{out}: no {name}-* in it with pairs and {TIMING}; measure it first")
    runs = [(gate.experiment, run) for gate, record in finished for _, run in _screening(record)]
    machines = {(str(run.gpu.get("name")), str(run.driver)) for _, run in runs}
    if len(machines) != 1:
        raise PeakgateError(f"{out}: measured on {sorted(machines)}; expected one GPU model and driver")
    ((gpu, driver),) = machines
    origins = {
        name: {"commit": commit, "taken": min(run.taken for of, run in runs if of is name).isoformat()}
        for name in sorted(measured)
    }
    gates = [asdict(gate) for gate, _ in finished if gate.experiment not in TIMES.values()]
    mutants = [folder for folder in folders if folder.name.startswith(f"{Experiment.MUTANTS}-")][-1]
    contents = {
        FACTS: {
            "schema": SCHEMA,
            "gpu": gpu,
            "driver": driver,
            "origins": origins,
            "planted": read_json(out / GROUND_TRUTH, list),
            "gates": gates,
        },
        MUTANTS: read_json(mutants / MUTANTS, dict),
    }
    for file, content in contents.items():
        write_whole(target / file, json.dumps(content, indent=1) + "\n")
    times = [
        write_times(target, name, _times([record for gate, record in finished if gate.experiment is of]))
        for name, of in TIMES.items()
        if pairs
    ]
    return [*times, *(target / file for file in contents)]


def _finished(folder: Path) -> tuple[Gate, AbRecord]:
    """One finished ``ab``, and its processes and run files."""
    experiment, seconds = read_json(folder / TIMING, lambda it: (Experiment(it["experiment"]), float(it["seconds"])))
    exit_code, verdicts = read_json(
        folder / VERDICTS, lambda it: (int(it["exit_code"]), {row["case"]: row["verdict"] for row in it["rows"]})
    )
    record = load_record(folder)
    screening, confirming = (len({each.pair for each in record.of(at)}) for at in (Phase.SCREEN, Phase.CONFIRM))
    changed = {case: verdict for case, verdict in verdicts.items() if verdict != Verdict.SAME}
    return Gate(experiment, exit_code, len(verdicts), screening, confirming, seconds, changed), record


def _screening(record: AbRecord) -> list[tuple[Process, Run]]:
    """The screening processes that left a run file."""
    return [(each, record.runs[each.file]) for each in record.of(Phase.SCREEN) if each.file]


def _times(records: Sequence[AbRecord]) -> pd.DataFrame:
    """The times of every screening process and trusted case; pairs are numbered consecutively."""
    rows, first = [], 0
    for record in records:
        for process, run in _screening(record):
            key = (Phase.SCREEN.value, first + process.pair, process.which.value)
            rows += [(*key, each.case, each.time_us, each.control_us) for each in timed(run)]
        first += 1 + max(process.pair for process in record.of(Phase.SCREEN))
    return pd.DataFrame(rows, columns=COLUMNS)


def main(arguments: Sequence[str] | None = None) -> int:
    """Collect and print what was written; 2 on bad input."""
    parser = argparse.ArgumentParser(prog="python -m lab.injected.collect", description=__doc__)
    parser.add_argument("out", type=Path, metavar="OUT", help="folder of a campaign")
    parser.add_argument("--commit", required=True, help="the commit that was measured")
    parser.add_argument("--record", type=Path, required=True, metavar="DIR", help="where to write the record")
    options = parser.parse_args(arguments)
    try:
        for path in collect(options.out, options.commit, options.record):
            say(f"{path}: {path.stat().st_size} bytes\n")
    except PeakgateError as error:
        return refused(error)
    return ExitCode.OK


if __name__ == "__main__":
    sys.exit(main())
