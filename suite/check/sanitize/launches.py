"""``python -m peakgate.check.sanitize.launches JOURNAL``: what runs under the sanitizer.

Each small problem is launched once, nothing is timed and nothing compared: the sanitizer watches. The journal, a JSON
object a line, records what was launched even when a kernel takes the process with it: first the machine, then each
problem before its launch, each fault after it, at last ``{"done": true}``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import cupy
from peakgate.build.cubin import BuildError
from peakgate.core.case import Case, Role
from peakgate.core.catalogue import kernel_name, problems
from peakgate.core.errors import PeakgateError, refused
from peakgate.core.selection import add_selection
from peakgate.core.verdict import ExitCode
from peakgate.device.gpu import GpuDevice
from peakgate.device.interface import KernelFault
from peakgate.device.launchable import FAULTS, GpuLaunchable

Note = Callable[[dict[str, Any]], None]


def launch_all(device: GpuDevice, wanted: Iterable[Case], note: Note) -> None:
    """Launch each problem the device takes; a fault is noted, and ends the walk when the device is lost to it."""
    for case in wanted:
        if device.refusal(case) is not None:
            continue
        named = {"case": case.id, "kernel": kernel_name(case), "functions": case.stage.functions}
        note(named)
        try:
            _launch(device.prepare(case))
        except (BuildError, KernelFault) as error:
            note({**named, "fault": str(error)})
        except FAULTS as fault:
            note({**named, "fault": str(device.faulted(case, fault))})
        if device.lost:
            return


def _launch(launchable: GpuLaunchable) -> None:
    """Launch once and wait; outputs are left unwritten, so that a kernel that reads what it should write is seen."""
    if any(buffer.role is Role.INOUT for buffer in launchable.case.buffers):
        launchable.run()
    else:
        launchable.launch()
        cupy.cuda.get_current_stream().synchronize()


def main(arguments: list[str]) -> int:
    """Launch what was asked for; 0 when the journal is complete, whatever it says."""
    parser = argparse.ArgumentParser(prog="python -m peakgate.check.sanitize.launches")
    parser.add_argument("journal", type=Path)
    add_selection(parser, default="")
    parser.add_argument("--index", type=int, default=0, help="the CUDA device index")
    chosen = parser.parse_args(arguments)
    with chosen.journal.open("w", encoding="utf-8") as journal:

        def note(entry: dict[str, Any]) -> None:
            journal.write(json.dumps(entry) + "\n")
            journal.flush()

        # Without a pool every buffer is an allocation of its own, and memory past its end is unallocated.
        cupy.cuda.set_allocator(None)
        device = GpuDevice(chosen.index, guarded=False)
        note({"machine": device.describe()})
        wanted = problems(chosen.text)
        device.prebuild(wanted, checked=False)
        launch_all(device, wanted, note)
        note({"done": True})
    return ExitCode.OK


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except PeakgateError as error:
        sys.exit(refused(error))
