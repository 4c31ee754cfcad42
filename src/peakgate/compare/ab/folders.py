"""The two sides as folders, each with the Python environment that its processes run in.

A side is a temporary git worktree or an existing folder. Its environment is the one that Peakgate runs in, or a
temporary one with the packages of a lock file, of wheels or of an existing environment, and symbolic links to those of
Peakgate's own packages that it lacks. Both sides are always measured by the running Peakgate.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from msgspec import Struct

from peakgate.base import config, records
from peakgate.base.errors import Code, PeakgateError
from peakgate.base.files import read_text, remove_tree, scratch_folder
from peakgate.base.git import UNVERSIONED, ask, commit_info
from peakgate.base.processes import end_of, run_in_group

WORKING_TREE = "."

INSTALL_LIMIT_S = 1800
LAST_LINES = 4  # lines of the installer's output that an error quotes

# Entries of site-packages that belong to Peakgate.
_OURS = re.compile(r"peakgate(_emulator|-\d.*)?|__editable__.*peakgate.*")

_SITE = Path("lib", f"python{sys.version_info.major}.{sys.version_info.minor}", "site-packages")
_PACKAGES = (
    "import importlib.metadata as m, json; found = [(d.name, d.version) for d in m.distributions()]; "
    "print(json.dumps(dict(reversed(found))))"  # of several versions, the first is imported
)

# The file lists the folders that the links lead to, so that a sandbox exposes them too.
_ORIGINS = "peakgate-origins.pth"

_FORMS = "expected an environment, a folder of wheels, or a file of requirements or pylock.toml"
_SAME_PYTHON = f"expected an environment of Python {sys.version_info.major}.{sys.version_info.minor}, like Peakgate's"


@dataclass(frozen=True, slots=True)
class SideEnvironment:
    """The environment of a side: the label the user gave it, its Python, and the version of each package."""

    label: str
    python: str
    packages: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Wanted:
    """A side as the user named it: a commit, ``.`` for the working tree, or a folder used as it is."""

    name: str
    folder: bool = False


class SideLabel(Struct, frozen=True):
    """A side as it was measured: its commit, None if git does not know it, and whether tracked files differ from it."""

    label: str
    commit: str | None
    dirty: bool = False


@dataclass(frozen=True, slots=True)
class SideFolder:
    """A side's folder and its commit, None if git does not know it.

    ``environment`` is None if the side runs in Peakgate's own.
    """

    label: str
    path: Path
    commit: str | None
    environment: SideEnvironment | None = None

    def described(self) -> SideLabel:
        """The side as git reports it now, after its build, as in its run files."""
        found = commit_info(self.path)
        return SideLabel(self.label, None if found["id"] == UNVERSIONED else found["id"], found["dirty"])

    @property
    def python(self) -> str:
        """The Python that runs the side."""
        return self.environment.python if self.environment else sys.executable


@contextmanager
def folders(base: Wanted, head: Wanted) -> Iterator[tuple[SideFolder, SideFolder]]:
    """Both sides as folders inside a ``with`` block, which removes worktrees at its end.

    A PeakgateError names a commit or folder that does not exist.
    """
    with placed("base", base) as before, placed("head", head) as after:
        yield before, after


def in_environments(
    placed: tuple[SideFolder, SideFolder], environments: Sequence[SideEnvironment]
) -> tuple[SideFolder, SideFolder]:
    """Both sides, each in its environment; unchanged if ``environments`` is empty."""
    if not environments:
        return placed
    base, head = (
        replace(side, label=f"{side.label} in {environment.label}", environment=environment)
        for side, environment in zip(placed, environments, strict=True)
    )
    return base, head


@contextmanager
def placed(side: str, wanted: Wanted) -> Iterator[SideFolder]:
    """One side as a folder, like ``folders``; the folder of a worktree is named ``side``."""
    there = resolve(wanted)
    if isinstance(there, SideFolder):
        yield there
        return
    with (
        scratch_folder("ab") as scratch,
        worktree(there, scratch / side, Path.cwd()) as path,
    ):
        project = path / _project_inside()
        if not project.is_dir():
            name = wanted.name
            raise PeakgateError(
                f"{name}: this project's folder {project.name} is not in it; name a commit that has it", Code.PROJECT
            )
        yield SideFolder(wanted.name, project, there)


@contextmanager
def worktree(commit: str, path: Path, repository: Path) -> Iterator[Path]:
    """A temporary worktree of a commit in the new folder ``path``."""
    at = ("-C", str(repository))
    try:
        git(*at, "worktree", "add", "--detach", "--quiet", str(path), commit)
        # A checkout leaves out submodules, and files in Git LFS.
        inside = ("-C", str(path))
        if (path / ".gitmodules").is_file():
            allowed = ("-c", "protocol.file.allow=always")  # a submodule's URL may be a local folder
            git(*inside, *allowed, "submodule", "--quiet", "update", "--init", "--recursive")
        listed = git(*inside, "ls-files", "--", ".gitattributes", "*/.gitattributes").splitlines()
        if shutil.which("git-lfs") and any("filter=lfs" in read_text(path / name) for name in listed):
            git(*inside, "lfs", "pull")
        yield path
    finally:
        remove_tree(path)
        git(*at, "worktree", "prune")


def resolve(wanted: Wanted) -> SideFolder | str:
    """The side's folder, or the commit to make a worktree of; PeakgateError if it does not exist."""
    if wanted.folder:
        path = Path(wanted.name)
        if not path.is_dir() or config.find(path.resolve()) is None:
            raise PeakgateError(
                f"{wanted.name}: not a project's folder; give the root of a checked-out tree", Code.PROJECT
            )
        return SideFolder(wanted.name, path.resolve(), None)
    if wanted.name == WORKING_TREE:
        _refuse_without_commits(wanted.name)
        root = Path(git("rev-parse", "--show-toplevel")) / _project_inside()
        return SideFolder("working tree", root.resolve(), git("rev-parse", "--verify", "--quiet", "HEAD"))
    try:
        return git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{wanted.name}^{{commit}}")
    except PeakgateError:
        git("rev-parse", "--git-dir")  # raises outside a repository
        _refuse_without_commits(wanted.name)
        raise PeakgateError(
            f"{wanted.name!r}: no such commit in this repository; name one `git log` knows, fetch it first, "
            f"or give `{WORKING_TREE}` for the working tree",
            Code.COMMIT,
        ) from None


