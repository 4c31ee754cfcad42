"""What a fresh process is needed for in `ab`: unchanged code in two processes, and in turns in one.

``python -m lab.starts.replicates FILE [--processes N] [--seconds S]`` on a GPU that is free writes a record. Each
process times every case alone, as one side of a pair of processes does, and in turns with a second build, in several
pairs. The two builds differ in a number that a kernel gives a counter, which changes no time; their sources lie beside
the kernels meanwhile. The next process imports while one measures. ``overlap --page`` fills the tables of this folder's
page from the records.
"""

from __future__ import annotations

import argparse
import json
import lzma
import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lab.growth.waits import numbered
from lab.pages import table
from peakgate.base.files import write_whole
from peakgate.base.text import say
from peakgate.compare.ab.record import Timed, compared_us
from peakgate.compare.noise import Floats
from peakgate.spec import catalogue
from peakgate.spec.case import Case, Scale, Tier

CASES = (
    *("sgemm.split_k-256", "sgemm.cublas-256", "sgemm.double_buffer-256", "sgemm.warp_tiled-256"),
    *("sgemm.tiled-1024", "hgemm.specialised-1024", "hgemm.wgmma-4096", "norm.registers-32768x4096-softmax-bf16"),
    *("transpose.smem_pad-8192-32x8", "reduce.shuffles-256MiB-sum", "reduce.scan_ahead-256MiB"),
    *("access.one_per_thread-f32", "attention.online-512x512-128-full"),
)
PAIRS = 4
PAIR_RECORDS = tuple(Path(__file__).with_name(f"replicates-pairs{more}.json.xz") for more in ("", "-2"))
"""Of several pairs of a process: eight processes at 901c6ea, the others later and on another GPU."""
RECORDS = {
    "A B, B A": Path(__file__).with_name("replicates-abba.json.xz"),
    "Thue and Morse": Path(__file__).with_name("replicates-balanced.json.xz"),
}
"""Records of other cases, before a process had several pairs, by the order of the sides in rounds; the same code was
loaded once for both sides. That of A B, B A had up to 48 rounds."""

DRAWN = 2000
"""Bootstrap samples of each interval."""

Row = dict[str, Any]
"""A case of a process: ``us`` and ``control_us`` of the process alone, ``turns_us`` of both builds; of either way the
samples of a side, and the lowest address of each batch's arrays, in order. In PAIR_RECORDS ``pair_ratios`` too, and
``beside_ratio`` of one pair whose builds stay loaded beside each other."""


def marked(case: Case, number: int) -> Case:
    """The case with a number in each of its kernels; a library's call is itself."""
    source = case.stage.source
    if source is None:
        return case
    return replace(case, stage=replace(case.stage, source=source.with_name(f"{source.stem}.{number}{source.suffix}")))


@contextmanager
def sources() -> Iterator[None]:
    """The marked sources of the cases, for the length of a block."""
    known = {case.id: case for case in catalogue.cases(Scale.BENCH, Tier.FULL)}
    made = []
    try:
        for case in map(known.__getitem__, CASES):
            for number in (0, 1) if case.stage.source else ():
                copy = marked(case, number).stage.source
                assert copy is not None
                assert case.stage.source is not None
                text = case.stage.source.read_text(encoding="utf-8")
                copy.write_text(numbered(text, number), encoding="utf-8")
                made.append(copy)
        yield
    finally:
        for copy in made:
            copy.unlink(missing_ok=True)


