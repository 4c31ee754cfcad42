"""What a project draws of its ladder: the functions in ``pictures.py`` beside its families.

``pictures(shown)`` gives pictures by name, which begins with their family's; ``TABLES`` names blocks of the documents
that hold a table of stages and sizes, each with its function of what is shown. A project need not have either.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType

from peakgate.project import config
from peakgate.project.catalogue import module_at
from peakgate.reports.ladder.charts import Groups, Picture
from peakgate.reports.ladder.documents import KERNELS
from peakgate.reports.ladder.rungs import Shown

FILE, FOLDER = "pictures.py", KERNELS / "pictures"


def pictures(shown: Shown) -> dict[Path, Picture]:
    """Every picture by its path."""
    module = _module()
    drawn: Mapping[str, Picture] = module.pictures(shown) if module else {}
    return {FOLDER / f"{name}.svg": picture for name, picture in drawn.items()}


def tables() -> Mapping[str, Callable[[Shown], Groups]]:
    """The tables of stages and sizes, by the block that holds each."""
    found: Mapping[str, Callable[[Shown], Groups]] = getattr(_module(), "TABLES", {})
    return found


def _module() -> ModuleType | None:
    path = config.current().kernels / FILE
    return module_at(path) if path.is_file() else None
