"""Whether a side of an A/B ran its own Python: a module of the project that came from elsewhere is not its code.

An editable install gives both sides of a comparison the same modules.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType

import pytest
from peakgate.common.files import write_whole
from peakgate.project.config import Project

FILE = "foreign.json"
"""In a run's output folder: name and file of each foreign module."""

_HARNESS = "peakgate"
_SUFFIXES = (".py", ".so", ".pyd")


def foreign_modules(modules: Mapping[str, ModuleType], project: Project) -> dict[str, str]:
    """The imported modules that the project has itself but whose file is outside it, by name.

    The project's are the packages and modules at its root, in its ``src`` and in the folders of its ``pythonpath``.
    Its worktree counts as inside, so that projects of one repository may share code.
    """
    own = set(_own_names(project)) - {_HARNESS, "conftest"} - sys.stdlib_module_names
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


class ForeignModules:
    """The plug-in of an A/B's run that writes down what was imported from elsewhere."""

    def __init__(self, project: Project, out: Path) -> None:
        self._project, self._out = project, out

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        found = foreign_modules(sys.modules, self._project)
        if found:
            write_whole(self._out / FILE, json.dumps(found, indent=1))
