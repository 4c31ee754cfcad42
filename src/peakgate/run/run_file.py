"""What a run writes into pytest-benchmark's JSON, by the run file's schema, and its finished cases until then."""

from __future__ import annotations

import os
import platform
import statistics
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from importlib import metadata
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import to_builtins

from peakgate.base.config import version
from peakgate.base.processes import SAFE_PATH, variables
from peakgate.base.verdict import Judgement, Verdict
from peakgate.run.collection import RunCase
from peakgate.run.journal import FRESH, Finished, Link
from peakgate.runfile.schema import GENERATORS, About, Unmeasured
from peakgate.session.outcome import Entry, extra_info
from peakgate.spec.case import CASE_SCHEMA

if TYPE_CHECKING:
    from peakgate.session.outcome import Outcome
    from peakgate.session.session import Session


class MachineProbe:
    """pytest-benchmark's ``machine_info``: ``complete``, or minimal for an A/B and the emulator.

    The complete one is made in a thread: pytest-benchmark's CPU probe takes a second.
    """

    def __init__(self, *, complete: bool) -> None:
        self._complete = complete
        self._described: Future[dict[str, Any]] | None = None

    def begin(self, pytest_config: pytest.Config) -> None:
        """Begin to describe the machine."""
        if not self._complete:
            return
        named = pytest_config.pluginmanager.subset_hook_caller("pytest_benchmark_generate_machine_info", [self])

        def described() -> dict[str, Any]:
            # The CPU probe is a Python process: it must not import modules of the project's folder.
            with variables(**{SAFE_PATH: "1"}):
                found: dict[str, Any] = named(config=pytest_config)
            return found

        pool = ThreadPoolExecutor(max_workers=1)
        self._described = pool.submit(described)
        pool.shutdown(wait=False)

    def wait(self) -> None:
        """Wait until it is described; a failure is reported where the run is saved."""
        if self._described is not None:
            wait([self._described])

    @pytest.hookimpl(tryfirst=True)
    def pytest_benchmark_generate_machine_info(self) -> dict[str, Any] | None:
        """The description; None if a complete one was not begun, so that another plug-in answers."""
        if not self._complete:
            return {"node": platform.node(), "machine": platform.machine(), "system": platform.system()}
        return self._described.result() if self._described else None


class Store:
    """The finished cases of a run, by this process and by earlier ones (``before``); each is sent to the supervisor.

    ``entries`` are the finished cases, ``other_entries`` those of an A/B's other builds, which have their own run file;
    ``skipped`` is why this device cannot run a case. ``below_floor`` and ``measured_again``: whether this process
    measured such a case.
    """

    def __init__(self, session: Session, link: Link, before: Finished) -> None:
        self._session, self._link, self._before = session, link, before
        self.entries: list[Entry] = []
        self.other_entries: list[Entry] = []
        self.skipped: dict[str, str] = {}
        self.below_floor = self.measured_again = False

    def keep(self, outcome: Outcome) -> tuple[Entry, Sequence[float]]:
        """Keep the outcome of a case, here and in the journal; its entry and its samples in µs.

        After a lost CUDA context a supervised process ends here, and a new one continues.
        """
        entry = extra_info(outcome)
        self.entries.append(entry)
        times_us = outcome.samples.times_us if outcome.samples else ()
        self._link.send(case=outcome.case.id, extra_info=entry, times_us=times_us)
        self.below_floor |= outcome.judgement.verdict is Verdict.BELOW_FLOOR
        self.measured_again |= outcome.case.id in self._before.again
        if self._session.device.lost and self._link.supervised:
            os._exit(FRESH)  # clean-up would fail without the context
        return entry, times_us

    def keep_other(self, outcome: Outcome) -> tuple[Entry, Sequence[float]]:
        """Keep the outcome of an A/B's other build; its entry and, if it has figures, its samples in µs."""
        entry = extra_info(outcome)
        self.other_entries.append(entry)
        return entry, outcome.samples.times_us if outcome.samples and outcome.metrics else ()

    def take_over(self, case: RunCase) -> tuple[Entry, Sequence[float]] | None:
        """Entry and samples of a case that an earlier process finished; None for an unfinished case."""
        known = self._before.cases.get(case.id)
        if known is None:
            return None
        entry = known.get("extra_info")
        if entry is None:  # the supervisor's verdict on a process that ended
            judgement = Judgement(Verdict(known["verdict"]), known["reason"])
            entry = extra_info(self._session.unmeasured(case, judgement))
        self.entries.append(entry)
        return entry, known.get("times_us", ())

    def partial(self, selected: Iterable[RunCase]) -> str | None:
        """How many selected cases were not finished, in one line; None if all were."""
        done = {entry["case"] for entry in self.entries} | self.skipped.keys()
        asked = [case.id for case in selected]
        missing = sum(case_id not in done for case_id in asked)
        return f"{missing} of {len(asked)} selected cases were not finished" if missing else None


