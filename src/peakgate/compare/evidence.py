"""Measurements of each case by the sessions of two sides, from frames of runs, and their wording in a verdict.

What sessions of unchanged code say about noise is gathered here too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from peakgate.base.errors import Code, PeakgateError
from peakgate.base.formatting import counted, percent
from peakgate.base.verdict import FAULTY, Verdict
from peakgate.compare.noise import Bools, Floats, Positions
from peakgate.compare.result import BOTH_SIDES, CASE_LABELS, Difference, change_text, probability, shift_percent
from peakgate.runfile.frame import FRAME_COLUMNS, Objects, is_library, is_usable, objects, records, require, run_facts
from peakgate.runfile.saved import CASE_COLUMNS
from peakgate.spec.contract import TERMS, Contract, summary

FEWEST_HISTORY_SESSIONS = 3

# Commit that pytest-benchmark writes outside a repository.
NO_COMMIT = frozenset({"unknown", "unversioned", None})

# The terms of a contract that a run file has of a case by their names; ``facts`` compares its machine code.
NOTABLE_CLOCK_CHANGE = 0.01
SAME_CODE = "same code: environment"
RECORDED = tuple(term for term in TERMS if term in CASE_COLUMNS)

# Columns taken from the latest session that timed a case.
CODE_FACTS = (("registers", "registers"), ("spill_bytes", "spilled bytes"), ("shared_bytes", "shared bytes"))
REPORTED = (*CASE_LABELS, *BOTH_SIDES, "floor", "verdict", "tier", "time_us", "occupancy_limiter")

REASONS = ["verdict", "reason", "peak_fraction", "floor"]
GROUPED_BY = tuple(f"gpu_{name}" for name in ("cublas", "cupy", "nvrtc", "uuid", "driver"))


def in_order(label: str, frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of a side, oldest session first, each case of a session once.

    A PeakgateError names a side without a row, or what it is instead of a frame of runs.
    """
    require(frame, FRAME_COLUMNS, label)
    if frame.empty:
        raise PeakgateError(
            f"{label}: an empty frame, expected the rows of one run or more; see peakgate.reports.load", Code.TOO_FEW
        )
    rows = frame.loc[last_of_its_run(frame), list(FRAME_COLUMNS)]
    return rows.sort_values("taken", kind="stable", ignore_index=True)


