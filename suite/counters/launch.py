"""``python -m peakgate.counters.launch JOURNAL CASES``: what runs under ncu, each case launched once to be profiled.

CASES is a file of case ids, one per line. The journal has a line per case that was profiled, in order: its id. A case
that this GPU cannot run, or that faults, has none. Only the launch between start and stop of the profiler counts; the
launch before it loads the code.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import cupy
import cupyx.profiler
from peakgate.build.cubin import BuildError
from peakgate.common.errors import PeakgateError, refused
from peakgate.device.gpu import GpuDevice
from peakgate.device.interface import KernelFault
from peakgate.device.launchable import FAULTS
from peakgate.run.identity import listed_in
from peakgate.verdict import ExitCode


def main(arguments: Sequence[str] | None = None) -> int:
    """Launch each case; 0 when the journal is complete."""
    parser = argparse.ArgumentParser(prog="python -m peakgate.counters.launch", description=__doc__)
    parser.add_argument("journal", type=Path, metavar="JOURNAL")
    parser.add_argument("cases", type=Path, metavar="CASES")
    parser.add_argument("--index", type=int, default=0, help="the CUDA device index")
    options = parser.parse_args(arguments)
    try:
        device = GpuDevice(options.index, guarded=False)
        with options.journal.open("w", encoding="utf-8") as journal:
            for case in listed_in(options.cases):
                if device.refusal(case) is not None or device.lost:
                    continue
                try:
                    launchable = device.prepare(case)
                    launchable.run()
                    with cupyx.profiler.profile():
                        launchable.launch()
                        cupy.cuda.get_current_stream().synchronize()
                except FAULTS as fault:
                    sys.stderr.write(f"{case.id}: {device.faulted(case, fault)}\n")
                    continue
                except (BuildError, KernelFault, MemoryError) as error:
                    sys.stderr.write(f"{case.id}: {error}\n")
                    continue
                journal.write(f"{case.id}\n")
                journal.flush()
    except PeakgateError as error:
        return refused(error)
    return ExitCode.OK


if __name__ == "__main__":
    sys.exit(main())
