"""Propose floors from saved sessions; people decide which they take.

A floor has to hold on the next session too, so it lies below the worst one seen:

    floor = min over sessions of the fraction of peak x (1 - margin), rounded down to 3 significant digits
    margin = max(2 %, 3 x relative SD between sessions)

The SD is the larger of the case's own and the one steadied across cases, and for kernels under 20 µs at least what such
kernels were seen to have: a few sessions agree by luck.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from peakgate.common.errors import PeakgateError
from peakgate.judge.floors import Floors, origin_comment, revise_floors
from peakgate.reports import noise
from peakgate.reports.frame import tidy
from peakgate.reports.render.words import one_line
from peakgate.reports.runfile import Run
from peakgate.verdict import FAULTY, Verdict

FEWEST_SESSIONS = 2
SESSIONS_TO_TRUST = 5
LEAST_MARGIN = 0.02
MARGIN_SDS = 3.0
SIGNIFICANT_DIGITS = 3
MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class Proposal:
    """A floor for a case and what it rests on; ``present`` is the floor it has today, None when it has none."""

    case: str
    floor: float
    present: float | None
    origin: str


@dataclass(frozen=True, slots=True)
class Proposals:
    """``raised`` are new or higher floors; ``lowered`` would be lower than today's and are kept apart.

    ``skipped`` are cases the sessions say too little about: wrong in any of them, or decided, with a known fraction of
    peak, in fewer than two.
    """

    gpu: str
    raised: tuple[Proposal, ...]
    lowered: tuple[Proposal, ...]
    skipped: tuple[str, ...]


def floor_of(peak_fractions: Sequence[float], relative_sd: float) -> float:
    """The floor by the formula above; the fractions are one a session, the SD is between sessions."""
    margin = max(LEAST_MARGIN, MARGIN_SDS * relative_sd)
    exact = min(peak_fractions) * (1 - margin)
    if exact <= 0:
        return 0.0
    decimals = SIGNIFICANT_DIGITS - 1 - math.floor(math.log10(exact))
    scale = 10.0**decimals
    return round(math.floor(exact * scale) / scale, decimals)


def propose(runs: Sequence[Run], present: Floors) -> Proposals:
    """Floors for every case that at least two of the sessions decided; the runs are of one GPU model, not emulated."""
    _check(runs, present)
    frame = tidy(runs)
    told = {case: each.verdict for run in runs for case, each in run.unmeasured.items()}
    wrong = {case for case, verdict in told.items() if verdict in FAULTY}
    wrong |= set(frame.loc[frame["verdict"].isin(FAULTY), "case"])
    decided = (frame["verdict"] != Verdict.INCONCLUSIVE) & frame["peak_fraction"].notna()
    known = frame[decided & ~frame["case"].isin(list(wrong))]
    fractions = {str(case): group["peak_fraction"].tolist() for case, group in known.groupby("case", sort=False)}
    kept = {case: values for case, values in fractions.items() if len(values) >= FEWEST_SESSIONS}
    spreads = _relative_sds(known[known["case"].isin(list(kept))], list(kept))
    origins = _origins(known, kept, runs)
    every = [
        Proposal(case, floor_of(values, spreads[case]), present.get(case), origins[case])
        for case, values in kept.items()
    ]
    usable = [proposal for proposal in every if proposal.floor > 0]
    return Proposals(
        gpu=runs[0].slug,
        raised=tuple(each for each in usable if each.present is None or each.floor > each.present),
        lowered=tuple(each for each in usable if each.present is not None and each.floor < each.present),
        skipped=tuple(sorted((set(frame["case"]) | set(told)) - {each.case for each in usable})),
    )


def revised(text: str, proposals: Proposals, *, lower: bool = False) -> str:
    """The text of floors.toml with the raised floors, and the lowered ones when asked for."""
    taken = proposals.raised + (proposals.lowered if lower else ())
    if not taken:
        return text
    return revise_floors(text, proposals.gpu, {each.case: (each.floor, each.origin) for each in taken})


def diff(before: str, after: str, path: Path) -> str:
    """The change as a unified diff that ``git apply`` and ``patch`` take; empty when there is none."""
    name = path.as_posix().lstrip("/")
    names = f"a/{name}", f"b/{name}"
    lines = difflib.unified_diff(before.splitlines(keepends=True), after.splitlines(keepends=True), *names)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def summary(proposals: Proposals, sessions: int, *, lower: bool = False, everything: bool = False) -> str:
    """What the diff holds and what it leaves out, a line each, each ending in a line break.

    Of a long list the first few are named, those that would fall furthest first; all of them with ``everything``.
    """
    fresh = sum(each.present is None for each in proposals.raised)
    lines = [f"{fresh} new floors, {len(proposals.raised) - fresh} raised, from {sessions} sessions of {proposals.gpu}"]
    if sessions < SESSIONS_TO_TRUST:
        lines.append(f"warning: {sessions} sessions say little about spread; --write takes {SESSIONS_TO_TRUST} or more")
    most = None if everything else MOST_NAMED
    if proposals.lowered:
        count = f"{len(proposals.lowered)} floors would be lower"
        lines.append(f"{count}: lowered" if lower else f"{count}: left as they are without --lower")
        lines += [
            f"  {each.case}: {each.present} to {each.floor}, {each.origin}" for each in _falling(proposals)[:most]
        ]
        lines += _rest(len(proposals.lowered), most)
    if proposals.skipped:
        lines.append(f"no floor for {len(proposals.skipped)} cases: {', '.join(proposals.skipped[:most])}")
        lines += _rest(len(proposals.skipped), most)
    return "".join(f"{one_line(line)}\n" for line in lines)


def check_enough(sessions: int) -> None:
    """Refuse to write floors from sessions too few to know the spread between them."""
    if sessions < SESSIONS_TO_TRUST:
        raise PeakgateError(
            f"--write: {sessions} sessions say too little about the spread between sessions; measure "
            f"{SESSIONS_TO_TRUST - sessions} more with `nox -s bench` and give all of them"
        )


def _falling(proposals: Proposals) -> list[Proposal]:
    """Proposals lower than today's floor, by how much they are, the largest fall first."""
    return sorted(proposals.lowered, key=lambda each: each.floor / (each.present or each.floor))


