"""``python -P -m peakgate.core.child PARENT MODULE ARGUMENT...``: a module of ours that does not outlive its parent.

The kernel kills this process when the thread of PARENT that started it is gone, by kill -9 too.
"""

from __future__ import annotations

import os
import runpy
import sys

from peakgate.core.processes import end_with_parent, sigterm_interrupts
from peakgate.core.verdict import ExitCode

if __name__ == "__main__":
    _, parent, module, *arguments = sys.argv
    if not end_with_parent(int(parent)):
        os._exit(ExitCode.INTERRUPTED)
    sys.argv = [module, *arguments]
    try:
        with sigterm_interrupts():
            runpy.run_module(module, run_name="__main__", alter_sys=True)
    except KeyboardInterrupt:
        sys.exit(ExitCode.INTERRUPTED)
