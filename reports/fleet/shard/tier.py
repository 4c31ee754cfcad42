"""The cases of a tier, how long each should take, and which GPU measures which, with common cases that all measure.

``python -m peakgate.reports.fleet.shard.tier TIER SCALE`` prints the cases of the project at hand as JSON. A record per
case: its id, the peak that binds it (null for a benchmark test), and the least time it can take. Families and tests of
the project are imported in this process, not in the command that spreads them over GPUs.
"""

from __future__ import annotations

import heapq
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from peakgate.case import Case, Scale, Tier
from peakgate.common.errors import PeakgateError, refused
from peakgate.common.processes import Asked, own_module
from peakgate.judge.metrics import Peaks
from peakgate.project.config import Project
from peakgate.reports.runs.runfile import run_files
from peakgate.reports.runs.sessions import SavedSession, read_session
from peakgate.verdict import ExitCode

COMMON, COMMON_SHARE = 24, 0.1
"""About so many cases are measured on every GPU, of a small tier this share."""

FEWEST_COMMON = 4
"""Of each group, where it has as many."""

LONGEST_COMMON_S = 0.2
"""A case that takes longer is not measured on every GPU where there are enough others."""


@dataclass(frozen=True, slots=True)
class Shares:
    """Which cases each GPU measures, by uuid: its own, and the ``common`` ones of all, in that order."""

    common: tuple[str, ...]
    own: dict[str, tuple[str, ...]]

    def of(self, uuid: str) -> tuple[str, ...]:
        """The cases of one GPU."""
        return (*self.common, *self.own[uuid])

    @property
    def cases(self) -> tuple[str, ...]:
        """Every case, once."""
        return (*self.common, *(case for cases in self.own.values() for case in cases))


def split(cases: Sequence[ExpectedCase], uuids: Sequence[str]) -> Shares:
    """Shares of about the same expected time: the longest case first, each to the GPU with the least so far."""
    common = _common(cases)
    left = sorted((each for each in cases if each.case not in common), key=lambda each: (-each.seconds, each.case))
    own: dict[str, list[str]] = {uuid: [] for uuid in uuids}
    loads = [(0.0, at) for at in range(len(uuids))]
    for each in left:
        seconds, at = heapq.heappop(loads)
        own[uuids[at]].append(each.case)
        heapq.heappush(loads, (seconds + each.seconds, at))
    return Shares(common, {uuid: tuple(chosen) for uuid, chosen in own.items()})


def _common(cases: Sequence[ExpectedCase]) -> tuple[str, ...]:
    """Cases of every group (memory, compute, link), evenly over the names of its cheaper ones."""
    wanted = min(COMMON, round(COMMON_SHARE * len(cases)))
    chosen: list[str] = []
    for group in sorted({str(each.bound) for each in cases}):
        members = [each for each in cases if str(each.bound) == group]
        names = sorted(each.case for each in members if each.seconds <= LONGEST_COMMON_S) or [
            each.case for each in members
        ]
        count = min(max(FEWEST_COMMON, round(wanted * len(members) / len(cases))), len(names))
        chosen += [names[(2 * place + 1) * len(names) // (2 * count)] for place in range(count)]
    return tuple(chosen)


LISTING_LIMIT_S = 300.0
PEAKS = Peaks(4800.0, 67.0, "about an H200's", link_gbs=64.0)
"""They only weigh cases."""

FRACTION = 0.3
"""Of the peak a kernel that was never measured is taken to reach."""

CASE_S, LAUNCHES = 0.035, 16
"""What a case costs beside its launches, in seconds, and how many of those it needs: from full tiers of an H200."""


@dataclass(frozen=True, slots=True)
class ExpectedCase:
    """A case of the tier, the peak that binds it (None for a benchmark test), and the seconds that it should take."""

    case: str
    bound: str | None
    seconds: float


def listed(project: Project, tier: str, scale: Scale) -> list[dict[str, Any]]:
    """The cases of a tier, a record each as ``main`` prints it; a PeakgateError where they cannot be listed."""
    command = own_module("peakgate.reports.fleet.shard.tier", tier, scale.value)
    with Asked(command, LISTING_LIMIT_S, cwd=project.root) as asked:
        done = asked.finish()
    try:
        records: list[dict[str, Any]] = json.loads(done.output)
    except ValueError:
        problem = done.problem or "it answers with no JSON"
        raise PeakgateError(f"{project.root}: its cases cannot be listed: {problem}") from None
    if not records:
        raise PeakgateError(f"{project.root}: no case in the tier {tier}; nothing to spread over GPUs")
    return records


def expected(records: Sequence[Mapping[str, Any]], project: Project, tier: str, slug: str | None) -> list[ExpectedCase]:
    """The same with expected seconds: by the newest whole run of the tier on this GPU model.

    What it lacks is taken to reach a fraction of an H200's peak.
    """
    session = _newest(project, tier, slug)
    known = session.times_us if session else {}
    return [
        ExpectedCase(each["case"], each["bound"], CASE_S + LAUNCHES * known.get(each["case"], each["time_us"]) / 1e6)
        for each in records
    ]


def _newest(project: Project, tier: str, slug: str | None) -> SavedSession | None:
    """The newest whole run of a tier on a GPU model, saved or kept."""
    if slug is None:
        return None
    files = [*run_files(project.runs / slug), *run_files(project.baselines / slug / "runs")]
    for file in sorted(files, key=lambda path: path.name, reverse=True):
        found = read_session(file)
        if isinstance(found, SavedSession) and found.whole and found.tier == tier:
            return found
    return None


def _record(case: Case) -> dict[str, Any]:
    least = PEAKS.least_time_us(case.work, case.roof) if case.work.claimed else None
    time_us, bound = (0.0, None) if least is None else least
    return {"case": case.id, "bound": bound, "time_us": time_us / FRACTION}


def main(arguments: Sequence[str]) -> int:
    """Print the cases; exit 2 on bad input."""
    from peakgate.project import catalogue, config  # noqa: PLC0415  (the command that spreads them does without)
    from peakgate.run import benchmark_tests  # noqa: PLC0415

    tier, scale = Tier(arguments[0]), Scale(arguments[1])
    try:
        project = config.required()
        cases = catalogue.cases(scale, tier)
        tests = benchmark_tests.collected(project, {case.id for case in cases})
    except PeakgateError as error:
        return refused(error)
    records = [*map(_record, cases), *({"case": each, "bound": None, "time_us": 0.0} for each in tests)]
    sys.stdout.write(json.dumps(records))
    return ExitCode.OK


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
