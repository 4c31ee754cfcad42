"""Resources of an experiment: its folder, time budget, wall time by phase, and imports in the background."""

from __future__ import annotations

import importlib
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from peakgate.base.processes import seconds_since_start_of
from peakgate.base.report import Table

# In an experiment's output folder: the folder of its runs, and their record there.
MANIFEST = "manifest.json"
AB_FOLDER = "ab"

START, SIDES, CASES, REPORT = (
    "start and imports",
    "worktrees and builds",
    "cases and machine code",
    "decision and report",
)

# Steps of a measuring process, as it names them.
SAMPLE = "sample"
OPEN = frozenset({"start", "build", "warm up", "prepare", "close"})
CHECKS = frozenset({"check", "check again"})


Span = tuple[float, float]  # begin and end, in seconds by ``time.monotonic``


@dataclass
class PhaseTime:
    """A phase's time spans, the number of processes that measured in it, and when each used the GPU.

    Proving processes run at the same time; a process may leave the GPU after the next phase has begun. ``steps_s`` sums
    the processes' seconds by step.
    """

    spans: list[Span] = field(default_factory=list)
    processes: int = 0
    busy: list[Span] = field(default_factory=list)
    steps_s: Counter[str] = field(default_factory=Counter)

    @property
    def wall_s(self) -> float:
        return sum(end - begin for begin, end in self.spans)

    @property
    def idle_s(self) -> float:
        """Seconds of the phase in which none of its processes used the GPU."""
        idle = list(self.spans)
        for begin, end in self.busy:
            parts = [part for span in idle for part in ((span[0], min(span[1], begin)), (max(span[0], end), span[1]))]
            idle = [part for part in parts if part[0] < part[1]]
        return sum(end - begin for begin, end in idle)

    def row(self) -> dict[str, float]:
        """Seconds by column of the table; the columns of GPU time only if processes measured."""
        opened = sum(self.steps_s[name] for name in OPEN)
        checks = sum(self.steps_s[name] for name in CHECKS)
        found = {"wall": self.wall_s}
        if self.processes:
            found |= {"contexts": opened, "sampling": self.steps_s[SAMPLE], "checks": checks}
            at_work = sum(end - begin for begin, end in self.busy)
            found |= {"other": at_work - opened - checks - self.steps_s[SAMPLE], "idle": self.idle_s}
        return {name: round(seconds, 3) for name, seconds in found.items()}


class Phases:
    """Seconds by phase since the start of this process."""

    def __init__(self) -> None:
        now = time.monotonic()
        self._phases: dict[str, PhaseTime] = {START: PhaseTime([(now - seconds_since_start_of(os.getpid()), now)])}

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Add the block's time to a phase."""
        start = time.monotonic()
        try:
            yield
        finally:
            self._phases.setdefault(name, PhaseTime()).spans.append((start, time.monotonic()))

    def turn(self, name: str, busy: Sequence[Span], steps_s: Mapping[str, float]) -> None:
        """Add the GPU time of one process to a phase, whose wall time ``timed`` adds."""
        phase = self._phases.setdefault(name, PhaseTime())
        phase.processes += 1
        phase.busy += busy
        phase.steps_s.update(steps_s)

    def document(self) -> dict[str, Any]:
        """For ``ab.json``: seconds and processes by phase."""
        return {name: phase.row() | {"processes": phase.processes} for name, phase in self._phases.items()}

    def table(self, report_s: float) -> Table:
        """Seconds, one row per phase; ``report_s`` is the time spent on the decision and the report so far."""
        phases = self._phases | {REPORT: PhaseTime([(0.0, report_s)])}
        total = sum(phase.wall_s for phase in phases.values())
        columns = ("wall", "contexts", "sampling", "checks", "other", "idle")
        rows = []
        for name, phase in phases.items():
            row: dict[str, float] = phase.row()
            rows.append((name, phase.processes or None, *(row.get(column) for column in columns)))
        return Table(f"Wall time {total:.1f} s", ("phase", "processes", *(f"{each} (s)" for each in columns)), rows)


class Stopped(Exception):
    """The experiment ends early, for example because its budget is spent; the message goes into the report."""


class Budget:
    """A limit on wall time in seconds, from its creation; None for no limit."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._start = time.monotonic()

    def spend(self, seconds: float) -> None:
        """Raise Stopped if ``seconds`` more would exceed the budget."""
        if self._seconds is not None and time.monotonic() - self._start + seconds > self._seconds:
            raise Stopped(f"the budget of {self._seconds:g} s is spent")


@dataclass(frozen=True, slots=True)
class Means:
    """Resources of an experiment; ``out`` is the existing folder of its run files."""

    out: Path
    budget: Budget
    phases: Phases = field(default_factory=Phases)


def import_beside(module: str, *, daemon: bool = False) -> None:
    """Import a module in a background thread; an error is raised again where the module is really imported.

    This process does not wait for a ``daemon`` at its end.
    """

    def load() -> None:
        with suppress(Exception):
            importlib.import_module(module)

    threading.Thread(target=load, daemon=daemon).start()
