"""Arranges the saved runs of one GPU model as a frame of times and a frame of sessions, in the order of commits.

Sorted by date of measurement alone, old commits that are measured today would count as the newest state.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from peakgate.base import git
from peakgate.base.errors import Code, PeakgateError
from peakgate.base.formatting import counted, one_line
from peakgate.base.options import selector
from peakgate.compare.noise import Floats, Positions
from peakgate.runfile.frame import HISTORY_COLUMNS, is_of_host, require
from peakgate.runfile.saved import UNUSABLE, commit_label
from peakgate.runfile.schema import ENVIRONMENT
from peakgate.spec.recorded import EMULATOR_SLUG

# Position of each commit, by its full hash, in the first-parent history, oldest first.
CommitPlaces = Mapping[str, int]
FULL_HASH = 40

# A case that so many successive complete sessions of its tier did not measure is retired.
WHOLE_SESSIONS_TO_RETIRE = 5
LEFT = " until it left its tier"  # suffix of case names in ``History.dropped``; ids contain no space
VALUES = ("time_us", "samples", "sampling_error", "fingerprint", "kernels", "sm_clock_mhz")


class SessionFacts(NamedTuple):
    """Facts of a session other than its times; unknown ones are None."""

    taken: datetime
    commit: str
    dirty: bool
    driver: str | None
    uuid: str | None
    tier: str | None
    whole: bool
    path: str


# Columns of a frame of runs that are facts of a session, and their names in SessionFacts.
SESSION_FACTS: Mapping[str, str] = {
    **{name: name for name in ("taken", "commit", "dirty", "whole")},
    "gpu_uuid": "uuid",
    "run_tier": "tier",
    "run": "path",
    **{f"gpu_{name}": name for name in ENVIRONMENT},
}


@dataclass(frozen=True, slots=True)
class Mark:
    """A change other than of the code, at session number ``index``.

    ``what`` is a fact of ``ENVIRONMENT``, or ``GPU`` for the first session of another GPU.
    """

    index: int
    what: str
    before: str
    after: str


@dataclass(frozen=True)
class History:
    """The sessions of one GPU model, oldest first (``arranged``); a session's number is its position in that order.

    ``facts`` has one row per session with the fields of ``SessionFacts`` and ``ENVIRONMENT``, None if unknown. ``rows``
    is indexed by case and session number and holds the median time in microseconds, the number of samples and their
    ``sampling_error``, the fingerprint of the machine code and the SM clock in MHz. ``retired`` are cases that are no
    longer measured; they have no row. ``dropped`` holds their rows, and rows of other cases from before a change of
    tier, with LEFT appended to the case. ``of_host`` are the cases whose time is that of a call on the host.
    """

    slug: str
    facts: pd.DataFrame
    rows: pd.DataFrame
    retired: tuple[str, ...] = ()
    dropped: pd.DataFrame | None = None
    of_host: frozenset[str] = frozenset()

    def part(self, *, of_host: bool) -> History:
        """A copy with the cases of the host's time alone, or those of the GPU's."""
        own = self.rows.index.get_level_values("case").str.removesuffix(LEFT).isin(self.of_host) == of_host
        return replace(self, rows=self.rows[own])

    @property
    def complete(self) -> History:
        """A copy that includes the dropped rows."""
        return self if self.dropped is None else replace(self, rows=pd.concat([self.rows, self.dropped]), dropped=None)

    @cached_property
    def sessions(self) -> tuple[SessionFacts, ...]:
        return tuple(SessionFacts(*row) for row in self.facts[list(SessionFacts._fields)].itertuples(index=False))

    @cached_property
    def times(self) -> pd.DataFrame:
        """The medians in microseconds, one row per case, one column per session, NaN if not timed."""
        return self.table("time_us")

    def table(self, value: str) -> pd.DataFrame:
        """A column of ``rows``, one row per case, one column per session, NaN if not timed."""
        return self.rows[value].unstack("session").reindex(columns=self.facts.index)

    @cached_property
    def cases(self) -> tuple[str, ...]:
        return tuple(self.times.index)

    @cached_property
    def log_time(self) -> Floats:
        """Natural logarithm of ``times``, (case, session)."""
        times: Floats = np.ascontiguousarray(self.times.to_numpy(dtype=np.float64))
        return np.log(times)

    @cached_property
    def codes(self) -> pd.DataFrame:
        """The machine code, as ``times``; missing if unknown. A callable's digests are no proof, and missing too."""
        return self.table("fingerprint").mask(self.table("kernels").notna())

    @cached_property
    def by_gpu(self) -> dict[str | None, Positions]:
        """Session numbers by GPU, in order of first appearance; unknown GPUs count as one."""
        groups = self.facts.groupby(self.facts["uuid"].fillna(""), sort=False)
        return {str(uuid) or None: own.index.to_numpy(dtype=np.intp) for uuid, own in groups}

    @property
    def gpus(self) -> int:
        return len(self.by_gpu)

    @cached_property
    def marks(self) -> tuple[Mark, ...]:
        """Each change of the environment, once for all GPUs that make it, and each GPU's first session."""
        found = [
            Mark(int(own[0]), "GPU", before or "an unknown GPU", uuid or "an unknown GPU")
            for (before, _), (uuid, own) in itertools.pairwise(self.by_gpu.items())
        ]
        changes: list[tuple[str | None, Mark]] = []
        for uuid, own in self.by_gpu.items():
            facts = self.facts.loc[own, list(ENVIRONMENT)]
            known, changed = last_known(facts)
            changes += [
                (uuid, Mark(int(index), what, known.loc[index, what], facts.loc[index, what]))
                for what in ENVIRONMENT
                for index in facts.index[changed[what]]
            ]
        made: dict[tuple[str, str, str], set[str | None]] = {}
        for uuid, mark in sorted(changes, key=lambda each: each[1].index):
            followers = made.setdefault((mark.what, mark.before, mark.after), set())
            if not followers or uuid in followers:
                followers.clear()
                found.append(mark)
            followers.add(uuid)
        return tuple(sorted(found, key=lambda mark: mark.index))


