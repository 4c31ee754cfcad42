"""What the sessions of two sides measured of each case, from frames of runs, and the words in which a verdict gives it.

What sessions of unchanged code say about noise is gathered here too.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from peakgate.core.errors import PeakgateError
from peakgate.core.text import counted, percent
from peakgate.core.verdict import FAULTY, Verdict
from peakgate.reports.comparison import noise
from peakgate.reports.comparison.result import BOTH_SIDES, LABELS, change_text, probability
from peakgate.reports.runs.frame import FRAME_COLUMNS, records, usable
from peakgate.reports.runs.runfile import CaseResult
from peakgate.run.terms import TERMS, Contract, summary

FEWEST_HISTORY_SESSIONS = 3

NO_COMMIT = frozenset({"unknown", "unversioned"})
"""What pytest-benchmark writes where there is no repository."""

NOTABLE_CLOCK_CHANGE = 0.01
SAME_CODE = "same code: environment"
RECORDED = tuple(term for term in TERMS if term in CaseResult.__struct_fields__)
"""The terms of a contract that a run file has of a case by their names; ``facts`` compares its machine code."""

CODE_FACTS = (("registers", "registers"), ("spill_bytes", "spilled bytes"), ("shared_bytes", "shared bytes"))
REPORTED = (*LABELS, *BOTH_SIDES, "floor", "verdict", "tier", "time_us", "occupancy_limiter")
"""What is reported of the latest session that timed a case."""

GROUPED_BY = ("cublas", "cupy", "nvrtc", "uuid", "driver")


def in_order(label: str, frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of a side, oldest session first, each case of a session once.

    A PeakgateError names a side without a row, a KeyError a column that is not there.
    """
    if frame.empty:
        raise PeakgateError(f"{label}: an empty frame, expected the rows of one run or more; see peakgate.reports.load")
    rows = frame[list(FRAME_COLUMNS)].drop_duplicates(["run", "case"], keep="last")
    return rows.sort_values("taken", kind="stable", ignore_index=True)


def summarize(rows: pd.DataFrame, cases: pd.Index[str]) -> pd.DataFrame:
    """What the sessions of a side (``in_order``) measured, a row for each of ``cases``.

    REPORTED is of the latest session that timed the case; over all that did are:

    ===================  ===============================================================================
    ``sessions``         how many; 0 where none
    ``log_time``         mean of the log medians in microseconds; ``mean_us`` is its exponential
    ``sampling_error``   standard error of ``log_time`` from the samples alone; missing when a session has none
    ``host_bound``       in how many the time depends on the host as much as on the GPU
    ``library``          whether the driver or a vendor's library did it in any
    ``below``            how far below its floor, in words, where at least half of them found it so
    ``open``, ``wrong``  the latest reasons of other sessions for having no time, and ``wrong_as`` the verdict
    ``known``            whether any session mentions the case; ``in_gate`` whether one of the gate tier does
    ===================  ===============================================================================
    """
    timed = usable(rows)
    timed = timed.assign(
        log_time=np.log(timed["time_us"]),
        variance=timed["sampling_error"] ** 2,
        library=timed["fingerprint"].isna() & timed["registers"].isna(),
        below=timed["verdict"].isin([Verdict.BELOW_FLOOR]),
    )
    over_all = timed.groupby("case", sort=False).agg(
        sessions=("time_us", "size"),
        log_time=("log_time", "mean"),
        squares=("variance", "sum"),
        errors=("variance", "count"),
        host_bound=("host_bound", "sum"),
        library=("library", "any"),
        share_below=("below", "mean"),
    )
    untimed = rows.loc[rows.index.difference(timed.index), ["case", "verdict", "reason"]]
    unexplained = untimed["reason"].fillna("") == ""
    untimed["reason"] = untimed["reason"].mask(unexplained, untimed["verdict"].str.lower()).fillna("not timed")
    faulty = untimed["verdict"].isin(FAULTY)
    below = _latest(timed.loc[timed["below"], ["case", "peak_fraction", "floor", "reason"]])
    parts = (
        _latest(timed[["case", *REPORTED]]),
        over_all,
        _latest(untimed[~faulty])["reason"].rename("open"),
        _latest(untimed[faulty]).rename(columns={"reason": "wrong", "verdict": "wrong_as"}),
        pd.Series(list(map(_below_floor, records(below))), below.index, dtype="string", name="below"),
    )
    found = pd.concat([part.reindex(cases) for part in parts], axis=1)
    sessions = found["sessions"].fillna(0).astype(int)
    errors = (np.sqrt(found["squares"]) / sessions).where(found["errors"] == sessions)
    return found.assign(
        known=cases.isin(rows["case"]),
        in_gate=cases.isin(rows.loc[rows["run_tier"].isin(["gate"]), "case"]),
        sessions=sessions,
        mean_us=found["time_us"].where(sessions == 1, np.exp(found["log_time"])),
        sampling_error=errors,
        below=found["below"].where(found["share_below"] >= 1 / 2),
    )


