"""Summarizes what the sessions of two sides measured of each case, and words the reasons of verdicts.

Also collects repeated sessions of unchanged code, from which the noise is estimated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from peakgate.base.errors import Code, PeakgateError
from peakgate.base.formatting import counted, first_of, percent
from peakgate.base.verdict import FAULTY, Verdict
from peakgate.compare.noise import Bools, Floats, Positions
from peakgate.compare.result import BOTH_SIDES, CASE_LABELS, Difference, change_text, probability, shift_percent
from peakgate.runfile.frame import (
    FRAME_COLUMNS,
    Objects,
    is_library,
    is_of_host,
    is_usable,
    objects,
    records,
    require,
    run_facts,
)
from peakgate.runfile.saved import CASE_COLUMNS
from peakgate.spec.contract import TERMS, Contract, summary
from peakgate.spec.recorded import kernels_of

FEWEST_HISTORY_SESSIONS = 3

# Commits of runs made outside a repository.
NO_COMMIT = frozenset({"unknown", "unversioned", None})

NOTABLE_CLOCK_CHANGE = 0.01
SAME_CODE = "same code: environment"

# The terms of a contract that a run file stores as columns of a case.
RECORDED = tuple(term for term in TERMS if term in CASE_COLUMNS)

CODE_FACTS = (("registers", "registers"), ("spill_bytes", "spilled bytes"), ("shared_bytes", "shared bytes"))

# Columns taken from the latest session that timed a case.
REPORTED = (*CASE_LABELS, *BOTH_SIDES, "floor", "verdict", "tier", "time_us", "occupancy_limiter")

REASONS = ["verdict", "reason", "peak_fraction", "floor"]
GROUPED_BY = tuple(f"gpu_{name}" for name in ("cublas", "cupy", "nvrtc", "uuid", "driver"))


def in_order(label: str, frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of a side, oldest session first, with one row per case and session.

    Raises PeakgateError if the frame is empty or not a frame of runs.
    """
    require(frame, FRAME_COLUMNS, label)
    if frame.empty:
        raise PeakgateError(
            f"{label}: an empty frame, expected the rows of at least one run; see peakgate.reports.load", Code.TOO_FEW
        )
    rows = frame.loc[last_of_its_run(frame), list(FRAME_COLUMNS)]
    return rows.sort_values("taken", kind="stable", ignore_index=True)


def summarize(rows: pd.DataFrame, cases: pd.Index[str]) -> pd.DataFrame:
    """A side's measurements over its sessions (rows of ``in_order``), one row for each of ``cases``.

    The columns REPORTED are of the latest session that timed the case; these are over all that did:

    - ``sessions``: their number
    - ``log_time``: mean of the log medians in microseconds; ``mean_us`` is its exponential
    - ``sampling_error``: standard error of ``log_time`` from the samples alone; missing if one has none
    - ``host_bound``: number of sessions in which the time depends on the host as much as on the GPU
    - ``link``: whether it is a transfer over the link to the host, which is shared
    - ``of_host``: whether it is the time of a call on the host
    - ``library``: whether the driver or a vendor's library did the work in any session
    - ``below``: text: how far below its floor, if at least half of the sessions were
    - ``open``, ``wrong``: the latest reason of an untimed and of a faulty session; ``wrong_as``: the latter's verdict
    - ``known``: whether any session has the case; ``in_gate``: whether one of the gate tier has
    """
    place, count, timed = places(rows, cases), len(cases), is_usable(rows)
    faulty = rows["verdict"].isin(FAULTY).to_numpy()
    below = timed & rows["verdict"].isin([Verdict.BELOW_FLOOR]).to_numpy()

    def total(among: Bools, values: Floats | None = None) -> Floats:
        """By case, the number of these rows, or the sum of their values."""
        return np.bincount(place[among], None if values is None else values[among], count).astype(np.float64)

    def worded(numbers: Positions, text: Callable[[Any], str]) -> pd.Series[Any]:
        """By case, the text of the row with this number; missing at -1."""
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
        "of_host": total(is_of_host(rows)) > 0,
        "below": worded(below_last, _below_floor),
        "open": worded(open_, _untimed),
        "wrong": worded(wrong, _untimed),
        "wrong_as": rows["verdict"].reindex(wrong).set_axis(cases),
        "known": np.isin(np.arange(count), place),
        "in_gate": total(rows["run_tier"].isin(["gate"]).to_numpy()) > 0,
    }
    return pd.concat([found, pd.DataFrame(figures, cases)], axis=1)


def in_scope(base: pd.DataFrame, new: pd.DataFrame, *, gate_alone: bool) -> tuple[Bools, list[str]]:
    """Which cases to judge, and notes on the others, which NEW did not run or which depend on the host.

    ``gate_alone``: NEW ran only the gate tier; cases of BASE outside that tier are left out. A case depends on the host
    only if every run that timed it says so, since one side alone must not hide a slower case. Wrong cases are judged.
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
    """The times of repeated sessions, with the columns ``case``, ``side``, ``session``, ``group`` and ``residual``.

    ``case`` is the position in ``cases``; ``session`` and ``group`` are numbers; ``residual`` is the log time less the
    mean of its case and group. Each side is one group: the runs named as a side are repeats. In ``history``, a group is
    at least three sessions of the same code (equal cubin fingerprint; of a family's operation of a library, equal
    versions; else equal clean commit) on the same GPU and driver.
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
    """A number per row, equal for rows with the same code and the same facts ``machine``; -1 if the code is unknown."""
    run, first = pd.factorize(rows["run"])[0], ~rows["run"].duplicated()
    about = records(rows.loc[first, ["commit", "dirty", *GROUPED_BY]])
    machines = [" ".join(str(getattr(each, f"gpu_{name}")) for name in machine) for each in about]
    on = np.array(machines, dtype=object)[run]
    library = [f"library {each.gpu_cublas} {each.gpu_cupy} {each.gpu_nvrtc}" for each in about]
    commit = [None if each.dirty or each.commit in NO_COMMIT else f"commit {each.commit}" for each in about]
    # Of a callable it says nothing of the numbers that its kernels are given.
    fingerprint = rows["fingerprint"].mask(rows["kernels"].notna()).to_numpy(object, na_value="")
    of_family = is_library(rows) & (rows["probes"].fillna(0) > 0).to_numpy()  # a benchmark test's code is the project's
    code = np.where(of_family, *(np.array(names, dtype=object)[run] for names in (library, commit)))
    code = np.where(fingerprint != "", "cubin " + fingerprint, code)
    number: Positions = pd.factorize(pd.Series(code, dtype="string") + " on " + on)[0]
    return number


