"""What pytest runs for ``peakgate bench``: the cases as tests, the device behind them, the verdict at the end."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from peakgate.case import Case, Tier
from peakgate.common.errors import PeakgateError
from peakgate.common.files import write_whole
from peakgate.common.schema import SCHEMA
from peakgate.common.toml import nearest
from peakgate.device.choose import open_device
from peakgate.judge.floors import load_floors
from peakgate.project import catalogue, config
from peakgate.run import benchmark_tests, record, table
from peakgate.run.base import floors_at
from peakgate.run.foreign import ForeignModules
from peakgate.run.given import case_of
from peakgate.run.session import Session, no_room
from peakgate.run.status_line import StatusLine
from peakgate.verdict import ExitCode, exit_code

BENCH_FILE = Path(__file__).with_name("bench_kernels.py")
VERDICT_FILE = "bench.json"
NAME = "peakgate-run"
"""Under which pytest knows a run."""

DEFAULT_STORAGE = "file://./.benchmarks"

AB_VARIABLE = "PEAKGATE_AB"
"""Set for the runs of an A/B, which want times and no roofs: ``proof`` for one that proves its kernels first, ``pair``
for one that repeats it and only times them."""


class KernelRun:
    """The plug-in object of one run: its device and cases, its fixtures, its hooks of pytest and pytest-benchmark."""

    def __init__(self, pytest_config: pytest.Config) -> None:
        """Open device and floors early, so that a mistake is reported before anything runs."""
        self._options = pytest_config.option
        self.out: Path = self._options.peakgate_out or config.current().out
        self.session = _session(self._options)
        self.cases, listed = _wanted(self.session, self._options.peakgate_cases)
        self.tests = benchmark_tests.BenchmarkTests(self.session, listed, self.start)
        self._started = False
        self.status = StatusLine(pytest_config)

    @classmethod
    def begin(cls, pytest_config: pytest.Config) -> None:
        """Make the run and register it; a user's mistake becomes pytest's usage error."""
        try:
            run = cls(pytest_config)
            if pytest_config.option.benchmark_storage == DEFAULT_STORAGE:
                pytest_config.option.benchmark_storage = f"file://{config.current().runs / run.session.device.slug}"
        except PeakgateError as error:
            raise pytest.UsageError(str(error)) from None
        pytest_config.pluginmanager.register(run, NAME)
        pytest_config.pluginmanager.register(run.tests, benchmark_tests.NAME)
        if _ab_part():
            pytest_config.pluginmanager.register(ForeignModules(config.required(), run.out))
        pytest_config.pluginmanager.register(_BriefMachine() if _ab_part() else run.status)

    def start(self, pytest_session: pytest.Session) -> Session:
        """Begin with the cases that were selected, once: everything built, the device warm, the roofs measured."""
        if self._started:
            return self.session
        self._started = True
        selected = self._selected(pytest_session)
        session = self.session
        tier = {case.id for case in catalogue.cases(session.device.scale, session.tier)}
        session.whole = {case.id for case in selected} >= tier | set(self.tests.ids.values())
        session.wall_s["start"] = _seconds_since_process_start()
        if (found := session.look()) and self._options.peakgate_strict:
            pytest.exit(f"not measured under --strict-gate: {'; '.join(found)}", returncode=int(ExitCode.UNDECIDED))
        try:
            session.begin(selected)
        except MemoryError as full:
            pytest.exit(f"not measured: {no_room(full)}", returncode=int(ExitCode.UNDECIDED))
        except PeakgateError as error:
            pytest.exit(f"not measured: {error}", returncode=int(ExitCode.BAD_INPUT))
        self.status.built()
        return session

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Give the kernel test every case of the device's scale and the chosen tier."""
        if metafunc.definition.path == BENCH_FILE and "case_id" in metafunc.fixturenames:
            metafunc.parametrize("case_id", list(self.cases))

    def pytest_benchmark_update_machine_info(self, machine_info: dict[str, Any]) -> None:
        """Add the device to pytest-benchmark's ``machine_info``."""
        machine_info["gpu"] = record.machine_info(self.session)

    def pytest_benchmark_update_commit_info(self, commit_info: dict[str, Any]) -> None:
        """Fill in the commit that the user named, where git cannot know it (an exported archive)."""
        if self._options.peakgate_commit:
            commit_info |= {"id": self._options.peakgate_commit, "dirty": False, "error": None}

    def pytest_benchmark_update_json(self, output_json: dict[str, Any]) -> None:
        """Add the schema number and the run's own section; name benchmarks by their case, wherever we are installed."""
        output_json["peakgate_schema"] = SCHEMA
        output_json["peakgate"] = record.run_info(self.session)
        for benchmark in output_json["benchmarks"]:
            own = benchmark["name"].startswith("test_kernel[")
            benchmark["fullname"] = f"peakgate::{benchmark['name'] if own else benchmark['extra_info']['case']}"

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Turn the verdicts into the exit code and write them where a caller that loses exit codes can read them."""
        outcomes = self.session.outcomes
        if not outcomes or session.exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            return
        code = exit_code(self.session.verdicts, strict=self._options.peakgate_strict)
        if code != ExitCode.OK:
            session.exitstatus = int(code)
        verdict = {
            "exit_code": int(session.exitstatus),
            "device": self.session.device.slug,
            "verdicts": dict(Counter(verdict.value for verdict in self.session.verdicts)),
            "cases": [
                {
                    "case": outcome.case.id,
                    "verdict": outcome.judgement.verdict.value,
                    "reason": outcome.judgement.reason,
                }
                for outcome in outcomes
            ],
        }
        write_whole(self.out / VERDICT_FILE, json.dumps(verdict, indent=1))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the run's table and closing lines."""
        session = self.session
        if not session.outcomes:
            return
        session.wall_s["total"] = _seconds_since_process_start()
        rows = [table.row(record.extra_info(outcome)) for outcome in session.outcomes]
        colour = terminalreporter.hasmarkup and "NO_COLOR" not in os.environ
        width = shutil.get_terminal_size().columns
        terminalreporter.ensure_newline()
        terminalreporter.write_line(table.render(rows, record.closing_lines(session), width=width, colour=colour))
        terminalreporter.write_line(f"verdicts: {config.near(self.out) / VERDICT_FILE}")

    def _selected(self, pytest_session: pytest.Session) -> list[Case]:
        functions = [item for item in pytest_session.items if isinstance(item, pytest.Function)]
        chosen = [str(function.callspec.params["case_id"]) for function in functions if function.path == BENCH_FILE]
        tests = [case_of(function.nodeid) for function in functions if function.nodeid in self.tests.ids]
        return [self.cases[case_id] for case_id in chosen] + tests


