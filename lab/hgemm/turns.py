"""The last stages of hgemm and the vendor's library in turn, in one process.

``python -m lab.hgemm.turns measure FILE`` samples each size of the family on a GPU, in rounds whose order is drawn, and
writes the mean times of each round. ``python -m lab.hgemm.turns show`` fills the table of the page from FILE's figures.
A run of the whole family measures the library minutes apart from the stages: hot GPUs at their power cap change by more
than the difference in that time.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lab.pages import ROOT, fill_page, read_json
from peakgate.base.files import write_whole
from peakgate.base.text import say
from peakgate.device.choose import open_device
from peakgate.measure.sampling import SamplingPlan
from peakgate.render.files import table_line
from peakgate.spec.case import Case, Scale
from peakgate.spec.catalogue import module_at

HERE = Path(__file__).parent
PAGE, RECORD = HERE / "README.md", HERE / "turns.json"
PAIRS = {"bf16": (("specialised", "clusters", "split_k"), "cublas"), "fp8": (("fp8",), "cublaslt")}
"""By type, the stages and the library that they are held against."""
PLAN = SamplingPlan(min_samples=24, max_samples=96)

Times = dict[str, dict[str, list[float]]]
"""Microseconds and MHz, a figure a round, by stage."""


def problems() -> dict[str, list[Case]]:
    """By size and type, the cases to compare, the library last; small sizes first."""
    family = module_at(ROOT / "kernels" / "hgemm" / "family.py").FAMILY
    cases = [case for case in family.cases(Scale.BENCH) if isinstance(case, Case)]
    found: dict[str, list[Case]] = {}
    for case in sorted(cases, key=lambda each: each.work.flops):
        stages, library = PAIRS[case.math or ""]
        if case.stage.name in (*stages, library):
            found.setdefault(f"{case.size} {case.math}", []).append(case)
    return found


def measure(rounds: int, only: str) -> dict[str, Any]:
    """Every size on the GPU at hand; prints a line each."""
    device, _ = open_device("gpu")
    device.warm_up()
    sizes: dict[str, Times] = {}
    for name, cases in problems().items():
        if only and only not in name:
            continue
        ready = {case.stage.name: device.prepare(case) for case in cases}
        taken: Times = {stage: {"us": [], "mhz": []} for stage in ready}
        for launchable in ready.values():
            launchable.run()
        for _ in range(rounds):
            for stage in random.sample(sorted(ready), len(ready)):
                samples = ready[stage].sample(PLAN)
                taken[stage]["us"].append(round(samples.trimmed_mean_us, 3))
                taken[stage]["mhz"].append(round(samples.median_sm_clock_mhz or 0))
        sizes[name] = taken
        say(f"{name}: {ratio(taken):.3f}")
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": os.environ.get("PEAKGATE_COMMIT", ""),
        "gpu": device.describe(),
        "rounds": rounds,
        "sizes": sizes,
    }


def best(taken: Times) -> str:
    """The stage with the lowest median time."""
    libraries = {library for _, library in PAIRS.values()}
    return min(
        (stage for stage in taken if stage not in libraries), key=lambda stage: statistics.median(taken[stage]["us"])
    )


def library_of(taken: Times) -> str:
    """The library that was measured beside the stages."""
    return next(library for _, library in PAIRS.values() if library in taken)


def ratios(taken: Times) -> list[float]:
    """Of each round, the library's time over that of our best."""
    ours, theirs = taken[best(taken)]["us"], taken[library_of(taken)]["us"]
    return [their / our for our, their in zip(ours, theirs, strict=True)]


def ratio(taken: Times) -> float:
    """The median of the rounds."""
    return statistics.median(ratios(taken))


def table(record: Mapping[str, Any]) -> Iterator[str]:
    """A row a size: rate of our best and of the library, their ratio and its range, clocks and what they allow."""
    gpu = record["gpu"]
    where = f"{gpu['name']}, driver {gpu['driver']}, {record['date'][:10]}, commit {record['commit'][:12]}"
    yield f"{where}, {record['rounds']} rounds."
    yield ""
    heads = ("size", "stage", "TFLOP/s", "the library's", "ratio", "lowest to highest round", "SM clock (MHz)", "its")
    yield table_line(heads)
    yield table_line(("---", "---", *["--:"] * 6))
    work = {name: cases[0].work.flops for name, cases in problems().items()}
    for name, taken in record["sizes"].items():
        ours, theirs = best(taken), library_of(taken)
        rates = [work[name] / statistics.median(taken[stage]["us"]) / 1e6 for stage in (ours, theirs)]
        clocks = [statistics.median(taken[stage]["mhz"]) for stage in (ours, theirs)]
        found = ratios(taken)
        yield table_line(
            (
                name,
                ours,
                *(f"{each:.0f}" for each in rates),
                f"{ratio(taken):.3f}",
                f"{min(found):.3f} to {max(found):.3f}",
                *(f"{each:.0f}" for each in clocks),
            )
        )


def main(arguments: Sequence[str]) -> int:
    """Measure, or show the record on the family's page."""
    parser = argparse.ArgumentParser(prog="python -m lab.hgemm.turns", description=__doc__)
    parser.add_argument("what", choices=("measure", "show"))
    parser.add_argument("file", type=Path, nargs="?", default=RECORD)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", help="sizes whose name has this text")
    options = parser.parse_args(arguments)
    if options.what == "measure":
        write_whole(options.file, json.dumps(measure(options.rounds, options.only)) + "\n")
    else:
        fill_page(PAGE, {"hgemm-turns": "\n".join(table(read_json(options.file)))})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
