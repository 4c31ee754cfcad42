"""Finds the change points of a history: the steps of each case, which ``causes`` attributes and places; pure.

Each case is one series over the sessions of all GPUs, with a level per GPU. Shifts that many cases share are removed
first (`common`). Known changes of the environment (driver, NVRTC, libraries, firmware, power limit) are candidate
positions, and shifts there are attributed to them. docs/explanation/change-points.md gives the error rates.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from peakgate.compare import gpus as models
from peakgate.compare import noise
from peakgate.compare.history.causes import Causes, ChangePoint, Judged, Place, locate
from peakgate.compare.history.common import shared
from peakgate.compare.history.levels import Series, case_series
from peakgate.compare.history.newest import arrivals, newest_step, shares
from peakgate.compare.history.series import History, last_known
from peakgate.compare.history.steps import Change, find_steps
from peakgate.compare.judge import FEWEST_CASES_FOR_SUITE
from peakgate.compare.noise import Bools, Floats
from peakgate.runfile.schema import ENVIRONMENT

NOW = 3  # newest sessions whose median gives the current common shift


class Changes(NamedTuple):
    """All change points of a history, newest first, and the result of each case that was searched.

    ``suite`` is the result of the common shift ``share`` (by session); None with too few cases. ``launch`` holds the
    changes of the common time per launch, in microseconds.
    """

    points: tuple[ChangePoint, ...]
    cases: Mapping[str, Judged]
    suite: Judged | None
    share: Floats
    launch: tuple[tuple[Change, Place], ...]


def find_changes(history: History) -> Changes:
    """Search every case, and the common shifts of the GPU's times; the host's times are searched by themselves."""
    found = _find(history.part(of_host=False), of_host=False)
    if not (of_host := history.part(of_host=True)).cases:
        return found
    other = _find(of_host, of_host=True)
    points = sorted((*found.points, *other.points), key=_newest_first)
    return found._replace(points=tuple(points), cases={**found.cases, **other.cases})


def _newest_first(point: ChangePoint) -> tuple[float, float, str]:
    return -point.number, -abs(point.log_ratio), point.case


def _find(history: History, *, of_host: bool) -> Changes:
    """Search cases whose times are all of the GPU, or all ``of_host``, which are known to share no shift."""
    gpus = np.zeros(len(history.facts), dtype=np.intp)
    for number, own in enumerate(history.by_gpu.values()):
        gpus[own] = number
    known = np.array([*_environment_changes(history)], dtype=bool).reshape(-1, len(gpus))
    times = np.full_like(history.log_time, np.nan) if of_host else history.log_time
    common = shared(times, gpus, known, history.codes)
    columns = np.vstack([known, common.events])
    searched = case_series(Series(history.log_time - common.removed, gpus, columns))
    count = sum(each is not None for each in searched)  # they share the error
    found = {row: find_steps(case, count) for row, case in enumerate(searched) if case}
    hosts_moved = common.launch and newest_step(common.launch, [common.launch], 1.0)
    every = list(found.values())
    causes = Causes(history, columns, len(known), found, common.per_launch_us, of_host=of_host)
    cases: dict[str, Judged] = {}
    for (row, each), share in zip(found.items(), shares(every), strict=True):
        arrived = arrivals(each, 1 if of_host else count, models.usual(math.exp(each.offset), of_host=of_host))
        young = newest_step(each, every, share, arrived)
        if young and of_host and abs(young.log_ratio) <= noise.OF_ANOTHER_HOST:
            young = None  # another host, or this one after a restart, differs by as much
        if young and not of_host and (hosts_moved or count >= FEWEST_CASES_FOR_SUITE):
            size_us, cut = young.log_ratio * math.exp(each.offset), len(each.at) - young.sessions
            good, bad = int(each.at[cut - 1]), int(each.at[cut])
            if abs(size_us) <= noise.PROCESS_OFFSET_US and (hosts_moved or causes.of_many(size_us, good, bad)):
                young = None  # explained by what another host adds to every launch
        removed = float(np.median(common.removed[row, each.at[-NOW:]]))
        cases[history.cases[row]] = causes.judged(row, each, young, arrived, removed)
    suite: Judged | None = None
    launch: list[tuple[Change, Place]] = []
    if common.suite and common.launch:
        arrived = arrivals(common.suite, 1, models.usual(math.inf))
        suite = causes.judged(None, common.suite, newest_step(common.suite, [common.suite], 1.0, arrived), arrived)
        at = common.launch.at
        launch = [(each, locate(history, None, at, each.good, each.bad)) for each in common.launch.changes]
    points = sorted((point for each in cases.values() for point in each.points), key=_newest_first)
    return Changes(tuple(points), cases, suite, common.share, tuple(launch))


def _environment_changes(history: History) -> Iterator[Bools]:
    """For each change of the environment, a mask of the sessions after it, each GPU since its own change."""
    found: dict[tuple[object, ...], Bools] = {}
    for numbers in history.by_gpu.values():
        facts = history.facts.loc[numbers, list(ENVIRONMENT)]
        before, changed = last_known(facts)
        times: dict[tuple[object, ...], int] = {}
        for at in np.flatnonzero(changed.any(axis=1)):
            names = changed.columns[changed.iloc[at]]
            what = (*names, *before.iloc[at][names], *facts.iloc[at][names])
            times[what] = times.get(what, 0) + 1
            after = found.setdefault((*what, times[what]), np.zeros(len(history.facts), dtype=bool))
            after[numbers[at:]] = True
    yield from found.values()
