"""The search: compares points with GOOD until one is left, and confirms it; pure.

Points are commits or versions of a package, oldest first: GOOD, those between, BAD. Since one comparison may be wrong,
the remaining point is compared with the one before it and reported only if it is slower: a wrong point is reported only
if two comparisons are wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from msgspec import Struct

from peakgate.base.records import Finite
from peakgate.base.verdict import ExitCode, Verdict


class PointState(IntEnum):
    """State of a point after its comparison with GOOD; the values are exit codes for ``git bisect run``."""

    GOOD = 0
    BAD = 1
    SKIP = 125


class CaseRow(Struct, frozen=True):
    """A row of the JSON document of ``ab``."""

    case: str
    verdict: Verdict
    reason: str
    change_percent: Finite | None = None
    low_percent: Finite | None = None
    high_percent: Finite | None = None

    @property
    def state(self) -> PointState:
        """SKIP if ``ab`` did not decide, or the case is absent, does not build or is wrong at the point."""
        if self.verdict in (Verdict.SAME, Verdict.FASTER):
            return PointState.GOOD
        return PointState.BAD if self.verdict is Verdict.SLOWER else PointState.SKIP


Judge = Callable[[str], PointState]


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The points that may have made the case slower: none (exit code 0), one (1), or several that remain (3).

    ``border`` compares the remaining point with the one ``before`` it. ``steps``: verdict and reason by point.
    """

    exit_code: ExitCode
    suspects: Sequence[str] = ()
    reason: str = ""
    before: str = ""
    border: CaseRow | None = None
    steps: Mapping[str, str] = field(default_factory=dict)


def search(
    points: Sequence[str], narrowed: Callable[[Judge], Sequence[str]], compare: Callable[[str, str], CaseRow]
) -> SearchResult:
    """Find the point that made a case slower, given that it is slower at the last point than at the first.

    ``narrowed`` calls the judge on points and returns those that may be the first bad one, all but the last of them
    skipped. ``compare`` measures two points; its exceptions end the search.
    """
    steps: dict[str, str] = {}

    def judge(point: str) -> PointState:
        row = compare(points[0], point)
        steps[point] = f"{row.verdict}, {row.reason}"
        return row.state

    suspects = narrowed(judge)
    if len(suspects) > 1:
        return SearchResult(
            ExitCode.UNDECIDED, suspects, "some were skipped, and one of them may be the first", steps=steps
        )
    before = points[points.index(suspects[0]) - 1]
    border = compare(before, suspects[0])
    if border.state is PointState.BAD:
        return SearchResult(ExitCode.REGRESSION, suspects, "", before, border, steps)
    reason = f"the one that is left is not slower than the one before it: {border.verdict}, {border.reason}"
    return SearchResult(ExitCode.UNDECIDED, suspects, reason, before, border, steps)


def halved(points: Sequence[str], judge: Judge) -> Sequence[str]:
    """Implements ``narrowed`` of ``search`` without git: bisection, testing the point nearest to the middle."""
    good, bad, skipped = 0, len(points) - 1, set[int]()
    while untested := [at for at in range(good + 1, bad) if at not in skipped]:
        at = min(untested, key=lambda each: abs(2 * each - good - bad))
        match judge(points[at]):
            case PointState.GOOD:
                good = at
            case PointState.BAD:
                bad = at
            case PointState.SKIP:
                skipped.add(at)
    return points[good + 1 : bad + 1]
