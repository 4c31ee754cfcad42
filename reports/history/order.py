"""The order of a history's sessions: by the ancestry of their commits, where a repository knows it.

By the time of measuring alone, old commits that are measured today would count as the newest state.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from peakgate.core import git
from peakgate.core.errors import PeakgateError

FULL_HASH = 40
CommitPlaces = Mapping[str, int]
"""The place of each commit in a line of commits, oldest first, by its full hash."""


def first_parents(folder: Path) -> CommitPlaces:
    """The first-parent line of the commit that is checked out; empty where there is no repository."""
    try:
        listed = git.ask(folder, "rev-list", "--first-parent", "--reverse", "HEAD").decode().split()
    except PeakgateError:
        return {}
    return {commit: place for place, commit in enumerate(listed)}


def arranged(facts: pd.DataFrame, environment: pd.Series[int], places: CommitPlaces) -> pd.DataFrame:
    """The same sessions, given oldest first, with those of one GPU and ``environment`` in the order of their commits.

    ``environment`` counts the changes of a GPU's environment until each session. A commit that is on no such line, on a
    branch say, comes after those that were measured before it.
    """
    if not places:
        return facts
    known = facts["commit"].map(lambda commit: _place(str(commit), places)).to_numpy(np.float64)
    order = np.arange(len(facts))
    for numbers in facts.groupby([facts["uuid"].fillna(""), environment]).indices.values():
        reached = np.maximum.accumulate(np.where(np.isnan(known[numbers]), -1.0, known[numbers]))
        place = np.where(np.isnan(known[numbers]), reached, known[numbers])
        order[numbers] = numbers[np.argsort(place, kind="stable")]
    return facts.iloc[order].reset_index(drop=True)


def _place(commit: str, places: CommitPlaces) -> float:
    if len(commit) < FULL_HASH:
        commit = next((each for each in places if each.startswith(commit)), commit)
    return places.get(commit, float("nan"))
