"""Whether a case was timed in the state that it declares."""

from __future__ import annotations

from dataclasses import dataclass

MATTERS = 0.03
"""If memory can transfer all data of a launch in less than this share of its time, hits in the L2 hardly change the
time."""

SAVED = 0.25
"""A launch with its data in the L2 saves at least this share of their transfer time, which may overlap other work."""


@dataclass(frozen=True, slots=True)
class StateReading:
    """What a run measured of a repeated launch.

    ``first_us`` is its median right after a flush, ``rest_us`` after equal launches. ``footprint_bytes`` is the size of
    the launch's visible arrays, ``l2_bytes`` that of the L2, ``memory_gbs`` the peak of memory, None if unknown.
    ``nodes`` is the number of nodes of the captured graph of ``launches``, None if unknown.
    """

    first_us: float
    rest_us: float
    footprint_bytes: int
    l2_bytes: int
    memory_gbs: float | None
    launches: int = 1
    nodes: int | None = None


def doubt_of(state: str, seen: StateReading) -> str | None:
    """Why the samples were not taken in the declared state; None if they were.

    A graph has at least one node per launch. A warm launch has all its data in the L2, and so is faster than right
    after a flush.
    """
    unshown = _not_in_a_graph(seen) if state == "graph" else _not_warm(seen)
    return None if unshown is None else f"state {state} not shown: {unshown}"


def _not_in_a_graph(seen: StateReading) -> str | None:
    if seen.nodes is None:
        return "the nodes of its graph could not be counted"
    if seen.nodes < seen.launches:
        return f"{seen.launches} launches gave a graph of {seen.nodes} nodes; launch on the current stream"
    return None


def _not_warm(seen: StateReading) -> str | None:
    if not seen.footprint_bytes:
        return "no array that it uses is visible; pass them as arguments"
    takes = f"its arrays take {seen.footprint_bytes / 1e6:.1f} MB"
    if seen.footprint_bytes > seen.l2_bytes:
        return f"{takes}, the L2 holds {seen.l2_bytes / 1e6:.1f} MB; declare it cold"
    if seen.memory_gbs is None:
        return "the peak of the GPU's memory is not known, nor what an L2 that holds its arrays would save"
    memory_us = seen.footprint_bytes / seen.memory_gbs / 1e3
    if memory_us < MATTERS * seen.rest_us or seen.first_us - seen.rest_us >= SAVED * memory_us:
        return None
    return (
        f"{seen.rest_us:.2f} µs, right after a flush {seen.first_us:.2f} µs; {takes}, which memory transfers in "
        f"{memory_us:.2f} µs; declare it cold"
    )
