"""What has to be measured, and what machine code alone decides; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from reports.ab.code import SideCode


@dataclass(frozen=True, slots=True)
class Plan:
    """Every case that one of the sides has machine code of, by what is done with it.

    ``measured`` may differ between the sides; ``sentinels`` are the same on both and measured all the same;
    ``unchanged`` are not measured, with their fingerprint. ``mended`` build in head alone, ``broken`` in base alone
    or nowhere. ``everything``: a side is too old to tell its machine code, so what there is is known after the first
    run only, and the lists are empty.
    """

    measured: tuple[str, ...] = ()
    sentinels: tuple[str, ...] = ()
    unchanged: Mapping[str, str] | None = None
    head_only: tuple[str, ...] = ()
    base_only: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    mended: tuple[str, ...] = ()
    everything: bool = False

    @property
    def timed(self) -> tuple[str, ...]:
        """What both sides run, pair after pair."""
        return (*self.measured, *self.sentinels)

    @property
    def head_runs(self) -> tuple[str, ...]:
        """What head is proven on: also what only it has, and what it cannot build, for the compiler's line."""
        return (*self.timed, *self.head_only, *self.broken, *self.mended)


def plan(
    base: SideCode,
    head: SideCode,
    *,
    sentinels: int,
    durations_us: Mapping[str, float],
    chosen: Sequence[str] = (),
    measure_unchanged: bool = False,
) -> Plan:
    """Sort the cases of both sides; only those whose id contains one of ``chosen``, where any is given.

    A case is unchanged when its machine code is, and so is the code that launches it.
    """
    if base.fingerprints is None or head.fingerprints is None:
        return Plan(everything=True)
    before, after = _chosen(base.fingerprints, chosen), _chosen(head.fingerprints, chosen)
    both = [case for case in after if case in before]
    built = [case for case in both if before[case] and after[case]]
    same = {
        case: str(after[case])
        for case in built
        if before[case] == after[case] and launched_alike(case, base, head) and not measure_unchanged
    }
    watched = spread_out(list(same), sentinels, durations_us)
    return Plan(
        measured=tuple(case for case in built if case not in same),
        sentinels=tuple(watched),
        unchanged={case: code for case, code in same.items() if case not in watched},
        head_only=tuple(case for case in after if case not in before),
        base_only=tuple(case for case in before if case not in after),
        broken=tuple(case for case in both if not after[case]),
        mended=tuple(case for case in both if after[case] and not before[case]),
    )


def plan_after_proof(base: Iterable[str], head: Iterable[str], chosen: Sequence[str] = ()) -> Plan:
    """The plan where machine code could not be told: measure whatever both sides ran."""
    before, after = _chosen(dict.fromkeys(base), chosen), _chosen(dict.fromkeys(head), chosen)
    return Plan(
        measured=tuple(case for case in after if case in before),
        head_only=tuple(case for case in after if case not in before),
        base_only=tuple(case for case in before if case not in after),
        everything=True,
    )


def launched_alike(case: str, base: SideCode, head: SideCode) -> bool:
    """Whether the family that launches the case, and what families share, is the same file on both sides."""
    family = case.partition(".")[0]
    return all(base.launches.get(name) == head.launches.get(name) for name in ("", family))


def spread_out(cases: Sequence[str], count: int, durations_us: Mapping[str, float]) -> list[str]:
    """``count`` of the cases: evenly over their durations where those are known, else in turns over the families."""
    if count >= len(cases):
        return list(cases)
    timed = sorted((case for case in cases if case in durations_us), key=lambda case: (durations_us[case], case))
    if len(timed) >= count:
        return [timed[(2 * index + 1) * len(timed) // (2 * count)] for index in range(count)]
    families: dict[str, list[str]] = {}
    for case in cases:
        families.setdefault(case.partition(".")[0], []).append(case)
    turns = [(turn, place, case) for place, own in enumerate(families.values()) for turn, case in enumerate(own)]
    return [case for _, _, case in sorted(turns)[:count]]


def _chosen(cases: Mapping[str, str | None], parts: Sequence[str]) -> dict[str, str | None]:
    return {case: code for case, code in cases.items() if not parts or any(part in case for part in parts)}
