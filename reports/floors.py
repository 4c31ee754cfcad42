"""Propose floors from saved sessions; people decide which they take.

A floor is a coarse guard that must hold in every later session on every GPU of the model: ``margins`` says how far
below the measured sessions it is. It is rounded down to 3 significant digits. A slowdown beyond a case's *room*, from
its best session to its floor, is BELOW_FLOOR on every GPU measured; a smaller one is for ``ab`` to find. Transfers
between host and device depend on the host: they get no floor.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from peakgate.common.errors import PeakgateError
from peakgate.common.files import read_text, write_whole
from peakgate.common.output import say
from peakgate.common.text import counted, one_line
from peakgate.judge.floors import Floors, Origin, load_floors, origin_comment, revise_floors
from peakgate.reports import margins
from peakgate.reports.options import add_baselines, add_run_names, named_runs, verb_parser
from peakgate.reports.runs.find import FORMS
from peakgate.reports.runs.runfile import CaseResult, Run
from peakgate.verdict import FAULTY, ExitCode, Verdict

FEWEST_FOR_FLOORS = 2
SESSIONS_TO_TRUST = 5
SIGNIFICANT_DIGITS = 3
MOST_NAMED_FLOORS = 5
NOT_GATED = "link"
"""``bound`` of a transfer between host and device."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A floor for a case and what it rests on; ``present`` is the floor it has today, None when it has none.

    ``room`` is the relative slowdown that is below the proposed floor on every GPU measured.
    """

    case: str
    floor: float
    present: float | None
    origin: str
    room: float


@dataclass(frozen=True, slots=True)
class Proposals:
    """``raised`` are new or higher floors; ``lowered`` would be lower than today's and are kept apart.

    ``every`` holds all proposals, those equal to today's floor too. ``skipped`` are cases the sessions say too little
    about: wrong in any of them, or decided, with a known fraction of peak, in fewer than two. ``transfers`` are between
    host and device: they have no floor, ``dropped`` are those that have one today. ``gpus`` is how many GPUs were seen.
    """

    gpu: str
    gpus: int
    every: tuple[Proposal, ...]
    skipped: tuple[str, ...]
    transfers: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()

    @property
    def raised(self) -> tuple[Proposal, ...]:
        return tuple(each for each in self.every if each.present is None or each.floor > each.present)

    @property
    def lowered(self) -> tuple[Proposal, ...]:
        return tuple(each for each in self.every if each.present is not None and each.floor < each.present)


def rounded_down(exact: float) -> float:
    """To 3 significant digits; 0 for what is not above 0."""
    if exact <= 0:
        return 0.0
    decimals = SIGNIFICANT_DIGITS - 1 - math.floor(math.log10(exact))
    scale = 10.0**decimals
    return round(math.floor(exact * scale) / scale, decimals)


def propose(runs: Sequence[Run], present: Floors) -> Proposals:
    """Floors for every case that at least two of the sessions decided; the runs are of one GPU model, not emulated."""
    _check(runs, present)
    evidence = evidence_of(runs)
    bounds = margins.bounds(evidence)
    origins = _origins(evidence, runs)
    every = []
    for case, known in evidence.items():
        floor = rounded_down(bounds[case].floor)
        if floor > 0:
            room = margins.room(floor, known.fractions)
            origin = replace(origins[case], room_percent=100 * room)
            every.append(Proposal(case, floor, present.get(case), origin_comment(origin), room))
    transfers = {case for run in runs for case, result in run.cases.items() if result.bound == NOT_GATED}
    seen = {case for run in runs for case in (*run.cases, *run.unmeasured)}
    return Proposals(
        gpu=runs[0].slug,
        gpus=len({run.uuid for run in runs}),
        every=tuple(every),
        skipped=tuple(sorted(seen - transfers - {each.case for each in every})),
        transfers=tuple(sorted(transfers)),
        dropped=tuple(sorted(transfers & set(present.by_case))),
    )


def evidence_of(runs: Sequence[Run]) -> dict[str, margins.Evidence]:
    """What the sessions say of each case that can have a floor; a run without a GPU's uuid counts as one more GPU."""
    wrong = {case for run in runs for case, each in run.unmeasured.items() if each.verdict in FAULTY}
    wrong |= {case for run in runs for case, each in run.cases.items() if each.verdict in FAULTY}
    decided: dict[str, list[tuple[str, CaseResult]]] = {}
    for run in runs:
        for case, result in run.cases.items():
            if case not in wrong and _usable(result):
                decided.setdefault(case, []).append((run.uuid or "unknown", result))
    return {case: _evidence(found) for case, found in decided.items() if len(found) >= FEWEST_FOR_FLOORS}


