"""Preflight checks: which parts of the GPU's state (``nvml.state``) make a measurement doubtful. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from peakgate.core.text import counted

HOT_C = 87
"""Above this an NVIDIA data-centre GPU is near its slow-down temperature."""

IDLE, POWER_CAP = "idle", "software power cap"
CLOCK_LIMITS = {
    0x01: IDLE,
    0x02: "applications clock setting",
    0x04: POWER_CAP,
    0x08: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
    0x100: "display clock setting",
}
"""Why clocks are not at their highest: bits of NVML's clocks event reasons."""


SLOWDOWNS = frozenset(
    {"hardware slowdown", "software thermal slowdown", "hardware thermal slowdown", "hardware power brake"}
)
"""Reasons that make figures doubtful in the middle of a run; at its power cap a GPU runs steadily."""


@dataclass(frozen=True, slots=True)
class Load:
    """The load of a GPU at one moment: the processes on it by id, and why its clocks are reduced."""

    processes: frozenset[int] = frozenset()
    throttle_reasons: tuple[str, ...] = ()


def own_processes(before: Load, now: Load, pid: int) -> frozenset[int]:
    """This process as NVML names it, from the load before and after it made its CUDA context.

    In a container NVML may use the host's process ids, which ``pid`` is none of: then the process that appeared is
    this one, and where none appeared (the context was there before) all that are there are taken for it.
    """
    return frozenset({pid}) if pid in now.processes else now.processes - before.processes or now.processes


def disturbance(now: Load, own: frozenset[int]) -> str | None:
    """Why the newest samples are doubtful, in one line; None if they are not."""
    if foreign := now.processes - own:
        named = ", ".join(map(str, sorted(foreign)))
        return f"foreign process {named} was on this GPU while it was measured; see nvidia-smi and measure again"
    if slow := SLOWDOWNS & set(now.throttle_reasons):
        return f"{', '.join(sorted(slow))} while it was measured; see nvidia-smi -q -d PERFORMANCE and measure again"
    return None


@dataclass(frozen=True, slots=True)
class Preflight:
    """The state of a GPU before a run; None where the driver does not report it."""

    other_processes: int | None
    throttle_reasons: tuple[str, ...]
    power_limit_w: float | None
    default_power_limit_w: float | None
    temperature_c: int | None
    uncorrected_ecc_errors: int | None
    mig: bool | None


def reasons(bits: int) -> tuple[str, ...]:
    """The names of the reasons set in NVML's bit mask; an unknown bit is named by its value."""
    named = [name for bit, name in CLOCK_LIMITS.items() if bits & bit]
    unknown = bits & ~sum(CLOCK_LIMITS)
    return (*named, *((f"unknown reason {unknown:#x}",) if unknown else ()))


def concerns(seen: Preflight) -> list[str]:
    """One line for each thing that makes figures of this run doubtful; empty when there is none."""
    found = []
    if seen.other_processes:
        found.append(
            f"{counted(seen.other_processes, 'other process')} on this GPU; see nvidia-smi and end or move them"
        )
    limiting = [reason for reason in seen.throttle_reasons if reason != IDLE]
    if limiting:
        found.append(f"clocks are limited by {', '.join(limiting)}; see nvidia-smi -q -d PERFORMANCE")
    if seen.power_limit_w and seen.default_power_limit_w and seen.power_limit_w < seen.default_power_limit_w:
        found.append(
            f"the power limit is {seen.power_limit_w:.0f} W, {seen.default_power_limit_w:.0f} W is this GPU's default"
        )
    if seen.temperature_c is not None and seen.temperature_c > HOT_C:
        found.append(f"the GPU is at {seen.temperature_c} °C, near slow-down; check its cooling")
    if seen.uncorrected_ecc_errors:
        found.append(
            f"{counted(seen.uncorrected_ecc_errors, 'uncorrected ECC error')} since boot; have the GPU checked"
        )
    if seen.mig:
        found.append("MIG is on: this run sees a slice of the GPU, the peaks are those of the whole")
    return found
