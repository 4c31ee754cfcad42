"""Proposes floors from saved sessions; you decide which to adopt.

A floor must hold in every later session on every GPU of the model; ``margins`` computes how far below the measured
sessions it lies, rounded down to 3 significant digits. A case's *room* is the slowdown from its best session to its
floor: a larger one is BELOW_FLOOR on every GPU measured, a smaller one is for ``ab`` to detect. A floor's *power* is
the probability that a session on any GPU of the model is below it when slower by NOTABLE_SLOWDOWN. Transfers between
host and device depend on the host and get no floor.
"""

from __future__ import annotations

import argparse
import difflib
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from peakgate.base import config
from peakgate.base.errors import Code, PeakgateError
from peakgate.base.files import read_text, write_whole
from peakgate.base.formatting import counted, one_line
from peakgate.base.streams import say
from peakgate.base.verdict import FAULTY, ExitCode
from peakgate.compare.floors import margins
from peakgate.judge.floors import Floors, Origin, load_floors, origin_comment, revise_floors
from peakgate.runfile.find import named_runs
from peakgate.runfile.frame import is_library, is_usable, records, to_frame
from peakgate.spec.recorded import EMULATOR_SLUG

FEWEST_FOR_FLOORS = 2
SESSIONS_TO_TRUST = 5
SIGNIFICANT_DIGITS = 3
MOST_NAMED_FLOORS = 5
NOTABLE_SLOWDOWN = 0.1
"""The slowdown whose power is reported, as most floors lie within it of the measured sessions."""

MOST_ROOM = 1.0
"""A floor that a session twice as slow would reach detects too little: there is none. The widest of 247 cases of this
repository has 0.43; one session of five at half the speed widens a room to 35."""

NOT_GATED = "link"
"""``bound`` of a transfer between host and device."""


PROPOSED_COLUMNS = ("case", "floor", "present", "origin", "room", "duration", "power", "present_power")


@dataclass(frozen=True)
class Proposals:
    """Floors proposed from sessions.

    ``every`` has one row per case, also if the floor is unchanged: ``case``, ``floor``; ``present``, the current floor,
    missing if there is none; ``origin``, the comment of its evidence; ``room``, relative; ``duration``, the case's
    class; ``power`` of the proposed floor and ``present_power`` of the current one. ``skipped``: cases that are wrong
    in any session, or have a fraction of peak in too few. ``apart``: cases whose sessions differ so much that the room
    would exceed MOST_ROOM, with the lowest and highest fraction of peak. ``transfers`` between host and device get no
    floor; ``dropped`` are those that have one now. ``gpus`` is the number of GPUs.
    """

    gpu: str
    gpus: int
    every: pd.DataFrame
    skipped: tuple[str, ...]
    transfers: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()

    @property
    def raised(self) -> pd.DataFrame:
        """New and higher floors."""
        return self.every[self.every["present"].isna() | (self.every["floor"] > self.every["present"])]

    @property
    def lowered(self) -> pd.DataFrame:
        """Floors below the current one, the largest relative decrease first."""
        found = self.every[self.every["floor"] < self.every["present"]]
        return found.loc[(found["floor"] / found["present"]).sort_values(kind="stable").index]


def rounded_down(exact: float) -> float:
    """Round down to 3 significant digits; 0 unless ``exact`` is positive."""
    if exact <= 0:
        return 0.0
    decimals = SIGNIFICANT_DIGITS - 1 - math.floor(math.log10(exact))
    scale = 10.0**decimals
    return round(math.floor(exact * scale) / scale, decimals)


