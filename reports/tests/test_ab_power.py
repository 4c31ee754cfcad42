"""The rule on real noise; `python -m reports.tests.ab_power` plays enough gates for the figures."""

from __future__ import annotations

from reports.tests.ab_power import attained, log_medians


def test_the_noise_is_that_of_24_processes_and_22_kernels() -> None:
    assert log_medians().shape == (22, 24)


def test_on_real_noise_two_percent_is_seen_from_8_us_and_quiet_gates_pass() -> None:
    found = attained(gates=6, seed=3)
    assert found.false_gates == 0
    assert all(
        power > 0.95 for ((shortest, _), effect), power in found.power.items() if shortest >= 8 and effect >= 0.02
    )
