"""Decides which cases to measure, by comparing the cases of both sides before any kernel runs.

``peakgate.run.identity`` lists the cases of a side; ``plan`` is pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from msgspec import Struct, structs

from peakgate.base import records
from peakgate.base.errors import CannotDecide, Code
from peakgate.base.files import scratch_folder
from peakgate.base.formatting import counted
from peakgate.base.options import selector
from peakgate.base.processes import Asked, last_words, own_module
from peakgate.compare.ab import process
from peakgate.compare.ab.changed import changed_files
from peakgate.compare.ab.folders import SideFolder, differing
from peakgate.compare.ab.process import SideBroken
from peakgate.compare.ab.schedule import Side
from peakgate.spec.contract import EVALUATED, Contract, changes, named

# Prefix of identity's message without a GPU, which is a problem of the machine, not of the side.
NO_GPU = "no usable GPU"

NO_GPU_HERE = (
    "no usable GPU on this machine, and measuring needs one: see `nvidia-smi`; without one, "
    "`--plan --capability 9.0` lists what would be measured"
)


CODES_LIMIT_S = 900.0  # for listing and compiling a side's cases

Contracts = Mapping[str, Contract]  # every case of a side by its id


def read_codes(
    folders: Sequence[SideFolder], tier: str, environments: Sequence[Mapping[str, str]], capability: str | None = None
) -> tuple[Contracts, Contracts]:
    """The cases of both sides, compiled in parallel for the present GPU or for ``capability`` (such as ``9.0``).

    Functions of families that return the same on both sides are not called (``peakgate.run.identity --changed``).
    Raises SideBroken if a side's cases cannot be listed, PeakgateError without a GPU to build for.
    """
    with ExitStack() as started:
        more: tuple[str, ...] = ()
        if (changed := changed_files(*folders)) is not None:
            names = started.enter_context(scratch_folder("changed")) / "names"
            names.write_text("\0".join(changed), encoding="utf-8", errors="surrogateescape")
            more = ("--changed", str(names))
        asked = [
            (which, started.enter_context(_asked(tier, capability, folder, environment, *more)))
            for which, folder, environment in zip(Side, folders, environments, strict=True)
        ]
        base, head = [_answer(which, each) for which, each in asked]
    return _known_of_both(base, head), _known_of_both(head, base)


def _known_of_both(side: Contracts, other: Contracts) -> Contracts:
    """A side's contracts without the terms whose functions were not called on the other side.

    They are skipped if they read no file that differs, and then return the same on both sides.
    """
    unknown = dict.fromkeys(EVALUATED)
    return {
        case: structs.replace(found, **unknown) if case in other and other[case].reference is None else found
        for case, found in side.items()
    }


def _asked(tier: str, capability: str | None, folder: SideFolder, environment: Mapping[str, str], *more: str) -> Asked:
    arguments = ["--tier", tier, *more]
    if capability is not None:
        arguments += ["--capability", capability]
    command = own_module(f"{process.HARNESS}.run.identity", *arguments, python=folder.python)
    return Asked(command, CODES_LIMIT_S, cwd=folder.path, env=environment)


def _answer(which: str, asked: Asked) -> Contracts:
    done = asked.finish()
    if done.problem.startswith(NO_GPU):
        raise CannotDecide(f"not measured: {NO_GPU_HERE}", Code.NO_GPU)
    if done.problem:
        raise SideBroken(which, f"its cases cannot be listed: {done.problem}")
    return _parsed(which, done.output)


def _parsed(which: str, output: bytes) -> Contracts:
    try:
        return records.decode(output, dict[str, Contract], Path("its list of cases"), "see its families")
    except records.RecordError:
        said = last_words(output.decode(errors="replace"))
        raise SideBroken(which, f"its cases cannot be listed: {said}") from None


class Plan(Struct, frozen=True, forbid_unknown_fields=True):
    """All cases of both sides, by what is done with them.

    ``measured`` may differ between the sides; ``sentinels`` are unchanged and measured as controls; ``unchanged`` cases
    are not measured, their values say what is equal. ``mended`` cases build only in head, ``lost`` ones only in base,
    ``broken`` ones on neither side.
    """

    measured: tuple[str, ...] = ()
    sentinels: tuple[str, ...] = ()
    unchanged: Mapping[str, str] | None = None
    head_only: tuple[str, ...] = ()
    base_only: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    mended: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()

    @property
    def timed(self) -> tuple[str, ...]:
        """Cases that both sides run in every pair."""
        return (*self.measured, *self.sentinels)

    @property
    def head_runs(self) -> tuple[str, ...]:
        """Cases that head's proof runs, including those that it cannot build, for their messages."""
        return (*self.timed, *self.head_only, *self.broken, *self.lost, *self.mended)