def summarize(rows: pd.DataFrame, cases: pd.Index[str]) -> pd.DataFrame:
    """Measurements by a side's sessions (``in_order``), one row for each of ``cases``, which include all of its own.

    REPORTED is of the latest session that timed the case; over all that did are:

    ===================  ===============================================================================
    ``sessions``         how many; 0 where none
    ``log_time``         mean of the log medians in microseconds; ``mean_us`` is its exponential
    ``sampling_error``   standard error of ``log_time`` from the samples alone; missing when a session has none
    ``host_bound``       in how many the time depends on the host as much as on the GPU
    ``link``             whether it is a transfer over the link to the host, which others use too
    ``library``          whether the driver or a vendor's library did it in any
    ``below``            how far below its floor, in words, where at least half of them found it so
    ``open``, ``wrong``  the latest reasons of other sessions for having no time, and ``wrong_as`` the verdict
    ``known``            whether any session mentions the case; ``in_gate`` whether one of the gate tier does
    ===================  ===============================================================================
    """
    place, count, timed = places(rows, cases), len(cases), is_usable(rows)
    faulty = rows["verdict"].isin(FAULTY).to_numpy()
    below = timed & rows["verdict"].isin([Verdict.BELOW_FLOOR]).to_numpy()

    def total(among: Bools, values: Floats | None = None) -> Floats:
        """By case, how many of these rows there are, or the sum of their values."""
        return np.bincount(place[among], None if values is None else values[among], count).astype(np.float64)

    def worded(numbers: Positions, text: Callable[[Any], str]) -> pd.Series[Any]:
        """By case, the row of this number in words; missing at -1."""
        known, found = numbers >= 0, np.full(count, None, dtype=object)
        reasons = records(rows.loc[numbers[known], REASONS])
        found[known] = list(map(text, reasons))
        return pd.Series(found, cases, dtype="string")

    often_below = below & (2 * total(below) >= total(timed))[place]
    kinds = ~timed & ~faulty, faulty, timed, often_below
    open_, wrong, timed_last, below_last = (_latest(place, among, count) for among in kinds)
    found = rows[list(REPORTED)].reindex(timed_last).set_axis(cases)
    sessions, errors = total(timed), rows["sampling_error"].to_numpy()
    with np.errstate(invalid="ignore"):  # where no session timed the case
        log_time = np.log(rows["time_us"][timed]).groupby(place[timed]).mean().reindex(range(count)).to_numpy()
        sampling_error = np.sqrt(total(timed, errors**2)) / sessions
    figures = {
        "sessions": sessions.astype(int),
        "log_time": log_time,
        "mean_us": np.where(sessions == 1, found["time_us"], np.exp(log_time)),
        "sampling_error": sampling_error,
        "host_bound": total(timed & rows["host_bound"].to_numpy()),
        "library": total(timed & is_library(rows)) > 0,
        "link": total(timed & rows["bound"].isin(["link"]).to_numpy()) > 0,
        "below": worded(below_last, _below_floor),
        "open": worded(open_, _untimed),
        "wrong": worded(wrong, _untimed),
        "wrong_as": rows["verdict"].reindex(wrong).set_axis(cases),
        "known": np.isin(np.arange(count), place),
        "in_gate": total(rows["run_tier"].isin(["gate"]).to_numpy()) > 0,
    }
    return pd.concat([found, pd.DataFrame(figures, cases)], axis=1)


def in_scope(base: pd.DataFrame, new: pd.DataFrame, *, gate_alone: bool) -> tuple[Bools, list[str]]:
    """Which cases to judge, and a note on each kind of the others: not asked of NEW, or depending on the host.

    ``gate_alone``: NEW ran the gate tier. It was not asked for a case that is not in that tier, for which a mark in one
    run file is not enough. A case is the host's where every run that timed it says so: one side alone must not hide a
    slower case. Wrong ones count.
    """
    left_out = (~new["known"] & base["tier"].isin(["full"]) & ~base["in_gate"] & gate_alone).to_numpy()
    timed, of_the_host = base["sessions"] + new["sessions"], base["host_bound"] + new["host_bound"]
    host_bound = ~left_out & ((timed > 0) & (of_the_host == timed) & new["wrong"].isna()).to_numpy()
    notes = []
    if left_out.any():
        notes.append(f"left out of base, {counted(int(left_out.sum()), 'case')}: new ran the gate tier")
    if host_bound.any():
        left = counted(int(host_bound.sum()), "case")
        notes.append(f"not judged, {left}: the time depends on the host as much as on the GPU")
    return ~left_out & ~host_bound, notes


def repeated_sessions(
    cases: pd.Index[str], base: pd.DataFrame, new: pd.DataFrame, history: pd.DataFrame | None
) -> pd.DataFrame:
    """The times of repeated sessions: ``case``, ``side``, ``session``, ``group`` and ``residual`` among the columns.

    ``case`` is a place in ``cases``; ``session`` and ``group`` are numbers too; ``residual`` is the log time less the
    mean of the case's ``group``. Each side is a group: several runs named as one side are repeats. In ``history``, a
    group is the same code (by cubin fingerprint, of a library by the versions that came with it, else by clean commit)
    on the same GPU under the same driver, three times or more.
    """
    sides = {"base": base, "new": new}
    if history is not None:
        sides["history"] = history[last_of_its_run(history)]
    parts = []
    for side, rows in sides.items():
        code = repeat_group(rows, "uuid", "driver") if side == "history" else np.zeros(len(rows))
        figures = {"case": places(rows, cases), "side": side, "run": rows["run"], "code": code}
        part = pd.DataFrame({**figures, "log_time": np.log(rows["time_us"])})
        parts.append(part[(part["case"] >= 0) & (part["code"] >= 0) & is_usable(rows)])
    found = pd.concat(parts, ignore_index=True)
    alike = found.groupby(["side", "code", "case"])["log_time"]
    fewest = np.where(found["side"] == "history", FEWEST_HISTORY_SESSIONS, 2)
    repeated: pd.DataFrame = found.assign(
        session=found.groupby(["side", "run"]).ngroup(),
        group=alike.ngroup(),
        residual=found["log_time"] - alike.transform("mean"),
    )[alike.transform("size") >= fewest]
    return repeated


