"""What a power meter makes of NVML's answers."""

from types import SimpleNamespace

import pytest

from peakgate.device import nvml

IDLE, SETTING, POWER_CAP, THERMAL = 0x01, 0x02, 0x04, 0x20


class NvmlError(Exception):
    """NVML's own."""


FIELDS = ("POWER_INSTANT", "SW_THERM_SLOWDOWN", "HW_THERM_SLOWDOWN", "HW_POWER_BRAKE_SLOWDOWN")


@pytest.fixture
def gpu(monkeypatch):
    """A GPU whose state the test sets: milliwatts, counters in ns, reasons. None is what its driver does not report."""
    state = dict.fromkeys(FIELDS, 0) | {"POWER_INSTANT": 700_000, "bits": IDLE}

    def answered(value):
        if value is None:
            raise NvmlError
        return value

    def fields(_handle, names):
        of_type = {True: "uiVal", False: "ullVal"}
        return [
            SimpleNamespace(
                nvmlReturn=int(state[name] is None),
                valueType=1 if name == "POWER_INSTANT" else 3,
                value=SimpleNamespace(**{of_type[name == "POWER_INSTANT"]: state[name]}),
            )
            for name in names
        ]

    names = {"NVML_FI_DEV_POWER_INSTANT": "POWER_INSTANT"}
    names |= {f"NVML_FI_DEV_CLOCKS_EVENT_REASON_{name}": name for name in FIELDS[1:]}
    driver = SimpleNamespace(
        NVMLError=NvmlError,
        NVML_SUCCESS=0,
        NVML_VALUE_TYPE_UNSIGNED_LONG_LONG=3,
        nvmlDeviceGetCurrentClocksEventReasons=lambda _handle: answered(state["bits"]),
        nvmlDeviceGetFieldValues=fields,
        **names,
    )
    monkeypatch.setattr(nvml, "_nvml", lambda: driver)
    monkeypatch.setattr(nvml, "handle", lambda index: f"GPU {index}")
    return state


@pytest.mark.parametrize("bits", [0, IDLE, POWER_CAP, IDLE | POWER_CAP])
def test_clocks_that_nothing_but_power_lowers_are_steady(gpu, bits):
    gpu["bits"] = bits
    assert nvml.PowerMeter(0)() == nvml.PowerReading(700.0, steady=True)


@pytest.mark.parametrize("bits", [POWER_CAP | THERMAL, THERMAL, 0x08, 0x80, SETTING])
def test_heat_the_hardware_or_a_setting_is_no_steady_state(gpu, bits):
    gpu["bits"] = bits
    assert not nvml.PowerMeter(0)().steady


@pytest.mark.parametrize("counter", FIELDS[1:])
def test_a_slowdown_that_is_over_is_known_from_its_counted_time(gpu, counter, monkeypatch):
    monkeypatch.setattr(nvml, "READ_EVERY_S", -1.0)
    meter = nvml.PowerMeter(0)
    gpu[counter] = 1
    assert not meter().steady
    assert meter().steady  # nothing was counted since


def test_the_driver_is_not_asked_again_while_a_reading_is_fresh(gpu, monkeypatch):
    monkeypatch.setattr(nvml, "READ_EVERY_S", 1e9)
    meter = nvml.PowerMeter(0)
    first = meter()
    gpu["bits"] = THERMAL
    assert meter() is first


def test_a_driver_that_reports_nothing_says_nothing_of_power(gpu):
    gpu |= dict.fromkeys((*FIELDS, "bits"))
    assert nvml.PowerMeter(0)() == nvml.PowerReading(None, steady=False)
