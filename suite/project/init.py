"""``peakgate init``: make a repository a project, with an example of a kernel. Asks nothing, overwrites nothing."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from peakgate.common.errors import PeakgateError
from peakgate.common.files import write_whole
from peakgate.project import config
from peakgate.verdict import ExitCode

TEMPLATES = Path(__file__).with_name("templates")
EXAMPLE = ("kernels/scale/family.py", "kernels/scale/scale.cu")
SETTINGS = """[tool.peakgate]
kernels = "kernels"      # a folder per family
baselines = "baselines"  # floors and reference runs
"""
IGNORED = (".peakgate/", ".benchmarks/")


def main(verb: str, arguments: Sequence[str]) -> int:  # noqa: ARG001  (one verb)
    """Write what is missing, say what was written and what comes next."""
    parser = argparse.ArgumentParser(
        prog="peakgate init",
        description="Make the working directory a project: [tool.peakgate] in its pyproject.toml, and one kernel with "
        "its family.py as an example where there are no kernels yet. Nothing that is there is overwritten.",
    )
    parser.parse_args(arguments)
    root = Path.cwd()
    above = config.find(root)
    if above is not None and above.root != root:
        raise PeakgateError(
            f"{root}: is inside the project {above.root}; run `peakgate init` in a repository of its own"
        )
    written = [*_settings(root, above), *_ignored(root), *_example(root)]
    for path in written:
        print(f"written: {path}")  # noqa: T201
    print("next: peakgate bench" if written else "nothing to write: this is a project already; next: peakgate bench")  # noqa: T201
    return ExitCode.OK


def _settings(root: Path, present: config.Project | None) -> list[str]:
    if present is not None:
        return []
    path = root / config.PYPROJECT
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    write_whole(path, before + ("\n" if before and not before.endswith("\n\n") else "") + SETTINGS)
    return [config.PYPROJECT]


def _ignored(root: Path) -> list[str]:
    path = root / ".gitignore"
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    missing = [line for line in IGNORED if line not in before.splitlines()]
    if not missing:
        return []
    write_whole(path, before + ("\n" if before and not before.endswith("\n") else "") + "\n".join(missing) + "\n")
    return [path.name]


def _example(root: Path) -> list[str]:
    if config.current().kernels.exists():
        return []
    for name in EXAMPLE:
        write_whole(root / name, (TEMPLATES / Path(name).name).read_text(encoding="utf-8"))
    return list(EXAMPLE)
