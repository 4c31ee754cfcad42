"""What a fresh process is needed for in `ab`: the spread between processes, and between two copies of a kernel in one.

``python -m lab.starts.replicates FILE [--processes N]`` on a GPU that is free writes a record. Each process loads the
machine code of a kernel twice, in a drawn order, and samples both copies in turns, a batch each. ``overlap --page``
fills the table of this folder's page from it.
"""

from __future__ import annotations

import argparse
import json
import lzma
import math
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from peakgate.reports.pages.markers import table

CASES = (
    *("sgemm.split_k-256", "sgemm.group_split-256", "sgemm.naive-256", "sgemm.double_buffer-256", "sgemm.stream_k-256"),
    *("sgemm.warp_tiled-256", "sgemm.stream_k-1024", "sgemm.tiled-1024", "access.one_per_thread-f32"),
    *("transpose.smem_pad-8192-32x8", "transpose.hinted-8192-256x1", "norm.registers-32768x4096-softmax-bf16"),
)
BATCHES = 12
"""Of each copy, in each process."""

RECORD = Path(__file__).with_name("replicates-671a0c52.json.xz")

Row = dict[str, Any]


def process(seed: int) -> list[Row]:
    """One process's samples of both copies in ns, by case and batch; first an entry that names no case."""
    from peakgate.core import catalogue  # noqa: PLC0415  (the parent needs no device)
    from peakgate.device.choose import open_device  # noqa: PLC0415
    from peakgate.device.launchable import GpuLaunchable  # noqa: PLC0415
    from peakgate.measure.sampling import share_of_round  # noqa: PLC0415

    drawn = random.Random(seed)  # noqa: S311  (an order that can be repeated)
    device: Any
    device, _ = open_device("gpu")
    device.warm_up()
    cases = {case.id: case for case in catalogue.cases(device.scale)}
    found: list[Row] = [{"gpu": device.describe()["name"], "driver": device.describe()["driver"]}]
    for name in CASES:
        built = device.build(cases[name])
        copies = {which: GpuLaunchable(device, cases[name], other=built) for which in drawn.sample("ab", 2)}
        batches: dict[str, list[list[int]]] = {"a": [], "b": []}
        for at in range(BATCHES):
            for which in ("a", "b") if at % 2 == 0 else ("b", "a"):
                samples = copies[which].sample(share_of_round(1.0))
                batches[which].append([round(1e3 * each) for each in samples.times_us])
        found.append({"case": name, **batches})
    return found


def measure(processes: int) -> dict[str, Any]:
    """All processes, one after the other."""
    command = [sys.executable, "-m", "lab.starts.replicates", "-", "--seed"]
    rows = []
    for seed in range(processes):
        done = subprocess.run([*command, str(seed)], capture_output=True, text=True, check=True)
        rows.append(json.loads(done.stdout.splitlines()[-1]))
    return {"processes": rows}


def spreads() -> str:
    """The table of the page: the standard deviation of a log ratio of equal code, in percent."""
    processes = [found[1:] for found in json.loads(lzma.decompress(RECORD.read_bytes()))["processes"]]
    rows = []
    for case in sorted(CASES, key=lambda case: np.mean([_log_ns(row, "a", BATCHES) for row in _of(processes, case)])):
        found = _of(processes, case)
        alone = np.array([_log_ns(row, "a", BATCHES) for row in found])
        between = alone[1::2] - alone[: len(alone) // 2 * 2 : 2]
        inside = [
            np.array([_log_ns(row, "a", count) - _log_ns(row, "b", count) for row in found]) for count in (4, BATCHES)
        ]
        figures = [f"{100 * math.sqrt(np.mean(each**2)):.2f}" for each in (between, *inside)]
        rows.append((case, f"{np.exp(alone.mean()) / 1e3:.1f}", *figures))
    head = (
        "case",
        "µs",
        f"two processes, {BATCHES} batches",
        "one process, 4 batches",
        f"one process, {BATCHES} batches",
    )
    return table(head, rows)


def _of(processes: Sequence[Sequence[Row]], case: str) -> list[Row]:
    return [row for found in processes for row in found if row["case"] == case]


def _log_ns(row: Row, which: str, batches: int) -> float:
    """The logarithm of the mean over so many batches, each without its lowest and its highest sample."""
    return float(np.log(np.mean([np.mean(sorted(batch)[1:-1]) for batch in row[which][:batches]])))


def main(argv: list[str]) -> int:
    """Measure, as the parent of all processes or as one of them."""
    parser = argparse.ArgumentParser(prog="python -m lab.starts.replicates", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--processes", type=int, default=18)
    parser.add_argument("--seed", type=int)
    options = parser.parse_args(argv)
    if options.seed is not None:
        sys.stdout.write(json.dumps(process(options.seed)) + "\n")
    else:
        options.file.write_bytes(lzma.compress(json.dumps(measure(options.processes)).encode()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
