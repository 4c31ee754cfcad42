"""The table of settings: plans, repetitions, and the rates required of a rule.

Requirements: at most 1 % of unchanged histories name a commit, UNCONFIRMED in at most 1 % of sessions, a step of 5 % at
age 1 seen in 95 %, one of 2 % at age 3 in 90 %, one verdict for a pool, drift of the suite never PASS.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from histories import Driver, Order, Plan, Step

Kind = Literal["unchanged", "drift", "step", "last"]

SIZES = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
AGES = (1, 2, 3, 5, 10, 50)
# Sessions, size and age of the steps in histories of one and two cases.
FEW = ((14, 0.15, 6), (14, 0.15, 1), (30, 0.05, 1), (60, 0.02, 3))
# Effect of a change of the driver, and its age in sessions.
DRIVERS: tuple[tuple[Driver, int], ...] = (("nothing", 2), ("six", 2), ("six", 4), ("six", 10), ("all", 2))
POOLS: tuple[tuple[int, Order], ...] = ((8, "random"), (20, "random"), (20, "in turn"), (120, "as they come"))
POOLS_OF_STEPS: tuple[tuple[int, Order], ...] = ((2, "in turn"), (8, "random"), (20, "random"), (120, "as they come"))
# Required detection rate by size and age; it also holds for larger or older steps.
WANTED = {(0.05, 1): 0.95, (0.02, 3): 0.90}


@dataclass(frozen=True)
class Setting:
    """A row of the table: ``repetitions`` histories of ``plan``; a quick run draws a fifth of those with ``quick``."""

    group: str
    name: str
    plan: Plan
    kind: Kind = "unchanged"
    repetitions: int = 40
    quick: bool = True


def wanted(size: float, age: int) -> float | None:
    """The required detection rate for a step of this size and age, if any."""
    return max((rate for (s, a), rate in WANTED.items() if size >= s and a <= age <= 35), default=None)


def _unchanged() -> list[Setting]:
    rows = [
        Setting("unchanged", f"{cases} cases, {sessions} sessions", Plan(cases, sessions), quick=sessions == 60)
        for cases in (1, 2, 60, 240)
        for sessions in ((10, 60) if cases == 2 else (10, 60, 200))
    ]
    usual = Plan(60, 80)
    kinds = {
        "one noisy case, one odd session": replace(usual, noisy=True),
        "heavy tails, odd sessions": replace(usual, heavy=True),
        "AR(1) 0.8 in a tenth": replace(usual, ar_share=0.1),
        "two levels in a tenth": replace(usual, level_share=0.1),
        "wave 0.4 %, 200 sessions": replace(usual, wave=True, sessions=200),
        "hosts, one change": replace(usual, hosts="one change"),
        "hosts in turn": replace(usual, hosts="in turn"),
        "one to three runs a commit": replace(usual, reruns=True),
        "spread of one case grows sevenfold": replace(usual, spread_grows=True),
        "machine code known, AR(1), levels": replace(usual, code="known", ar_share=0.1, level_share=0.1),
    }
    rows += [Setting("noise", name, plan) for name, plan in kinds.items()]
    full = Plan(240, 120, noisy=True, heavy=True, ar_share=0.1)
    rows.append(Setting("noise", "240 cases, noisy, heavy, AR(1)", full, quick=False))
    one = Plan(1, 60)
    rows += [
        Setting("noise", "1 cases, heavy tails", replace(one, heavy=True)),
        Setting("noise", "1 cases, AR(1) 0.8", replace(one, ar_share=1.0)),
        Setting("noise", "1 cases, hosts in turn", replace(one, hosts="in turn")),
        Setting("drift", "suite 3 % in 50, from the start", Plan(60, 100, drift="suite"), "drift"),
        Setting("drift", "suite 3 % in 50, newest half", Plan(60, 100, drift="suite late"), "drift"),
        Setting("drift", "three cases 3 % in 50", Plan(60, 100, drift="three")),
    ]
    rows += [
        Setting("driver", f"moved {what}, {age} ago", Plan(60, 60, driver=what, driver_age=age), quick=age == 2)
        for what, age in DRIVERS
    ]
    rows += [
        Setting("pool", f"{gpus} GPUs {order}", Plan(60, 120, gpus=gpus, order=order), quick=gpus == 8)
        for gpus, order in POOLS
    ]
    rows.append(Setting("pool", "8 GPUs random, 1 case", Plan(1, 60, gpus=8)))
    everything = Plan(60, 120, 8, noisy=True, ar_share=0.1, hosts="in turn")
    rows.append(Setting("pool", "8 GPUs, noisy, AR(1), hosts", everything))
    return rows


def _steps() -> list[Setting]:
    gate = Plan(186, 60)
    rows = []
    gates = {"quiet gate": replace(gate, quiet=True), "gate": gate, "gate with noisy cases": replace(gate, noisy=True)}
    for name, plan in gates.items():
        for size, age in WANTED:
            step = replace(plan, steps=(Step(size, age),))
            rows.append(Setting("key", f"{name}, {size:.1%} at age {age}", step, "step", quick=name != "quiet gate"))
    # Six of 60 cases step, each at a different age; sizes rotate, so that six histories cover the grid once.
    for turn, _ in enumerate(SIZES):
        steps = tuple(Step(SIZES[(turn + place) % len(SIZES)], age) for place, age in enumerate(AGES))
        rows.append(Setting("grid", "60 cases, 80 sessions", Plan(60, 80, steps=steps), "step"))
    for cases in (1, 2):
        for sessions, size, age in FEW:
            plan = Plan(cases, sessions, steps=(Step(size, age),))
            name = f"{cases} cases, {sessions} sessions"
            rows.append(Setting("few", name, plan, "step", quick=size == 0.15))
    pool_steps = (Step(0.05, 1), Step(0.02, 3), Step(0.02, 10))
    rows += [
        Setting("pool steps", f"{gpus} GPUs {order}", Plan(60, 120, gpus, order, pool_steps), "step", quick=gpus != 2)
        for gpus, order in POOLS_OF_STEPS
    ]
    one = (Step(0.05, 1), Step(0.02, 3), Step(0.05, 10))
    rows += [
        Setting("noise steps", "AR(1), levels", Plan(60, 80, steps=one, ar_share=0.1, level_share=0.1), "step"),
        Setting("noise steps", "suite drifts", Plan(60, 100, steps=one, drift="suite"), "step"),
        Setting("noise steps", "hosts in turn", Plan(60, 80, steps=one, hosts="in turn"), "step", quick=False),
        Setting("noise steps", "machine code known", Plan(60, 80, steps=one, code="known"), "step", quick=False),
    ]
    for age, since in ((1, 3), (2, 4), (3, 6)):
        plan = Plan(60, 60, steps=(Step(0.05, age),), driver="nothing", driver_age=since)
        rows.append(Setting("driver steps", f"driver moved nothing {since} sessions ago", plan, "step", quick=age == 2))
    rows += [
        Setting("many", "six cases", Plan(60, 60, steps=(Step(0.05, 1, 6),)), "step"),
        Setting("many", "six cases", Plan(60, 60, steps=(Step(0.02, 10, 6),)), "step", quick=False),
        Setting("many", "whole suite", Plan(24, 60, steps=(Step(0.02, 10, 0),)), "step"),
    ]
    rows.append(Setting("last", "8 GPUs, unchanged", Plan(60, 120, 8), "last", quick=False))
    for gpus in (2, 8, 20):
        plan = Plan(60, 120, gpus, steps=(Step(0.05, 10),))
        rows.append(Setting("last", f"{gpus} GPUs, 5 % at age 10", plan, "last", quick=gpus == 8))
    return rows


SETTINGS = tuple(_unchanged() + _steps())