def last_of_its_run(rows: pd.DataFrame) -> Bools:
    """Mask of the rows that are the last of their case in their run."""
    return ~rows.duplicated(["run", "case"], keep="last").to_numpy()


def places(rows: pd.DataFrame, cases: pd.Index[str]) -> Positions:
    """The position of each row's case in ``cases``, -1 if absent."""
    return cases.get_indexer(pd.Index(rows["case"]))


def _latest(place: Positions, among: Bools, count: int) -> Positions:
    """The number of the last row of each case ``among`` the rows; -1 without one. ``place``: each row's case."""
    last = np.full(count + 1, -1)
    last[place[among]] = np.flatnonzero(among)
    return last[:-1]


def moved(base: Any, new: Any, shift: Any) -> str:
    """The reason of a flagged shift: its size, the smallest detectable change or the p-value, and known causes.

    ``base`` and ``new`` are rows of ``summarize``, ``shift`` is a row of ``in_percent``.
    """
    change, resolvable = change_text(shift.change_percent), percent(shift.smallest_detectable_change_percent)
    text = f"{change}, beyond the {resolvable} these runs can resolve"
    if shift.p_value is not None:
        sessions = f"{base.sessions} and {counted(new.sessions, 'session')}"
        text = f"{change} over {sessions}, {probability(shift.p_value)}"
    return "; ".join([text, *causes(base, new)])


def unmoved(change_percent: float, resolvable_percent: float) -> str:
    """The reason of a shift that is not flagged."""
    return f"{change_percent:+.2f} %, within the {percent(resolvable_percent)} these runs can resolve"


def _untimed(row: Any) -> str:
    """Why a session did not time a case."""
    return str(row.reason or (row.verdict or "not timed").lower())


def _below_floor(row: Any) -> str:
    """How far below its floor a session measured a case."""
    if row.peak_fraction is None or row.floor is None:
        return row.reason or "below its floor"
    return f"{row.peak_fraction:.3f} of peak, floor {row.floor:.3f}"


def causes(base: Any, new: Any) -> list[str]:
    """What else changed: machine code, its resources, occupancy, clock, floor; one phrase each.

    Both are measurements of a case with the attributes ``saved.CASE_COLUMNS``, None if unknown.
    """
    found: list[str] = []
    if base.fingerprint and base.fingerprint == new.fingerprint:
        found.append("the same machine code and launches" if base.kernels else SAME_CODE)
    else:
        found += other_kernels(kernels_of(base.kernels), kernels_of(new.kernels))
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
            # A clock explains time, not cycles: a change in cycles is the kernel's own.
            cycles = shift_percent(math.log(new.time_us / base.time_us * ratio))
            clocks = f"SM clock {base.sm_clock_mhz:.0f} to {new.sm_clock_mhz:.0f} MHz"
            found.append(f"{clocks}, {cycles:+.1f} % in cycles")
    if new.floor is not None and new.peak_fraction is not None and new.peak_fraction < new.floor:
        found.append(f"below its floor too: {new.peak_fraction:.3f} of peak, floor {new.floor:.3f}")
    return found


def other_kernels(base: Mapping[str, str | None], new: Mapping[str, str | None]) -> list[str]:
    """The kernels of a callable whose machine code differs, or that only one side launches; one phrase each kind."""
    before, after = ({name: code for name, code in side.items() if code is not None} for side in (base, new))
    changed = [name for name, code in before.items() if after.get(name, code) != code]
    found = [f"other machine code of {first_of(changed)}"] if changed else []
    if base and new:
        gone, added = ([name for name in one if name not in other] for one, other in ((base, new), (new, base)))
        found += [f"no longer launches {first_of(gone)}"] if gone else []
        found += [f"launches {first_of(added)} too"] if added else []
    if not found and before and before == after and len(before) == len(base) == len(new):
        found.append("the same machine code, other launches")
    return found


def differences(base: pd.DataFrame, new: pd.DataFrame) -> tuple[Difference, ...]:
    """The facts that differ between or within the sides' runs, in the order of ``run_facts``."""
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
    """One line on how many cases' machine code changed, of those with fingerprints on both sides; None without any."""
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
    """One line per term of the contract that differs between the sides: the number of cases, and the first of them."""
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
    """A contract of the terms that both sides know, with whole numbers as integers, as families give them."""
    terms = {RECORDED[term]: values[term] for term in np.flatnonzero(known)}
    whole = {term: int(value) for term, value in terms.items() if isinstance(value, float) and value.is_integer()}
    return Contract(**terms | whole)
