"""The saved runs of one GPU model as one tidy frame of times and one of sessions, in the order of their commits.

By the time of measuring alone, old commits that are measured today would count as the newest state.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from peakgate.base import git
from peakgate.base.errors import Code, PeakgateError
from peakgate.base.text import counted, one_line
from peakgate.compare.noise import Floats, Positions
from peakgate.runfile.frame import HISTORY_COLUMNS, require
from peakgate.runfile.saved import UNUSABLE, commit_label
from peakgate.runfile.schema import ENVIRONMENT
from peakgate.spec.case import EMULATOR_SLUG

FULL_HASH = 40
CommitPlaces = Mapping[str, int]
"""The place of each commit in a line of commits, oldest first, by its full hash."""

WHOLE_SESSIONS_TO_RETIRE = 5
"""A case that so many whole sessions of a tier it was once in did not measure is no longer part of the suite."""

LEFT = " until it left its tier"
"""Ends the name of a case in ``History.dropped``; no id has a space."""


class SessionFacts(NamedTuple):
    """Facts of a session other than its times; unknown texts are None."""

    taken: datetime
    commit: str
    dirty: bool
    driver: str | None
    uuid: str | None
    tier: str | None
    whole: bool
    path: str


SESSION_FACTS: Mapping[str, str] = {
    **{name: name for name in ("taken", "commit", "dirty", "whole")},
    "gpu_uuid": "uuid",
    "run_tier": "tier",
    "run": "path",
    **{f"gpu_{name}": name for name in ENVIRONMENT},
}
"""The columns of a frame of runs that are facts of a session, and their names here."""

VALUES = ("time_us", "fingerprint", "sm_clock_mhz")


@dataclass(frozen=True, slots=True)
class Mark:
    """Something besides the code that changed with session number ``index``.

    ``what`` is a fact of ``ENVIRONMENT``, or ``GPU``, at the first session of another one.
    """

    index: int
    what: str
    before: str
    after: str


@dataclass(frozen=True)
class History:
    """The sessions of one GPU model, oldest first (``arranged``); a session's number is its place in that order.

    ``facts`` has one row per session: the fields of ``SessionFacts`` and the names of ``ENVIRONMENT``, None where
    unknown. ``rows`` is indexed by case and session number, with the median time in microseconds, the fingerprint of
    the machine code and the SM clock in MHz. ``retired`` are cases that are no longer measured; they have no row.
    ``dropped`` has the rows of those, and of others from before they moved to another tier, by their names with LEFT.
    """

    slug: str
    facts: pd.DataFrame
    rows: pd.DataFrame
    retired: tuple[str, ...] = ()
    dropped: pd.DataFrame | None = None

    @property
    def complete(self) -> History:
        """The same with the rows that were dropped."""
        return self if self.dropped is None else replace(self, rows=pd.concat([self.rows, self.dropped]), dropped=None)

    @cached_property
    def sessions(self) -> tuple[SessionFacts, ...]:
        return tuple(SessionFacts(*row) for row in self.facts[list(SessionFacts._fields)].itertuples(index=False))

    def wide(self, name: str) -> pd.DataFrame:
        """A column of ``rows`` with one row per case and one column per session, NaN where it did not time the case."""
        return self.rows[name].unstack("session").reindex(columns=self.facts.index)

    @cached_property
    def times(self) -> pd.DataFrame:
        """The medians in microseconds."""
        return self.wide("time_us")

    @cached_property
    def cases(self) -> tuple[str, ...]:
        return tuple(self.times.index)

    @cached_property
    def log_time(self) -> Floats:
        """Natural logarithm of ``times``, (case, session)."""
        times: Floats = np.ascontiguousarray(self.times.to_numpy(dtype=np.float64))
        return np.log(times)

    @cached_property
    def by_gpu(self) -> dict[str | None, Positions]:
        """The numbers of each GPU's sessions, GPUs in the order they came; unknown ones count as one GPU."""
        groups = self.facts.groupby(self.facts["uuid"].fillna(""), sort=False)
        return {str(uuid) or None: own.index.to_numpy(dtype=np.intp) for uuid, own in groups}

    @cached_property
    def about(self) -> tuple[list[dict[Any, Any]], NDArray[Any], NDArray[Any]]:
        """Explanatory data of a step: the environment of each session, and fingerprints and clocks (case, session)."""
        code, clocks = (self.wide(name).to_numpy() for name in ("fingerprint", "sm_clock_mhz"))
        return self.facts[list(ENVIRONMENT)].to_dict("records"), code, clocks

    @property
    def gpus(self) -> int:
        return len(self.by_gpu)

    @cached_property
    def marks(self) -> tuple[Mark, ...]:
        """Each change of a GPU's environment once, however many GPUs make it in turn, and each GPU's first session."""
        gpus = list(self.by_gpu.items())
        found = [
            Mark(int(own[0]), "GPU", before or "an unknown GPU", uuid or "an unknown GPU")
            for (before, _), (uuid, own) in itertools.pairwise(gpus)
        ]
        made: dict[tuple[str, str, str], set[str | None]] = {}
        for index, uuid, what, before, after in sorted(self._changed(), key=lambda each: each[0]):
            followers = made.setdefault((what, before, after), set())
            if not followers or uuid in followers:
                followers.clear()
                found.append(Mark(index, what, before, after))
            followers.add(uuid)
        return tuple(sorted(found, key=lambda mark: mark.index))

    def _changed(self) -> Iterator[tuple[int, str | None, str, str, str]]:
        """Session, GPU, fact, and its value before and after, of each change of a GPU's environment."""
        for uuid, own in self.by_gpu.items():
            facts = self.facts.loc[own, list(ENVIRONMENT)]
            known, changed = last_known(facts)
            for what in ENVIRONMENT:
                for index in facts.index[changed[what]]:
                    yield int(index), uuid, what, known.loc[index, what], facts.loc[index, what]