def process(seed: int) -> list[Row]:
    """One process's times of every case; first an entry that names no case. Nothing where stdin gives no turn."""
    from peakgate.device.caches import DataCache  # noqa: PLC0415
    from peakgate.device.gpu import GpuDevice  # noqa: PLC0415
    from peakgate.device.interface import KernelLaunchable  # noqa: PLC0415
    from peakgate.device.launcher import GpuLaunchable  # noqa: PLC0415
    from peakgate.judge.floors import Floors as KnownFloors  # noqa: PLC0415
    from peakgate.measure.sampling import REPEATED  # noqa: PLC0415
    from peakgate.session.pairs import interleaved  # noqa: PLC0415
    from peakgate.session.session import Session  # noqa: PLC0415
    from peakgate.spec.case import Array  # noqa: PLC0415  (the parent needs no device)

    class NotingCache(DataCache):
        """Notes where the arrays of a batch are placed."""

        at: list[int]

        def places(self, sizes_bytes: Sequence[int], draw: Callable[[int], int]) -> list[Array] | None:
            found = super().places(sizes_bytes, draw)
            self.at += [min(each.data.ptr for each in found)] if found else []
            return found

    class Beside(GpuDevice):
        """A device on which both builds of a kernel may stay loaded."""

        beside: set[int] | None = None
        """The launchables that are loaded, where both builds stay so; None where one makes room for the other."""

        def exchange(self, leaving: KernelLaunchable, coming: KernelLaunchable) -> None:
            if self.beside is None:
                super().exchange(leaving, coming)
            elif coming is not leaving and id(coming) not in self.beside:
                assert isinstance(coming, GpuLaunchable)
                coming.load(kept=False)
                self.beside.add(id(coming))

    device = Beside(0, later=True)
    device.data = noting = NotingCache(device.facts.memory_bytes)
    known = {case.id: case for case in catalogue.cases(device.scale)}
    cases, others = ([marked(known[name], number) for name in CASES] for number in (0, 1))
    device.prebuild([*cases, *others], checked=False)
    if not sys.stdin.readline():
        return []
    device.open()
    session = Session(device, KnownFloors(Path()), Tier.GATE, checks=False, wants_roofs=False, plan=REPEATED, seed=seed)
    device.warm_up()

    def alone(case: Case, _: Case) -> Row:
        samples = samples_of(session.measured(case))
        return {"us": samples.trimmed_mean_us, "control_us": samples.control_us, "alone_samples": len(samples.times_us)}

    def turns(case: Case, other: Case) -> Row:
        code = device.code.build(other).fingerprint if other.stage.source else ""
        sides = [samples_of(each) for each in interleaved(session, case, code, pairs=PAIRS, cases=len(CASES))]
        times_us, counts = [each.trimmed_mean_us for each in sides], [len(each.times_us) for each in sides]
        return {"turns_us": times_us, "turns_samples": counts, "pair_ratios": sides[1].pair_ratios}

    def beside(case: Case, other: Case) -> Row:
        device.beside = set()
        code = device.code.build(other).fingerprint if other.stage.source else ""
        sides = [samples_of(each) for each in interleaved(session, case, code, pairs=1, cases=len(CASES))]
        device.beside = None
        return {"beside_ratio": sides[1].pair_ratios[0]}

    found: list[Row] = [{"gpu": device.describe()["name"], "driver": device.describe()["driver"]}]
    for case, other in zip(cases, others, strict=True):
        row: Row = {"case": case.id}
        for way in (alone, turns, beside) if seed % 2 == 0 else (beside, turns, alone):
            noting.at, begun = [], time.perf_counter()
            row |= way(case, other) | {f"{way.__name__}_at": noting.at}
            row[f"{way.__name__}_s"] = round(time.perf_counter() - begun, 4)
        found.append(row)
    return found


def samples_of(outcome: Any) -> Any:
    """The samples of a case; RuntimeError where it has none."""
    if outcome.samples is None:
        raise RuntimeError(f"{outcome.case.id}: {outcome.judgement.reason}")
    return outcome.samples


def measure(processes: int, seconds: float, keep: Callable[[list[list[Row]]], None]) -> None:
    """Processes one after the other, at most so many and so long; what there is is kept after each ten."""
    begun, done = time.monotonic(), list[list[Row]]()
    command = [sys.executable, "-m", "lab.starts.replicates", "-", "--seed"]

    def started(seed: int) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*command, str(seed)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )

    waiting = started(0)
    for seed in range(processes):
        current, waiting = waiting, started(seed + 1)
        printed, _ = current.communicate("\n")
        if current.returncode:
            break
        done.append(json.loads(printed.splitlines()[-1]))
        if seed % 10 == 9 or seed == 1:
            say(f"{len(done)} processes after {time.monotonic() - begun:.0f} s")
            keep(done)
        if time.monotonic() - begun > seconds:
            break
    waiting.communicate("")
    keep(done)


def ratios(processes: Sequence[Sequence[Row]]) -> dict[str, dict[str, Floats]]:
    """Percent by case and way: 100 times log ratios of each process to the one before, and of both builds in one."""
    rows = [{row["case"]: row for row in found[1:]} for found in processes]
    sides = [[Timed(case, row["us"], row["control_us"]) for case, row in of.items()] for of in rows]
    adjusted = compared_us(sides)
    return {
        case: {
            "plain": 100 * np.diff(np.log([of[case]["us"] for of in rows])),
            "processes": 100 * np.diff(np.log([each[case] for each in adjusted])),
            "turns": 100 * np.diff(np.log([of[case]["turns_us"] for of in rows]))[:, 0],
        }
        for case in rows[0]
    }