def in_scope(base: pd.DataFrame, new: pd.DataFrame, *, gate_alone: bool) -> tuple[pd.Index[str], list[str]]:
    """The cases to judge, and a note on each kind of the others: not asked of NEW, or depending on the host.

    ``gate_alone``: NEW ran the gate tier. It was not asked for a case that is not in that tier, for which a mark in one
    run file is not enough. A case is the host's where every run that timed it says so: one side alone must not hide a
    slower case. Wrong ones count.
    """
    beyond_the_gate = ~new["known"] & base["tier"].isin(["full"]) & ~base["in_gate"]
    left_out = beyond_the_gate if gate_alone else pd.Series(data=False, index=base.index)
    timed = base["sessions"] + new["sessions"]
    of_the_host = base["host_bound"].fillna(0) + new["host_bound"].fillna(0) == timed
    host_bound = ~left_out & (timed > 0) & of_the_host & new["wrong"].isna()
    notes = []
    if left_out.any():
        notes.append(f"left out of base, {counted(int(left_out.sum()), 'case')}: new ran the gate tier")
    if host_bound.any():
        left = counted(int(host_bound.sum()), "case")
        notes.append(f"not judged, {left}: the time depends on the host as much as on the GPU")
    return base.index[~left_out & ~host_bound], notes


def repeated_sessions(
    cases: pd.Index[str], base: pd.DataFrame, new: pd.DataFrame, history: pd.DataFrame | None
) -> pd.DataFrame:
    """The times of repeated sessions: ``case``, ``side``, ``session``, ``group`` and ``residual``.

    ``session`` is a number; ``residual`` is the log time less the mean of the case's ``group``. Each side is a group:
    several runs named as one side are repeats. In ``history``, a group is the same code (by cubin fingerprint, of a
    library by the versions that came with it, else by clean commit) on the same GPU under the same driver, three times
    or more.
    """
    parts = [base.assign(side="base", group="base", least=2), new.assign(side="new", group="new", least=2)]
    if history is not None and not history.empty:
        others = history.drop_duplicates(["run", "case"], keep="last")
        parts.append(others.assign(side="history", group=_repeat_group(others), least=FEWEST_HISTORY_SESSIONS))
    columns = ["case", "run", "side", "group", "least", "time_us", "verdict"]
    rows = usable(pd.concat([part[columns] for part in parts], ignore_index=True))
    rows = rows[rows["case"].isin(cases) & rows["group"].notna()]
    rows = rows.assign(session=rows.groupby(["side", "run"], sort=False).ngroup(), log_time=np.log(rows["time_us"]))
    rows = rows[rows.groupby(["case", "group"])["log_time"].transform("size") >= rows["least"]]
    mean = rows.groupby(["case", "group"])["log_time"].transform("mean")
    return rows.assign(residual=rows["log_time"] - mean)[["case", "side", "session", "group", "residual"]]


def _repeat_group(rows: pd.DataFrame) -> pd.Series[Any]:
    """What makes two sessions repeats of each other; missing when that cannot be known."""
    fingerprint = rows["fingerprint"].fillna("")
    library = rows["fingerprint"].isna() & rows["registers"].isna()
    clean = ~rows["dirty"] & ~rows["commit"].isin(NO_COMMIT)
    cublas, cupy, nvrtc, uuid, driver = (rows[f"gpu_{name}"].map(str) for name in GROUPED_BY)
    code = ("commit " + rows["commit"]).where(clean)
    code = code.mask(library, "library " + cublas + " " + cupy + " " + nvrtc)
    code = code.mask(fingerprint != "", "cubin " + fingerprint)
    return uuid + " " + driver + " " + code


