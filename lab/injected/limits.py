"""Limits of timing short kernels, from the samples of ``components``: tables for the page; pure.

A batch's number is the mean of its samples, a process's that of its batches.
"""

from __future__ import annotations

import lzma
from pathlib import Path

import numpy as np
import pandas as pd

from lab.pages import table
from peakgate.base.errors import PeakgateError

COMPONENTS = "components.csv.xz"
KERNELS = {
    "nothing": "no kernel between the events",
    "empty": "empty kernel",
    "copy-5-0": "copy, 5 µs",
    "copy-15-0": "copy, 15 µs",
    "copy-50-0": "copy, 50 µs",
}
WAYS = {
    "plain": "as `bench` does: batches of 6, new placements",
    "events": "other events and another flush buffer",
    "stream": "another stream",
    "code": "machine code loaded anew",
    "padded": "up to 15 empty launches before each sample",
    "long": "batches of 24",
    "stamps": "kernels that read the clock instead of events",
    "inplace": "one placement",
    "graph": "20 launches of a graph between two events (other quantity: L2 not flushed, launches overlap)",
}
STEADY = 8
"""Groups of ``plain`` that every process took in turn with the other kernels."""


def tables(record: Path) -> dict[str, str]:
    """The page's blocks; none where the record has no COMPONENTS."""
    if not (record / COMPONENTS).exists():
        return {}
    batches = read(record / COMPONENTS)
    return {
        "injected-components": components(batches),
        "injected-overhead": overhead(batches),
        "injected-ways": ways(batches),
        "injected-large": large(batches),
    }


def read(path: Path) -> pd.DataFrame:
    """A row per batch: process, way, kernel, group, batch, samples in nanoseconds; a PeakgateError names a bad file."""
    try:
        batches = pd.read_csv(path)
        counts = batches["times_ns"].str.count(" ").to_numpy() + 1
        every = np.array(" ".join(batches["times_ns"]).split(), dtype=np.float64)
        first = np.concatenate(([0], np.cumsum(counts)[:-1]))
        samples = pd.Series(np.split(every, first[1:]), index=batches.index)
        return batches.assign(samples=samples, ns=np.add.reduceat(every, first) / counts)
    except (OSError, EOFError, ValueError, KeyError, AttributeError, lzma.LZMAError) as error:
        raise PeakgateError(f"{path}: cannot be read ({error}); restore it, or measure it again") from error


def components(batches: pd.DataFrame) -> str:
    """Standard deviations of a sample, a placement and a process."""
    rows = []
    for kernel, name in KERNELS.items():
        taken = _plain(batches, kernel)
        samples = np.stack(taken["samples"].to_list())
        residuals = samples - samples.mean(
            axis=0
        )  # a sample's place in the batch has an effect that all processes share
        of_sample = residuals.var(axis=1, ddof=1).mean()
        means = taken.assign(residual=residuals.mean(axis=1)).groupby("process")["residual"]
        of_batch, count = means.var().mean(), means.size().mean()
        parts = (
            of_sample,
            max(0.0, of_batch - of_sample / samples.shape[1]),
            max(0.0, means.mean().var() - of_batch / count),
        )
        rows.append((name, f"{taken['ns'].mean() / 1e3:.2f}", *(f"{variance**0.5:.0f}" for variance in parts)))
    return table(("kernel", "mean (µs)", "sample, within a batch (ns)", "placement (ns)", "process (ns)"), rows)


def overhead(batches: pd.DataFrame) -> str:
    """How far processes differ, and how far after the empty kernel's time was subtracted."""
    means = {kernel: _plain(batches, kernel).groupby("process")["ns"].mean() for kernel in KERNELS}
    empty = means["empty"]
    rows = []
    for kernel, of in means.items():
        if kernel in {"empty", "nothing"}:
            continue
        left = of - empty
        shares = (f"{spread.std():.0f} ({100 * spread.std() / of.mean():.2f} %)" for spread in (of, left))
        rows.append((KERNELS[kernel], *shares, f"{of.corr(empty):.2f}", f"{of.corr(means['nothing']):.2f}"))
    head = ("kernel", "SD between processes (ns)", "less the empty kernel's time", "correlation with the empty kernel")
    return table((*head, "with no kernel"), rows)


def ways(batches: pd.DataFrame) -> str:
    """Whether the part that is a process's own stays under other ways of timing."""
    empty = _plain(batches, "empty").groupby("process")["ns"].mean()
    rows = []
    for way, name in WAYS.items():
        taken = _plain(batches, "copy-5-0") if way == "plain" else _of(batches, way, "copy-5-0")
        groups = taken.groupby(["process", "group"])["ns"].mean().unstack()
        of = groups.mean(axis=1)
        within = f"{groups.var(axis=1).mean() ** 0.5:.0f}" if groups.shape[1] > 1 else "–"
        rows.append((name, f"{of.mean() / 1e3:.2f}", f"{of.std():.0f}", within, f"{of.corr(empty):.2f}"))
    head = ("way", "mean (µs)", "SD between processes (ns)", "SD between repeats in a process (ns)")
    return table((*head, "correlation with the empty kernel"), rows)


def large(batches: pd.DataFrame) -> str:
    """Kernels with arrays of 1 GiB, at one placement per process and at many."""
    rows = []
    for kernel in sorted(batches.loc[batches["way"] == "moved", "kernel"].unique()):
        one, many = (_of(batches, way, kernel).groupby("process")["ns"] for way in ("stay", "moved"))
        placements = _of(batches, "moved", kernel)["ns"]
        relative = [100 * each.std() / each.mean() for each in (one.mean(), placements, many.mean())]
        low, high = (100 * (bound / placements.mean() - 1) for bound in (placements.min(), placements.max()))
        count = f"{many.size().mean():.0f}"
        rows.append((kernel, *(f"{each:.2f} %" for each in relative), f"{low:+.1f} to {high:+.1f} %", count))
    head = (
        "kernel",
        "SD between processes, one placement",
        "SD between placements",
        "SD between processes, all placements",
    )
    return table((*head, "range of placements", "placements per process"), rows)


def _plain(batches: pd.DataFrame, kernel: str) -> pd.DataFrame:
    taken = _of(batches, "plain", kernel)
    return taken[taken["group"] < STEADY]


def _of(batches: pd.DataFrame, way: str, kernel: str) -> pd.DataFrame:
    return batches[(batches["way"] == way) & (batches["kernel"] == kernel)]