def last_known(facts: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Last known value of each fact before each session, and whether the session has a different one."""
    known = facts.ffill().shift()
    return known, facts.notna() & known.notna() & (facts != known)


def history(
    runs: pd.DataFrame, slug: str | None = None, expression: str = "", places: CommitPlaces | None = None
) -> History:
    """The history of the GPU model ``slug``, by default the only one except the emulator.

    ``runs`` has at least ``frame.HISTORY_COLUMNS``. ``expression`` selects cases as ``-k`` does. ``places``
    orders the commits (``first_parents``); without it, sessions are sorted by time. A PeakgateError lists the GPU
    models if several are possible, or says what was not found.
    """
    require(runs, HISTORY_COLUMNS, "runs")
    chosen = _chosen(runs["gpu_slug"], slug)
    own = runs.loc[runs["gpu_slug"] == chosen, list(HISTORY_COLUMNS)]
    timed = own["time_us"].notna() & ~own["verdict"].isin(list(map(str, UNUSABLE))) & ~own["host_bound"].astype(bool)
    rows = own.loc[timed, ["run", "case", *VALUES]].drop_duplicates(["run", "case"], keep="last")

    # One row per session, oldest first, without copies of a run file, which have equal times.
    facts = (
        own[list(SESSION_FACTS)]
        .drop_duplicates("run")
        .rename(columns=SESSION_FACTS)
        .sort_values(["taken", "path"], kind="stable")
    )
    times = rows.pivot(index="run", columns="case", values="time_us").reindex(facts["path"]).fillna(0.0)
    alike = facts.assign(times=pd.Series([*map(tuple, times.to_numpy().tolist())], facts.index, dtype=object))
    facts = facts[~alike.duplicated(["taken", "uuid", "commit", "times"], keep="last")].reset_index(drop=True)
    for name in ("uuid", *ENVIRONMENT):
        facts[name] = facts[name].map(str, na_action="ignore")
    known = facts.astype(object).where(facts.notna(), None)
    known["taken"] = pd.Series([pd.Timestamp(taken).to_pydatetime() for taken in facts["taken"]], dtype=object)
    facts = arranged(known, places or {})

    rows = rows.assign(session=rows["run"].map({path: number for number, path in facts["path"].items()}))
    rows = rows.dropna(subset="session").astype({"case": object, "session": np.intp, "time_us": float})
    named = sorted(rows["case"].unique())
    wanted = list(filter(selector(expression), named))
    if not wanted:
        what = f"is selected by -k {expression!r}; give another expression" if expression else "was timed"
        there = f"{counted(len(named), 'case')} in {counted(len(facts), 'run')}"
        raise PeakgateError(f"{chosen}: none of the {there} {what}", Code.SELECTION)
    of_host = frozenset(own.loc[is_of_host(own), "case"])
    rows = rows[rows["case"].isin(wanted)].set_index(["case", "session"])[list(VALUES)].sort_index()
    rows["fingerprint"] = rows["fingerprint"].astype(object).where(rows["fingerprint"].notna(), None)
    rows = rows.astype(dict.fromkeys(("samples", "sampling_error", "sm_clock_mhz"), float))
    return _without_retired(History(chosen, facts, rows, of_host=of_host))


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


def arranged(facts: pd.DataFrame, places: CommitPlaces) -> pd.DataFrame:
    """The sessions (oldest first), with those of one GPU and environment reordered by their commits.

    A commit outside ``places``, for example on a branch, stays after those measured before it.
    """
    if not places:
        return facts

    def place(commit: str) -> float:
        if len(commit) < FULL_HASH:
            commit = next((each for each in places if each.startswith(commit)), commit)
        return places.get(commit, float("nan"))

    known = facts["commit"].map(lambda commit: place(str(commit))).to_numpy(np.float64)
    order = np.arange(len(facts))
    for of_gpu in facts.groupby(facts["uuid"].fillna("")).indices.values():
        _, changed = last_known(facts.iloc[of_gpu][list(ENVIRONMENT)])
        environment = np.cumsum(changed.any(axis=1).to_numpy())
        for numbers in (of_gpu[environment == each] for each in np.unique(environment)):
            own = known[numbers]
            reached = np.maximum.accumulate(np.where(np.isnan(own), -1.0, own))
            order[numbers] = numbers[np.argsort(np.where(np.isnan(own), reached, own), kind="stable")]
    return facts.iloc[order].reset_index(drop=True)


def first_parents(folder: Path) -> CommitPlaces:
    """The first-parent history of HEAD; empty outside a repository."""
    try:
        listed = git.ask(folder, "rev-list", "--first-parent", "--reverse", "HEAD").decode().split()
    except PeakgateError:
        return {}
    return {commit: place for place, commit in enumerate(listed)}


def _without_retired(found: History) -> History:
    """The history without cases that the newest complete sessions of their tier no longer measured.

    A case that other sessions have timed since has changed its tier: only its older times are dropped.
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
    return replace(found, rows=found.rows[kept], retired=tuple(sorted(retired)), dropped=left)


def commit_name(session: SessionFacts) -> str:
    """The label of a session's commit."""
    return one_line(commit_label(session.commit, session.dirty))