def _refuse_without_commits(name: str) -> None:
    if not git("rev-list", "--all", "--max-count=1"):
        raise PeakgateError(f"{name!r}: this repository has no commit yet; commit first", Code.COMMIT)


def _project_inside() -> Path:
    """The path of the current project in its repository, which may hold several."""
    root = Path(git("rev-parse", "--show-toplevel")).resolve()
    project = config.find(Path.cwd().resolve())
    return project.root.relative_to(root) if project is not None and project.root.is_relative_to(root) else Path()


def git(*arguments: str) -> str:
    """Run git in the working directory and return its output; a PeakgateError quotes git's message."""
    try:
        return ask(Path(), *arguments).decode("utf-8", "replace").strip()
    except PeakgateError as error:
        raise PeakgateError(f"{error.message}; run it in a git repository, or give two folders", error.code) from None


def made(asked_by: str, given: str, folder: Path) -> SideEnvironment:
    """Make an environment with the packages of ``given`` in ``folder``, which must not exist.

    ``given`` is an environment's folder, a folder of wheels, or a file that uv installs: requirements or pylock.toml. A
    PeakgateError starts with ``asked_by`` and quotes the installer's last lines.
    """
    asked = Path(given).resolve()
    site = folder / _SITE
    origins: list[Path] = []
    venv.EnvBuilder(symlinks=True).create(folder)
    python = folder / "bin" / "python"
    if (asked / "pyvenv.cfg").is_file():
        if not (asked / _SITE).is_dir():
            raise PeakgateError(f"{asked_by}: no {_SITE} in it; {_SAME_PYTHON}", Code.ENVIRONMENT)
        origins.append(asked / _SITE)
    elif asked.is_dir():
        wheels = sorted(map(str, asked.glob("*.whl")))
        if not wheels:
            raise PeakgateError(f"{asked_by}: no pyvenv.cfg and no wheel in it; {_FORMS}", Code.ENVIRONMENT)
        _install(asked_by, python, ["--no-index", "--no-deps", *wheels], folder)
    elif asked.is_file():
        _install(asked_by, python, ["--requirements", str(asked)], folder)
    else:
        raise PeakgateError(f"{asked_by}: not found; {_FORMS}", Code.ENVIRONMENT)
    for origin in origins:
        _link(origin, site)
    for path in list(site.iterdir()):
        if _OURS.fullmatch(path.name):
            remove_tree(path)
    for origin in _own_sites():
        _link(origin, site)
    origins += _own_sites()
    (site / _ORIGINS).write_text("".join(f"{origin}\n" for origin in origins), encoding="utf-8")
    return SideEnvironment(given, str(python), _packages(asked_by, python))


