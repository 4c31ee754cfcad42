"""Find families and list their cases."""

from __future__ import annotations

import importlib.util
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path

from suite.case import Case, Family, Scale, Stage, Tier
from suite.errors import PeakgateError

OWN_FAMILIES = Path(__file__).parent / "families"
SEARCH_PATH_VARIABLE = "PEAKGATE_FAMILIES"


def family_folders() -> list[Path]:
    """Where family files are looked for: our own folder, then those in ``$PEAKGATE_FAMILIES`` (``:`` between them)."""
    extra = os.environ.get(SEARCH_PATH_VARIABLE, "")
    return [OWN_FAMILIES, *(Path(folder) for folder in extra.split(os.pathsep) if folder)]


def families(folders: Sequence[Path] | None = None) -> list[Family]:
    """Every family of the folders: each ``*.py`` there that defines ``FAMILY``, in order of name."""
    found: dict[str, tuple[Family, Path]] = {}
    for folder in family_folders() if folders is None else folders:
        if not folder.is_dir():
            raise PeakgateError(
                f"{SEARCH_PATH_VARIABLE}: {folder} is not a folder; name folders that hold family files"
            )
        for path in sorted(folder.glob("[!_]*.py")):
            family = _family(path)
            if family is None:
                continue
            if family.name in found:
                raise PeakgateError(f"family {family.name!r} is defined in {found[family.name][1]} and again in {path}")
            found[family.name] = (family, path)
    return [family for family, _ in found.values()]


def cases(scale: Scale, tier: Tier = Tier.FULL, folders: Sequence[Path] | None = None) -> list[Case]:
    """Every case at a scale; under the gate tier only the gate's. A repeated id is an error that names it.

    Small problems are few by themselves: the tier only matters at benchmark scale.
    """
    listed: dict[str, Case] = {}
    found: set[Stage] = set()
    for case in _all(scale, folders):
        if scale is Scale.BENCH and tier is Tier.GATE and case.tier is not Tier.GATE:
            continue
        if case.stage.source is not None and case.stage not in found:
            if not case.stage.source.is_file():
                raise PeakgateError(
                    f"stage {case.stage.name} has no file {case.stage.source}: write the kernel, or take the stage out "
                    f"of the family {case.family}"
                )
            found.add(case.stage)
        if case.id in listed:
            raise PeakgateError(
                f"case id {case.id} is used twice; ids must be unique, see suite/families/{case.family}.py"
            )
        listed[case.id] = case
    return list(listed.values())


def probes(case: Case, folders: Sequence[Path] | None = None) -> list[Case]:
    """The ragged problems that prove this case's build right."""
    for family in families(folders):
        if family.name == case.family:
            return list(family.probes(case))
    raise PeakgateError(f"case {case.id}: no family named {case.family}")


def _place(error: Exception, path: Path) -> str:
    """File and line of an error in a family file."""
    if isinstance(error, SyntaxError):
        return f"{path}:{error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == path]
    return f"{path}:{lines[-1]}" if lines else str(path)


def _message(error: Exception) -> str:
    return error.msg if isinstance(error, SyntaxError) else " ".join(str(error).split())


def _all(scale: Scale, folders: Sequence[Path] | None) -> Iterator[Case]:
    for family in families(folders):
        yield from family.cases(scale)


def _family(path: Path) -> Family | None:
    name = f"suite.families.{path.stem}" if path.parent == OWN_FAMILIES else f"peakgate_family_{path.stem}"
    module = sys.modules.get(name)
    if module is None:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            del sys.modules[name]
            raise PeakgateError(f"{_place(error, path)}: {type(error).__name__}: {_message(error)}") from error
    family = getattr(module, "FAMILY", None)
    if family is None:
        return None
    if not isinstance(family, Family):
        raise PeakgateError(f"{path}: FAMILY is a {type(family).__name__}, expected a suite.case.Family")
    return family
