"""Sessions that are far from their neighbours, taken in: Hampel's filter (1974), for many series at once; pure."""

from __future__ import annotations

import math

import numpy as np

from peakgate.compare import noise
from peakgate.compare.noise import Floats, Positions

REACH = 4
FARTHEST = 3.0
"""Hampel's filter: the neighbours on either side, and how many SDs from their median a session counts."""

MOST_ODD = 0.1
"""No more of a case's sessions are odd; what more of them do is its noise."""


def hampel(values: Floats, gpus: Positions) -> tuple[Floats, Floats]:
    """The values with each no farther from the median of its neighbours than its case's reach, and those.

    The levels of the GPUs are taken out for it by median polish.
    """
    variance = np.zeros(len(values))
    offset = gpu_levels(values, gpus)
    middle = running_median(values - offset)
    counts = np.isfinite(values).sum(axis=1)
    packed_values = packed(values - offset)
    differences = np.abs(np.diff(packed_values, axis=1))
    sds = noise.MAD_TO_SD * row_medians(differences) / math.sqrt(2) * counts / np.maximum(counts - 0.8, 0.2)
    typical = row_medians(values)
    known = counts > 2
    if known.any():
        squeezed, _ = noise.squeeze(sds[known] ** 2, np.maximum(0.37 * (counts[known] - 1.0), 0.5), typical[known])
        variance[known] = np.maximum(squeezed, sds[known] ** 2)
    fitted = middle + offset
    there = np.isfinite(values).any(axis=1)
    often = np.zeros(len(values))
    often[there] = np.nanquantile(np.abs(values - fitted)[there], 1 - MOST_ODD, axis=1)
    reach = np.maximum(FARTHEST * np.sqrt(np.maximum(variance, noise.CASE_SD_FLOOR**2)), often)[:, None]
    return fitted + np.clip(values - fitted, -reach, reach), reach[:, 0]


def gpu_levels(values: Floats, gpus: Positions) -> Floats:
    """How far each session's GPU is from the running median of all GPUs, by median polish; 0 of a single one."""
    offset = np.zeros_like(values)
    several = set(gpus.tolist())
    for _ in range(3 if len(several) > 1 else 0):
        middle = running_median(values - offset)
        for gpu in several:
            own = gpus == gpu
            offset[:, own] = row_medians(values[:, own] - middle[:, own])[:, None]
    return offset


def packed(values: Floats) -> Floats:
    """Each row's values moved to the front, NaN after them."""
    order = np.argsort(~np.isfinite(values), axis=1, kind="stable")
    return np.asarray(np.take_along_axis(values, order, axis=1))


def running_median(values: Floats) -> Floats:
    """The median of each value and its REACH neighbours on either side, among those that are there."""
    order = np.argsort(~np.isfinite(values), axis=1, kind="stable")
    front = np.pad(np.take_along_axis(values, order, axis=1), ((0, 0), (REACH, REACH)), constant_values=np.nan)
    windows = np.lib.stride_tricks.sliding_window_view(front, 2 * REACH + 1, axis=1)
    middle = row_medians(windows.reshape(-1, 2 * REACH + 1)).reshape(values.shape)
    found = np.full_like(values, np.nan)
    np.put_along_axis(found, order, middle, axis=1)
    return found


def row_medians(values: Floats) -> Floats:
    """The median of each row; 0 of none."""
    if not values.shape[1]:
        return np.zeros(len(values))
    counts = np.isfinite(values).sum(axis=1)
    ordered = np.sort(values, axis=1)  # NaN last
    low = np.take_along_axis(ordered, np.maximum((counts - 1) // 2, 0)[:, None], axis=1)[:, 0]
    high = np.take_along_axis(ordered, np.minimum(counts // 2, values.shape[1] - 1)[:, None], axis=1)[:, 0]
    return np.where(counts > 0, (low + high) / 2, 0.0)
