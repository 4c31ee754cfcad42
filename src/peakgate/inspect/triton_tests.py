"""Checks Triton kernels of benchmark tests without a GPU: ``triton_process`` runs triton-viz, this module reports.

Each kernel that a test launches is reported. Notes list what was not checked: skipped tests, launches with atomics or
too many accesses, further configurations of a tuned kernel.

Programs of one launch run concurrently in any order, and only atomics can order them: it is a race if one program
stores to an address that another one accesses.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from msgspec import Struct

from peakgate.base import config, records
from peakgate.base.formatting import counted
from peakgate.base.packages import install_command
from peakgate.base.processes import Asked, own_module
from peakgate.base.scratch import scratch_folder
from peakgate.inspect.emulate import WRONG_RESULT, BuildReport, LaunchFinding
from peakgate_emulator.defects import RaceStep

TESTS_LIMIT_S = 600.0
MOST_NOTES = 6
MOST_LOOKED_AT = 10_000  # racing addresses to examine, the lowest first; the others repeat the same lines

Addresses = np.ndarray[Any, np.dtype[np.int64]]


class ProgramStep(Struct):
    """An access of one program."""

    location: str
    program: tuple[int, ...]


class TritonFinding(Struct):
    """One finding of a test; ``text`` is the line at ``where``."""

    kernel: str
    kind: str
    where: str
    what: str
    order: tuple[ProgramStep, ...]
    text: str


class WatchedTest(Struct):
    """The result of one test: its findings, its launches by kernel, and what was not checked.

    ``outcome`` is empty if it passed.
    """

    findings: list[TritonFinding] = []
    launches: dict[str, int] = {}
    limits: list[str] = []
    outcome: str = ""


@dataclass
class TritonCheck:
    """The Triton kernels of a project: their reports, notes on what was not checked, and the texts of source lines."""

    reports: list[BuildReport] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    texts: dict[tuple[str, str], str] = field(default_factory=dict)


@contextmanager
def begun(text: str) -> Iterator[TritonCheck]:
    """Run the tests that ``-k text`` selects in the background; the check is filled at the end of the block."""
    found = TritonCheck()
    folders = config.current().benchmarks
    files = [path for each in folders for path in (each.rglob("*.py") if each.is_dir() else [each])]
    if not any(b"triton" in path.read_bytes() for path in files if path.is_file()):
        yield found
        return
    if importlib.util.find_spec("triton_viz") is None:
        found.notes.append(f"Triton kernels of benchmark tests are not checked: {install_command('triton')}")
        yield found
        return
    with scratch_folder("triton") as scratch:
        out = scratch / "found.json"
        command = own_module("peakgate.inspect.triton_process", str(out), text)
        with Asked(command, TESTS_LIMIT_S, env=os.environ | {"TRITON_INTERPRET": "1"}) as asked:
            yield found
            done = asked.finish()
        if out.exists():
            filled(found, records.read(out, dict[str, WatchedTest], "run it again"))
        else:
            found.notes.append(f"Triton kernels are not checked: {done.problem or 'no answer'}")
            found.reports.append(BuildReport("triton", 0, broken=done.problem or "no answer of triton-viz"))


def filled(found: TritonCheck, tests: Mapping[str, WatchedTest]) -> None:
    """Add each kernel of the tests, and what was not checked, to ``found``."""
    from peakgate.callables.naming import case_of  # noqa: PLC0415  (pytest is slow to import)

    skipped: list[str] = []
    for nodeid, test in tests.items():
        case = case_of(nodeid)
        by_kernel: dict[str, list[LaunchFinding]] = {name: [] for name in test.launches}
        for each in test.findings:
            steps = []
            for step in each.order:
                x, y, z = (*step.program, 0, 0, 0)[:3]
                steps.append(RaceStep(step.location, None, (x, y, z)))
            what = (
                f"{each.where}: {each.kind}: {each.what}" if each.kind != WRONG_RESULT else f"{each.kind}: {each.what}"
            )
            where = None if each.kind == WRONG_RESULT else each.where
            finding = LaunchFinding(case.id, 0, each.kind, where, what, tuple(steps))
            by_kernel.setdefault(each.kernel, []).append(finding)
            found.texts[f"{case.family}.{each.kernel}", each.where] = each.text
        for name, findings in by_kernel.items():
            kernel = f"{case.family}.{name}"
            found.reports.append(BuildReport(kernel, 1, test.launches.get(name, 0), tuple(findings)))
        if test.outcome.startswith("skipped"):
            skipped.append(f"{case.id} ({test.outcome})")
        elif test.outcome and not test.findings:
            found.reports.append(BuildReport(case.id, 1, broken=test.outcome))
        found.notes += [f"not covered, {case.id}: {limit}" for limit in test.limits]
    if len(found.notes) > MOST_NOTES:
        found.notes[MOST_NOTES:] = [
            f"not covered: {counted(len(found.notes) - MOST_NOTES, 'more limit')} in check.json"
        ]
    if skipped:
        found.notes.append(f"{counted(len(skipped), 'benchmark test')} not checked, first {skipped[0]}")


@dataclass(frozen=True, slots=True)
class ProgramAccess:
    """The accesses of one line in one program: ``place`` is ``file.py:12``, ``program`` the index in the grid."""

    program: tuple[int, ...]
    place: str
    stores: bool
    addresses: Addresses


@dataclass(frozen=True, slots=True)
class ProgramRace:
    """Two programs race at an address: ``stored`` is the store, ``other`` the conflicting access.

    ``addresses`` is the number of addresses at which the two lines race, ``first`` the lowest.
    """

    stored: ProgramAccess
    other: ProgramAccess
    first: int
    addresses: int


def races(accesses: Sequence[ProgramAccess]) -> list[ProgramRace]:
    """One race per pair of lines, at its lowest address, sorted by address."""
    if not accesses:
        return []
    where = np.concatenate([each.addresses for each in accesses])
    who = np.repeat(np.arange(len(accesses)), [each.addresses.size for each in accesses])
    programs = {program: number for number, program in enumerate(dict.fromkeys(each.program for each in accesses))}
    program = np.array([programs[each.program] for each in accesses])[who]
    stores = np.array([each.stores for each in accesses])[who]
    order = np.lexsort((who, where))
    where, who, program, stores = where[order], who[order], program[order], stores[order]
    starts = np.flatnonzero(np.r_[True, where[1:] != where[:-1]]) if where.size else np.zeros(0, int)
    several = np.minimum.reduceat(program, starts) != np.maximum.reduceat(program, starts)
    stored = np.logical_or.reduceat(stores, starts)
    found: dict[tuple[str, str], ProgramRace] = {}
    ends = np.r_[starts[1:], where.size]
    clashing = np.flatnonzero(several & stored)[:MOST_LOOKED_AT]
    for start, end in zip(starts[clashing], ends[clashing], strict=True):
        group = [accesses[at] for at in who[start:end]]
        store = next(each for each in group if each.stores)
        other = next(each for each in group if each.program != store.program)
        key = (store.place, other.place)
        known = found.get(key)
        if known is None:
            found[key] = ProgramRace(store, other, int(where[start]), 1)
        else:
            found[key] = ProgramRace(known.stored, known.other, known.first, known.addresses + 1)
    return list(found.values())
