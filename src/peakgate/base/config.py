"""The settings of a project: ``[tool.peakgate]`` of its pyproject.toml, or the top level of its peakgate.toml.

::

    [tool.peakgate]
    kernels = "kernels"            # a folder per family, each with a family.py
    benchmarks = ["benchmarks"]    # pytest files or folders that use the fixture gpu_benchmark
    baselines = "baselines"        # <gpu>/floors.toml, runs/, acknowledged.toml
    out = ".peakgate/out"          # verdicts and reports
    include = ["include"]          # folders for #include, of every kernel
    options = ["--use_fast_math"]  # of the compiler, for every kernel
    pythonpath = ["src"]           # folders from which families and benchmark tests import
    plugins = ["my_plugin"]        # pytest plug-ins that the benchmark tests need
    build = "make -j"              # builds the project's own code, once per side of an A/B
    build_timeout_s = 600
    compile_timeout_s = 120        # of processor time, for one kernel, of either compiler
    emulation_timeout_s = 60       # of processor time, for one emulated launch; more beyond 65536 threads
    fail_nonfinite = false         # true: a kernel whose outputs hold NaN or infinity is wrong, in `bench` and `check`
    launch_timeout_s = 10          # for one launch on a GPU; by default derived from its work, the peak and its floor
    sanitizer_timeout_s = 900      # for one tool of compute-sanitizer
    commit_url = "https://HOST/PROJECT/commit/{}"  # the address of a commit, for links of pages
    requires = ">=0.2"             # which versions of Peakgate can read and run this project

Every key is optional. The defaults are as above, except that lists are empty, and ``build``, ``requires``,
``launch_timeout_s`` and ``commit_url`` are not set.
"""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Generic, TypeVar

from msgspec import Meta, Struct, field

from peakgate.base import git, records
from peakgate.base.errors import Code, PeakgateError
from peakgate.base.files import CACHE_VARIABLE, CUPY_VARIABLE, PACKAGE, cache_folder, cupy_cache

Of = TypeVar("Of")

PYPROJECT, OWN_FILE = "pyproject.toml", "peakgate.toml"
RUNS, CACHE = ".benchmarks", ".cache"
SETTINGS_VARIABLE = "PEAKGATE_SETTINGS"
"""The path of a settings file that replaces the project's own, so that a change cannot choose its settings."""
BASE_VARIABLE = "PEAKGATE_BASE_TREE"
"""The path of the project in the base's tree, for a process that judges a change and imports none of its Python."""

FolderName = Annotated[str, Meta(pattern=r"^[^\x00]+\Z", description="a folder, as text")]
Texts = Annotated[
    tuple[Annotated[str, Meta(pattern=r"^[^\x00]*\Z", description="a text without a NUL")], ...],
    Meta(description='a list of texts, ["..."]'),
]


Seconds = Annotated[float, Meta(gt=0, le=86_400, description="seconds, above 0 and up to 86400")]


class Requirement(Struct, frozen=True):
    """The setting that is read first, since this version may not know the others."""

    requires: Annotated[str, Meta(description='versions of peakgate, e.g. ">=0.2"')] | None = None


class PlainSettings(Requirement, frozen=True, kw_only=True):
    """The settings that name no folder."""

    options: Texts = ()
    plugins: Texts = ()
    build: Annotated[str, Meta(pattern=r"\S", description="a command, as text")] | None = None
    build_timeout_s: Seconds = 600.0
    compile_timeout_s: Seconds = 120.0
    emulation_timeout_s: Seconds = 60.0
    fail_nonfinite: bool = False
    launch_timeout_s: Seconds | None = None
    sanitizer_timeout_s: Seconds = 900.0
    commit_url: (
        Annotated[str, Meta(pattern=r"^https?://.*\{\}", description="an https:// address with {} in it")] | None
    ) = None


