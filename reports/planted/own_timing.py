"""How much the planted copies are slowed by their own timing: slowed and plain in turns within one process.

``python -m reports.planted.own_timing FILE`` measures on GPU 0 and exits 2 where none answers. What differs between
processes is not in it: it says what was planted, not what an A/B sees of it.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from reports.planted.families import steps
from suite.device.choose import open_device
from suite.device.interface import Launchable
from suite.errors import PeakgateError, refused
from suite.files import write_whole
from suite.sampling import SamplingPlan
from suite.verdict import ExitCode

ROUNDS = 40
PLAN = SamplingPlan(min_samples=24, max_samples=24, budget_us=math.inf)


def measured() -> dict[str, float]:
    """ln(slowed / plain) by ``<duration>us-<share>pm``: the median of ROUNDS turns, each of 24 samples a copy."""
    device, _ = open_device("gpu")
    device.warm_up()
    found = {}
    for duration_us in steps.QUADS_BY_DURATION:
        plain = device.prepare(steps.copy(duration_us, 0, 0, slower=False))
        for per_mille in steps.PER_MILLE:
            slowed = device.prepare(steps.copy(duration_us, per_mille, 0, slower=True))
            turns = [_shift(plain, slowed) for _ in range(ROUNDS)]
            found[f"{duration_us}us-{per_mille}pm"] = statistics.median(turns)
    return found


def _shift(plain: Launchable, slowed: Launchable) -> float:
    before, middle, after = (_typical_us(copy) for copy in (plain, slowed, plain))
    return math.log(2 * middle / (before + after))


def _typical_us(copy: Launchable) -> float:
    """The mean of the middle half: the clock of the events ticks too coarsely for the median of short copies."""
    times_us = sorted(copy.sample(PLAN).times_us)
    quarter = len(times_us) // 4
    return statistics.fmean(times_us[quarter:-quarter])


def main(arguments: Sequence[str] | None = None) -> int:
    """Write what was measured and give the exit code."""
    parser = argparse.ArgumentParser(prog="python -m reports.planted.own_timing", description=__doc__)
    parser.add_argument("file", type=Path, metavar="FILE", help="takes the shifts as JSON")
    options = parser.parse_args(arguments)
    try:
        write_whole(options.file, json.dumps(measured(), indent=1) + "\n")
    except PeakgateError as error:
        return refused(error)
    return ExitCode.OK


if __name__ == "__main__":
    sys.exit(main())
