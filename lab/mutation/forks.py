"""A process that runs pytest in a fork of itself for each line of its input, and prints the exit code.

It has imported what the tests import besides Peakgate, so that a mutant costs its tests alone.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys

import msgspec  # noqa: F401
import numpy as np  # noqa: F401
import pandas as pd  # noqa: F401
import pytest
import rich.console  # noqa: F401
import tomlkit  # noqa: F401

LIMIT_S = 500
MOST_BYTES = 4 << 30
"""Memory limit of a test's process, since an endless loop may fill a list."""


def main(output: str) -> None:
    """Take the arguments of pytest as JSON, a line per run; what a run prints goes to the file ``output``."""
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            printed = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            for stream in (1, 2):
                os.dup2(printed, stream)
            resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES))
            signal.alarm(LIMIT_S)  # ends the process
            os._exit(pytest.main(json.loads(line)))
        sys.stdout.write(f"{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