def spreads() -> str:
    """The table of the page: the spread of each way, how in turns compares, and where it lies on average."""
    rng, rows = np.random.default_rng(0), []
    for order, processes in ((order, read(record)) for order, record in RECORDS.items()):
        for case, found in ratios(processes).items():
            pairs, turns = found["processes"], found["turns"]
            drawn = [
                _spread(rng.choice(turns, len(turns))) / _spread(rng.choice(pairs, len(pairs))) for _ in range(DRAWN)
            ]
            low, high = np.quantile(drawn, (0.025, 0.975))
            alone_us = np.mean([row["us"] for of in processes for row in of[1:] if row["case"] == case])
            error = 1.96 * turns.std(ddof=1) / math.sqrt(len(turns))
            figures = [f"{_spread(each):.2f}" for each in (found["plain"], pairs, turns)]
            compared = f"{_spread(turns) / _spread(pairs):.2f} ({low:.2f} to {high:.2f})"
            rows.append((case, f"{alone_us:.1f}", order, *figures, compared, f"{turns.mean():+.3f} ± {error:.3f}"))
    head = (
        *("case", "µs", "order", "two processes, control not subtracted", "two processes", "in turns"),
        *("in turns over two processes (95 %)", "mean in turns (95 %)"),
    )
    return table(head, rows)


def pairs() -> str:
    """The table of the page on several pairs of a process: what pairs scatter by, and what processes add to it."""
    rng, rows = np.random.default_rng(0), []
    processes = read(*PAIR_RECORDS)
    of_processes = ratios(processes)
    for case in of_processes:
        found = [row for of in processes for row in of[1:] if row["case"] == case]
        logs = 100 * np.log([row["pair_ratios"] for row in found])
        inside, means = float(logs.std(axis=1, ddof=1).mean()), logs.mean(axis=1)
        drawn = [rng.choice(means, len(means)).std(ddof=1) for _ in range(DRAWN)]
        low, high = np.quantile(drawn, (0.025, 0.975))
        error = 1.96 * means.std(ddof=1) / math.sqrt(len(means))
        figures = [f"{each:.2f}" for each in (_spread(of_processes[case]["processes"]), inside, inside / PAIRS**0.5)]
        seen = f"{means.std(ddof=1):.2f} ({low:.2f} to {high:.2f})"
        apart = 100 * np.log([row["beside_ratio"] for row in found])
        us, seconds = (np.mean([row[name] for row in found]) for name in ("us", "turns_s"))
        rows.append(
            (
                case,
                f"{us:.1f}",
                *figures,
                seen,
                f"{means.mean():+.3f} ± {error:.3f}",
                f"{apart.mean():+.2f}",
                f"{1e3 * seconds:.0f}",
            )
        )
    head = (
        *("case", "µs", "two processes", f"pairs of one process ({len(processes)} processes)"),
        *(f"mean of {PAIRS} pairs, if processes add nothing", "mean of a process, seen (95 %)", "mean of all (95 %)"),
        *("mean where both stay loaded", f"ms for {PAIRS} pairs"),
    )
    return table(head, rows)


def _spread(values: Floats) -> float:
    """The standard deviation about zero, which is the truth."""
    return float(np.sqrt(np.mean(values**2)))


def layout() -> str:
    """The sentence of the page on how many processes there were, and where arrays lay."""
    found = []
    for order, processes in ((order, read(record)) for order, record in RECORDS.items()):
        rows = [row for of in processes for row in of[1:] if row["turns_at"]]
        # Before the first round there may be a sample of one side alone.
        placed = [row["turns_at"][len(row["turns_at"]) % 2 :] for row in rows]
        rounds = [each for at in placed for each in zip(at[::2], at[1::2], strict=True)]
        same, places = sum(one == other for one, other in rounds), len({at for each in placed for at in each})
        found.append(
            f"{order}: {len(processes)} processes; both builds had their arrays at the same addresses in {same} of "
            f"{len(rounds)} rounds, at {places} places in all."
        )
    return "\n".join(found)


def read(*records: Path) -> list[list[Row]]:
    """The processes of records."""
    found: list[Mapping[str, list[list[Row]]]] = [json.loads(lzma.decompress(path.read_bytes())) for path in records]
    return [process for record in found for process in record["processes"]]


def main(argv: list[str]) -> int:
    """Measure, as the parent of all processes or as one of them."""
    parser = argparse.ArgumentParser(prog="python -m lab.starts.replicates", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--processes", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=150.0)
    parser.add_argument("--seed", type=int)
    options = parser.parse_args(argv)

    def keep(processes: list[list[Row]]) -> None:
        write_whole(options.file, lzma.compress(json.dumps({"processes": processes}).encode()))

    if options.seed is not None:
        sys.stdout.write(json.dumps(process(options.seed)) + "\n")
    else:
        with sources():
            measure(options.processes, options.seconds, keep)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
