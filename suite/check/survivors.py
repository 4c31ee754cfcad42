"""Mutants that the lane is known not to catch, each with the reason: ``survivors.toml`` in the project's baselines.

Strict both ways: a survivor that is not listed fails, and so does an entry whose mutant is caught or gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from peakgate.check.mutants import Mutant
from peakgate.common.errors import PeakgateError
from peakgate.common.toml import read_toml

FILE = "survivors.toml"

Key = tuple[str, str, str, int]
"""File under kernels/, text of the line, the change, and which of the changes that read the same."""

_TEXTS = ("file", "line", "change", "reason")
_KEYS = (*_TEXTS, "occurrence")


def read(path: Path) -> dict[Key, str]:
    """The reason for each known survivor; PeakgateError names the entry and the key that is wrong."""
    try:
        listed = read_toml(path)
    except FileNotFoundError:
        return {}
    listed.allow(listed.table, ("survivor",))
    entries = listed.table.get("survivor", [])
    if not isinstance(entries, list) or not all(isinstance(each, dict) for each in entries):
        listed.refuse("survivor", "survivor is not a list of tables; expected [[survivor]] entries")
    reasons: dict[Key, str] = {}
    for number, entry in enumerate(entries, 1):
        key, reason = _entry(entry, f"{path}: survivor {number}")
        if key in reasons:
            raise PeakgateError(f"{path}: survivor {number}: {key[0]}, {key[2]!r} is listed twice")
        reasons[key] = reason
    return reasons


def entry(mutant: Mutant) -> str:
    """The mutant as an entry whose reason is still to be found."""
    texts = [f"{name} = {_quoted(text)}" for name, text in zip(_TEXTS, (*mutant.key[:3], ""), strict=True)]
    occurrence = [f"occurrence = {mutant.occurrence}"] if mutant.occurrence > 1 else []
    return "\n".join(("[[survivor]]", *texts[:3], *occurrence, texts[3]))


def complaints(survived: Iterable[Mutant], caught: Iterable[Mutant], reasons: Mapping[Key, str]) -> list[str]:
    """What is wrong between the list and what was found; ``caught`` and ``survived`` are all mutants there are."""
    alive, dead = {mutant.key: mutant for mutant in survived}, {mutant.key: mutant for mutant in caught}
    said = [f"{mutant}: survives, and no reason is listed" for key, mutant in alive.items() if key not in reasons]
    for key in reasons:
        if key in dead:
            said.append(f"{dead[key]}: listed as a survivor, but it is caught; take it off the list")
        elif key not in alive:
            said.append(f"{key[0]}: {key[2]} in `{key[1]}`: listed as a survivor, but there is no such mutant")
    return said


def _entry(table: Mapping[str, Any], where: str) -> tuple[Key, str]:
    for name in table:
        if name not in _KEYS:
            raise PeakgateError(f"{where}: unknown key {name!r}; expected {', '.join(_KEYS)}")
    for name in _TEXTS:
        if not isinstance(table.get(name), str) or not table[name].strip():
            raise PeakgateError(f"{where}: {name} is {table.get(name)!r}; expected a text that is not empty")
    occurrence = table.get("occurrence", 1)
    if isinstance(occurrence, bool) or not isinstance(occurrence, int) or occurrence < 1:
        raise PeakgateError(f"{where}: occurrence is {occurrence!r}; expected a whole number from 1 on")
    return (table["file"], table["line"], table["change"], occurrence), table["reason"]


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
