"""Which files the functions of a family may read: those of its own folder, and those outside the families' folders.

A folder is a family's own where no other family can import from it. So it is known without calling a function whether
a change of a file can change what the function gives.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable
from pathlib import Path

from peakgate.core.case import Family


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
