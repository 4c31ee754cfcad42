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
    requires = ">=0.2"             # which versions of Peakgate can read and run this project

Every key is optional; these are the defaults, but for the lists, which are empty, and ``build`` and ``requires``,
which are none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from peakgate.common.errors import PeakgateError
from peakgate.common.toml import TomlFile, read_toml

PYPROJECT, OWN_FILE = "pyproject.toml", "peakgate.toml"
_PATHS, _LISTS = ("kernels", "baselines", "out"), ("benchmarks", "include", "options", "pythonpath", "plugins")
KEYS = (*_PATHS, *_LISTS, "build", "build_timeout_s", "requires")


@dataclass(frozen=True, slots=True)
class Project:
    """A project's root and settings; all paths are absolute. ``file`` is None where no file names a project."""

    root: Path
    file: Path | None
    kernels: Path
    baselines: Path
    out: Path
    benchmarks: tuple[Path, ...] = ()
    include: tuple[Path, ...] = ()
    options: tuple[str, ...] = ()
    pythonpath: tuple[Path, ...] = ()
    plugins: tuple[str, ...] = ()
    build: str | None = None
    build_timeout_s: float = 600.0
    named: tuple[tuple[str, Path], ...] = ()
    """The folders of kernels and benchmark tests that the settings name, each with its key."""

    @property
    def runs(self) -> Path:
        """Where runs are saved, a folder per GPU: pytest-benchmark's storage."""
        return self.root / ".benchmarks"


def near(path: Path) -> Path:
    """The path as seen from the working directory, or as it is where it is elsewhere: for messages."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def current() -> Project:
    """The project of the working directory; without one, the defaults with the working directory as the root."""
    here = Path.cwd()
    return find(here) or _project(here, None, TomlFile(here / OWN_FILE, "", {}), {})


def required() -> Project:
    """The project of the working directory; PeakgateError where there is none, or it lacks a folder that it names."""
    project = find(Path.cwd())
    if project is None:
        raise PeakgateError(
            f"{Path.cwd()}: no project here or above: neither [tool.peakgate] in a {PYPROJECT} nor a {OWN_FILE}; "
            "`peakgate init` makes one"
        )
    for key, path in project.named:
        if not path.exists():
            where = near(project.file) if project.file else project.root
            raise PeakgateError(f"{where}: {key} names {near(path)}, which is not there; make it, or take it out")
    return project


def find(start: Path) -> Project | None:
    """The nearest project from a folder upwards; PeakgateError names file and line of a mistake in its settings."""
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
    file = read_toml(path)
    settings: Any = file.table
    if path.name == PYPROJECT:
        tool = file.table.get("tool")
        settings = tool.get("peakgate") if isinstance(tool, dict) else None
        if settings is None:
            return None
    if not isinstance(settings, dict):
        file.refuse("peakgate", "tool.peakgate is not a table; write [tool.peakgate]")
    return _project(path.parent, path, file, settings)


def _project(root: Path, path: Path | None, file: TomlFile, settings: Mapping[str, Any]) -> Project:
    _check_version(file, settings.get("requires"))
    file.allow(settings, KEYS)
    for key in _PATHS:
        if key in settings and not (isinstance(settings[key], str) and settings[key]):
            file.refuse(key, f"{key} is {settings[key]!r}; expected a folder, as text")
    for key in _LISTS:
        if not (isinstance(texts := settings.get(key, []), list) and all(isinstance(text, str) for text in texts)):
            file.refuse(key, f'{key} is {texts!r}; expected a list of texts, ["..."]')
    build, timeout_s = settings.get("build"), settings.get("build_timeout_s", 600)
    if not (build is None or (isinstance(build, str) and build.strip())):
        file.refuse("build", f"build is {build!r}; expected a command, as text")
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float) or not 0 < timeout_s <= 86_400:
        file.refuse("build_timeout_s", f"build_timeout_s is {timeout_s!r}; expected seconds, above 0 and up to 86400")

    def folders(key: str) -> tuple[Path, ...]:
        return tuple(root / text for text in settings.get(key, ()))

    kernels = root / settings.get("kernels", "kernels")
    named = [("benchmarks", folder) for folder in folders("benchmarks")]
    return Project(
        root=root,
        file=path,
        kernels=kernels,
        baselines=root / settings.get("baselines", "baselines"),
        out=root / settings.get("out", ".peakgate/out"),
        benchmarks=folders("benchmarks"),
        include=folders("include"),
        options=tuple(settings.get("options", ())),
        pythonpath=folders("pythonpath"),
        plugins=tuple(settings.get("plugins", ())),
        build=build,
        build_timeout_s=float(timeout_s),
        named=(*([("kernels", kernels)] if "kernels" in settings else []), *named),
    )


def _check_version(file: TomlFile, required: object) -> None:
    """Refuse a project that asks for another version of this tool; its other settings may be unknown here."""
    if required is None:
        return
    from importlib import metadata  # noqa: PLC0415  # slow, and few projects ask

    from packaging.specifiers import InvalidSpecifier, SpecifierSet  # noqa: PLC0415

    try:
        wanted = SpecifierSet(required if isinstance(required, str) else "?")
    except InvalidSpecifier:
        file.refuse("requires", f'requires is {required!r}; expected versions of peakgate, ">=0.2" say')
    installed = metadata.version("peakgate")
    if not wanted.contains(installed, prereleases=True):
        file.refuse("requires", f"the project requires peakgate {wanted}, this is {installed}; install one that fits")
