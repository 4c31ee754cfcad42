"""What a side's cases are, as far as that is known without running a kernel: ``peakgate.run.identity`` of each side."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from peakgate.common import records
from peakgate.common.errors import PeakgateError
from peakgate.reports.ab import process
from peakgate.reports.ab.folders import Folder
from peakgate.reports.ab.process import SideBroken, last_words
from peakgate.reports.ab.schedule import Side

NO_GPU = "no GPU answers"
"""How an identity's complaint begins when there is none: a fault of the machine, not of the side."""

NO_GPU_HERE = (
    "no GPU answers on this machine, and measuring needs one: see `nvidia-smi`; without one, `--plan --capability 9.0` "
    "lists what would be measured"
)


@dataclass(frozen=True, slots=True)
class Identity:
    """One case of a side. ``code``: the fingerprint of its machine code, None where it does not build.

    ``operation`` names what the device or a library does instead, ``library`` which one and its version, None where
    nothing says that; ``contract`` is a digest of the rest (launch, arguments, inputs, work, tolerance, the
    reference's outputs on the edge-size problems), empty where the side does not describe the case.
    """

    code: str | None
    contract: str
    operation: str | None = None
    library: str | None = None

    @property
    def described(self) -> bool:
        """Whether the side describes it so that it could be run."""
        return bool(self.contract)

    @property
    def builds(self) -> bool:
        """Whether there is something to run."""
        return self.code is not None or self.operation is not None

    def surely_equals(self, other: Identity) -> bool:
        """Whether the two cannot differ; False where neither machine code nor a library's version says what runs.

        Both sides of an `ab` run on one driver and in one environment, and Peakgate makes the libraries' calls.
        """
        return (self.operation is None or self.library is not None) and self == other


Code = Mapping[str, Identity]
"""Every case of a side by its id."""


def read_codes(
    folders: Sequence[Folder], tier: str, environments: Sequence[Mapping[str, str]], capability: str | None = None
) -> tuple[Code, Code]:
    """Both sides' cases, compiled at the same time for the GPU that is there, or for ``capability`` (``9.0``).

    SideBroken when a side's cannot be had, PeakgateError when there is no GPU to build for.
    """
    with ThreadPoolExecutor(max_workers=2) as pool:
        base, head = pool.map(partial(read_code, tier, capability), Side, folders, environments)
    return base, head


def read_code(
    tier: str, capability: str | None, which: str, folder: Folder, environment: Mapping[str, str], *, case: str = ""
) -> Code:
    """One side's cases, or one case of it; a SideBroken names the side ``which``."""
    command = [sys.executable, "-P", "-m", f"{process.HARNESS}.run.identity", "--tier", tier]
    if capability is not None:
        command += ["--capability", capability]
    if case:
        command += ["--case", case]
    done = subprocess.run(command, cwd=folder.path, env=environment, capture_output=True, text=True, check=False)
    said = last_words(done.stderr)
    if done.returncode != 0 and said.startswith(NO_GPU):
        raise PeakgateError(NO_GPU_HERE)
    if done.returncode != 0:
        raise SideBroken(which, f"its cases cannot be listed (exit {done.returncode}): {said}")
    return _parsed(which, done.stdout)


def _parsed(which: str, output: str) -> Code:
    try:
        return records.decode(output.encode(), dict[str, Identity], Path("its list of cases"), "see its families")
    except records.RecordError:
        raise SideBroken(which, f"its cases cannot be listed: {last_words(output)}") from None