def _latest(rows: pd.DataFrame) -> pd.DataFrame:
    """The last row of each case, by case."""
    return rows[~rows["case"].duplicated(keep="last")].set_index("case")


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


def _below_floor(row: Any) -> str:
    """How far below, of a session that found it so."""
    if row.peak_fraction is None or row.floor is None:
        return row.reason or "below its floor"
    return f"{row.peak_fraction:.3f} of peak, floor {row.floor:.3f}"


def several_gpus(*, known: bool) -> str:
    """What it means for the reader that the runs of both sides are not (``known`` to be) of one GPU."""
    apart = percent(100 * math.expm1(noise.BETWEEN_GPUS))
    return (
        f"the runs are not {'' if known else 'known to be '}of one and the same GPU: GPUs of one model may differ by"
        f" {apart} in a case, so no smaller change of a case is flagged; to detect one, measure both sides on one GPU"
        " (`peakgate ab`)"
    )


def causes(base: Any, new: Any) -> list[str]:
    """Each a few words: code, what the compiler allots, occupancy, clock, floor; empty where nothing known changed.

    Both are measurements of a case by the names of ``frame.CASE_COLUMNS``, None where one is unknown.
    """
    found = [*_code(base, new), *_clock(base, new)]
    if new.floor is not None and new.peak_fraction is not None and new.peak_fraction < new.floor:
        found.append(f"below its floor too: {new.peak_fraction:.3f} of peak, floor {new.floor:.3f}")
    return found


def _code(base: Any, new: Any) -> list[str]:
    if base.fingerprint and base.fingerprint == new.fingerprint:
        return [SAME_CODE]
    found = []
    for field, name in CODE_FACTS:
        before, after = getattr(base, field), getattr(new, field)
        if before is not None and after is not None and before != after:
            found.append(f"{name} {before:g} to {after:g}")
    if base.occupancy is not None and new.occupancy is not None and base.occupancy != new.occupancy:
        limits = f", limited by {new.occupancy_limiter}" if new.occupancy_limiter else ""
        found.append(f"occupancy {100 * base.occupancy:.0f} % to {100 * new.occupancy:.0f} %{limits}")
    if not found and base.fingerprint and new.fingerprint:
        found.append("other machine code, same registers, shared memory and occupancy")
    return found


def _clock(base: Any, new: Any) -> list[str]:
    """A clock that changed explains time, not cycles: what is left in cycles is the kernel's own."""
    if not base.sm_clock_mhz or not new.sm_clock_mhz:
        return []
    ratio = new.sm_clock_mhz / base.sm_clock_mhz
    if abs(ratio - 1) <= NOTABLE_CLOCK_CHANGE:
        return []
    cycles = 100 * math.expm1(math.log(new.time_us / base.time_us * ratio))
    return [f"SM clock {base.sm_clock_mhz:.0f} to {new.sm_clock_mhz:.0f} MHz, {cycles:+.1f} % in cycles"]


def changed_terms(base: pd.DataFrame, new: pd.DataFrame) -> list[str]:
    """One line per term that differs in a case of both sides, with how many cases and the first of them."""
    recorded = [rows.dropna(subset=["sampling", "bytes", "flops", "timer"], how="all") for rows in (base, new)]
    before, after = (_latest(rows[["case", *RECORDED, "error_over_bound"]]) for rows in recorded)
    cases = pd.Index(base["case"].unique())
    cases = cases[cases.isin(before.index) & cases.isin(after.index)]
    before, after = before.loc[cases], after.loc[cases]
    known = before[list(RECORDED)].notna() & after[list(RECORDED)].notna()
    known["tolerance"] &= before["error_over_bound"].isna() == after["error_over_bound"].isna()
    changed = known & before[list(RECORDED)].ne(after[list(RECORDED)]).fillna(value=False).astype(bool)
    terms = {
        case: [term for term, differs in zip(RECORDED, row, strict=True) if differs]
        for case, row in zip(cases, changed.to_numpy(), strict=True)
        if row.any()
    }
    return summary(
        {
            case: (_contract(before.loc[case, differing]), _contract(after.loc[case, differing]))
            for case, differing in terms.items()
        }
    )


def _contract(terms: pd.Series[Any]) -> Contract:
    """A frame holds counts of bytes and flops as floats."""
    return Contract(**{str(term): _term(value) for term, value in terms.items()})


def _term(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value
