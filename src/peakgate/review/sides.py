"""Finds changes to files that a project's settings let it import, build, include or write."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from peakgate.base import config, git
from peakgate.base.config import Project, ProjectSettings
from peakgate.base.emulated import read_sources
from peakgate.base.errors import PeakgateError
from peakgate.base.files import LARGEST_FILE_BYTES, UnreadableFile, each_below, read_limited
from peakgate.review import changes
from peakgate.review.changes import FileChange, ProtectedChange
from peakgate.review.links import Links, reached
from peakgate.spec.catalogue import FAMILY_FILE
from peakgate_emulator.sources import kernels

NAMED_SOURCE = re.compile(r"""["']([^"'\n]+\.cu)["']""")
"""The path of a source in the text of a family, relative to its folder."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two trees: its top folder, its project and that project's settings, None without a project."""

    top: Path
    project: Project | None = None
    settings: ProjectSettings | None = None


def side_at(top: Path, folder: Path) -> Side:
    """The tree at ``top`` with the project that contains ``folder``."""
    found = config.find(folder)
    if found is None or not found.root.resolve().is_relative_to(top.resolve()):
        return Side(top)
    return Side(top, found, config.settings_in(found.root))


def project_changes(files: Sequence[FileChange], baselines: str, base: Side, tree: Side) -> list[ProtectedChange]:
    """Changes to files that are imported, built, compiled or written according to the settings of either side."""
    known = [
        (tree.top / side.project.root.resolve().relative_to(side.top.resolve()), side.settings)
        for side in (base, tree)
        if side.project is not None and side.settings is not None
    ]
    tests, imported = places(tree.top, known)
    pythonpath = [os.path.relpath(root / name, tree.top) for root, settings in known for name in settings.pythonpath]
    outputs = {
        os.path.relpath(root / name, tree.top) for root, settings in known for name in (settings.out, config.RUNS)
    }
    literal = [f":(literal){name}" for name in sorted(outputs - {"."})]
    committed = os.fsdecode(git.ask(tree.top, "ls-files", "-z", "--", *literal)).split("\0") if outputs else ()
    old, new = sources(base), sources(tree)
    return [
        *changes.compiled_changes(files, pythonpath),
        *changes.repository_changes(files, [*tests, *imported]),
        *changes.output_changes(files, committed),
        *changes.reviewed_changes(
            files,
            baselines,
            tests,
            imported,
            old | {name for name in new if not (base.top / name).exists()},
            mentioned=() if "." in imported else words([*tests, *imported], base.top, tree.top),
            built=any(settings.build for _, settings in known),
        ),
    ]


def places(top: Path, known: Iterable[tuple[Path, ProjectSettings]]) -> tuple[list[str], list[str]]:
    """Paths that Python is imported from: those of benchmark tests, and all others.

    ``known`` holds project roots and settings. The others are folders of kernels, of ``pythonpath``, and the folders
    that pytest adds to ``sys.path`` for benchmark tests: their nearest parent that is not a package.
    """
    tests, imported = list[Path](), list[Path]()
    for root, settings in known:
        tests += [root / name for name in settings.benchmarks]
        imported += [root / (settings.kernels or "kernels"), *(root / name for name in settings.pythonpath)]
    for test in tests:
        folder = test.parent if test.suffix == ".py" else test
        while (folder / "__init__.py").is_file():
            folder = folder.parent
        imported.append(folder)
    return reached(top, tests), reached(top, imported)


def sources(side: Side) -> set[str]:
    """The .cu files with a kernel, below its kernels folder or named by a family there, and the files they include."""
    found: set[str] = set()
    if side.project is None:
        return found
    top = side.top.resolve()
    below = [Path(each) for each in each_below(side.project.kernels)]
    given = [path for path in below if path.suffix == ".cu"]
    for family in (path for path in below if path.name == FAMILY_FILE):
        with suppress(UnreadableFile):  # reported when it is imported
            text = read_limited(family, LARGEST_FILE_BYTES).decode(errors="replace")
            named = {(family.parent / name).resolve() for name in NAMED_SOURCE.findall(text)}
            given += [path for path in named if path.is_relative_to(top)]
    for source in given:
        with suppress(PeakgateError):  # reported by a run
            files = read_sources(source, side.project.include)
            if any(kernels(file.text) for file in files):
                paths = [file.path.resolve() for file in files]
                found |= {path.relative_to(top).as_posix() for path in paths if path.is_relative_to(top)}
    return found


def words(places: Sequence[str], *tops: Path) -> set[str]:
    """The words (NAME_WORD) in the Python source at these places of the trees."""
    links, found, seen = Links(), set[str](), set[str]()
    for top, place in ((top, place) for top in tops for place in places):
        *_, path = links.hops(str(top / place))
        if not f"{path}/".startswith(f"{top.resolve()}/"):
            continue
        python = (Path(each) for each in each_below(path, seen) if each.name.endswith(".py"))
        for file in [Path(path)] if Path(path).is_file() else python:
            with suppress(UnreadableFile):  # reported when it is imported
                text = read_limited(file, LARGEST_FILE_BYTES).decode(errors="replace")
                found.update(changes.NAME_WORD.findall(text))
    return found
