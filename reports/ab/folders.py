"""The two commits as folders: git worktrees in a temporary place, or folders that are there; and their builds."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from peakgate.core import config
from peakgate.core.errors import Code, PeakgateError
from peakgate.core.files import read_text, scratch_folder
from peakgate.core.git import ask
from peakgate.core.processes import end_group, last_words_in
from peakgate.core.text import Progress
from peakgate.reports.ab.environments import SideEnvironment
from peakgate.reports.ab.process import SideBroken

WORKING_TREE = "."
KERNEL_SUFFIXES = (".cu", ".cuh", ".h", ".hpp", ".md")
"""Of files that no function of a family reads."""

_ONE_AT_A_TIME = threading.Lock()
"""For git's list of worktrees: `bisect` builds several commits at once, and an addition that meets another, or a prune,
may fail, which would look like a commit that does not build."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A side as it was asked for: a commit's name, ``.`` for the working tree, or a folder taken as it is."""

    name: str
    folder: bool = False


@dataclass(frozen=True, slots=True)
class SideFolder:
    """A side as files: where they are and the commit they are from, None where git does not know it.

    ``environment`` has its packages where they are not those that Peakgate runs with.
    """

    label: str
    path: Path
    commit: str | None
    environment: SideEnvironment | None = None

    @property
    def python(self) -> str:
        """The Python that runs the side."""
        return self.environment.python if self.environment else sys.executable


@contextmanager
def folders(base: Wanted, head: Wanted) -> Iterator[tuple[SideFolder, SideFolder]]:
    """Both sides as folders for the length of the block; worktrees are removed after it, whatever happens in it.

    A PeakgateError names a commit or folder that does not exist.
    """
    with placed("base", base) as before, placed("head", head) as after:
        yield before, after


def in_environments(
    placed: tuple[SideFolder, SideFolder], environments: Sequence[SideEnvironment]
) -> tuple[SideFolder, SideFolder]:
    """Both sides, each in its environment; as they are where there is none."""
    if not environments:
        return placed
    base, head = (
        replace(side, label=f"{side.label} in {environment.label}", environment=environment)
        for side, environment in zip(placed, environments, strict=True)
    )
    return base, head


@contextmanager
def placed(side: str, wanted: Wanted) -> Iterator[SideFolder]:
    """One side as a folder, as ``folders`` makes it; a worktree is in a folder named ``side``."""
    there = resolve(wanted)
    if isinstance(there, SideFolder):
        yield there
        return
    with (
        scratch_folder("ab") as scratch,
        worktree(there, scratch / side, Path.cwd()) as path,
    ):
        yield SideFolder(wanted.name, _there(path / _project_inside(), wanted.name), there)


@contextmanager
def worktree(commit: str, path: Path, repository: Path) -> Iterator[Path]:
    """A commit of a repository as files in the new folder ``path``, which the repository forgets after the block."""
    at = ("-C", str(repository))
    try:
        with _ONE_AT_A_TIME:
            git(*at, "worktree", "add", "--detach", "--quiet", str(path), commit)
        _complete(path)
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        with _ONE_AT_A_TIME:
            git(*at, "worktree", "prune")


def differ_in_kernels_alone(base: SideFolder, head: SideFolder) -> bool:
    """Whether two sides differ in no file but sources of kernels, as far as git knows; False for other folders.

    What a project's own build makes of such sources may be what its functions call.
    """
    if base.commit is None or head.commit is None or any(_builds(side.path) for side in (base, head)):
        return False
    at = ("-C", str(head.path))
    try:
        listed = git(*at, "diff", "--name-only", "--no-renames", "-z", base.commit, "--")
        listed += git(*at, "ls-files", "--others", "--exclude-standard", "-z")
        clean = not git("-C", str(base.path), "status", "--porcelain")
    except PeakgateError:
        return False
    return clean and all(name.endswith(KERNEL_SUFFIXES) for name in listed.split("\0") if name)


def _builds(folder: Path) -> bool:
    settings = config.settings_in(folder)
    return settings is not None and settings.build is not None


def resolve(wanted: Wanted) -> SideFolder | str:
    """The side's folder, or the commit a worktree has to be made of; PeakgateError where there is none."""
    if wanted.folder:
        path = Path(wanted.name)
        if not path.is_dir() or config.find(path.resolve()) is None:
            raise PeakgateError(
                f"{wanted.name}: no folder of a project; give the root of a checked-out tree", Code.PROJECT
            )
        return SideFolder(wanted.name, path.resolve(), None)
    if wanted.name == WORKING_TREE:
        root = Path(git("rev-parse", "--show-toplevel")) / _project_inside()
        return SideFolder("working tree", root.resolve(), git("rev-parse", "--verify", "--quiet", "HEAD"))
    try:
        return git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{wanted.name}^{{commit}}")
    except PeakgateError:
        git("rev-parse", "--git-dir")  # outside a repository, that is what is wrong
        raise PeakgateError(
            f"{wanted.name}: no such commit in this repository; name one `git log` knows, fetch it first, "
            f"or give `{WORKING_TREE}` for the working tree",
            Code.COMMIT,
        ) from None


def _project_inside() -> Path:
    """Where in its repository the project of the working directory is: a repository may hold several."""
    root = Path(git("rev-parse", "--show-toplevel")).resolve()
    project = config.find(Path.cwd().resolve())
    return project.root.relative_to(root) if project is not None and project.root.is_relative_to(root) else Path()


def _there(path: Path, name: str) -> Path:
    if not path.is_dir():
        raise PeakgateError(
            f"{name}: has no folder {path.name} of this project; name a commit that has it", Code.PROJECT
        )
    return path


def _complete(worktree: Path) -> None:
    """Fetch what a checkout leaves out: submodules, and the files that Git LFS keeps, where it is installed."""
    at = ("-C", str(worktree))
    if (worktree / ".gitmodules").is_file():
        allowed = ("-c", "protocol.file.allow=always")  # a submodule's address may be a folder of this machine
        git(*at, *allowed, "submodule", "--quiet", "update", "--init", "--recursive")
    listed = git(*at, "ls-files", "--", ".gitattributes", "*/.gitattributes").splitlines()
    attributes = (worktree / name for name in listed)
    if shutil.which("git-lfs") and any("filter=lfs" in read_text(file) for file in attributes):
        git(*at, "lfs", "pull")


def git(*arguments: str) -> str:
    """Run git here and return what it prints; a PeakgateError quotes git's own message."""
    try:
        return ask(Path(), *arguments).decode("utf-8", "replace").strip()
    except PeakgateError as error:
        raise PeakgateError(f"{error.message}; run it in a git repository, or give two folders", error.code) from None


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
        said = last_words_in(log)
        raise SideBroken(which, f"its build `{project.build}` exits {code}: {said} (all of it: {log})")
