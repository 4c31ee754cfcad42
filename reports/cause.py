"""What changed along with a kernel's time, from what both sides' runs recorded; pure."""

from __future__ import annotations

import math

from peakgate.reports.runfile import CaseResult

NOTABLE_CLOCK_CHANGE = 0.01
SAME_CODE = "same code: environment"

CODE_FACTS = (("registers", "registers"), ("spill_bytes", "spilled bytes"), ("shared_bytes", "shared bytes"))


def causes(base: CaseResult, new: CaseResult) -> list[str]:
    """Each a few words: code, what the compiler allots, occupancy, clock, floor; empty where nothing known changed."""
    found = [*_code(base, new), *_clock(base, new)]
    if new.floor is not None and new.peak_fraction is not None and new.peak_fraction < new.floor:
        found.append(f"below its floor too: {new.peak_fraction:.3f} of peak, floor {new.floor:.3f}")
    return found


def _code(base: CaseResult, new: CaseResult) -> list[str]:
    if base.fingerprint and base.fingerprint == new.fingerprint:
        return [SAME_CODE]
    found = []
    for field, name in CODE_FACTS:
        before, after = getattr(base, field), getattr(new, field)
        if before is not None and after is not None and before != after:
            found.append(f"{name} {before:g} to {after:g}")
    if base.occupancy is not None and new.occupancy is not None and base.occupancy != new.occupancy:
        limits = f", limited by {new.occupancy_limiter}" if new.occupancy_limiter else ""
        found.append(f"occupancy {base.occupancy:.0%} to {new.occupancy:.0%}{limits}")
    if not found and base.fingerprint and new.fingerprint:
        found.append("other machine code, same registers, shared memory and occupancy")
    return found


def _clock(base: CaseResult, new: CaseResult) -> list[str]:
    """A clock that changed explains time, not cycles: what is left in cycles is the kernel's own."""
    if not base.sm_clock_mhz or not new.sm_clock_mhz:
        return []
    ratio = new.sm_clock_mhz / base.sm_clock_mhz
    if abs(ratio - 1) <= NOTABLE_CLOCK_CHANGE:
        return []
    cycles = 100 * math.expm1(math.log(new.time_us / base.time_us * ratio))
    return [f"SM clock {base.sm_clock_mhz:.0f} to {new.sm_clock_mhz:.0f} MHz, {cycles:+.1f} % in cycles"]
