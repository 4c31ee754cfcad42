"""``python -m peakgate.device.inventory``: the GPUs that this process may use, as JSON; no CUDA context is made.

``{"gpus": [...], "problem": null}``: a record per GPU in CUDA's order, which ``CUDA_VISIBLE_DEVICES`` decides, with
its uuid, what identifies and describes it, and ``unfit``, one line for each reason not to measure it now. What the
driver does not report is null. ``problem`` says why there is no record of a GPU.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Any

from peakgate.device import driver, nvml
from peakgate.device.interface import IDLE, SLOWDOWNS, Preflight, concerns

SOFT = ("power limit",)
"""Concerns that slow a GPU and do not make its figures doubtful: they are reported, and the GPU is measured."""


def gpus() -> list[dict[str, Any]]:
    """One record per GPU that CUDA offers this process."""
    found: list[dict[str, Any]] = []
    for index in range(driver.gpu_count()):
        name, uuid = driver.gpu_name(index), driver.gpu_uuid(index)
        found.append({"uuid": uuid, "name": name, "slug": driver.slug(name)} | _of(str(uuid)))
    return found


def _of(uuid: str) -> dict[str, Any]:
    handle = nvml.handle_of(uuid)
    if handle is None:
        return {"unfit": ["NVML does not know this uuid: a MIG slice, or a GPU that fell off the bus"]}
    seen, known = nvml.state(handle), nvml.properties(handle)
    facts = nvml.health(handle) | {
        "driver": known.driver,
        "vbios": known.vbios,
        "ecc": known.ecc,
        "pcie_generation_max": known.pcie_generation_max,
        "pcie_lanes_max": known.pcie_lanes_max,
        "temperature_c": seen.temperature_c,
        "power_limit_w": known.power_limit_w,
    }
    return {name: _text(value) for name, value in facts.items()} | {
        "unfit": unfit(seen, facts),
        "notes": notes(seen, facts),
        "preflight": asdict(seen),
    }


def unfit(seen: Preflight, facts: dict[str, Any]) -> list[str]:
    """Why figures of this GPU would be doubtful or it should not be in service; empty where nothing speaks against."""
    hard = [line for line in concerns(seen) if not any(soft in line for soft in SOFT)]
    limiting = {reason for reason in seen.throttle_reasons if reason != IDLE}
    if limiting and not limiting & SLOWDOWNS:
        hard = [line for line in hard if not line.startswith("clocks are limited")]
    if facts["remapping_failed"]:
        hard.append("a memory row could not be remapped; have the GPU replaced")
    if facts["remapping_pending"]:
        hard.append("a remapped memory row waits for a reset of the GPU; drain the node and reset it")
    return hard


def notes(seen: Preflight, facts: dict[str, Any]) -> list[str]:
    """Conditions that may slow this GPU but do not make it unfit."""
    soft = [line for line in concerns(seen) if line not in unfit(seen, facts)]
    lanes, most = facts["pcie_lanes"], facts["pcie_lanes_max"]
    if lanes and most and lanes < most:
        soft.append(f"its PCIe link has {lanes} of {most} lanes; reseat the GPU or check its riser")
    return soft


def _text(value: Any) -> Any:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def main() -> int:
    """Print the inventory; what keeps it from being read is part of it."""
    try:
        found: dict[str, Any] = {"gpus": gpus(), "problem": None}
    except Exception as error:  # whatever keeps a node from answering is what the fleet has to report
        found = {"gpus": [], "problem": f"{type(error).__name__}: {error}"}
    sys.stdout.write(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
