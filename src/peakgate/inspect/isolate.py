"""``peakgate check --isolate``: check a stranger's kernels without network and without the user's files.

Everything runs in namespaces (``base/sandbox.py``), never with less. What comes out is text, printed line by line
without control characters, and the verdict's file. Not covered: what the verdict says, which a program of the
stranger's may have written.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from peakgate.base import sandbox
from peakgate.base.errors import CannotDecide, Code, PeakgateError
from peakgate.base.files import UnreadableFile, read_limited, write_whole
from peakgate.base.processes import print_output
from peakgate.base.sandbox import Isolation
from peakgate.base.scratch import scratch_folder
from peakgate.base.streams import say
from peakgate.base.verdict import ExitCode

CHECK_LIMIT_S = 900.0  # of a whole check
MOST_VERDICT_BYTES = 16 << 20  # a larger one is not read


def run(arguments: Sequence[str], folder: Path, out: Path, verdict_file: str) -> int:
    """Run ``peakgate check`` with these arguments on what is in ``folder``; its exit code.

    The verdict goes to ``out``. PeakgateError for a folder that holds more than what is checked. CannotDecide where the
    machine does not permit namespaces, or after CHECK_LIMIT_S seconds.
    """
    if any(place.is_relative_to(folder) for place in (Path.home().resolve(), Path(tempfile.gettempdir()).resolve())):
        raise PeakgateError(
            f"--isolate: {folder} holds other files too; put the checked project in a separate folder", Code.OPTION
        )
    if refusal := sandbox.refusal_of_namespaces():
        raise CannotDecide(
            f"--isolate: {refusal}; install or allow them (sysctl kernel.apparmor_restrict_unprivileged_userns), "
            "or check in a virtual machine",
            Code.ISOLATION,
        )
    with scratch_folder("check") as scratch:
        inner = [sys.executable, "-P", "-m", "peakgate", "check", *arguments, f"--out={scratch}"]
        process = sandbox.start(
            inner,
            folder,
            scratch,
            way=Isolation.NAMESPACES,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        named = f"verdict: {scratch}"
        code = print_output(process, CHECK_LIMIT_S, shown=lambda line: None if line.startswith(named) else line)
        if code not in [each.value for each in ExitCode]:
            raise CannotDecide(
                f"not checked: the isolated check ended with exit code {code}, or after {CHECK_LIMIT_S:.0f} s",
                Code.PROCESS,
            )
        with suppress(UnreadableFile):
            write_whole(out / verdict_file, read_limited(scratch / verdict_file, MOST_VERDICT_BYTES, inside=scratch))
            say(f"verdict: {out / verdict_file}")
        return code