def _rest(count: int, most: int | None) -> list[str]:
    return [] if most is None or count <= most else [f"  and {count - most} more; --all names them"]


def _check(runs: Sequence[Run], present: Floors) -> None:
    slugs = sorted({run.slug for run in runs})
    if len(slugs) > 1:
        raise PeakgateError(f"runs of {' and '.join(slugs)}: floors belong to one GPU model; name the runs of one")
    if runs[0].emulated:
        raise PeakgateError("emulated runs claim no fraction of peak: floors need runs of a GPU")
    if len(runs) < FEWEST_SESSIONS:
        raise PeakgateError(
            f"{runs[0].path}: one session cannot tell a floor from luck; give at least {FEWEST_SESSIONS},"
            f" better {SESSIONS_TO_TRUST}"
        )
    if present.gpu not in {None, slugs[0]}:
        raise PeakgateError(f"{present.path}: floors of {present.gpu}, runs of {slugs[0]}; name the right --baselines")


def _relative_sds(known: pd.DataFrame, cases: Sequence[str]) -> Mapping[str, float]:
    """SD between sessions of each case: the largest of its own, the steadied one, and that of its duration."""
    logs = np.log(known["time_us"]).groupby(known["case"], sort=False)
    variance = logs.var().reindex(cases).to_numpy(dtype=float)
    df = (logs.count().reindex(cases) - 1).to_numpy(dtype=float)
    log_time = logs.mean().reindex(cases).to_numpy(dtype=float)
    steadied, _ = noise.squeeze(variance, df, log_time)
    short = [noise.short_kernel_sd(float(np.exp(each))) for each in log_time]
    return dict(zip(cases, np.maximum(np.sqrt(np.maximum(variance, steadied)), short).tolist(), strict=True))


def _origins(known: pd.DataFrame, fractions: Mapping[str, Sequence[float]], runs: Sequence[Run]) -> Mapping[str, str]:
    drivers = ", ".join(sorted({one_line(run.driver or "unknown") for run in runs}))
    date = f"{max(run.taken for run in runs):%Y-%m-%d}"
    spread = 100 * np.log(known["time_us"]).groupby(known["case"]).std()
    return {
        case: origin_comment(len(values), float(np.median(values)), float(spread[case]), drivers, date)
        for case, values in fractions.items()
    }
