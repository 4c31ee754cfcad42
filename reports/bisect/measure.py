"""Measures pairs of two groups of commits, each in a worktree of its own, as ``ab`` measures pairs.

The pairs of two commits are a record of ``ab`` in a folder of their own; a bisect that goes on takes them from there
before it measures more. ``peakgate decide FOLDER`` decides such a record again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from peakgate.core.errors import Code, PeakgateError
from peakgate.core.verdict import FAULTY, Verdict
from peakgate.reports.ab.experiment import Means, add_pairs
from peakgate.reports.ab.folders import SideFolder
from peakgate.reports.ab.plan import Plan
from peakgate.reports.ab.process import SideBroken, built_environment
from peakgate.reports.ab.record import MANIFEST, AbRecord, PairSettings, load_record, log_ratios, refusal, whole_pairs
from peakgate.reports.ab.schedule import Phase, Side
from peakgate.reports.bisect.commits import PointFolder, at_commit, short
from peakgate.reports.bisect.search import Unusable


class Rig(ExitStack):
    """Pairs of one case at the commits that stand for the groups, by group; a context that removes its worktrees."""

    def __init__(
        self, commits: Sequence[str], case: str, settings: PairSettings, means: Means, place: PointFolder = at_commit
    ) -> None:
        super().__init__()
        self._place = place
        self._commits, self._case, self._settings, self._means = commits, case, settings, means
        self._folders: dict[str, SideFolder] = {}
        self._records: dict[tuple[str, str], AbRecord] = {}
        self._given: dict[tuple[str, str], int] = {}

    @property
    def measured(self) -> set[str]:
        """The commits with at least one pair."""
        return {commit for both, record in self._records.items() if _pairs(record) for commit in both}

    @property
    def pairs(self) -> int:
        return sum(_pairs(record) for record in self._records.values())

    def __call__(self, base: int, head: int, count: int) -> Sequence[float]:
        """ln(head / base) of pairs that were not given before, saved ones first.

        Unusable where head cannot be measured; where base cannot, that is a PeakgateError.
        """
        both = self._commits[base], self._commits[head]
        out = self._means.out / f"{short(both[0])}-{short(both[1])}"
        record = self._record(both, out)
        given = self._given.get(both, 0)
        missing = given + count - _pairs(record)
        try:
            if missing > 0:
                add_pairs(record, missing, Means(out, self._means.budget, self._means.progress))
        except SideBroken as broken:
            if broken.which == Side.BASE:
                raise PeakgateError(
                    f"{short(both[0])}: {broken.reason}; a base that runs is needed", Code.SIDE
                ) from None
            raise Unusable(broken.reason) from None
        finally:
            record.save(out)
        self._given[both] = given + count
        values = log_ratios(record, Phase.SCREEN, [self._case])[0][given : given + count]
        times = [float(value) for value in values if math.isfinite(value)]
        if not times:
            raise Unusable(_why(record, self._case))
        return times

    def folder(self, commit: str) -> SideFolder:
        """The commit's worktree, with the project's own build run in it."""
        if commit not in self._folders:
            name, folder = short(commit), self.enter_context(self._place(commit))
            built_environment(name, folder, self._means.out / f"{name}-build.log")
            self._folders[commit] = folder
        return self._folders[commit]

    def _record(self, both: tuple[str, str], out: Path) -> AbRecord:
        if both not in self._records:
            out.mkdir(parents=True, exist_ok=True)
            try:
                base, head = (self.folder(commit) for commit in both)
            except SideBroken as broken:
                raise Unusable(str(broken)) from None
            record = AbRecord(base, head, self._settings, Plan(measured=(self._case,)))
            if (out / MANIFEST).is_file():
                saved = load_record(out)
                record.processes, record.runs = saved.processes, saved.runs
            self._records[both] = record
        return self._records[both]


def _pairs(record: AbRecord) -> int:
    return len(whole_pairs(record, Phase.SCREEN))


def _why(record: AbRecord, case: str) -> str:
    """Why there are no times: what either side says, head first."""
    untimed = [*FAULTY, Verdict.INCONCLUSIVE]
    said = (refusal(record, which, case, untimed) for which in (Side.HEAD, Side.BASE))
    return next((reason for reason in said if reason), "this GPU cannot run it")