def usual() -> SideEnvironment:
    """The environment that Peakgate runs in, for a side without one of its own."""
    return SideEnvironment("this environment", sys.executable, _packages("this environment", Path(sys.executable)))


def differing(base: SideEnvironment, head: SideEnvironment) -> list[str]:
    """The packages that differ, such as ``numpy 2.3.1 to 2.4.0``; ``none`` stands for a missing one."""
    names = sorted({*base.packages, *head.packages})
    versions = [(name, base.packages.get(name, "none"), head.packages.get(name, "none")) for name in names]
    return [f"{name} {before} to {after}" for name, before, after in versions if before != after]


def _install(asked_by: str, python: Path, arguments: Sequence[str], folder: Path) -> None:
    uv = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    if uv is None:
        raise PeakgateError("uv, which installs environments, was not found: pip install uv", Code.INSTALLATION)
    log = folder / "install.log"
    command = [uv, "pip", "install", "--python", str(python), "--no-progress", *arguments]
    with log.open("wb") as output:
        code = run_in_group(command, INSTALL_LIMIT_S, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    if code != 0:
        lines = [line.strip() for line in end_of(log).splitlines() if line.strip()]
        ended = f"exits {code}" if code is not None else f"did not end within {INSTALL_LIMIT_S} s"
        raise PeakgateError(f"{asked_by}: uv {ended}: {' / '.join(lines[-LAST_LINES:])}", Code.ENVIRONMENT)


def _own_sites() -> list[Path]:
    """The site-packages folders on ``sys.path``, in order."""
    paths = [Path(entry).resolve() for entry in sys.path if entry.endswith(("site-packages", "dist-packages"))]
    return [path for path in dict.fromkeys(paths) if path.is_dir()]


def _link(origin: Path, target: Path) -> None:
    """Link the packages of ``origin`` that ``target`` lacks."""
    have = {_name(path) for path in target.glob("*.dist-info")}
    for path in origin.iterdir():
        known = path.suffix == ".dist-info" and _name(path) in have
        if not known and path.name not in ("__pycache__", _ORIGINS):
            _link_entry(path, target / path.name)


def _link_entry(origin: Path, target: Path) -> None:
    """Link one entry; namespace packages shared by distributions, such as ``nvidia``, are merged."""
    if not (target.exists() or target.is_symlink()):
        target.symlink_to(origin)
    elif origin.is_dir() and target.is_dir() and not (target / "__init__.py").exists():
        if target.is_symlink():
            known = target.resolve()
            if known == origin:
                return
            target.unlink()
            target.mkdir()
            for path in known.iterdir():
                _link_entry(path, target / path.name)
        for path in origin.iterdir():
            _link_entry(path, target / path.name)


def _name(metadata: Path) -> str:
    """The normalized name of a distribution, from its ``.dist-info`` folder."""
    return re.sub(r"[-_.]+", "-", metadata.name.split("-")[0]).lower()


def _packages(asked_by: str, python: Path) -> dict[str, str]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([str(python), "-P", "-c", _PACKAGES], capture_output=True, check=False, env=environment)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise PeakgateError(f"{asked_by}: its Python fails: {''.join(said)}", Code.ENVIRONMENT)
    found = records.decode(done.stdout, dict[str, str], Path(asked_by), "install it again")
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in found.items()}