def repeat_group(rows: pd.DataFrame, *machine: str) -> Positions:
    """A number for what makes two sessions repeats of each other, code and ``machine``; -1 when it cannot be known."""
    run, first = pd.factorize(rows["run"])[0], ~rows["run"].duplicated()
    about = records(rows.loc[first, ["commit", "dirty", *GROUPED_BY]])
    machines = [" ".join(str(getattr(each, f"gpu_{name}")) for name in machine) for each in about]
    on = np.array(machines, dtype=object)[run]
    library = [f"library {each.gpu_cublas} {each.gpu_cupy} {each.gpu_nvrtc}" for each in about]
    commit = [None if each.dirty or each.commit in NO_COMMIT else f"commit {each.commit}" for each in about]
    fingerprint = rows["fingerprint"].to_numpy(object, na_value="")
    code = np.where(is_library(rows), *(np.array(names, dtype=object)[run] for names in (library, commit)))
    code = np.where(fingerprint != "", "cubin " + fingerprint, code)
    number: Positions = pd.factorize(pd.Series(code, dtype="string") + " on " + on)[0]
    return number


def last_of_its_run(rows: pd.DataFrame) -> Bools:
    """Whether no later row is of the same case and run."""
    return ~rows.duplicated(["run", "case"], keep="last").to_numpy()


def places(rows: pd.DataFrame, cases: pd.Index[str]) -> Positions:
    """The place of each row's case among ``cases``, -1 for none of them."""
    return cases.get_indexer(pd.Index(rows["case"]))


def _latest(place: Positions, among: Bools, count: int) -> Positions:
    """For each of ``count`` cases the number of the last of these rows, of which ``places`` are; -1 without one."""
    last = np.full(count + 1, -1)
    last[place[among]] = np.flatnonzero(among)
    return last[:-1]


def moved(base: Any, new: Any, shift: Any) -> str:
    """A shift that is flagged: by how much, against what could be resolved, and what else changed.

    ``base`` and ``new`` are rows of ``summarize``, ``shift`` has the figures of a comparison's row.
    """
    change, resolvable = change_text(shift.change_percent), percent(shift.smallest_detectable_change_percent)
    text = f"{change}, beyond the {resolvable} these runs can resolve"
    if shift.p_value is not None:
        sessions = f"{base.sessions} and {counted(new.sessions, 'session')}"
        text = f"{change} over {sessions}, {probability(shift.p_value)}"
    return "; ".join([text, *causes(base, new)])


def unmoved(change_percent: float, resolvable_percent: float) -> str:
    """A shift that is not flagged."""
    return f"{change_percent:+.2f} %, within the {percent(resolvable_percent)} these runs can resolve"


def _untimed(row: Any) -> str:
    """Why a session has no time of a case."""
    return str(row.reason or (row.verdict or "not timed").lower())


def _below_floor(row: Any) -> str:
    """How far below, of a session that found it so."""
    if row.peak_fraction is None or row.floor is None:
        return row.reason or "below its floor"
    return f"{row.peak_fraction:.3f} of peak, floor {row.floor:.3f}"


