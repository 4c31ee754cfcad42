"""What a history's newest session could not time: WRONG and INCONCLUSIVE cases, those it no longer has; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from peakgate.reports.runfile import Run
from peakgate.verdict import Verdict

MOST_NAMED = 3
BAD = (Verdict.WRONG, Verdict.MISSING, Verdict.INCONCLUSIVE)


def untimed(newest: Run, earlier: Sequence[Run]) -> dict[Verdict, tuple[str, ...]]:
    """The cases of each of the three verdicts, sorted; MISSING are those of the whole run of its tier just before."""
    found: dict[str, Verdict] = {case: each.verdict for case, each in newest.unmeasured.items()}
    found |= {case: each.verdict for case, each in newest.cases.items() if each.verdict in BAD}
    comparable = [run for run in earlier if run.whole and run.tier == newest.tier and run.slug == newest.slug]
    if newest.whole and comparable:
        before = max(comparable, key=lambda run: run.taken)
        there = newest.cases.keys() | newest.unmeasured.keys()
        found |= dict.fromkeys((before.cases.keys() | before.unmeasured.keys()) - there, Verdict.MISSING)
    return {
        verdict: cases
        for verdict in BAD
        if (cases := tuple(sorted(case for case, each in found.items() if each is verdict)))
    }


def line(found: Mapping[Verdict, Sequence[str]]) -> str:
    """``newest session: 1 WRONG (sgemm.naive-128), 2 MISSING (...)``; empty where every case was timed."""
    parts = []
    for verdict, cases in found.items():
        more = f" and {len(cases) - MOST_NAMED} more" if len(cases) > MOST_NAMED else ""
        parts.append(f"{len(cases)} {verdict} ({', '.join(cases[:MOST_NAMED])}{more})")
    return f"newest session: {', '.join(parts)}" if parts else ""
