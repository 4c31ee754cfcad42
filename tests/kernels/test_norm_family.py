"""The norm family: its references, and tiles that hold the rows they are built for."""

from __future__ import annotations

import numpy as np
import pytest
from emulated import small_of
from family_modules import norm

from peakgate.case import Case, Scale
from peakgate.device.cpu import CpuLaunchable

EVERY = [case for scale in Scale for case in norm.FAMILY.cases(scale)]
BUILDS = {(case.stage.name, case.defines): case for case in EVERY}.values()
HELD = [case for case in BUILDS if case.stage.name in {"registers", "clusters"}]
RINGS = [case for case in EVERY if case.stage.name == "rings"]
REGISTERS_OF_AN_SM = 65536
SHARED_BYTES_OF_A_BLOCK, LEFT_FOR_STATISTICS = 227 << 10, 16 << 10


def macros(case: Case) -> dict[str, str]:
    return dict(case.defines)


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape[-1]).uniform(-4, 4, shape)


def test_softmax_adds_up_to_one_and_keeps_ratios() -> None:
    x = drawn(5, 37)
    found = norm.softmax(np, x)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    np.testing.assert_allclose(found[:, 1:] / found[:, :1], np.exp(x[:, 1:] - x[:, :1]))


def test_rms_norm_gives_rows_the_mean_square_one() -> None:
    x, weight = drawn(5, 64), np.full(64, 3.0)
    found = norm.rms_norm(np, x, weight) / weight
    np.testing.assert_allclose((found**2).mean(axis=1), 1, rtol=1e-4)
    np.testing.assert_allclose(found[:, 1:] * x[:, :1], x[:, 1:] * found[:, :1])


def test_layer_norm_gives_rows_the_mean_of_the_bias_and_the_deviation_of_the_weight() -> None:
    x = drawn(5, 64) + 100
    found = norm.layer_norm(np, x, np.full(64, 3.0), np.full(64, 7.0))
    np.testing.assert_allclose(found.mean(axis=1), 7)
    np.testing.assert_allclose(found.std(axis=1), 3, rtol=1e-4)


def test_the_magnitude_of_a_layer_norm_is_no_less_than_its_value() -> None:
    x, weight, bias = drawn(5, 64) + 100, drawn(64), drawn(64)
    assert np.all(norm.layer_magnitude(np, x, weight, bias) >= np.abs(norm.layer_norm(np, x, weight, bias)))


@pytest.mark.parametrize("case", HELD, ids=lambda case: case.id)
def test_a_build_holds_the_rows_that_it_is_measured_on(case: Case) -> None:
    given = macros(case)
    threads = int(given.get("THREADS", given["BLOCK"])) * int(given.get("CLUSTER", 1))
    per_vector = 16 // {"float": 4, "bfloat16": 2}[given["ELEMENT"]]
    lengths = {int(each.size.split("x")[1]) for each in EVERY if each.defines == case.defines}
    assert max(lengths) == threads * int(given["VECTORS"]) * per_vector


@pytest.mark.parametrize("case", HELD, ids=lambda case: case.id)
def test_blocks_have_registers_for_what_their_threads_hold(case: Case) -> None:
    given = macros(case)
    resident = int(given["BLOCK"]) * int(given["MIN_BLOCKS"])
    assert case.launch.block[0] == int(given["BLOCK"])
    assert REGISTERS_OF_AN_SM // resident >= 2 * 4 * int(given["VECTORS"])


@pytest.mark.parametrize("case", RINGS, ids=lambda case: case.id)
def test_a_ring_has_room_for_parts_of_rows_and_of_each_parameter(case: Case) -> None:
    given = macros(case)
    part_bytes = int(given["BLOCK"]) * int(given["VECTORS"]) * 16
    parameters = {"Softmax": 0, "RmsNorm": 1, "LayerNorm": 2}[given["NORM"]]
    assert case.launch.shared_bytes == (int(given["STAGES"]) + parameters) * part_bytes
    assert case.launch.shared_bytes <= SHARED_BYTES_OF_A_BLOCK - LEFT_FOR_STATISTICS
    assert case.launch.block[0] == int(given["BLOCK"]) + 2 * 32
    assert case.launch.grid[0] % int(given["CLUSTER"]) == 0
    longest = max(int(each.size.split("x")[1]) for each in norm.FAMILY.probes(case))
    assert longest * {"float": 4, "bfloat16": 2}[given["ELEMENT"]] == int(given["CLUSTER"]) * part_bytes


@pytest.mark.usefixtures("compiler")
def test_rings_give_the_same_rows_launch_after_launch() -> None:
    """Tickets are not given back: the next launch draws its own."""
    launchable = CpuLaunchable(small_of(norm.FAMILY, "rings")[0])
    found = set()
    for _ in range(3):
        launchable.outputs[0].fill(0)
        launchable.run()
        found.add(launchable.outputs[0].tobytes())
    assert len(found) == 1
    assert np.any(launchable.outputs[0])


def test_a_cluster_is_whole_and_takes_one_row() -> None:
    for case in EVERY:
        if case.stage.name == "clusters":
            assert case.launch.grid[0] == int(macros(case)["CLUSTER"]) * int(case.size.split("x")[0]), case.id


def test_a_build_is_proven_on_its_longest_row_and_on_one_element_less() -> None:
    for case in HELD:
        longest = max(int(each.size.split("x")[1]) for each in EVERY if each.defines == case.defines)
        lengths = {int(probe.size.split("x")[1]) for probe in norm.FAMILY.probes(case)}
        assert {longest, longest - 1} <= lengths
        assert max(lengths) == longest
