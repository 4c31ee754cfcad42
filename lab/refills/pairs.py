"""Whether drawing the contents of buffers before each launch, and copying an output after it, changes a kernel's time.

``python -m lab.refills.pairs FILE`` measures on a GPU: of twelve kernels of the gate tier interleaved pairs of samples,
one as `bench` takes them, one on inputs that stay as they are and outputs that nothing fills or copies.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from pathlib import Path
from typing import Any

from peakgate.base.errors import PeakgateError, refused
from peakgate.base.files import write_whole
from peakgate.base.verdict import ExitCode
from peakgate.case import Case, Tier
from peakgate.device.choose import open_device
from peakgate.device.interface import Device, SampleChecker
from peakgate.measure.refill import Contents
from peakgate.measure.sampling import REPEATED
from peakgate.spec import catalogue

KERNELS, PAIRS = 10, 40
T_95 = 2.02
"""Student's t for 39 degrees of freedom."""

UNROLLED = ("sgemm.warp_tiled-256", "sgemm.async_copy-256")
"""Measured too: no other kernels have as many instructions for as little time."""


def chosen(device: Device) -> list[Case]:
    """Kernels of the gate tier at even distances in its list."""
    cases = [case for case in catalogue.cases(device.scale) if case.tier is Tier.GATE and case.stage.source is not None]
    spread = [cases[at * len(cases) // KERNELS + len(cases) // (2 * KERNELS)] for at in range(KERNELS)]
    return spread + [case for case in cases if case.id in UNROLLED]


def measured(device: Any, case: Case) -> dict[str, Any]:
    """One case: how much longer a launch takes with refills, in percent, with its 95 % interval."""
    from peakgate.device.arrays import CaseArrays, GpuRefiller  # noqa: PLC0415  (it imports CuPy)
    from peakgate.device.launcher import GpuLaunchable  # noqa: PLC0415

    class Refilled(CaseArrays):
        still = False

        def moved(self, launches: int, draw: Any, bind: Any) -> Any:
            return super().moved(1 << 40 if self.still else launches, draw, bind)  # too large for one set a launch

        def contents(self, draw: Any) -> Contents:
            return (
                Contents(GpuRefiller(), self.buffers, {}, self.pristine, draw) if self.still else super().contents(draw)
            )

    arrays = Refilled(device, case)
    launchable = GpuLaunchable(device, arrays)  # one for both: arrays that do not move have the same place
    copied = SampleChecker(device.draw, wanted=lambda _count, _launch_us: 1)
    shifts, times_us = [], []
    for pair in range(PAIRS):
        taken = {}
        for arm in (0, 1) if pair % 2 else (1, 0):
            arrays.still = not arm
            taken[arm] = launchable.sample(REPEATED, copied if arm else None)
        times_us.append(taken[0].trimmed_mean_us)
        shifts.append(math.log(taken[1].trimmed_mean_us / taken[0].trimmed_mean_us))
    half = T_95 * statistics.stdev(shifts) / math.sqrt(PAIRS)
    middle = statistics.fmean(shifts)
    return {
        "case": case.id,
        "pairs": PAIRS,
        "time_us": round(statistics.median(times_us), 3),
        "longer_percent": round(100 * middle, 4),
        "interval_percent": [round(100 * (middle - half), 4), round(100 * (middle + half), 4)],
    }


def main(argv: list[str]) -> int:
    """Measure and write the record."""
    parser = argparse.ArgumentParser(prog="python -m lab.refills.pairs", description=__doc__)
    parser.add_argument("file", type=Path, help="where to write the record")
    parser.add_argument("--commit", default="", help="the commit that is measured, where git cannot say it")
    options = parser.parse_args(argv)
    device, _ = open_device("gpu")
    device.warm_up()
    rows = [measured(device, case) for case in chosen(device)]
    described = device.describe()
    about = {"commit": options.commit, "gpu": described["name"], "driver": described["driver"]}
    write_whole(options.file, json.dumps(about | {"kernels": rows}, indent=1) + "\n")
    for row in rows:
        low, high = row["interval_percent"]
        shift = f"{row['longer_percent']:+.3f} % ({low:+.3f} to {high:+.3f})"
        sys.stdout.write(f"{row['case']:44s} {row['time_us']:9.2f} us {shift}\n")
    return ExitCode.OK


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except PeakgateError as error:
        sys.exit(refused(error))