def plan(
    base: Contracts,
    head: Contracts,
    *,
    sentinels: int,
    durations_us: Mapping[str, float],
    chosen: Sequence[str] = (),
    measure_unchanged: bool = False,
) -> Plan:
    """Plan the cases of both sides; ``chosen`` holds ``-k`` expressions, of which one must select a case (empty: all).

    A case is unchanged if its contract and its machine code, or its library's version, are equal. A case of which these
    are unknown, such as a benchmark test, is always measured. Library calls are no sentinels: some vary too much.
    """
    before, after = _chosen(base, chosen), _chosen(head, chosen)
    both = [case for case in after if case in before]
    built = [case for case in both if before[case].builds and after[case].builds]
    same = {
        case: after[case].library or f"machine code {after[case].code}"
        for case in built
        if after[case].surely_equals(before[case]) and not measure_unchanged
    }
    watched = spread_out([case for case in same if after[case].operation is None], sentinels, durations_us)
    return Plan(
        measured=tuple(case for case in built if case not in same),
        sentinels=tuple(watched),
        unchanged={case: equal for case, equal in same.items() if case not in watched},
        head_only=tuple(case for case in after if case not in before),
        base_only=tuple(case for case in before if case not in after and before[case].described),
        broken=tuple(case for case in both if not after[case].builds and not before[case].builds),
        lost=tuple(case for case in both if not after[case].builds and before[case].builds),
        mended=tuple(case for case in both if after[case].builds and not before[case].builds),
    )


def other_builds(planned: Plan, base: Contracts, head: Contracts) -> dict[str, str]:
    """Head's machine code by case if one process can sample both sides of every case alternately; else empty.

    That needs cases of which only the machine code differs. Library calls have none, what a benchmark test runs is
    unknown, and a warm case or one in a graph would have to restore its state in every round.
    """
    found = {}
    for case in planned.timed:
        before, after = base[case], head[case]
        if {*changes(before, after)} - {"code"} or before.code is before.library is None or before.state:
            return {}
        found[case] = after.code or ""
    return found


def reasons(planned: Plan, base: Contracts, head: Contracts) -> dict[str, str]:
    """Why each case is measured or listed; unchanged cases are left out."""
    reported = dict.fromkeys(planned.base_only, "in base, not in head: MISSING")
    reported |= dict.fromkeys(planned.head_only, "in head, not in base: NEW")
    refused = [case for case in planned.head_only if not head[case].described]
    reported |= dict.fromkeys(refused, "not described in head: INCONCLUSIVE")
    reported |= dict.fromkeys(planned.lost, "builds in base, not in head: MISSING")
    reported |= dict.fromkeys(planned.broken, "builds on neither side: INCONCLUSIVE")
    reported |= dict.fromkeys(planned.mended, "builds in head, not in base: NEW")
    for case in (*refused, *planned.lost, *planned.broken):
        reported[case] += f"; {head[case].problem}" if head[case].problem else ""
    for case in planned.mended:
        reported[case] += f"; {base[case].problem}" if base[case].problem else ""
    reported |= dict.fromkeys(planned.sentinels, "sentinel: runs the same on both sides, measured as a control")
    for case in planned.measured:
        before, after = base[case], head[case]
        if before.surely_equals(after):
            reported[case] = "runs the same on both sides, measured on request"
        elif before == after:
            reported[case] = "cannot be compared without measuring: always measured"
        else:
            reported[case] = f"{', '.join(map(named, changes(before, after)))} changed"
    return reported


def environment_notes(folders: tuple[SideFolder, SideFolder], codes: tuple[Contracts, Contracts]) -> list[str]:
    """With environments of their own: the packages that differ, and how many cases' machine code changed."""
    base, head = (folder.environment for folder in folders)
    if base is None or head is None:
        return []
    packages = differing(base, head)
    before, after = codes
    known = [case for case in after if case in before and after[case].code and before[case].code]
    changed = [case for case in known if after[case].code != before[case].code]
    first = f": {', '.join(changed[:3])}{' …' if len(changed) > 3 else ''}" if changed else ""
    return [
        f"packages that differ: {', '.join(packages)}" if packages else "no package differs between the environments",
        f"machine code changed in {len(changed)} of {counted(len(known), 'kernel case')}{first}",
    ]


def spread_out(cases: Sequence[str], count: int, durations_us: Mapping[str, float]) -> list[str]:
    """Choose ``count`` cases: evenly over their durations if enough are known, else round-robin over the families.

    Within a family the last ones come first: they are usually the fastest, and every pair takes their time.
    """
    if count >= len(cases):
        return list(cases)
    timed = sorted((case for case in cases if case in durations_us), key=lambda case: (durations_us[case], case))
    if len(timed) >= count:
        return [timed[(2 * index + 1) * len(timed) // (2 * count)] for index in range(count)]
    families: dict[str, list[str]] = {}
    for case in cases:
        families.setdefault(case.partition(".")[0], []).append(case)
    turns = [(turn, place, case) for place, own in enumerate(families.values()) for turn, case in enumerate(own[::-1])]
    return [case for _, _, case in sorted(turns)[:count]]


def _chosen(cases: Contracts, parts: Sequence[str]) -> Contracts:
    chosen = [selector(part) for part in parts] or [selector("")]
    return {case: code for case, code in cases.items() if any(selects(case) for selects in chosen)}
