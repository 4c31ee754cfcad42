"""One run of ``peakgate bench`` in a side's folder, with the imports done before it is its turn.

Started as a script in that folder. It imports what a run needs, the side's families too unless another side's judge
it, waits for one line of JSON and is the run from then on. Before that line it finds the driver, a tenth of a second of
each run, and makes no CUDA context, so it can wait beside a run that is being measured. It is not forked: its address
space, and with it where its arrays are, is laid out anew, which is a part of what makes processes differ and must not
be the same in all processes of a side.
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
    """Import what can be imported, wait for the request, run it; end when there is no request."""
    # What a side does not have, or cannot import, its run meets again and reports as its own failure.
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
    """Be ``peakgate bench`` to the end of this process.

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
    except BaseException as error:  # the last thing this process does is to say so
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1:])
