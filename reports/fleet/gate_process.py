"""``python -m peakgate.reports.fleet.gate_process PARENT ...``: ``peakgate bench ...`` that ends with its worker.

The kernel kills it when the worker that started it, by process id, is gone; its journal then continues the gate.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from peakgate import cli
from peakgate.common.processes import end_with_parent
from peakgate.verdict import ExitCode


def main(arguments: Sequence[str]) -> int:
    """Run the gate; its exit code."""
    parent, *for_bench = arguments
    if not end_with_parent(int(parent)):
        return ExitCode.INTERRUPTED
    return cli.main(["bench", *for_bench])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