def propose(runs: pd.DataFrame, present: Floors, fewest: int = FEWEST_FOR_FLOORS) -> Proposals:
    """Propose a floor for every case that ``fewest`` sessions timed; ``runs`` is a frame of one GPU model."""
    slugs, names = sorted(runs["gpu_slug"].unique()), runs["run"].unique()
    if len(slugs) > 1:
        raise PeakgateError(
            f"runs of {' and '.join(slugs)}: floors belong to one GPU model; name the runs of one", Code.GPU_MODELS
        )
    if slugs[0] == EMULATOR_SLUG:
        raise PeakgateError("emulated runs have no fraction of peak: floors need runs of a GPU", Code.EMULATED)
    if len(names) < FEWEST_FOR_FLOORS:
        raise PeakgateError(
            f"{names[0]}: one session does not show the spread between sessions; give at least {FEWEST_FOR_FLOORS},"
            f" better {SESSIONS_TO_TRUST}",
            Code.TOO_FEW,
        )
    if present.gpu not in {None, slugs[0]}:
        raise PeakgateError(
            f"{present.path}: floors of {present.gpu}, runs of {slugs[0]}; correct the setting `baselines`",
            Code.GPU_MODELS,
        )
    gpu = str(slugs[0])
    found = margins.bounds(evidence_of(runs, fewest))
    found["floor"] = np.array([rounded_down(exact) for exact in found["floor"]], dtype=np.float64)
    found["room"] = found["best"] / found["floor"] - 1  # infinite without a floor above 0
    apart, found = found[found["room"] > MOST_ROOM], found[found["room"] <= MOST_ROOM]
    found = found.assign(present=[present.by_case.get(str(case), np.nan) for case in found.index])
    for name, floors in (("power", found["floor"]), ("present_power", found["present"])):
        found[name] = margins.power(found, floors, NOTABLE_SLOWDOWN)
    drivers = ", ".join(sorted({one_line(str(each or "unknown")) for each in runs["gpu_driver"].unique()}))
    date = f"{runs['taken'].max():%Y-%m-%d}"
    found["origin"] = [
        origin_comment(
            Origin(row.sessions, row.gpus, row.median, 100 * row.spread, drivers, date, room_percent=100 * row.room)
        )
        for row in records(found)
    ]
    cases = set(runs["case"])
    transfers = set(runs.loc[runs["bound"] == NOT_GATED, "case"])
    return Proposals(
        gpu=gpu,
        gpus=runs["gpu_uuid"].nunique(dropna=False),
        every=found.rename_axis("case").reset_index()[list(PROPOSED_COLUMNS)],
        skipped=tuple(sorted(cases - transfers - set(found.index) - set(apart.index))),
        apart=tuple(f"{each.Index} ({each.worst:.3g} to {each.best:.3g})" for each in apart.itertuples()),
        transfers=tuple(sorted(transfers)),
        dropped=tuple(sorted(transfers & set(present.by_case))),
    )


def evidence_of(runs: pd.DataFrame, fewest: int = FEWEST_FOR_FLOORS) -> pd.DataFrame:
    """The sessions of each case that can have a floor, ``fewest`` or more, as input of ``margins.bounds``.

    Runs without a GPU's uuid count as one more GPU. A case that is faulty in any session is left out.
    """
    rows = runs[is_usable(runs)]
    rows = rows[~rows["case"].isin(runs.loc[runs["verdict"].isin(FAULTY), "case"])]
    rows = rows[(rows["peak_fraction"] > 0) & ~rows["bound"].isin([NOT_GATED])]
    rows = rows.assign(gpu=rows["gpu_uuid"].map(lambda uuid: uuid or "unknown"), library=is_library(rows))
    rows = rows[rows.groupby("case")["case"].transform("size") >= fewest]
    return rows[["case", "gpu", "time_us", "library", "peak_fraction"]]


def revised(text: str, proposals: Proposals, *, lower: bool = False) -> str:
    """The text of floors.toml with raised floors, and lowered ones if ``lower``; floors of transfers are removed."""
    taken = [*records(proposals.raised), *(records(proposals.lowered) if lower else ())]
    if not taken and not proposals.dropped:
        return text
    floors = {each.case: (each.floor, each.origin) for each in taken}
    return revise_floors(text, proposals.gpu, floors, proposals.dropped)


