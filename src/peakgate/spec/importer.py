"""Imports family files as modules, once per process; each knows its own folder while it is executed."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
from contextvars import ContextVar
from pathlib import Path
from types import ModuleType

from peakgate.base import config
from peakgate.base.config import Project
from peakgate.base.errors import NOT_OF_A_PROJECT, Code, PeakgateError, raised_at
from peakgate.base.errors import described as described_error
from peakgate.base.formatting import encodable
from peakgate.base.processes import exit_raises
from peakgate.spec.case import Family

FAMILY_FILE = "family.py"

_folder: ContextVar[Path | None] = ContextVar("folder of the family file that is executed", default=None)


def current_folder() -> Path:
    """The folder of the family file that is being executed; the working directory if none is."""
    return _folder.get() or Path.cwd()


def family_files(project: Project) -> list[Path]:
    """The family files of a project, including broken links."""
    files = (folder / FAMILY_FILE for folder in sorted(project.kernels.glob("[!_.]*")))
    return [file for file in files if os.path.lexists(file)]


def family_at(path: Path, project: Project | None = None) -> Family:
    """The FAMILY that a file defines; raises PeakgateError with file and line of a mistake."""
    module = module_at(path, project)
    family = getattr(module, "FAMILY", None)
    if not isinstance(family, Family):
        given = "no FAMILY" if family is None else f"a FAMILY that is a {type(family).__name__}"
        raise PeakgateError(
            f"{path}: defines {given}, expected FAMILY = kernel(...) or family(...), of peakgate.family",
            Code.FAMILY,
        )
    return family


def module_at(path: Path, project: Project | None = None) -> ModuleType:
    """The module of a family file, imported once per process.

    The file and its siblings form a package, so that ``from .sibling import`` works. Its name has a hash of the folder,
    since two projects may have families of the same name.
    """
    if not path.is_file():
        raise PeakgateError(f"{path}: no such file; expected the {FAMILY_FILE} of a kernel family", Code.FAMILY)
    path = path.resolve()
    if encodable(str(path)) != str(path):
        raise PeakgateError(
            f"{encodable(str(path))}: expected a name in UTF-8, which compilers and reports take; rename the folder",
            Code.FAMILY,
        )
    package = f"peakgate_family_{hashlib.sha256(str(path.parent).encode()).hexdigest()[:12]}"
    name = f"{package}.family"
    if name in sys.modules:
        return sys.modules[name]
    for folder in (project or config.current()).pythonpath:
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise PeakgateError(f"{path}: no Python file; expected the family.py of a kernel family", Code.FAMILY)
    parent = ModuleType(package)
    parent.__path__ = [str(path.parent)]
    sys.modules[package] = parent
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    executed = _folder.set(path.parent)
    try:
        with exit_raises():
            spec.loader.exec_module(module)
    except BaseException as error:
        for loaded in [known for known in sys.modules if known.partition(".")[0] == package]:
            del sys.modules[loaded]
        if isinstance(error, NOT_OF_A_PROJECT):
            raise
        raise PeakgateError(
            f"{raised_at(error, path.parent) or path}: {described_error(error)}", Code.FAMILY
        ) from error
    finally:
        _folder.reset(executed)
    return module
