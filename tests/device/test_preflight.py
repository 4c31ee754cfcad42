from dataclasses import replace

import pytest

from peakgate.device.interface import Load, Preflight, concerns, disturbance, own_processes, reasons

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
    ("change", "reported"),
    [
        ({"other_processes": 2}, "2 other processes on this GPU"),
        ({"throttle_reasons": ("software power cap",)}, "limited by software power cap"),
        ({"power_limit_w": 500.0}, "500 W, this GPU's default is 700 W"),
        ({"temperature_c": 91}, "91 °C"),
        ({"uncorrected_ecc_errors": 1}, "1 uncorrected ECC error"),
        ({"mig": True}, "MIG is enabled"),
    ],
)
def test_each_disturbance_is_one_line(change, reported):
    found = concerns(replace(FIT, **change))
    assert len(found) == 1
    assert reported in found[0]


def test_bits_become_names_and_an_unknown_bit_is_not_lost():
    assert reasons(0x05) == ("idle", "software power cap")
    assert reasons(0x1000) == ("unknown reason 0x1000",)
    assert reasons(0) == ()


def test_this_process_alone_disturbs_nothing():
    now = Load(frozenset({7}), ("software power cap", "idle"))
    assert disturbance(now, own_processes(Load(), now, 7)) is None


def test_a_foreign_process_is_named_whenever_it_came():
    now = Load(frozenset({5, 7}))
    assert "process 5 was" in str(disturbance(now, own_processes(Load(frozenset({5})), now, 7)))
    assert "process 5, 6" in str(disturbance(Load(frozenset({5, 6, 7})), frozenset({7})))


def test_the_process_that_came_with_the_context_is_this_one():
    before, now = Load(frozenset({4100})), Load(frozenset({4100, 4200}))
    own = own_processes(before, now, 7)
    assert own == {4200}
    assert own_processes(now, now, 7) == {4100, 4200}
    assert "foreign process 4100" in str(disturbance(now, own))


def test_a_thermal_slowdown_in_the_middle_of_a_run_is_reported():
    slow = Load(frozenset({7}), ("hardware thermal slowdown",))
    assert str(disturbance(slow, frozenset({7}))).startswith("hardware thermal slowdown")
