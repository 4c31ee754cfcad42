"""Which cases an end-to-end benchmark test is made of, as its marker names them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from peakgate.base.errors import Code, PeakgateError
from peakgate.base.formatting import counted, nearest

LAUNCH = "-launch"
"""The end of the ids of cases whose time is the host's."""


def named(whole: str, parts: Sequence[str], known: Collection[str], *, complete: bool) -> tuple[str, ...]:
    """The ids of a case's ``parts``, which are ids or ends of ids, in order and as often as they are given.

    ``known`` are the ids of the cases with the metric of ``whole``; an end need not repeat ``-launch``. Raises
    PeakgateError for a name that fits several, or none if ``known`` is ``complete``, else that name is kept.
    """
    others = {case_id.removesuffix(LAUNCH): case_id for case_id in known if case_id != whole}
    found = []
    for part in parts:
        end = part.removesuffix(LAUNCH)
        fitting = [each for each in others if each == end or each.endswith((f".{end}", f"-{end}"))]
        fitting = [end] if end in fitting else fitting
        if len(fitting) > 1:
            raise PeakgateError(
                f"{whole}: parts has {part!r}, the end of the ids of {counted(len(fitting), 'case')}, {fitting[0]} and "
                f"{fitting[1]} among them; give more of the id",
                Code.BENCHMARK_TEST,
            )
        if not fitting and complete:
            names = [*others, *(each.partition(".")[2] for each in others)]
            raise PeakgateError(
                f"{whole}: parts has {part!r}{nearest(end, names)}; expected the id, or the end of the id, of another "
                "case with the same metric",
                Code.BENCHMARK_TEST,
            )
        found.append(others[fitting[0]] if fitting else part)
    return tuple(found)