def versions() -> dict[str, str]:
    """The versions of the packages that this process has imported and that generate kernels, and of Triton's ptxas."""
    found = {}
    for field, (module, package) in GENERATORS.items():
        if module in sys.modules and package:
            with suppress(metadata.PackageNotFoundError):  # from a folder, or part of another package
                found[field] = metadata.version(package)
    with suppress(Exception):  # no Triton, one without this, or without a ptxas
        triton: Any = sys.modules["triton"]
        found["ptxas"] = str(triton.knobs.nvidia.ptxas.version)
    return found


def machine_info(session: Session) -> dict[str, Any]:
    """``machine_info.gpu``: the device, its state before the run, and the roofs measured in it."""
    preflight = asdict(session.preflight) if session.preflight else None
    return session.device.describe() | {"preflight": preflight, "roofs": dict(session.roofs)}


def run_info(
    session: Session,
    entries: Sequence[Entry],
    skipped: Mapping[str, str],
    partial: str | None,
    restarts: Sequence[str] = (),
) -> dict[str, Any]:
    """The section ``peakgate`` of the file: request, verdict counts, cases without figures, wall time by step.

    ``entries`` are the ``extra_info`` of all finished cases, ``skipped`` why the device cannot run a case; ``partial``
    is which selected cases are missing, None if none are.
    """
    about = About(
        version=version(),
        device=session.device.kind,
        tier=session.tier,
        seed=session.seed,
        whole=session.whole and partial is None,
        partial=partial,
        verdicts=dict(Counter(entry["verdict"] for entry in entries)),
        not_measured=tuple(Unmeasured(**judged(entry)) for entry in entries if entry["time_us"] is None),
        skipped=dict(skipped),
        wall_s={what: round(seconds, 3) for what, seconds in session.steps.wall_s.items()},
        restarts=tuple(restarts),
    )
    section: dict[str, Any] = to_builtins(about)
    return section


def unsaved(session: Session, outcomes: Sequence[Outcome], commit_info: Mapping[str, Any]) -> dict[str, Any]:
    """A run file of the results so far, for an interim analysis; ``stats`` has only median, iqr and rounds."""
    entries, benchmarks = [extra_info(outcome) for outcome in outcomes], []
    for entry, outcome in zip(entries, outcomes, strict=True):
        if outcome.samples and outcome.metrics:
            times_us = outcome.samples.times_us
            several = len(times_us) > 1
            first, _, third = statistics.quantiles(times_us, n=4, method="inclusive") if several else [0.0] * 3
            stats = {"median": statistics.median(times_us) / 1e6, "iqr": (third - first) / 1e6, "rounds": len(times_us)}
            benchmarks.append({"extra_info": entry, "stats": stats})
    return {
        "peakgate_schema": CASE_SCHEMA,
        "datetime": datetime.now(UTC).isoformat(),
        "machine_info": {"gpu": machine_info(session)},
        "commit_info": dict(commit_info),
        "benchmarks": benchmarks,
        "peakgate": run_info(session, entries, {}, None),
    }


def judged(entry: Entry) -> dict[str, Any]:
    """A case, its verdict and the reason."""
    return {name: entry[name] for name in Unmeasured.__struct_fields__}


def summarised(entry: Entry, place: tuple[str, int] | None) -> dict[str, Any]:
    """A case in the verdict file: its verdict, reason and figures, and the file and line that define it."""
    figures = ("metric", "time_us", "median_interval_us", "gbs", "peak_fraction", "bound", "floor", "relative_error")
    file, line = place or (None, None)
    return {**judged(entry), **{name: entry.get(name) for name in figures}, "file": file, "line": line}
