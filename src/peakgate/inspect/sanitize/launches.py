"""The program that runs under the sanitizer: ``python -m peakgate.inspect.sanitize.launches JOURNAL``.

Launches each small problem once, without timing or comparison. The journal has one JSON object per line and is complete
up to a crash: first the machine, then each problem before its launch and each fault after it, and at the end ``{"done":
true}``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cupy

from peakgate.base.errors import BuildError, PeakgateError, refused
from peakgate.base.files import open_output
from peakgate.base.options import add_selection
from peakgate.base.verdict import ExitCode
from peakgate.device import driver
from peakgate.device.gpu import FAULTS, GpuDevice
from peakgate.device.interface import KernelFault
from peakgate.spec.case import Role
from peakgate.spec.catalogue import kernel_name, problems


def main(arguments: Sequence[str]) -> int:
    """Launch the selected problems, up to a fault that corrupts the CUDA context; 0 whatever the journal says."""
    parser = argparse.ArgumentParser(prog="python -m peakgate.inspect.sanitize.launches")
    parser.add_argument("journal", type=Path)
    add_selection(parser, default="")
    chosen = parser.parse_args(arguments)
    with open_output(chosen.journal) as journal:

        def note(entry: dict[str, Any]) -> None:
            journal.write(json.dumps(entry) + "\n")
            journal.flush()

        # Without a memory pool every buffer is a separate allocation, and memory after its end is not allocated.
        cupy.cuda.set_allocator(None)
        device = GpuDevice(*driver.named_gpus("gpu:0"), guarded=False)
        note({"machine": device.describe()})
        wanted = problems(chosen.text)
        device.prebuild(wanted, checked=False)
        for case in wanted:
            if device.refusal(case) is not None:
                continue
            named = {"case": case.id, "kernel": kernel_name(case), "functions": case.stage.functions}
            note(named)
            try:
                launchable = device.prepare(case)
                if any(buffer.role is Role.INOUT for buffer in case.buffers):
                    launchable.run()
                else:  # outputs stay uninitialised, so that reads of them are detected
                    launchable.launch()
                    cupy.cuda.get_current_stream().synchronize()
            except (BuildError, KernelFault) as error:
                note({**named, "fault": str(error)})
            except FAULTS as fault:
                note({**named, "fault": str(device.faulted(case, fault))})
            if device.lost:
                break
        note({"done": True})
    return ExitCode.OK


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except PeakgateError as error:
        sys.exit(refused(error))
