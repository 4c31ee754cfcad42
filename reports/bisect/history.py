"""The commits between GOOD and BAD, and what each of them builds; no GPU is needed when a capability is named."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from peakgate.common.errors import PeakgateError
from peakgate.common.git import commit_of
from peakgate.reports.ab.build import build_side
from peakgate.reports.ab.code import read_code
from peakgate.reports.ab.folders import Wanted, git, placed
from peakgate.reports.ab.process import SideBroken, side_environment
from peakgate.reports.bisect.groups import Commit

AT_A_TIME = min(8, os.cpu_count() or 1)
SHORT = 12


@dataclass(frozen=True, slots=True)
class Target:
    """What is built: the cases of a tier, or one case of it, for a compute capability (None: the GPU's)."""

    tier: str
    capability: str | None = None
    case: str = ""


def listed(good: str, bad: str) -> list[tuple[str, str]]:
    """Commits and subjects from GOOD to BAD, both of them too, oldest first, along first parents.

    A PeakgateError where GOOD is no ancestor of BAD.
    """
    first, last = commit_of(good, Path(), "GOOD"), commit_of(bad, Path(), "BAD")
    if first == last:
        raise PeakgateError(f"{good} and {bad} are the same commit; name an older one as GOOD")
    if git("merge-base", first, last) != first:
        raise PeakgateError(f"{good} is no ancestor of {bad}; name one that is, see `git merge-base {good} {bad}`")
    between = git("rev-list", "--reverse", "--first-parent", f"{first}..{last}").splitlines()
    return [(commit, git("show", "--no-patch", "--format=%s", commit)) for commit in (first, *between)]


def build_all(
    commits: Sequence[tuple[str, str]],
    target: Target,
    known: Mapping[str, Commit],
    logs: Path,
    built: Callable[[Commit], object],
) -> list[Commit]:
    """Build every commit that is not yet ``known``, the ends first; ``built`` gets each as it is finished.

    A commit between that cannot be built is one with a problem; where an end cannot, that is a PeakgateError.
    """
    found = {commit: known[commit] for commit, _ in commits if commit in known}
    for commit, subject in (commits[0], commits[-1]):
        if commit not in found:
            found[commit] = _built(commit, subject, target, logs)
            built(found[commit])
        problem = found[commit].problem if not target.case else found[commit].problem_of(target.case)
        if problem is not None:
            end = "GOOD" if commit == commits[0][0] else "BAD"
            what = f"{target.case}: " if target.case else ""
            raise PeakgateError(f"{what}{end} {commit[:SHORT]} {problem}; name commits that have and build the case")
    todo = [(commit, subject) for commit, subject in commits if commit not in found]
    with ThreadPoolExecutor(max_workers=AT_A_TIME) as pool:
        waiting: set[Future[Commit]] = {pool.submit(_built, *commit, target, logs) for commit in todo}
        try:
            while waiting:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for future in done:
                    made = future.result()
                    found[made.commit] = made
                    built(made)
        finally:
            for future in waiting:
                future.cancel()
    return [found[commit] for commit, _ in commits]


def _built(commit: str, subject: str, target: Target, logs: Path) -> Commit:
    name = commit[:SHORT]
    try:
        with placed(name, Wanted(commit)) as folder:
            environment = side_environment(folder.path)
            build_side(name, folder.path, environment, logs / f"{name}-build.log")
            cases = read_code(target.tier, target.capability, name, folder, environment, case=target.case)
    except SideBroken as broken:
        return Commit(commit, subject, {}, broken.reason)
    except PeakgateError as error:
        if target.capability is None and str(error).startswith("no GPU answers"):
            raise
        return Commit(commit, subject, {}, str(error))
    return Commit(commit, subject, cases)
