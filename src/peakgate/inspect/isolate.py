"""``peakgate check --isolate``: check untrusted kernels without access to the network and the user's files.

Everything runs in Linux namespaces (``base/sandbox.py``). The output is text, printed line by line without control
characters, and the verdict's file, whose content the untrusted program may have forged.
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
from peakgate.base.files import UnreadableFile, read_limited, scratch_folder, write_whole
from peakgate.base.processes import print_output
from peakgate.base.report import ENTRIES, SARIF
from peakgate.base.sandbox import Isolation
from peakgate.base.streams import say
from peakgate.base.verdict import ExitCode

CHECK_LIMIT_S = 900.0  # for the whole check
MOST_VERDICT_BYTES = 16 << 20  # larger verdict files are not read


def run(arguments: Sequence[str], folder: Path, out: Path, verdict_file: str) -> int:
    """Run ``peakgate check`` with these arguments on ``folder`` and return its exit code.

    The verdict is written to ``out``. Raises PeakgateError if the folder contains the home or temporary directory,
    CannotDecide if the machine does not permit namespaces or after CHECK_LIMIT_S.
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
        left: list[str] = []

        def shown(line: str) -> str | None:
            """None for a line that names a file, kept until that file is there."""
            if str(scratch) not in line:
                return line
            left.append(line.replace(str(scratch), str(out)))
            return None

        code = print_output(process, CHECK_LIMIT_S, shown=shown)
        if code not in [each.value for each in ExitCode]:
            raise CannotDecide(
                f"not checked: the isolated check ended with exit code {code}, or after {CHECK_LIMIT_S:.0f} s",
                Code.PROCESS,
            )
        with suppress(UnreadableFile):
            for name in (verdict_file, *(str(Path(verdict_file).with_suffix(each)) for each in (SARIF, ENTRIES))):
                write_whole(out / name, read_limited(scratch / name, MOST_VERDICT_BYTES, inside=scratch))
        for line in left:
            say(line)
        return code
