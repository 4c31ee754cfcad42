"""Which files the functions of a family may read: those of its own folder, and those outside the families' folders.

A folder is a family's own where no other family can import from it. So it is known without calling a function whether
a change of a file can change what the function gives. Functions of the base read nothing of the change that they judge.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterable
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

from peakgate.base.config import near
from peakgate.base.errors import Code, PeakgateError
from peakgate.base.files import cache_folder
from peakgate.base.packages import PACKAGES
from peakgate.spec.case import Family


def own_folders() -> dict[str, str]:
    """The folder of each family that this process imported, by its name, if only the family's modules come from there.

    Not where Python could import them under other names, or where a link in another family's folder leads there.
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
    """The families' own folders in which files are; None for one elsewhere, which functions of every family may read.

    None too where it is not known which files changed.
    """
    if changed is None:
        return {None}
    return {next((folder for folder in folders if path.is_relative_to(folder)), None) for path in changed}


_READS = frozenset({"open", "os.listdir", "os.scandir"})
"""Events of Python's audit hooks whose first argument is the path."""

_apart: dict[tuple[str, str], tuple[str, ...]] = {}
"""By the trees of a change and of its base, the folders in the change's that are not the change's, all with a slash."""


def keep_apart(change: Path, base: Path) -> None:
    """From now on refuse files of the tree ``change`` to Python of the tree ``base``, in this process.

    The working directory is the base's (``config.work_in``), so that no relative name leads to the change's. This is
    for what does all the same: an import inside a function, by the change's ``pythonpath``. What the judge itself
    imports and caches may be in the change's tree.
    """
    ours = (base, cache_folder(), *PACKAGES, Path(sys.prefix), Path(sys.base_prefix))
    _apart[_inside(change), _inside(base)] = tuple(map(_inside, ours))
    _add_hook()


def _inside(folder: Path) -> str:
    return f"{folder.resolve()}/"


@cache
def _add_hook() -> None:
    sys.addaudithook(_refuse_files_of_the_change)


def _refuse_files_of_the_change(event: str, arguments: tuple[Any, ...]) -> None:
    if event not in _READS or not isinstance(arguments[0], str | bytes | os.PathLike):
        return
    if event != "open" and sys._getframe(1).f_code.co_filename.startswith("<frozen importlib"):  # noqa: SLF001
        return  # it looks for a module where it may not be; what it finds it opens
    path = os.path.abspath(os.fsdecode(arguments[0]))  # noqa: PTH100  (a link leads where it leads in either tree)
    for (change, base), ours in _apart.items():
        if f"{path}/".startswith(change) and not f"{path}/".startswith(ours) and (place := _caller_in(base)):
            raise PeakgateError(
                f"{place} reads {near(Path(path))} of the change, which it judges; name files of the base by "
                "Path(__file__), and import at the top of a module",
                Code.FAMILY,
            )


def _caller_in(base: str) -> str:
    """Where in a tree the code is that runs, as file and line; empty where no caller is of that tree."""
    frame: FrameType | None = sys._getframe(2)  # noqa: SLF001  (as Python documents it)
    while frame is not None:
        if frame.f_code.co_filename.startswith(base):
            return f"{frame.f_code.co_filename.removeprefix(base)}:{frame.f_lineno}"
        frame = frame.f_back
    return ""
