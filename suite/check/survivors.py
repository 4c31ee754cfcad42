"""Mutants that the lane is known not to catch, each with the reason: the survivors in the project's waivers.

Strict both ways: a survivor that is not listed fails, and so does an entry whose mutant is caught or gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from peakgate.check.mutants import Mutant
from peakgate.judge import waivers
from peakgate.judge.waivers import SurvivorKey

_TEXTS = ("file", "line", "change", "reason")


def read(path: Path) -> Mapping[SurvivorKey, str]:
    """The reason for each known survivor; PeakgateError names the entry and the key that is wrong."""
    return waivers.read(path).survivors


def entry(mutant: Mutant) -> str:
    """The mutant as an entry whose reason is still to be found."""
    texts = [f"{name} = {waivers.quoted(text)}" for name, text in zip(_TEXTS, (*mutant.key[:3], ""), strict=True)]
    occurrence = [f"occurrence = {mutant.occurrence}"] if mutant.occurrence > 1 else []
    return "\n".join(("[[survivor]]", *texts[:3], *occurrence, texts[3]))


def complaints(survived: Iterable[Mutant], caught: Iterable[Mutant], reasons: Mapping[SurvivorKey, str]) -> list[str]:
    """What is wrong between the list and what was found; ``caught`` and ``survived`` are all mutants there are."""
    alive, dead = {mutant.key: mutant for mutant in survived}, {mutant.key: mutant for mutant in caught}
    said = [f"{mutant}: survives, and no reason is listed" for key, mutant in alive.items() if key not in reasons]
    for key in reasons:
        if key in dead:
            said.append(f"{dead[key]}: listed as a survivor, but it is caught; take it off the list")
        elif key not in alive:
            said.append(f"{key[0]}: {key[2]} in `{key[1]}`: listed as a survivor, but there is no such mutant")
    return said
