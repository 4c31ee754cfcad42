"""A process of an A/B: the GPU token, and a check that it imported its own side's Python modules.

Each process starts early and waits for the GPU token before it uses the GPU. So only one process at a time has a CUDA
context, while others import, start pytest or write run files meanwhile. With an editable install both sides of a
comparison may import the same modules: a module of the project whose file is outside its tree is foreign.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, ModuleType

from msgspec import Struct

from peakgate.base.config import Project
from peakgate.base.files import write_whole

AB_VARIABLE = "PEAKGATE_AB_ASKED"
"""What our commands ask of the ``peakgate ab`` that they run besides options, JSON of ``ab.command.AskedOfAb``."""

TOKEN_VARIABLE = "PEAKGATE_AB_TURN"
"""Two file descriptors of the GPU token: grants are read from one, requests and the release written to the other.
Unset if this process need not wait."""

LONGEST_WORD = 1 << 12
"""Bytes of a release at most, written and read in one call."""

GO, END = b".", b"e"
"""A grant: measure (the cases, or further pairs), or leave the GPU."""

LOOK = b"look"
"""Request for an interim analysis: the process has written its ``LOOK_FILES`` and waits for a grant."""

FOREIGN_FILE = "foreign.json"
"""In a run's output folder: name and file of each foreign module."""

LOOK_FILES = "look_own.json", "look_other.json"
"""In a run's output folder: run files of what it has sampled so far, of its own builds and of the others."""

_HARNESS = {"peakgate", "peakgate_emulator"}
_SUFFIXES = (".py", ".so", ".pyd")


class OtherBuilds(Struct, frozen=True):
    """Builds that a process samples interleaved with its cases: fingerprints by case id, and the number of pairs.

    ``folder`` is the tree that they were built from, whose commit their run files name. A library call has an empty
    fingerprint. With ``looks`` the process requests an interim analysis before it leaves the GPU, and measures the
    further pairs that this record then names, until there are none.
    """

    pairs: int = 1
    fingerprints: Mapping[str, str] = MappingProxyType({})
    folder: str = ""
    looks: bool = False


@dataclass(frozen=True, slots=True)
class GpuToken:
    """This process's end of the GPU token; without descriptors it does not wait."""

    grant: int | None = None
    released: int | None = None

    @staticmethod
    def of_environment() -> GpuToken:
        named = os.environ.get(TOKEN_VARIABLE)
        if not named:
            return GpuToken()
        grant, released = (int(number) for number in named.split(","))
        for descriptor in (grant, released):
            os.set_inheritable(descriptor, False)  # a child must not keep the token
        return GpuToken(grant, released)

    @property
    def needed(self) -> bool:
        """Whether this process waits for another to leave the GPU."""
        return self.grant is not None

    def wait(self) -> None:
        """Wait for the grant. If `peakgate ab` has ended, so does this process."""
        if self.grant is not None:
            self._granted(self.grant)

    def further(self) -> bool:
        """Request an interim analysis and wait for its result: whether to measure further pairs."""
        if self.grant is None or self.released is None:
            return False
        os.write(self.released, LOOK)
        return self._granted(self.grant) == GO

    @staticmethod
    def _granted(grant: int) -> bytes:
        return os.read(grant, 1) or os._exit(os.EX_UNAVAILABLE)

    def release(self, steps_s: Mapping[str, float]) -> None:
        """Report that this process has left the GPU, and the seconds that each of its steps took."""
        if self.released is not None:
            os.write(self.released, json.dumps(dict(steps_s)).encode())


def foreign_modules(modules: Mapping[str, ModuleType], project: Project) -> dict[str, str]:
    """Imported modules with the name of one of the project's, but from a file outside its worktree: name to file.

    The project's modules are those at its root, in its ``src`` and in the folders of its ``pythonpath``.
    """
    own = set(_own_names(project)) - _HARNESS - {"conftest"} - sys.stdlib_module_names
    root = project.root.resolve()
    inside = next((folder for folder in (root, *root.parents) if (folder / ".git").exists()), root)
    found = {}
    for name, module in sorted(modules.items()):
        file = getattr(module, "__file__", None)
        if name.partition(".")[0] in own and file and not Path(file).resolve().is_relative_to(inside):
            found[name] = str(file)
    return found


def _own_names(project: Project) -> Iterator[str]:
    for folder in {project.root, project.root / "src", *project.pythonpath}:
        for path in folder.iterdir() if folder.is_dir() else ():
            if path.suffix in _SUFFIXES or (path / "__init__.py").is_file():
                yield path.name.partition(".")[0]
            elif folder in project.pythonpath and path.is_dir() and next(path.glob("*.py"), None) is not None:
                yield path.name  # a namespace package


def report_foreign_modules(project: Project, out: Path) -> None:
    """Write the foreign modules of this process, if any, into its output folder."""
    if found := foreign_modules(sys.modules, project):
        write_whole(out / FOREIGN_FILE, json.dumps(found, indent=1))
