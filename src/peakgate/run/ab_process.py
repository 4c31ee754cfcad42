"""The processes of an A/B: what each is to do, its turn on the GPU, and whether it ran its side's own Python.

Each process starts ahead and waits for the GPU token before it touches the GPU. So one process alone has a context
there, as if each began when the one before had ended, while imports, pytest's start and the writing of run files take
place beside the measuring of another process. An editable install gives both sides of a comparison the same modules:
one of the project's that came from elsewhere is not its side's code.
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
from peakgate.base.errors import Code, PeakgateError
from peakgate.base.files import write_whole
from peakgate.run.request import Mode

AB_VARIABLE = "PEAKGATE_AB_ASKED"
"""What a command of ours that runs ``peakgate ab`` asks of it besides its options, as JSON of ``ab.command.Asked``."""

MODE_VARIABLE = "PEAKGATE_AB"
"""Names the mode of a run of an A/B, which watches its processes itself: such a run has no supervisor."""

TOKEN_VARIABLE = "PEAKGATE_AB_TURN"
"""Two file descriptors of the GPU token: its grant is read from one, its release written to the other. Unset where this
process need not wait."""

LONGEST_WORD = 1 << 12
"""Bytes of a release: written, and read, at once."""

GO, END = b".", b"e"
"""What a grant says: measure, what was asked for or further pairs; or leave the GPU."""

LOOK = b"look"
"""What a process says that waits for a grant again, its ``LOOK_FILES`` written."""

FOREIGN_FILE = "foreign.json"
"""In a run's output folder: name and file of each foreign module."""

LOOK_FILES = "look_own.json", "look_other.json"
"""In a run's output folder: run files of what it has sampled in turns so far, its own builds and the others."""

_HARNESS = {"peakgate", "peakgate_emulator"}
_SUFFIXES = (".py", ".so", ".pyd")


class OtherBuilds(Struct, frozen=True):
    """Builds that a process samples in turns with its cases: their fingerprints by case id, and for how many pairs.

    ``folder`` is the tree that they were built from, whose commit their run files name. An operation of the device has
    an empty fingerprint. With ``looks`` the process shows what it found before it leaves the GPU, and reads again what
    further pairs are wanted of which cases, until none are.
    """

    pairs: int = 1
    fingerprints: Mapping[str, str] = MappingProxyType({})
    folder: str = ""
    looks: bool = False


def mode_of_environment() -> Mode:
    """The mode in the environment variable that `peakgate ab` sets, else WHOLE; read once, at a process's start."""
    named = os.environ.get(MODE_VARIABLE)
    if named is None:
        return Mode.WHOLE
    if named not in (Mode.PROOF, Mode.PAIR):
        raise PeakgateError(
            f"{MODE_VARIABLE}={named}: expected {Mode.PROOF} or {Mode.PAIR}; `peakgate ab` sets it", Code.OPTION
        )
    return Mode(named)


@dataclass(frozen=True, slots=True)
class GpuToken:
    """This process's end of the GPU token; without descriptors it need not wait."""

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
        """Wait for the grant. The pipe ends with the process that would write it; this process ends then too."""
        if self.grant is not None:
            self._granted(self.grant)

    def further(self) -> bool:
        """Ask for a look at what was measured, and wait for the answer: whether further pairs are wanted."""
        if self.grant is None or self.released is None:
            return False
        os.write(self.released, LOOK)
        return self._granted(self.grant) == GO

    @staticmethod
    def _granted(grant: int) -> bytes:
        return os.read(grant, 1) or os._exit(os.EX_UNAVAILABLE)

    def release(self, steps_s: Mapping[str, float]) -> None:
        """Report that this process has left the GPU, and how long each of its steps took there."""
        if self.released is not None:
            os.write(self.released, json.dumps(dict(steps_s)).encode())


def foreign_modules(modules: Mapping[str, ModuleType], project: Project) -> dict[str, str]:
    """The imported modules that the project has itself but whose file is outside it, by name.

    The project's are the packages and modules at its root, in its ``src`` and in the folders of its ``pythonpath``.
    Its worktree counts as inside, so that projects of one repository may share code.
    """
    own = set(_own_names(project)) - _HARNESS - {"conftest"} - sys.stdlib_module_names
    inside = _worktree(project.root.resolve())
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


def _worktree(root: Path) -> Path:
    """The nearest folder upwards that holds a .git, or the root itself."""
    return next((folder for folder in (root, *root.parents) if (folder / ".git").exists()), root)


def report_foreign_modules(project: Project, out: Path) -> None:
    """Write the foreign modules of this process into its output folder, where there are any."""
    if found := foreign_modules(sys.modules, project):
        write_whole(out / FOREIGN_FILE, json.dumps(found, indent=1))
