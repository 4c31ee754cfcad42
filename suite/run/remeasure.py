"""Combine the processes of a run: a case that was below its floor is judged by the median of three.

A record is what the journal keeps of one case in one process: ``extra_info`` and ``times_us``, or the supervisor's
verdict on a process that is gone.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from peakgate.core.verdict import FAULTY, Judgement, Verdict
from peakgate.judge.gate import UNCHECKED, held_to

Record = Mapping[str, Any]

PROCESSES = 3
"""A case below its floor is judged by the median of so many processes: the first and two fresh ones."""

DECIDED = frozenset({Verdict.PASS, Verdict.BELOW_FLOOR})
"""Verdicts that compare a fraction of peak with a floor."""

MANY = 0.25
"""Where more than this fraction of the cases is below its floor, the GPU is likelier at fault than the kernels."""


def wanted(records: Sequence[Record]) -> bool:
    """Whether the next process measures this case again: below its floor at first, and too few processes so far."""
    if _verdict(records[0]) is not Verdict.BELOW_FLOOR or _fault(records) is not None:
        return False
    return len(records) < PROCESSES


def settled(records: Sequence[Record]) -> Record:
    """The one record that stands for a case: of a case below its floor, that of the median process.

    It has the verdict of the median and a reason that names each process's fraction of peak. A fault in any process
    stands. Where a process could not decide the case is INCONCLUSIVE, with the figures of the first.
    """
    if len(records) == 1 or _verdict(records[0]) is not Verdict.BELOW_FLOOR:
        return records[-1]
    if (fault := _fault(records)) is not None:
        return fault
    fractions = [_fraction(record) for record in records]
    judgement = judge_again(fractions, records[0]["extra_info"]["floor"])
    chosen = records[0]
    if judgement.verdict in DECIDED:
        chosen = sorted(records, key=lambda record: float(record["extra_info"]["peak_fraction"]))[len(records) // 2]
    entry = chosen["extra_info"]
    unchecked = UNCHECKED if entry["relative_error"] is None else ""
    judged = {"verdict": judgement.verdict.value, "reason": judgement.reason + unchecked}
    return {**chosen, "extra_info": {**entry, **judged}}


def judge_again(peak_fractions: Sequence[float | None], floor: float) -> Judgement:
    """Judge a case that was below its floor, from the fractions of peak of three processes, the first included.

    One process may have bad luck that lasts as long as it does (placement in memory, a library's choice of kernel): the
    median of the processes decides. None stands for a process that could not decide; fewer than three decided ones
    leave the case INCONCLUSIVE.
    """
    decided = [fraction for fraction in peak_fractions if fraction is not None]
    if len(decided) < PROCESSES:
        return Judgement(
            Verdict.INCONCLUSIVE,
            f"below its floor of {floor:.3g} at first; only {len(decided)} of {PROCESSES} processes could decide",
        )
    each = ", ".join(f"{fraction:.3g}" for fraction in decided)
    return held_to(statistics.median(decided), floor, f"median of {len(decided)} processes: {each}")


def share_below(below: int, of: int) -> str:
    """How many cases were below their floor, for a person; with advice where that is more than a quarter of them."""
    many = "; more than a quarter: suspect the GPU first (nvidia-smi -q -d PERFORMANCE)" if below > MANY * of else ""
    return f"{below} of {of} cases below their floor at first{many}"


def _verdict(record: Record) -> Verdict:
    return Verdict((record.get("extra_info") or record)["verdict"])


def _fault(records: Sequence[Record]) -> Record | None:
    return next((record for record in records if _verdict(record) in FAULTY), None)


def _fraction(record: Record) -> float | None:
    """The fraction of peak, as the run file rounds it; None of a process that could not decide."""
    if _verdict(record) not in DECIDED:
        return None
    fraction: float | None = record["extra_info"]["peak_fraction"]
    return fraction
