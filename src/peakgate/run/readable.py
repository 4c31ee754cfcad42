"""Which files a family's functions may read: those of its own folder, and those outside all families' folders.

A folder is a family's own if no other family can import from it. So it is known, without a call, whether a changed file
can affect the function's result. Functions of the base must not read files of the change that they judge.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterable
from pathlib import Path
from types import FrameType
from typing import Any

from peakgate.base.config import near
from peakgate.base.errors import Code, PeakgateError
from peakgate.base.files import PACKAGES, cache_folder
from peakgate.spec.case import Family


def own_folders() -> dict[str, str]:
    """Family name to folder, for each imported family whose folder no other module was imported from.

    Without folders that are on ``sys.path`` or that a link in another family's folder leads to.
    """
    modules = {name: (module, getattr(module, "__file__", None)) for name, module in sys.modules.items()}
    files = [(name.partition(".")[0], module, Path(file).resolve()) for name, (module, file) in modules.items() if file]
    families = {
        package: (module.FAMILY, file.parent)
        for package, module, file in files
        if isinstance(getattr(module, "FAMILY", None), Family)
    }
    searched = [Path(entry).resolve() for entry in sys.path]
    owned = [(package, file) for package, _, file in files]
    for package, (_, folder) in families.items():
        owned += [(package, path.resolve()) for path in folder.rglob("*") if path.is_symlink()]
    package_of = {folder: package for package, (_, folder) in families.items()}
    shared = {
        folder
        for package, file in owned
        for folder in (file, *file.parents)
        if package_of.get(folder, package) != package
    }
    return {
        family.name: str(folder)
        for family, folder in families.values()
        if folder not in shared
        and not any(folder.is_relative_to(entry) or entry.is_relative_to(folder) for entry in searched)
    }


def owners(changed: Iterable[Path] | None, folders: Collection[Path]) -> set[Path | None]:
    """The families' own folders that contain changed files; None stands for files that every family may read.

    {None} if the changed files are unknown.
    """
    if changed is None:
        return {None}
    return {next((folder for folder in folders if path.is_relative_to(folder)), None) for path in changed}


_READS = frozenset({"open", "os.listdir", "os.scandir"})
"""Events of Python's audit hooks whose first argument is the path."""

_apart: dict[tuple[str, str], tuple[str, ...]] = {}
"""(change, base) trees to folders that may be read even within the change's tree. All end with a slash."""


def keep_apart(change: Path, base: Path) -> None:
    """From now on, raise PeakgateError when Python code of the tree ``base`` reads a file of the tree ``change``.

    Relative names already resolve in the base, the working directory (``config.work_in``). This catches the rest, such
    as an import inside a function by the change's ``pythonpath``. Peakgate's own files and cache may be in the
    change's tree.
    """
    if not _apart:
        sys.addaudithook(_refuse_files_of_the_change)  # once: it cannot be removed
    ours = (base, cache_folder(), *PACKAGES, Path(sys.prefix), Path(sys.base_prefix))
    _apart[_inside(change), _inside(base)] = tuple(map(_inside, ours))


def _inside(folder: Path) -> str:
    return f"{folder.resolve()}/"


def _refuse_files_of_the_change(event: str, arguments: tuple[Any, ...]) -> None:
    if event not in _READS or not isinstance(arguments[0], str | bytes | os.PathLike):
        return
    if event != "open" and sys._getframe(1).f_code.co_filename.startswith("<frozen importlib"):  # noqa: SLF001
        return  # the import system lists folders; a module that it finds is opened
    path = os.path.abspath(os.fsdecode(arguments[0]))  # noqa: PTH100  (links must not be resolved)
    for (change, base), ours in _apart.items():
        if f"{path}/".startswith(change) and not f"{path}/".startswith(ours) and (place := _caller_in(base)):
            raise PeakgateError(
                f"{place} reads {near(Path(path))} of the change that it judges; build paths from Path(__file__), and "
                "import at the top of a module",
                Code.FAMILY,
            )


def _caller_in(base: str) -> str:
    """File and line of the innermost caller in a tree; empty if there is none."""
    frame: FrameType | None = sys._getframe(2)  # noqa: SLF001  (as Python documents it)
    while frame is not None:
        if frame.f_code.co_filename.startswith(base):
            return f"{frame.f_code.co_filename.removeprefix(base)}:{frame.f_lineno}"
        frame = frame.f_back
    return ""
