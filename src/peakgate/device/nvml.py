"""All calls of NVML, which need no CUDA context; read-only.

``python -m peakgate.device.nvml`` prints the GPUs visible to this process as JSON, ``{"gpus": [...], "problem":
null}``: a record per GPU in CUDA's order, which follows ``CUDA_VISIBLE_DEVICES``, with its uuid, its properties, and
``unfit``, one line per reason not to measure it now. Values that the driver does not report are null. ``problem`` is
why no GPU could be read.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from peakgate.device import driver
from peakgate.device.interface import IDLE, POWER_CAP, SLOWDOWNS, Load, Preflight, concerns, reasons
from peakgate.measure.sampling import PowerReading

# Conditions that slow a GPU but do not make its figures doubtful: they are reported, and the GPU is measured.
SOFT = ("power limit",)


# The driver updates power about ten times per second, and a query takes a millisecond (an H200).
READ_EVERY_S = 0.02


@dataclass(frozen=True, slots=True)
class Properties:
    """Properties of a GPU that do not change while it is in use; None if the driver does not report one."""

    driver: str | None
    vbios: str | None
    sm_clock_max_mhz: float | None
    power_limit_w: float | None
    ecc: bool | None
    mig: bool | None
    pcie_generation_max: int | None
    pcie_lanes_max: int | None


@cache
def _nvml() -> Any:
    """The initialized NVML bindings, which a machine without a GPU need not have."""
    import pynvml  # noqa: PLC0415

    pynvml.nvmlInit()
    return pynvml


def ask(question: str, *arguments: Any) -> Any:
    """The result of an NVML query; None if this GPU, driver or virtual machine does not support it."""
    try:
        return getattr(_nvml(), f"nvml{question}")(*arguments)
    except _nvml().NVMLError:
        return None


@cache
def handle(index: int) -> Any:
    """NVML's handle of a CUDA device, by its PCI bus id: CUDA and NVML number devices differently."""
    return _nvml().nvmlDeviceGetHandleByPciBusId(driver.pci_bus_id(index))


def uuid_of(handle: Any) -> Any:
    """The UUID of a GPU, ``GPU-...``."""
    return _nvml().nvmlDeviceGetUUID(handle)


def sm_clock_mhz(handle: Any) -> Any:
    """The current SM clock in MHz."""
    return ask("DeviceGetClockInfo", handle, _nvml().NVML_CLOCK_SM)


def properties(handle: Any) -> Properties:
    """The properties of a GPU, by NVML's handle."""
    limit = ask("DeviceGetEnforcedPowerLimit", handle)
    ecc = ask("DeviceGetEccMode", handle)
    mig = ask("DeviceGetMigMode", handle)
    return Properties(
        driver=ask("SystemGetDriverVersion"),
        vbios=ask("DeviceGetVbiosVersion", handle),
        sm_clock_max_mhz=ask("DeviceGetMaxClockInfo", handle, _nvml().NVML_CLOCK_SM),
        power_limit_w=None if limit is None else limit / 1e3,
        ecc=None if ecc is None else bool(ecc[0]),
        mig=None if mig is None else bool(mig[0]),
        pcie_generation_max=ask("DeviceGetMaxPcieLinkGeneration", handle),
        pcie_lanes_max=ask("DeviceGetMaxPcieLinkWidth", handle),
    )


def health(handle: Any) -> dict[str, Any]:
    """Serial number, error counters and link of a GPU, by NVML's handle; None if not reported."""
    pynvml = _nvml()
    aggregate = pynvml.NVML_AGGREGATE_ECC
    corrected, uncorrected = pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED
    power = ask("DeviceGetPowerUsage", handle)
    rows = ask("DeviceGetRemappedRows", handle) or (None, None, None, None)
    return {
        "serial": ask("DeviceGetSerial", handle),
        "pci_bus_id": getattr(ask("DeviceGetPciInfo", handle), "busId", None),
        "ecc_corrected": ask("DeviceGetTotalEccErrors", handle, corrected, aggregate),
        "ecc_uncorrected": ask("DeviceGetTotalEccErrors", handle, uncorrected, aggregate),
        "remapped_rows_corrected": rows[0],
        "remapped_rows_uncorrected": rows[1],
        "remapping_pending": None if rows[2] is None else bool(rows[2]),
        "remapping_failed": None if rows[3] is None else bool(rows[3]),
        "pcie_generation": ask("DeviceGetCurrPcieLinkGeneration", handle),
        "pcie_lanes": ask("DeviceGetCurrPcieLinkWidth", handle),
        "power_w": None if power is None else power / 1e3,
    }


