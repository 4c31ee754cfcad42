"""The search: compares points with GOOD by bisection until one is left, and confirms it; pure.

Points are commits or versions of a package, oldest first: GOOD, those between, BAD. Since one comparison may be wrong,
the remaining point is compared with the one before it and reported only if it is slower: a wrong point is reported only
if two comparisons are wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from msgspec import Struct

from peakgate.base.records import Finite
from peakgate.base.verdict import ExitCode, Verdict


class PointState(Enum):
    """State of a point after its comparison with GOOD."""

    GOOD = auto()
    BAD = auto()
    SKIP = auto()


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
    points: Sequence[str], judge: Callable[[str], CaseRow], compare: Callable[[str, str], CaseRow]
) -> SearchResult:
    """Find the point that made a case slower, given that it is slower at the last point than at the first.

    ``judge`` compares a point with the first one, here always that nearest to the middle; what it does not decide is
    skipped. ``compare`` measures two points. Their exceptions end the search.
    """
    steps: dict[str, str] = {}
    good, bad, skipped = 0, len(points) - 1, set[int]()
    while untested := [at for at in range(good + 1, bad) if at not in skipped]:
        at = min(untested, key=lambda each: abs(2 * each - good - bad))
        row = judge(points[at])
        steps[points[at]] = f"{row.verdict}, {row.reason}"
        match row.state:
            case PointState.GOOD:
                good = at
            case PointState.BAD:
                bad = at
            case PointState.SKIP:
                skipped.add(at)
    before, suspects = points[good], points[good + 1 : bad + 1]
    if len(suspects) > 1:
        return SearchResult(
            ExitCode.UNDECIDED, suspects, "some were skipped, and one of them may be the first", steps=steps
        )
    border = compare(before, suspects[0])
    if border.state is PointState.BAD:
        return SearchResult(ExitCode.REGRESSION, suspects, "", before, border, steps)
    reason = f"the one that is left is not slower than the one before it: {border.verdict}, {border.reason}"
    return SearchResult(ExitCode.UNDECIDED, suspects, reason, before, border, steps)
