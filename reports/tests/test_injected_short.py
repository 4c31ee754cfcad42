"""Tables of what limits short kernels, from processes whose parts of variance are known."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from peakgate.common.errors import PeakgateError
from peakgate.reports.injected import limits, short
from peakgate.reports.injected.record import COLUMNS, CONTROL, TRIMMED, Cell, Experiment, cell_of, write_times
from peakgate.reports.injected.resample import medians

PROCESSES = 12
PROCESS_NS, SAMPLE_NS = 80.0, 30.0


def cells(table: str, row: str) -> list[str]:
    return [cell.strip() for cell in next(line for line in table.splitlines() if row in line).split("|")[1:-1]]


@pytest.fixture(scope="module")
def batches(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An overhead that every way but a graph keeps; arrays of 1 GiB whose placements differ by 1 %."""
    rng = np.random.default_rng(1)
    own = rng.normal(0, PROCESS_NS, PROCESSES)
    us = {"nothing": 1.3, "empty": 3.2, "copy-5-0": 5.2, "copy-15-0": 15.0, "copy-50-0": 50.0}
    rows = []

    def take(process: int, way_of_kernel: tuple[str, str], group: int, level_ns: float, count: int = 6) -> None:
        for batch in range(count):
            times = " ".join(f"{value:.0f}" for value in rng.normal(level_ns, SAMPLE_NS, 6))
            rows.append((process, *way_of_kernel, group, batch, 1980.0, times))

    for process in range(PROCESSES):
        for kernel, level in us.items():
            for group in (0, 1, limits.STEADY):
                take(process, ("plain", kernel), group, 1e3 * level + own[process] * (kernel != "nothing"))
        for way in set(limits.WAYS) - {"plain"}:
            for group in range(2):
                take(process, (way, "copy-5-0"), group, 5200 + own[process] * (way != "graph"))
        take(process, ("stay", "large"), 0, 2e6)
        for place in range(6):
            take(process, ("moved", "large"), place, 2e6 * (1 + 0.01 * rng.standard_normal()), 1)
    folder = tmp_path_factory.mktemp("record")
    columns = ["process", "way", "kernel", "group", "batch", "clock_mhz", "times_ns"]
    pd.DataFrame(rows, columns=columns).to_csv(folder / limits.COMPONENTS, index=False)
    return limits.tables(folder)


def test_the_parts_of_a_sample_s_variance_are_those_it_was_made_of(batches: dict[str, str]) -> None:
    *_, sample, placement, process = cells(batches["injected-components"], "copy, 5 µs")
    assert float(sample) == pytest.approx(SAMPLE_NS, rel=0.1)
    assert float(placement) < 10
    assert float(process) == pytest.approx(PROCESS_NS, rel=0.5)


def test_what_an_empty_kernel_shares_with_a_copy_is_subtracted(batches: dict[str, str]) -> None:
    _, before, after, empty, nothing = cells(batches["injected-overhead"], "copy, 15 µs")
    assert float(before.split()[0]) == pytest.approx(PROCESS_NS, rel=0.5)
    assert float(after.split()[0]) < 15
    assert float(empty) > 0.95
    assert float(nothing) < 0.8


def test_a_way_that_frees_a_time_of_the_process_s_part_shows(batches: dict[str, str]) -> None:
    other, graph = (cells(batches["injected-ways"], limits.WAYS[way]) for way in ("stream", "graph"))
    assert float(other[-1]) > 0.95
    assert float(graph[2]) < 15
    assert float(other[2]) > 30


def test_many_placements_make_one_process_like_another(batches: dict[str, str]) -> None:
    name, one, placements, many, *_ = cells(batches["injected-large"], "large")
    assert name == "large"
    assert float(one.split()[0]) < 0.01
    assert float(placements.split()[0]) == pytest.approx(1.0, rel=0.4)
    assert float(many.split()[0]) < 0.8 * float(placements.split()[0])


def test_a_record_without_such_samples_has_no_such_tables(tmp_path: Path) -> None:
    assert limits.tables(tmp_path) == short.tables(tmp_path, 1) == {}
    (tmp_path / limits.COMPONENTS).write_text("not xz")
    with pytest.raises(PeakgateError, match=re.escape(limits.COMPONENTS)):
        limits.tables(tmp_path)


def test_slowdowns_are_found_in_times_without_the_overhead_of_their_process(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    rows = []
    for pair in range(50):
        for side in ("base", "head"):
            own = rng.normal(0, 0.08)
            for permille in (0, 10):
                for repeat in range(4):
                    us = 5.0 * (1 + permille / 1000 * (side == "head")) + own + rng.normal(0, 0.015)
                    case = f"steps.copy-5us-{permille}pm-{repeat}"
                    rows.append(("screen", pair, side, case, us, us, 3.0 + own))
    times = pd.DataFrame(rows, columns=[*COLUMNS, TRIMMED, CONTROL])
    write_times(tmp_path, Experiment.SHORT, times)
    found = short.tables(tmp_path, 3)["injected-short"]
    *_, slowed, _ = cells(found, "| medians |")
    *_, freed, still = cells(found, "| trimmed means, without")
    assert float(slowed.split("%")[0]) < 50
    assert freed.startswith("100 %")
    assert still == "0 %"
    kept = medians(times)
    assert {cell_of(case) for case in kept.cases} == {Cell(5, 0), Cell(5, 10)}
    assert np.ptp(kept.base) < 0.4 * np.ptp(medians(times.drop(columns=CONTROL)).base)
