from dataclasses import replace

import pytest
from peakgate.device.preflight import Preflight, concerns, reasons

FIT = Preflight(
    other_processes=0,
    throttle_reasons=("idle",),
    power_limit_w=700.0,
    default_power_limit_w=700.0,
    temperature_c=40,
    uncorrected_ecc_errors=0,
    mig=False,
)


def test_an_idle_healthy_gpu_raises_no_concern():
    assert concerns(FIT) == []


def test_what_the_driver_does_not_tell_raises_no_concern():
    assert concerns(Preflight(None, (), None, None, None, None, None)) == []


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"other_processes": 2}, "2 other process(es) hold this GPU"),
        ({"throttle_reasons": ("software power cap",)}, "held down by software power cap"),
        ({"power_limit_w": 500.0}, "500 W, 700 W is this GPU's default"),
        ({"temperature_c": 91}, "91 °C"),
        ({"uncorrected_ecc_errors": 1}, "1 uncorrected ECC error"),
        ({"mig": True}, "MIG is on"),
    ],
)
def test_each_disturbance_is_one_line(change, told):
    found = concerns(replace(FIT, **change))
    assert len(found) == 1
    assert told in found[0]


def test_bits_become_names_and_an_unknown_bit_is_not_lost():
    assert reasons(0x05) == ("idle", "software power cap")
    assert reasons(0x1000) == ("unknown reason 0x1000",)
    assert reasons(0) == ()