def _evidence(found: Sequence[tuple[str, CaseResult]]) -> margins.Evidence:
    """Of one case, by the GPU of each session and what it measured."""
    by_gpu: dict[str, list[float]] = {}
    for gpu, result in found:
        by_gpu.setdefault(gpu, []).append(float(result.peak_fraction or 0))
    time_us = float(np.median([result.time_us for _, result in found]))
    return margins.Evidence(time_us, found[-1][1].library, by_gpu)


def revised(text: str, proposals: Proposals, *, lower: bool = False) -> str:
    """The text of floors.toml with the raised floors, without those of transfers; lowered ones if asked for."""
    taken = proposals.raised + (proposals.lowered if lower else ())
    if not taken and not proposals.dropped:
        return text
    floors = {each.case: (each.floor, each.origin) for each in taken}
    return revise_floors(text, proposals.gpu, floors, proposals.dropped)


def diff(before: str, after: str, path: Path) -> str:
    """The change as a unified diff that ``git apply`` and ``patch`` take; empty when there is none."""
    name = path.as_posix().lstrip("/")
    names = f"a/{name}", f"b/{name}"
    lines = difflib.unified_diff(before.splitlines(keepends=True), after.splitlines(keepends=True), *names)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def summary(proposals: Proposals, sessions: int, *, lower: bool = False, everything: bool = False) -> str:
    """What the diff holds and what it leaves out, one line each, each ending in a line break.

    Of a long list the first few are named, those that would fall furthest first; all of them with ``everything``.
    """
    fresh = sum(each.present is None for each in proposals.raised)
    seen = f"{counted(sessions, 'session')} of {counted(proposals.gpus, 'GPU')}, {proposals.gpu}"
    lines = [f"{counted(fresh, 'new floor')}, {len(proposals.raised) - fresh} raised, from {seen}"]
    if sessions < SESSIONS_TO_TRUST:
        few = f"warning: {counted(sessions, 'session')}, too few to know the spread"
        lines.append(f"{few}; --write takes {SESSIONS_TO_TRUST} or more")
    most = None if everything else MOST_NAMED_FLOORS
    if proposals.lowered:
        count = f"{counted(len(proposals.lowered), 'floor')} would be lower"
        lines.append(f"{count}: lowered" if lower else f"{count}: left as they are without --lower")
        falling = sorted(proposals.lowered, key=lambda each: each.floor / (each.present or each.floor))
        lines += [f"  {each.case}: {each.present} to {each.floor}, {each.origin}" for each in falling[:most]]
        lines += _rest(len(proposals.lowered), most)
    if proposals.skipped:
        lines.append(f"no floor for {counted(len(proposals.skipped), 'case')}: {', '.join(proposals.skipped[:most])}")
        lines += _rest(len(proposals.skipped), most)
    if proposals.transfers:
        transfers = counted(len(proposals.transfers), "transfer")
        why = "between host and device: such times depend on the host"
        lines.append(f"no floor for {transfers} {why}; {len(proposals.dropped)} dropped")
    lines += _rooms(proposals, most)
    return "".join(f"{one_line(line)}\n" for line in lines)


