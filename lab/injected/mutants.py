"""Slowdown mutants: mistakes that leave a kernel correct and make it slower.

``slowdown-mutants.toml`` lists them, at most one per kernel file: ``name``, ``file``
relative to the kernels folder, ``reason``, and ``[[mutant.edit]]`` with ``old``, which occurs once, and ``new``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from peakgate.base import records
from peakgate.base.config import Project
from peakgate.base.errors import PeakgateError
from peakgate.base.files import write_whole
from peakgate.base.records import Filled
from peakgate.base.verdict import Verdict
from peakgate.case import Case
from peakgate.compile.cubin import source_files

LIST = Path(__file__).with_name("slowdown-mutants.toml")


class Edit(Struct, frozen=True, forbid_unknown_fields=True):
    """``old`` occurs once in the file and becomes ``new``."""

    old: Filled
    new: str


class Mutant(Struct, frozen=True, forbid_unknown_fields=True):
    """One mistake in one file, given relative to the project's kernels folder, and the reason why it is slower."""

    name: Filled
    file: Filled
    reason: Filled
    edit: Annotated[tuple[Edit, ...], Meta(min_length=1, description="a list of at least one edit")]


class _MutantsFile(Struct, forbid_unknown_fields=True):
    mutant: tuple[Mutant, ...]


def read(path: Path) -> tuple[Mutant, ...]:
    """The listed mutants. Raises PeakgateError for an invalid entry."""
    found = records.read(path, _MutantsFile, "correct that entry").mutant
    for mutant in found:
        if any(each.new == each.old for each in mutant.edit):
            raise PeakgateError(f"{path}: mutant {mutant.name!r} changes nothing; let new be another text than old")
    for key, values in (("name", [mutant.name for mutant in found]), ("file", [mutant.file for mutant in found])):
        if twice := sorted({value for value in values if values.count(value) > 1}):
            raise PeakgateError(f"{path}: {key} {twice[0]!r} is used twice; expected one mutant per {key}")
    return found


def apply(tree: Path, mutants: Iterable[Mutant], project: Project) -> None:
    """Write the mutants into an unchanged copy of the project; after a PeakgateError none is written."""
    kernels = tree / project.kernels.relative_to(project.root)
    if kernels.resolve() == project.kernels.resolve():
        raise PeakgateError(f"{tree}: is the project at hand; expected a copy of it")
    texts = {}
    for mutant in mutants:
        path, text = kernels / mutant.file, _text(project.kernels / mutant.file)
        if _text(path) != text:
            raise PeakgateError(f"{path}: differs from the project's; expected an unchanged copy")
        texts[path] = mutated(text, mutant)
    for path, text in texts.items():
        write_whole(path, text)


def mutated(text: str, mutant: Mutant) -> str:
    """The file's text with the mutant. Raises PeakgateError if an old text does not occur exactly once."""
    for edit in mutant.edit:
        if (count := text.count(edit.old)) != 1:
            line = edit.old.strip().split("\n", 1)[0]
            raise PeakgateError(
                f"{mutant.file}: the text that begins {line!r} occurs {count} times; mutant {mutant.name} expects it"
                " once, correct its old text"
            )
        text = text.replace(edit.old, edit.new)
    return text


def touched(mutants: Iterable[Mutant], cases: Iterable[Case], project: Project) -> dict[str, set[str]]:
    """By mutant: the ids of the cases whose stage is built from its file."""
    sources = {case.id: case.stage.source for case in cases if case.stage.source is not None}
    files = {source: source_files(source) for source in set(sources.values())}
    return {
        mutant.name: {case for case, source in sources.items() if project.kernels / mutant.file in files[source]}
        for mutant in mutants
    }


def judged(
    mutants: Sequence[Mutant], of_mutant: Mapping[str, set[str]], rows: Iterable[Mapping[str, Any]]
) -> dict[str, Any]:
    """The rows of ``ab.json`` by mutant, most slowed first; the number of other rows, and those of them not SAME."""
    short = [{name: row.get(name) for name in ("case", "verdict", "change_percent")} for row in rows]
    short.sort(key=lambda row: row["change_percent"] or 0.0, reverse=True)
    untouched = [row for row in short if row["case"] not in set().union(*of_mutant.values())]
    return {
        "mutants": [
            {
                "name": mutant.name,
                "reason": mutant.reason,
                "cases": [row for row in short if row["case"] in of_mutant[mutant.name]],
            }
            for mutant in mutants
        ],
        "untouched": len(untouched),
        "flagged": [row for row in untouched if row["verdict"] != Verdict.SAME],
    }


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PeakgateError(f"{path}: cannot be read ({error}); expected a kernel of the project") from error