def last_known(facts: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Last known value of each fact before each session, and whether the session has another one."""
    known = facts.ffill().shift()
    return known, facts.notna() & known.notna() & (facts != known)


def environments(facts: pd.DataFrame) -> pd.Series[int]:
    """How often the environment of each session's GPU has changed until then."""
    found = np.zeros(len(facts), dtype=np.intp)
    for _, own in facts.groupby(facts["uuid"].fillna(""), sort=False):
        _, changed = last_known(own[list(ENVIRONMENT)])
        found[own.index] = np.cumsum(changed.any(axis=1).to_numpy())
    return pd.Series(found, facts.index)


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


def history(
    runs: pd.DataFrame, slug: str | None = None, parts: Sequence[str] = (), places: CommitPlaces | None = None
) -> History:
    """The history of the GPU model ``slug``, by default the only one there is, emulators apart.

    ``runs`` has at least ``frame.HISTORY_COLUMNS``. With ``parts`` only cases that have one of them in their id.
    ``places`` are those of commits by their ancestry (``first_parents``); without them only time orders sessions.
    A PeakgateError says which GPU models there are when the choice is open, or what was not found.
    """
    require(runs, HISTORY_COLUMNS, "runs")
    chosen = _chosen(runs["gpu_slug"], slug)
    own = runs.loc[runs["gpu_slug"] == chosen, list(HISTORY_COLUMNS)]
    timed = own["time_us"].notna() & ~own["verdict"].isin(list(map(str, UNUSABLE))) & ~own["host_bound"].astype(bool)
    rows = own.loc[timed, ["run", "case", *VALUES]].drop_duplicates(["run", "case"], keep="last")
    facts = _facts(own, rows, places or {})
    rows = rows.assign(session=rows["run"].map({path: number for number, path in facts["path"].items()}))
    rows = rows.dropna(subset="session").astype({"case": object, "session": np.intp, "time_us": float})
    named = sorted(rows["case"].unique())
    wanted = [case for case in named if not parts or any(part in case for part in parts)]
    if not wanted:
        what = f"has {' or '.join(map(repr, parts))} in its id" if parts else "was timed"
        there = f"{counted(len(named), 'case')} in {counted(len(facts), 'run')}"
        raise PeakgateError(f"{chosen}: none of the {there} {what}; give another part", Code.SELECTION)
    rows = rows[rows["case"].isin(wanted)].set_index(["case", "session"])[list(VALUES)].sort_index()
    rows["fingerprint"] = rows["fingerprint"].astype(object).where(rows["fingerprint"].notna(), None)
    rows["sm_clock_mhz"] = rows["sm_clock_mhz"].astype(float)
    return _without_retired(History(chosen, facts, rows))


def _facts(runs: pd.DataFrame, rows: pd.DataFrame, places: CommitPlaces) -> pd.DataFrame:
    """One row per session, oldest first; of copies of a run file, which share all times, one."""
    facts = (
        runs[list(SESSION_FACTS)]
        .drop_duplicates("run")
        .rename(columns=SESSION_FACTS)
        .sort_values(["taken", "path"], kind="stable")
    )
    times = rows.pivot(index="run", columns="case", values="time_us").reindex(facts["path"]).fillna(0.0)
    own = pd.Series([tuple(each) for each in times.to_numpy().tolist()], facts.index, dtype=object)
    alike = facts.assign(times=own)
    facts = facts[~alike.duplicated(["taken", "uuid", "commit", "times"], keep="last")].reset_index(drop=True)
    for name in ("uuid", *ENVIRONMENT):
        facts[name] = facts[name].map(str, na_action="ignore")
    known = facts.astype(object).where(facts.notna(), None)
    known["taken"] = pd.Series([pd.Timestamp(taken).to_pydatetime() for taken in facts["taken"]], dtype=object)
    return arranged(known, environments(known), places)


def _chosen(slugs: pd.Series[str], slug: str | None) -> str:
    there = sorted(slugs.dropna().unique())
    judged = [each for each in there if each != EMULATOR_SLUG]
    if slug == EMULATOR_SLUG:
        raise PeakgateError(f"--gpu {slug}: emulated times are not judged; name a GPU model", Code.EMULATED)
    if slug is not None and slug not in judged:
        raise PeakgateError(
            f"--gpu {slug}: no saved run of it; there are runs of {', '.join(there) or 'no GPU'}", Code.WHICH_RUN
        )
    if slug is None and len(judged) > 1:
        raise PeakgateError(f"there are runs of {' and '.join(judged)}; choose one with --gpu", Code.GPU_MODELS)
    if not judged:
        only = "only emulated runs, whose times are not judged" if there else "no saved run"
        raise PeakgateError(
            f"{only}: measure on a GPU with `peakgate bench`, or name a folder of runs with --runs", Code.WHICH_RUN
        )
    return slug or judged[0]


def _without_retired(found: History) -> History:
    """The same without the cases that the newest whole sessions of a tier leave out, though earlier ones had them.

    A case that some session has timed since has moved to another tier: its older times are left out.
    """
    there = found.times.notna()
    left_at: dict[str, int] = {}
    whole_sessions = found.facts[found.facts["whole"].astype(bool)]
    for _, own in whole_sessions.groupby(whole_sessions["tier"].fillna("")):
        whole = own.index.to_numpy()
        older, newest = there[whole[:-WHOLE_SESSIONS_TO_RETIRE]], there[whole[-WHOLE_SESSIONS_TO_RETIRE:]]
        gone = older[older.any(axis=1) & ~newest.any(axis=1)]
        for case, had in gone.iterrows():
            last = had[had].index[-1]
            left_at[str(case)] = max(left_at.get(str(case), 0), int(whole[whole > last][0]))
    retired = {case for case, first in left_at.items() if not there.loc[case, first:].any()}
    cases = found.rows.index.get_level_values("case")
    first = cases.map(lambda case: left_at.get(case, 0)).to_numpy()
    kept = (found.rows.index.get_level_values("session") >= first) & ~cases.isin(list(retired))
    dropped = found.rows[~kept]
    left = None if dropped.empty else dropped.rename(index=lambda case: f"{case}{LEFT}", level="case")
    return History(found.slug, found.facts, found.rows[kept], tuple(sorted(retired)), left)


def session_name(session: SessionFacts) -> str:
    """A session by its commit and day."""
    return f"{commit_name(session)} ({session.taken:%Y-%m-%d})"


def commit_name(session: SessionFacts) -> str:
    """A session's commit."""
    return one_line(commit_label(session.commit, session.dirty))