def nvlinks_mbs(handle: Any) -> list[int]:
    """The line rate of each active NVLink of a GPU, in MB/s per direction; empty if not reported."""
    pynvml = _nvml()
    links = range(pynvml.NVML_NVLINK_MAX_LINKS)
    active = [link for link in links if ask("DeviceGetNvLinkState", handle, link) == pynvml.NVML_FEATURE_ENABLED]
    rates = _values(handle, [(pynvml.NVML_FI_DEV_NVLINK_GET_SPEED, link) for link in active])
    (common,) = _values(handle, [pynvml.NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON])  # for a driver without rates per link
    return [rate for each in rates if (rate := each or common)]


def _values(handle: Any, wanted: Sequence[Any]) -> list[int | None]:
    """Values of NVML fields, by number or (number, link); None if not reported."""
    pynvml = _nvml()
    found = ask("DeviceGetFieldValues", handle, wanted) if wanted else []
    if found is None:
        return [None] * len(wanted)
    long = pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG
    return [
        None
        if each.nvmlReturn != pynvml.NVML_SUCCESS
        else int(each.value.ullVal if each.valueType == long else each.value.uiVal)
        for each in found
    ]


def load(index: int) -> Load:
    """The processes on the GPU with this CUDA index and why its clocks are reduced; two fast NVML queries."""
    nvml = handle(index)
    processes = ask("DeviceGetComputeRunningProcesses", nvml) or []
    return Load(frozenset(process.pid for process in processes), _reasons_now(nvml) or ())


def joules(handle: Any) -> float | None:
    """The GPU's energy since the driver was loaded; None if not reported."""
    found = ask("DeviceGetTotalEnergyConsumption", handle)
    return None if found is None else found / 1e3


class PowerMeter:
    """Reads the power of a GPU, and whether anything but power lowered its clocks since the last reading.

    The reported clock reasons are momentary, and the GPU may be idle again; so the driver's counters of the time of
    each reason are read too. A reading is reused for READ_EVERY_S, about one or two batches.
    """

    def __init__(self, index: int) -> None:
        self._handle = handle(index)
        self._before = self._fields()
        self._read: tuple[float, PowerReading] | None = None

    def __call__(self) -> PowerReading:
        """The reading since the last one."""
        now = time.monotonic()
        if self._read is None or now - self._read[0] > READ_EVERY_S:
            before, self._before = self._before, self._fields()
            power, *slowdowns = zip(before, self._before, strict=True)
            reasons = _reasons_now(self._handle)
            slowed = any(old is not None and new is not None and new > old for old, new in slowdowns)
            steady = reasons is not None and {*reasons} <= {IDLE, POWER_CAP} and not slowed
            self._read = now, PowerReading(None if power[1] is None else power[1] / 1e3, steady)
        return self._read[1]

    def _fields(self) -> list[int | None]:
        """The current power in mW, and the time in ns for which each slowdown has applied; None if not reported.

        nvmlDeviceGetPowerUsage would return the mean power of a second.
        """
        pynvml = _nvml()
        wanted = [
            pynvml.NVML_FI_DEV_POWER_INSTANT,
            pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN,
            pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN,
            pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN,
        ]
        return _values(self._handle, wanted)


