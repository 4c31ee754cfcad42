"""NVML, the driver's management library: the state of one GPU by its handle, without a CUDA context on it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pynvml
from peakgate.device.preflight import Preflight, reasons


def ask(question: Callable[[], Any]) -> Any:
    """NVML's answer; None where this GPU, driver or virtual machine does not give one."""
    try:
        return question()
    except pynvml.NVMLError:
        return None


def state(handle: Any) -> Preflight:
    """The state of a GPU now; reads, changes nothing."""
    processes = ask(lambda: pynvml.nvmlDeviceGetComputeRunningProcesses(handle))
    bits = ask(lambda: pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle))
    limit = ask(lambda: pynvml.nvmlDeviceGetEnforcedPowerLimit(handle))
    default = ask(lambda: pynvml.nvmlDeviceGetPowerManagementDefaultLimit(handle))
    uncorrected, volatile = pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC
    mig = ask(lambda: pynvml.nvmlDeviceGetMigMode(handle))
    return Preflight(
        other_processes=None if processes is None else sum(process.pid != os.getpid() for process in processes),
        throttle_reasons=() if bits is None else reasons(bits),
        power_limit_w=None if limit is None else limit / 1e3,
        default_power_limit_w=None if default is None else default / 1e3,
        temperature_c=ask(lambda: pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU)),
        uncorrected_ecc_errors=ask(lambda: pynvml.nvmlDeviceGetTotalEccErrors(handle, uncorrected, volatile)),
        mig=None if mig is None else bool(mig[0]),
    )
