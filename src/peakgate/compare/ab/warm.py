"""A process that imports what ``peakgate bench`` needs, waits for a request, and then runs it.

Started as a script in the folder of a side. It imports the side's families too, unless base's contract judges them. It
initializes the driver (0.1 s) but creates no CUDA context, so it can wait while another run is measured. It is not
forked from another process: each process must have an address space layout of its own, because the placement of its
arrays is one of the things that vary between processes.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import runpy
import sys
from pathlib import Path
from typing import Any, NoReturn


def main(preload: list[str]) -> None:
    """Import ``preload``, read one line of JSON from stdin and run it; return if stdin is closed."""
    # A failed import is not reported here: the run repeats it and reports it.
    for name in preload:
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    if "cupy" in sys.modules:
        with contextlib.suppress(Exception):
            sys.modules["cupy"].cuda.runtime.getDeviceCount()
    if "peakgate.spec.catalogue" in sys.modules and "PEAKGATE_BASE_TREE" not in os.environ:
        with contextlib.suppress(Exception):
            sys.modules["peakgate.spec.catalogue"].families()
    line = sys.stdin.readline()
    if line:
        become_the_run(json.loads(line))


def become_the_run(request: dict[str, Any]) -> NoReturn:
    """Run ``peakgate bench`` in this process, then exit with its code.

    ``request``: ``harness``, the package to run; ``arguments``; ``environment`` to add; ``log``, the file that takes
    all output.
    """
    code = 70
    try:
        with Path(request["log"]).open("w", encoding="utf-8") as log:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
        os.environ |= request["environment"]
        sys.argv = [request["harness"], "bench", *request["arguments"]]
        runpy.run_module(request["harness"], run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        if isinstance(ended.code, str):
            sys.stderr.write(f"{ended.code}\n")
    except BaseException as error:  # report it before the process exits
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1:])