class _BriefMachine:
    """The machine in a few words: what pytest-benchmark asks of its processor takes a second."""

    def pytest_benchmark_generate_machine_info(self) -> dict[str, Any]:
        return {"node": platform.node(), "machine": platform.machine(), "system": platform.system()}


def _ab_part() -> str | None:
    return os.environ.get(AB_VARIABLE)


def _session(options: argparse.Namespace) -> Session:
    project = config.required()
    device, note = open_device(options.peakgate_device)
    baselines = options.peakgate_baselines or config.near(project.baselines)
    if options.peakgate_baselines_from:
        floors = floors_at(options.peakgate_baselines_from, baselines, device.slug)
    else:
        known_cases = None if project.benchmarks else {case.id for case in catalogue.cases(device.scale)}
        floors = load_floors(baselines / device.slug / "floors.toml", known_cases, gpu=device.slug)
    notes = [note] if note else []
    if _ab_part() == "pair":
        notes.append(f"{AB_VARIABLE}=pair: kernels were timed, their results not checked")
    return Session(
        device,
        floors,
        Tier(options.peakgate_tier),
        checks=_ab_part() != "pair",
        wants_roofs=_ab_part() is None,
        notes=notes,
    )


def _wanted(session: Session, listed: Path | None) -> tuple[dict[str, Case], list[str] | None]:
    """The tier's cases by id, or those a file lists, in the file's order; and what it lists, None without a file.

    Where the project has benchmark tests, an id that no family has may be one of theirs.
    """
    if listed is None:
        return {case.id: case for case in catalogue.cases(session.device.scale, session.tier)}, None
    known = {case.id: case for case in catalogue.cases(session.device.scale)}
    try:
        wanted = list(dict.fromkeys(listed.read_text(encoding="utf-8").split()))
    except OSError as error:
        raise PeakgateError(f"--cases {listed}: {error.strerror}; expected a file of case ids, one a line") from None
    for case_id in wanted:
        if case_id not in known and not config.required().benchmarks:
            raise PeakgateError(f"--cases {listed}: no case is named {case_id!r}{nearest(case_id, known)}")
    return {case_id: known[case_id] for case_id in wanted if case_id in known}, wanted


def _seconds_since_process_start() -> float:
    """Wall time since the interpreter was started, imports included (field 22 of /proc/self/stat, clock ticks)."""
    fields = Path("/proc/self/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    started = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started