def _reasons_now(handle: Any) -> tuple[str, ...] | None:
    """Why the clocks are not at their highest; None if not reported."""
    bits = ask("DeviceGetCurrentClocksEventReasons", handle)
    return None if bits is None else reasons(bits)


def state(handle: Any) -> Preflight:
    """The current state of a GPU, by NVML's handle."""
    pynvml = _nvml()
    processes = ask("DeviceGetComputeRunningProcesses", handle)
    limit = ask("DeviceGetEnforcedPowerLimit", handle)
    default = ask("DeviceGetPowerManagementDefaultLimit", handle)
    uncorrected, volatile = pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC
    mig = ask("DeviceGetMigMode", handle)
    return Preflight(
        other_processes=None if processes is None else sum(process.pid != os.getpid() for process in processes),
        throttle_reasons=_reasons_now(handle) or (),
        power_limit_w=None if limit is None else limit / 1e3,
        default_power_limit_w=None if default is None else default / 1e3,
        temperature_c=ask("DeviceGetTemperature", handle, pynvml.NVML_TEMPERATURE_GPU),
        uncorrected_ecc_errors=ask("DeviceGetTotalEccErrors", handle, uncorrected, volatile),
        mig=None if mig is None else bool(mig[0]),
    )


def gpus() -> list[dict[str, Any]]:
    """One record per GPU that CUDA makes visible to this process."""
    found: list[dict[str, Any]] = []
    for index in range(driver.gpu_count()):
        name, uuid = driver.gpu_name(index), driver.gpu_uuid(index)
        found.append({"uuid": uuid, "name": name, "slug": driver.slug(name)} | _of(str(uuid)))
    return found


def _of(uuid: str) -> dict[str, Any]:
    handle = ask("DeviceGetHandleByUUID", uuid)
    if handle is None:
        return {"unfit": ["NVML does not know this uuid: a MIG instance, or a GPU that has fallen off the bus"]}
    seen, known = state(handle), properties(handle)
    facts = health(handle) | {
        "driver": known.driver,
        "vbios": known.vbios,
        "ecc": known.ecc,
        "pcie_generation_max": known.pcie_generation_max,
        "pcie_lanes_max": known.pcie_lanes_max,
        "temperature_c": seen.temperature_c,
        "power_limit_w": known.power_limit_w,
    }
    texts = {name: each.decode(errors="replace") for name, each in facts.items() if isinstance(each, bytes)}
    return {
        **facts,
        **texts,
        "unfit": unfit(seen, facts),
        "notes": notes(seen, facts),
        "preflight": asdict(seen),
    }


def unfit(seen: Preflight, facts: dict[str, Any]) -> list[str]:
    """Why this GPU's figures would be doubtful, or why it should be serviced; empty if there is no reason."""
    hard = [line for line in concerns(seen) if not any(soft in line for soft in SOFT)]
    limiting = {reason for reason in seen.throttle_reasons if reason != IDLE}
    if limiting and not limiting & SLOWDOWNS:
        hard = [line for line in hard if not line.startswith("clocks are limited")]
    if facts["remapping_failed"]:
        hard.append("a memory row could not be remapped; have the GPU replaced")
    if facts["remapping_pending"]:
        hard.append("a row remapping is pending until the GPU is reset; drain the node and reset it")
    return hard


def notes(seen: Preflight, facts: dict[str, Any]) -> list[str]:
    """Conditions that may slow this GPU but do not make it unfit."""
    soft = [line for line in concerns(seen) if line not in unfit(seen, facts)]
    lanes, most = facts["pcie_lanes"], facts["pcie_lanes_max"]
    if lanes and most and lanes < most:
        soft.append(f"its PCIe link has {lanes} of {most} lanes; reseat the GPU or check its riser")
    return soft


def main() -> int:
    """Print the inventory; an error that prevents reading it is part of it."""
    try:
        found: dict[str, Any] = {"gpus": gpus(), "problem": None}
    except Exception as error:  # any error is reported for the node
        found = {"gpus": [], "problem": f"{type(error).__name__}: {error}"}
    sys.stdout.write(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