def diff(before: str, after: str, path: Path) -> str:
    """The change as a unified diff for ``git apply`` or ``patch``; empty if there is none."""
    name = path.as_posix().lstrip("/")
    names = f"a/{name}", f"b/{name}"
    lines = difflib.unified_diff(before.splitlines(keepends=True), after.splitlines(keepends=True), *names)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def summary(proposals: Proposals, sessions: int, *, lower: bool = False, everything: bool = False) -> str:
    """A summary of the proposals, in lines that each end with a line break.

    Long lists are cut to MOST_NAMED_FLOORS unless ``everything``.
    """
    fresh, lowered = int(proposals.raised["present"].isna().sum()), records(proposals.lowered)
    seen = f"{counted(sessions, 'session')} of {counted(proposals.gpus, 'GPU')}, {proposals.gpu}"
    lines = [f"{counted(fresh, 'new floor')}, {len(proposals.raised) - fresh} raised, from {seen}"]
    if sessions < SESSIONS_TO_TRUST:
        few = f"warning: {counted(sessions, 'session')}, too few to estimate the spread"
        lines.append(f"{few}; --write needs at least {SESSIONS_TO_TRUST}")
    most = None if everything else MOST_NAMED_FLOORS
    if lowered:
        count = f"{counted(len(lowered), 'floor')} would be lower"
        lines.append(f"{count}: lowered" if lower else f"{count}: unchanged without --lower")
        lines += [f"  {each.case}: {each.present} to {each.floor}, {each.origin}" for each in lowered[:most]]
        lines += _rest(len(lowered), most)
    if proposals.skipped:
        lines.append(f"no floor for {counted(len(proposals.skipped), 'case')}: {', '.join(proposals.skipped[:most])}")
        lines += _rest(len(proposals.skipped), most)
    if proposals.apart:
        differ = f"whose sessions differ too much, as fractions of peak: {', '.join(proposals.apart[:most])}"
        lines.append(f"no floor for {counted(len(proposals.apart), 'case')} {differ}; leave out a disturbed run")
        lines += _rest(len(proposals.apart), most)
    if proposals.transfers:
        transfers = counted(len(proposals.transfers), "transfer")
        why = "between host and device, whose times depend on the host"
        lines.append(f"no floor for {transfers} {why}; {len(proposals.dropped)} dropped")
    cases = proposals.every.sort_values("room", ascending=False, kind="stable")
    if not cases.empty:
        typical, wide, widest = (float(np.quantile(100 * cases["room"], share)) for share in (0.5, 0.9, 1.0))
        beyond = f"{typical:.1f} % (median case), {wide:.1f} % (90 % of the cases), {widest:.1f} % (the widest)"
        lines.append(f"room: a slowdown beyond {beyond} is BELOW_FLOOR; a smaller one is for `peakgate ab` to detect")
        slower = f"{100 * NOTABLE_SLOWDOWN:.0f} % slower, on any GPU of the model"
        lines.append(f"power: share of sessions {slower}, that are BELOW_FLOOR")
    for duration, group in cases.groupby("duration"):
        today = group["present_power"].dropna()
        by_today = "" if today.empty else f", {100 * today.mean():.0f} % by the current floors"
        lines.append(f"  {duration}: {100 * group['power'].mean():.0f} % ({counted(len(group), 'case')}){by_today}")
    lines += [
        f"  {each.case}: room {100 * each.room:.1f} %, power {100 * each.power:.0f} %"
        for each in records(cases.iloc[:most])
    ]
    lines += _rest(len(cases), most)
    return "".join(f"{one_line(line)}\n" for line in lines)


def _rest(count: int, most: int | None) -> list[str]:
    return [] if most is None or count <= most else [f"  and {count - most} more; --all names them"]


def write(options: argparse.Namespace) -> int:
    """Print what the named runs propose, with ``--write`` change floors.toml."""
    runs = named_runs(options)
    path = config.near(config.current().baselines) / runs[0].slug / "floors.toml"
    present = load_floors(path, gpu=runs[0].slug)
    text = read_text(path) if present.present else ""
    trusted = options.write and len(runs) >= SESSIONS_TO_TRUST  # fewer are refused below
    proposals = propose(to_frame(runs), present, SESSIONS_TO_TRUST if trusted else FEWEST_FOR_FLOORS)
    proposed = revised(text, proposals, lower=options.lower)
    say(diff(text, proposed, path))
    say(summary(proposals, len(runs), lower=options.lower, everything=options.all))
    if options.write and not trusted:
        raise PeakgateError(
            f"--write: {len(runs)} sessions are too few to estimate the spread between sessions; measure "
            f"{SESSIONS_TO_TRUST - len(runs)} more with `peakgate bench` and give all of them",
            Code.TOO_FEW,
        )
    if proposed == text:
        say(f"{path}: nothing to change")
    elif options.write:
        write_whole(path, proposed)
        say(f"written: {path}")
    else:
        say(f"{path}: not changed; --write takes the floors of cases with {SESSIONS_TO_TRUST} or more sessions")
    return ExitCode.OK