def _rooms(proposals: Proposals, most: int | None) -> list[str]:
    """How large a slowdown must be to be below the proposed floors, the widest first."""
    if not proposals.every:
        return []
    rooms = [each.room for each in proposals.every]
    typical, wide = (100 * float(np.quantile(rooms, share)) for share in (0.5, 0.9))
    widest = sorted(proposals.every, key=lambda each: -each.room)
    beyond = f"{typical:.1f} % (median case), {wide:.1f} % (90 % of the cases), {100 * max(rooms):.1f} % (the widest)"
    lines = [f"room: a slowdown beyond {beyond} is BELOW_FLOOR; a smaller one is for `peakgate ab` to find"]
    lines += [f"  {each.case}: {100 * each.room:.1f} %" for each in widest[:most]]
    return lines + _rest(len(widest), most)


def check_enough(sessions: int) -> None:
    """Refuse to write floors from sessions too few to know the spread between them."""
    if sessions < SESSIONS_TO_TRUST:
        raise PeakgateError(
            f"--write: {sessions} sessions say too little about the spread between sessions; measure "
            f"{SESSIONS_TO_TRUST - sessions} more with `peakgate bench` and give all of them"
        )


def _rest(count: int, most: int | None) -> list[str]:
    return [] if most is None or count <= most else [f"  and {count - most} more; --all names them"]


def _check(runs: Sequence[Run], present: Floors) -> None:
    slugs = sorted({run.slug for run in runs})
    if len(slugs) > 1:
        raise PeakgateError(f"runs of {' and '.join(slugs)}: floors belong to one GPU model; name the runs of one")
    if runs[0].emulated:
        raise PeakgateError("emulated runs claim no fraction of peak: floors need runs of a GPU")
    if len(runs) < FEWEST_FOR_FLOORS:
        raise PeakgateError(
            f"{runs[0].path}: one session cannot separate a floor from luck; give at least {FEWEST_FOR_FLOORS},"
            f" better {SESSIONS_TO_TRUST}"
        )
    if present.gpu not in {None, slugs[0]}:
        raise PeakgateError(f"{present.path}: floors of {present.gpu}, runs of {slugs[0]}; name the right --baselines")


def _usable(result: CaseResult) -> bool:
    if result.bound == NOT_GATED or result.verdict is Verdict.INCONCLUSIVE:
        return False
    return result.peak_fraction is not None and result.peak_fraction > 0


def _origins(evidence: Mapping[str, margins.Evidence], runs: Sequence[Run]) -> Mapping[str, Origin]:
    drivers = ", ".join(sorted({one_line(run.driver or "unknown") for run in runs}))
    date = f"{max(run.taken for run in runs):%Y-%m-%d}"
    return {
        case: Origin(
            sessions=len(known.fractions),
            gpus=len(known.by_gpu),
            median=float(np.median(known.fractions)),
            spread_percent=100 * float(np.std(np.log(known.fractions), ddof=1)),
            driver=drivers,
            date=date,
        )
        for case, known in evidence.items()
    }


def main(verb: str, arguments: Sequence[str]) -> int:
    """Propose floors from the named runs, and with ``--write`` change floors.toml."""
    parser = verb_parser(
        verb, f"Propose floors from 5 or more sessions, as a diff; 2 are enough for a look. Each RUN is {FORMS}."
    )
    add_run_names(parser)
    add_baselines(parser)
    parser.add_argument("--lower", action="store_true", help="take floors lower than today's too")
    parser.add_argument("--write", action="store_true", help="change floors.toml, from 5 or more sessions")
    parser.add_argument("--all", action="store_true", help="name every case that keeps or lacks a floor")
    options = parser.parse_args(arguments)

    runs = named_runs(options)
    path = options.baselines / runs[0].slug / "floors.toml"
    present = load_floors(path, gpu=runs[0].slug)
    text = read_text(path) if present.present else ""
    proposals = propose(runs, present)
    proposed = revised(text, proposals, lower=options.lower)
    say(diff(text, proposed, path))
    say(summary(proposals, len(runs), lower=options.lower, everything=options.all))
    if options.write:
        check_enough(len(runs))
    if options.write and proposed != text:
        write_whole(path, proposed)
        say(f"written: {path}")
    return ExitCode.OK
