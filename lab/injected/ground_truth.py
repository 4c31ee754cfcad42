"""The ground truth of the slowed copies, from the clock inside their own kernel.

``python -m lab.injected.ground_truth FILE`` measures on a GPU and exits 2 if there is none. Launches are not timed
against each other, so disturbances of whole launches have no effect.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from lab.injected.campaign import steps
from peakgate.base.errors import PeakgateError, refused
from peakgate.base.files import write_whole
from peakgate.base.verdict import ExitCode
from peakgate.case import Case, Role
from peakgate.device.choose import open_device
from peakgate.device.interface import Device
from peakgate.measure.sampling import SamplingPlan

LAUNCHES = 15
PLAN = SamplingPlan(min_samples=96, max_samples=96, budget_us=math.inf)


def measured(
    durations_us: Iterable[int] = tuple(steps.QUADS_BY_DURATION), device_name: str = "gpu:0"
) -> list[dict[str, float]]:
    """``log_shift`` = ln(slowed / plain) of each cell, from the number of cycles by which a slowed copy begins later.

    The samples of the plain copy give the SM clock and the plain copy's time.
    """
    device, _ = open_device(device_name)
    device.warm_up()
    found = []
    for duration_us in durations_us:
        plain = device.prepare(steps.copy(duration_us, 0, 0, slower=False)).sample(PLAN)
        mhz = plain.median_sm_clock_mhz
        if mhz is None:
            raise PeakgateError(f"{duration_us} us: the samples have no SM clock; `peakgate bench` reports why")
        none = _cycles(device, steps.copy(duration_us, 0, 0, slower=True))
        for per_mille in steps.PER_MILLE:
            more = _cycles(device, steps.copy(duration_us, per_mille, 0, slower=True)) - none
            shift = math.log1p(more / mhz / plain.median_us)
            found.append({"duration_us": duration_us, "permille": per_mille, "log_shift": shift})
    return found


def with_cycles(copy: Case) -> Case:
    """The same copy with its cycles as an output."""
    arguments = (replace(each, role=Role.OUT) if each is steps.CYCLES else each for each in copy.arguments)
    return replace(copy, arguments=tuple(arguments))


def _cycles(device: Device, copy: Case) -> float:
    """Cycles of the median block in the median launch, since the first launch waits for its code."""
    launchable = device.prepare(with_cycles(copy))
    launches = []
    for _ in range(LAUNCHES):
        launchable.run()
        launches.append(statistics.median(launchable.outputs[-1].tolist()))
    return float(statistics.median(launches))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and write the file."""
    parser = argparse.ArgumentParser(prog="python -m lab.injected.ground_truth", description=__doc__)
    parser.add_argument("file", type=Path, metavar="FILE", help="JSON file to write")
    parser.add_argument("--device", default="gpu:0", help="gpu:N (default: gpu:0)")
    options = parser.parse_args(arguments)
    try:
        write_whole(options.file, json.dumps(measured(device_name=options.device), indent=1) + "\n")
    except PeakgateError as error:
        return refused(error)
    return ExitCode.OK


if __name__ == "__main__":
    sys.exit(main())