def causes(base: Any, new: Any) -> list[str]:
    """Each a few words: code, what the compiler allots, occupancy, clock, floor; empty where nothing known changed.

    Both are measurements of a case by the names of ``saved.CASE_COLUMNS``, None where one is unknown.
    """
    found: list[str] = []
    if base.fingerprint and base.fingerprint == new.fingerprint:
        found.append(SAME_CODE)
    else:
        for field, name in CODE_FACTS:
            before, after = getattr(base, field), getattr(new, field)
            if before is not None and after is not None and before != after:
                found.append(f"{name} {before:g} to {after:g}")
        if base.occupancy is not None and new.occupancy is not None and base.occupancy != new.occupancy:
            limits = f", limited by {new.occupancy_limiter}" if new.occupancy_limiter else ""
            found.append(f"occupancy {100 * base.occupancy:.0f} % to {100 * new.occupancy:.0f} %{limits}")
        if not found and base.fingerprint and new.fingerprint:
            found.append("other machine code, same registers, shared memory and occupancy")
    if base.sm_clock_mhz and new.sm_clock_mhz:
        ratio = new.sm_clock_mhz / base.sm_clock_mhz
        if abs(ratio - 1) > NOTABLE_CLOCK_CHANGE:
            # A clock explains time, not cycles: what is left in cycles is the kernel's own.
            cycles = shift_percent(math.log(new.time_us / base.time_us * ratio))
            clocks = f"SM clock {base.sm_clock_mhz:.0f} to {new.sm_clock_mhz:.0f} MHz"
            found.append(f"{clocks}, {cycles:+.1f} % in cycles")
    if new.floor is not None and new.peak_fraction is not None and new.peak_fraction < new.floor:
        found.append(f"below its floor too: {new.peak_fraction:.3f} of peak, floor {new.floor:.3f}")
    return found


def differences(base: pd.DataFrame, new: pd.DataFrame) -> tuple[Difference, ...]:
    """The facts of the runs that differ, in the order of ``run_facts``."""
    sides, found = [run_facts(rows) for rows in (base, new)], []
    for name in sides[0][0]:
        before, after = (sorted({_in_words(run[name]) for run in side}) for side in sides)
        if before != after or len(before) > 1:
            found.append(Difference(name, ", ".join(before), ", ".join(after)))
    return tuple(found)


def _in_words(value: object) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def machine_code(base: pd.DataFrame, new: pd.DataFrame) -> str | None:
    """Whether the machine code changed, over the cases whose fingerprints both sides have; None without any."""
    before, after = (
        rows[rows["fingerprint"].fillna("") != ""].groupby("case", sort=False)["fingerprint"].agg(set)
        for rows in (base, new)
    )
    known = [case for case in before.index if case in after.index]
    changed = [case for case in known if before[case] != after[case]]
    if not known:
        return None
    one = len(known) == 1
    record = "case that records it" if one else "cases that record it"
    if not changed:
        return f"machine code: the same in {'the' if one else f'all {len(known)}'} {record}"
    return f"machine code: changed in {len(changed)} of {len(known)} {record}, first {changed[0]}"


def changed_terms(base: pd.DataFrame, new: pd.DataFrame) -> list[str]:
    """One line per term that differs in a case of both sides, with how many cases and the first of them."""
    cases, sides = pd.Index(base["case"].unique()), []
    for rows in (base, new):
        recorded = np.any([rows[name].notna() for name in ("sampling", "bytes", "flops")], axis=0)
        latest = _latest(places(rows, cases), recorded, len(cases))
        sides.append(objects(rows[list(RECORDED)].reindex(latest)))
    before, after = sides
    known = ~pd.isna(before) & ~pd.isna(after)
    return summary(
        {
            case: (_contract(before[row], known[row]), _contract(after[row], known[row]))
            for row, case in enumerate(cases)
        }
    )


def _contract(values: Objects, known: Bools) -> Contract:
    """The terms that both sides know; a frame holds counts of bytes and flops as floats."""
    return Contract(**{RECORDED[term]: _term(values[term]) for term in np.flatnonzero(known)})


def _term(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value
