"""How much the planted copies are slowed by the clock inside their own kernel.

``python -m reports.planted.own_timing FILE`` measures on GPU 0 and exits 2 where none answers. No launch is timed
against another: what disturbs whole launches is not in it.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from peakgate.case import Case, Role
from peakgate.common.errors import PeakgateError, refused
from peakgate.common.files import write_whole
from peakgate.device.choose import open_device
from peakgate.device.interface import Device
from peakgate.measure.sampling import SamplingPlan
from peakgate.reports.planted.copies import steps
from peakgate.verdict import ExitCode

LAUNCHES = 15
PLAN = SamplingPlan(min_samples=96, max_samples=96, budget_us=math.inf)


def measured() -> dict[str, float]:
    """ln(slowed / plain) by ``<duration>us-<share>pm``, from the cycles that a slowed copy begins later.

    How long a cycle is, and the plain copy, the samples of the plain copy tell.
    """
    device, _ = open_device("gpu")
    device.warm_up()
    found = {}
    for duration_us in steps.QUADS_BY_DURATION:
        plain = device.prepare(steps.copy(duration_us, 0, 0, slower=False)).sample(PLAN)
        mhz = plain.median_sm_clock_mhz
        if mhz is None:
            raise PeakgateError(f"{duration_us} us: no SM clock was told with the samples; see `nox -s bench`")
        none = _cycles(device, steps.copy(duration_us, 0, 0, slower=True))
        for per_mille in steps.PER_MILLE:
            more = _cycles(device, steps.copy(duration_us, per_mille, 0, slower=True)) - none
            found[f"{duration_us}us-{per_mille}pm"] = math.log1p(more / mhz / plain.median_us)
    return found


def told(copy: Case) -> Case:
    """The same copy, its cycles for an output that can be read."""
    return replace(
        copy, arguments=tuple(replace(each, role=Role.OUT) if each is steps.CYCLES else each for each in copy.arguments)
    )


def _cycles(device: Device, copy: Case) -> float:
    """The median block's, in the median launch: a first one waits for its code."""
    launchable = device.prepare(told(copy))
    launches = []
    for _ in range(LAUNCHES):
        launchable.run()
        launches.append(statistics.median(launchable.outputs[-1].tolist()))
    return float(statistics.median(launches))


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
