"""``python -m reports.planted.apply DIR``: write the planted slowdowns into a copy of the tree.

DIR is a copy, never the tree the command runs from. Which stages and gate cases a mutant touches is worked out from the
files that stages include; the cases of no mutant are what an A/B against the unchanged tree has to leave alone. Exits 0
when all are written, 2 on bad input, with nothing written.
"""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peakgate.build.cubin import source_files
from peakgate.case import Case, Scale, Tier
from peakgate.common.errors import PeakgateError, refused
from peakgate.common.files import write_whole
from peakgate.project import catalogue, config
from peakgate.reports.render.console import say
from peakgate.verdict import ExitCode

MUTANTS = Path(__file__).with_name("mutants.toml")
_EDITS = "edit"
_TEXTS = ("name", "file", "reason")


@dataclass(frozen=True, slots=True)
class Edit:
    """``old`` stands once in the file and becomes ``new``."""

    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Mutant:
    """One mistake in one file under kernels/, and what it costs."""

    name: str
    file: str
    reason: str
    edits: tuple[Edit, ...]


def read(path: Path = MUTANTS) -> tuple[Mutant, ...]:
    """The listed mutants; PeakgateError names the entry and the key that is wrong."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise PeakgateError(f"{path}: expected planted mutants in TOML ({error})") from error
    if unknown := sorted(table.keys() - {"mutant"}):
        raise PeakgateError(f"{path}: unknown key {unknown[0]!r}; expected [[mutant]] entries")
    entries = table.get("mutant", [])
    if not _are_tables(entries):
        raise PeakgateError(f"{path}: mutant is {entries!r}; expected [[mutant]] entries")
    found = tuple(_mutant(entry, f"{path}: mutant {n}") for n, entry in enumerate(entries, 1))
    for what, values in (("name", [mutant.name for mutant in found]), ("file", [mutant.file for mutant in found])):
        if twice := sorted({value for value in values if values.count(value) > 1}):
            raise PeakgateError(f"{path}: {what} {twice[0]!r} is used twice; expected a mutant a {what}")
    return found


def chosen(mutants: Sequence[Mutant], names: Sequence[str]) -> tuple[Mutant, ...]:
    """The mutants of these names, all for none; PeakgateError when a name is not listed."""
    known = {mutant.name for mutant in mutants}
    for name in names:
        if name not in known:
            raise PeakgateError(f"no mutant is named {name!r}; {MUTANTS} lists {', '.join(sorted(known))}")
    return tuple(mutant for mutant in mutants if not names or mutant.name in names)


def mutated(text: str, mutant: Mutant) -> str:
    """The file's text with the mutant in it.

    PeakgateError when an old text is not there, is there more than once, or has been replaced already.
    """
    where = f"kernels/{mutant.file}: mutant {mutant.name}"
    if all(_is_in(text, edit) for edit in mutant.edits):
        raise PeakgateError(f"{where}: is in the file already; expected an unchanged copy of the tree")
    for edit in mutant.edits:
        if (count := text.count(edit.old)) != 1:
            line = edit.old.strip().split("\n", 1)[0]
            raise PeakgateError(f"{where}: {line!r} begins a text that stands there {count} times, expected once")
        text = text.replace(edit.old, edit.new)
    return text


def _is_in(text: str, edit: Edit) -> bool:
    """Whether the edit has been made: its new text stands there, the old one at most as a part of it."""
    return edit.new in text and (edit.old not in text or edit.old in edit.new)


def apply(tree: Path, mutants: Iterable[Mutant]) -> None:
    """Write the mutants into the tree's kernels/, all or, on a PeakgateError, none."""
    own = config.current().kernels
    kernels = tree / own.name
    if not kernels.is_dir():
        raise PeakgateError(
            f"{tree}: no folder {own.name} in it; expected a copy of the tree, as `git worktree add` makes"
        )
    if kernels.resolve() == own.resolve():
        raise PeakgateError(f"{tree}: is the tree this command runs from; expected a copy of it")
    texts = {kernels / mutant.file: mutated(_text(kernels / mutant.file), mutant) for mutant in mutants}
    for path, text in texts.items():
        write_whole(path, text)


