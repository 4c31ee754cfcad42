"""The project's own build, in its folder and within its time."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from peakgate.common.processes import end_group
from peakgate.common.progress import Progress
from peakgate.project import config
from peakgate.reports.ab.process import SideBroken, last_words

SCRATCH = ".peakgate/tmp"
"""Where a build's temporary files go: inside its side."""


def build_side(
    which: str, folder: Path, environment: Mapping[str, str], log: Path, progress: Progress | None = None
) -> None:
    """Run the ``build`` command of the project in ``folder``, if it has one.

    All output goes to ``log``. SideBroken where the command fails, or does not end within ``build_timeout_s``: it and
    all it started are ended then.
    """
    project = config.find(folder)
    if project is None or project.build is None:
        return
    if progress:
        progress.show(f"building {which}: {project.build}")
    scratch = project.root / SCRATCH
    scratch.mkdir(parents=True, exist_ok=True)
    with log.open("w", encoding="utf-8") as output:
        process = subprocess.Popen(  # noqa: S602  (a command line of the project's own settings)
            project.build,
            shell=True,
            cwd=project.root,
            env=dict(environment) | {"TMPDIR": str(scratch)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait(project.build_timeout_s)
        except subprocess.TimeoutExpired:
            limit = f"build_timeout_s of {project.build_timeout_s:g} s"
            raise SideBroken(
                which, f"its build `{project.build}` did not end within {limit} (all of it: {log})"
            ) from None
        finally:
            end_group(process)
    if code != 0:
        said = last_words(log.read_text(encoding="utf-8", errors="replace"))
        raise SideBroken(which, f"its build `{project.build}` exits {code}: {said} (all of it: {log})")
