"""What a bisect goes through: commits of the repository, or versions of one package at one commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from peakgate.core.files import scratch_folder
from peakgate.reports.ab.environments import SideEnvironment, made
from peakgate.reports.ab.folders import SideFolder, Wanted, placed

SHORT_HASH = 12
_HASH = 40

PointFolder = Callable[[str], AbstractContextManager[SideFolder]]
"""A point as a folder with an environment, for the length of a block."""


def short(point: str) -> str:
    """A commit's first digits, a version as it is."""
    return point[:SHORT_HASH] if len(point) == _HASH else point


def at_commit(commit: str) -> AbstractContextManager[SideFolder]:
    """A commit of the repository in the environment that Peakgate runs in."""
    return placed(short(commit), Wanted(commit))


@dataclass
class AtVersion:
    """One commit with each of the versions of a package, which uv installs once into ``folder``."""

    package: str
    folder: Path
    _made: dict[str, SideEnvironment] = field(default_factory=dict)

    @contextmanager
    def __call__(self, version: str) -> Iterator[SideFolder]:
        """HEAD in an environment with this version."""
        if version not in self._made:
            requirement = self.folder / f"{version}.txt"
            requirement.write_text(f"{self.package}=={version}\n", encoding="utf-8")
            self._made[version] = made(f"{self.package} {version}", str(requirement), self.folder / version)
        with placed(version, Wanted("HEAD")) as side:
            label = f"{self.package} {version}"
            yield replace(side, label=label, environment=replace(self._made[version], label=label))


@contextmanager
def points(package: str) -> Iterator[PointFolder]:
    """Where each point of a bisect is: of versions where a package is named, of commits otherwise."""
    if not package:
        yield at_commit
        return
    with scratch_folder("versions") as folder:
        yield AtVersion(package, folder)