def touched(mutants: Iterable[Mutant], cases: Iterable[Case]) -> dict[str, tuple[Case, ...]]:
    """By mutant's name the cases whose stage is built from its file."""
    listed, kernels = list(cases), config.current().kernels
    files = {
        case.stage: {path.relative_to(kernels).as_posix() for path in source_files(case.stage.source)}
        for case in listed
        if case.stage.source is not None and case.stage.source.is_relative_to(kernels)
    }
    return {
        mutant.name: tuple(case for case in listed if mutant.file in files.get(case.stage, ())) for mutant in mutants
    }


def described(mutants: Sequence[Mutant], cases: Sequence[Case]) -> dict[str, Any]:
    """Mutant to file, reason, stages and case ids; and the ids of the cases that none of them touches."""
    of_mutant = touched(mutants, cases)
    reached = {case.id for found in of_mutant.values() for case in found}
    return {
        "mutants": {
            mutant.name: {
                "file": mutant.file,
                "reason": mutant.reason,
                "stages": stages(of_mutant[mutant.name]),
                "cases": [case.id for case in of_mutant[mutant.name]],
            }
            for mutant in mutants
        },
        "untouched": [case.id for case in cases if case.id not in reached],
    }


def stages(cases: Iterable[Case]) -> list[str]:
    """``family.stage`` of the cases, each once."""
    return list(dict.fromkeys(f"{case.family}.{case.stage.name}" for case in cases))


def main(arguments: Sequence[str] | None = None) -> ExitCode:
    """Write the chosen mutants and say what they touch; a user's error is one line on stderr."""
    parser = argparse.ArgumentParser(prog="python -m reports.planted.apply", description=__doc__)
    parser.add_argument("tree", type=Path, metavar="DIR", help="a copy of the tree, to be changed")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these mutants, not all")
    parser.add_argument("--json", action="store_true", help="print stages and gate cases of each as JSON")
    options = parser.parse_args(arguments)
    try:
        mutants = chosen(read(), options.only)
        found = described(mutants, catalogue.cases(Scale.BENCH, Tier.GATE))
        apply(options.tree, mutants)
    except PeakgateError as error:
        return refused(error)
    say(json.dumps(found, indent=1) + "\n" if options.json else _lines(found))
    return ExitCode.OK


def _lines(found: Mapping[str, Any]) -> str:
    lines = [
        f"{name}: {', '.join(entry['stages'])} ({len(entry['cases'])} gate cases)"
        for name, entry in found["mutants"].items()
    ]
    return "\n".join((*lines, f"{len(lines)} mutants; {len(found['untouched'])} gate cases are untouched\n"))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PeakgateError(f"{path}: cannot be read ({error}); expected the kernels of this tree") from error


def _are_tables(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, dict) for each in value)


def _mutant(entry: Mapping[str, Any], where: str) -> Mutant:
    if unknown := sorted(entry.keys() - {*_TEXTS, _EDITS}):
        raise PeakgateError(f"{where}: unknown key {unknown[0]!r}; expected {', '.join(_TEXTS)} and [[mutant.edit]]")
    for key in _TEXTS:
        if not isinstance(entry.get(key), str) or not entry[key].strip():
            raise PeakgateError(f"{where}: {key} is {entry.get(key)!r}; expected a text that is not empty")
    edits = entry.get(_EDITS, [])
    if not edits or not _are_tables(edits):
        raise PeakgateError(f"{where}: changes nothing; expected [[mutant.edit]] with old and new")
    for edit in edits:
        texts = edit.keys() == {"old", "new"} and all(isinstance(text, str) for text in edit.values())
        if not texts or not edit["old"] or edit["old"] == edit["new"]:
            raise PeakgateError(
                f"{where}: an edit has {', '.join(edit)}; expected texts: old, not empty, and another new"
            )
    name, file, reason = (entry[key] for key in _TEXTS)
    return Mutant(name, file, reason, tuple(Edit(edit["old"], edit["new"]) for edit in edits))


if __name__ == "__main__":
    sys.exit(main())