class ProjectSettings(PlainSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table ``[tool.peakgate]``, or ``peakgate.toml``."""

    kernels: FolderName | None = None
    benchmarks: Texts = ()
    baselines: FolderName = "baselines"
    out: FolderName = ".peakgate/out"
    include: Texts = ()
    pythonpath: Texts = ()


class _Tool(Struct, Generic[Of]):
    peakgate: Annotated[Of, Meta(description="a table, [tool.peakgate]")] | None = None


class _Pyproject(Struct, Generic[Of]):
    tool: Annotated[_Tool[Of], Meta(description="a table, [tool]")] = field(default_factory=_Tool)


class Project(PlainSettings, frozen=True, kw_only=True):
    """A project's root and settings; all paths are absolute.

    ``file`` is None without a settings file; ``named`` are the folders of kernels and benchmark tests that the settings
    name, each with its key.
    """

    root: Path
    file: Path | None
    kernels: Path
    benchmarks: tuple[Path, ...]
    baselines: Path
    out: Path
    include: tuple[Path, ...]
    pythonpath: tuple[Path, ...]
    named: tuple[tuple[str, Path], ...]

    @property
    def runs(self) -> Path:
        """The folder of saved runs, with a folder per GPU model: pytest-benchmark's storage."""
        return self.root / RUNS

    def extend_import_path(self) -> None:
        """Put the folders of ``pythonpath`` first on ``sys.path``, in their order, unless they are on it."""
        sys.path[:0] = [folder for folder in dict.fromkeys(map(str, self.pythonpath)) if folder not in sys.path]


_began_in: list[Path] = []
"""The working directory in which this process was started, if ``work_in`` has changed it."""


def here() -> Path:
    """The user's working directory, from which the project is found; ``work_in`` does not change it."""
    return _began_in[0] if _began_in else Path.cwd()


def work_in(base: Path) -> None:
    """Change the working directory to the base's project; ``here`` remains the folder of the judged project.

    So relative names refer to the base, also in libraries, threads and child processes. The cache is not moved.
    """
    os.environ[CACHE_VARIABLE], os.environ[CUPY_VARIABLE] = str(cache_folder()), str(cupy_cache().absolute())
    _began_in[:] = [here()]
    os.chdir(base)
    os.environ["PWD"] = str(base)


def near(path: Path) -> Path:
    """The path relative to ``here``, for messages; unchanged if it is elsewhere."""
    return path.relative_to(here()) if path.is_relative_to(here()) else path


def current() -> Project:
    """The project of the working directory; without one, the defaults with the working directory as the root."""
    return find(here()) or _project(here(), None, ProjectSettings())


def required() -> Project:
    """The project of the working directory; raises PeakgateError without one, or if a folder it names is missing."""
    project = find(here())
    if project is None:
        raise PeakgateError(
            f"{here()}: no project here or above: neither [tool.peakgate] in a {PYPROJECT} nor a {OWN_FILE}; "
            "`peakgate init` makes one",
            Code.PROJECT,
        )
    for key, path in project.named:
        if not path.exists():
            where = near(project.file) if project.file else project.root
            raise PeakgateError(
                f"{where}: {key} names {near(path)}, which does not exist; create it, or remove the setting",
                Code.SETTING,
            )
    return project


def find(start: Path) -> Project | None:
    """The project of a folder or its nearest parent; raises PeakgateError with file and line of a mistake."""
    for folder in (start, *start.parents):
        for name in (OWN_FILE, PYPROJECT):
            path = folder / name
            if path.is_file():
                stat = path.stat()
                project = _read(path, stat.st_mtime_ns, stat.st_size)
                if project is not None:
                    return project
    return None


@lru_cache(maxsize=16)
def _read(path: Path, mtime_ns: int, size: int) -> Project | None:  # noqa: ARG001  (they key the cache by content)
    settings = _settings(path)
    if settings is not None and (judges := os.environ.get(SETTINGS_VARIABLE)):
        settings = _settings(Path(judges))
    return None if settings is None else _project(path.parent, path, settings)


def settings_in(folder: Path) -> ProjectSettings | None:
    """The settings of the project with this root; None if it is not one. Raises PeakgateError as ``find`` does."""
    paths = [folder / name for name in (OWN_FILE, PYPROJECT) if (folder / name).is_file()]
    return next((settings for path in paths if (settings := _settings(path)) is not None), None)


def _settings(path: Path) -> ProjectSettings | None:
    remedy = "correct it; `peakgate help settings` lists the keys"
    if path.name == PYPROJECT:
        asked = records.read(path, _Pyproject[Requirement], remedy).tool.peakgate
        if asked is None:
            return None
        _check_version(path, asked.requires)
        return records.read(path, _Pyproject[ProjectSettings], remedy).tool.peakgate or ProjectSettings()
    _check_version(path, records.read(path, Requirement, remedy).requires)
    return records.read(path, ProjectSettings, remedy)


def _project(root: Path, path: Path | None, settings: ProjectSettings) -> Project:
    def folders(names: tuple[str, ...]) -> tuple[Path, ...]:
        return tuple(root / name for name in names)

    # A change could choose what is overwritten, or supply its own built kernels.
    outputs = (root / settings.out, root / RUNS, here() / CACHE)
    for place in (place for folder in outputs for place in (folder, *folder.parents)):
        if place != root and place.is_relative_to(root) and place.is_symlink() and _is_committed(root, place):
            raise PeakgateError(
                f"{near(place)}: a committed link in place of an output folder; remove it from the repository",
                Code.TAKEN,
            )
    if (cache := cache_folder()).is_dir() and _is_committed(cache, cache):
        raise PeakgateError(
            f"{near(cache)}: built kernels are committed there, and are not used; remove them from the repository, or "
            f"name another folder in {CACHE_VARIABLE}",
            Code.TAKEN,
        )
    kernels, benchmarks = root / (settings.kernels or "kernels"), folders(settings.benchmarks)
    named = [("kernels", kernels)] if settings.kernels else []
    named += [("benchmarks", folder) for folder in benchmarks]
    return Project(
        root=root,
        file=path,
        kernels=kernels,
        benchmarks=benchmarks,
        baselines=root / settings.baselines,
        out=root / settings.out,
        include=folders(settings.include),
        pythonpath=folders(settings.pythonpath),
        named=tuple(named),
        **{name: getattr(settings, name) for name in PlainSettings.__struct_fields__},
    )


def _is_committed(root: Path, path: Path) -> bool:
    """Whether git tracks files there; raises git's error if there is a repository that it cannot read."""
    try:
        return bool(git.ask(root, "ls-files", "--", str(path)))
    except PeakgateError:
        if any(os.path.lexists(folder / ".git") for folder in (root.absolute(), *root.absolute().parents)):
            raise
        return False


def _check_version(path: Path, required: str | None) -> None:
    """Raise PeakgateError if the project requires another version of Peakgate."""
    if required is None:
        return
    from packaging.specifiers import InvalidSpecifier, SpecifierSet  # noqa: PLC0415  # slow, and few projects ask

    try:
        wanted = SpecifierSet(required)
    except InvalidSpecifier:
        where = records.place(path, "requires")
        raise PeakgateError(
            f'{where}: requires is {required!r}; expected versions of peakgate, such as ">=0.2"', Code.SETTING
        ) from None
    installed = version()
    if not wanted.contains(installed, prereleases=True):
        where = records.place(path, "requires")
        raise PeakgateError(
            f"{where}: the project requires peakgate {wanted}, this is {installed}; install one that fits", Code.SETTING
        )


def version() -> str:
    """The version of the running Peakgate, from the distribution's metadata.

    An editable installation has ``+editable`` instead of a commit: its metadata does not follow its checkout.
    """
    from importlib import metadata  # noqa: PLC0415  # slow, and few calls ask

    distribution = metadata.distribution("peakgate")
    if Path(str(distribution.locate_file("peakgate"))).resolve() == PACKAGE:
        return distribution.version
    return f"{distribution.version.partition('+')[0]}+editable"
