"""What conftest.py delegates to: the run's options, its device, its verdict and its last words."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from suite import catalogue, record, table
from suite.baseline import load_floors
from suite.build import write_atomically
from suite.case import Case, Scale, Tier
from suite.device.choose import device_slug, open_device
from suite.device.driver import gpu_count
from suite.device.interface import Device
from suite.errors import PeakgateError
from suite.session import Session
from suite.verdict import ExitCode, exit_code

BENCH_FILE = "bench_kernels.py"
VERDICT_FILE = "bench.json"
DEFAULT_STORAGE = "file://./.benchmarks"

_DEVICE = pytest.StashKey[tuple[Device, str | None]]()
_SESSION = pytest.StashKey[Session]()


def add_options(parser: pytest.Parser) -> None:
    """Add this project's options to pytest's command line."""
    group = parser.getgroup("peakgate")
    group.addoption("--device", default="auto", help="auto (a GPU if one answers, else cpu), cpu, gpu or gpu:N")
    group.addoption(
        "--tier", default="gate", choices=[tier.value for tier in Tier], help="gate: every stage, few shapes; full: all"
    )
    group.addoption(
        "--strict-floors", action="store_true", help="a case without a floor leaves the run undecided (exit 3)"
    )
    group.addoption(
        "--baselines", default="baselines", type=Path, help="folder with <gpu>/floors.toml (default: baselines)"
    )
    group.addoption(
        "--out", default="reports/out", type=Path, help="folder for the run's verdict (default: reports/out)"
    )


def configure(config: pytest.Config) -> None:
    """Keep runs apart by GPU, and open the device early so that a mistake in the options is told at once."""
    if not _wants_kernels(config):
        return
    try:
        if config.option.benchmark_storage == DEFAULT_STORAGE:
            config.option.benchmark_storage = f"{DEFAULT_STORAGE}/{device_slug(config.option.device)}"
        _device(config)
    except PeakgateError as error:
        raise pytest.UsageError(str(error)) from None


def parametrize(metafunc: pytest.Metafunc) -> None:
    """Give the kernel test every case of the device's scale and the chosen tier."""
    if metafunc.definition.path.name != BENCH_FILE or "case" not in metafunc.fixturenames:
        return
    try:
        device, _ = _device(metafunc.config)
        cases = catalogue.cases(device.scale, Tier(metafunc.config.option.tier))
    except PeakgateError as error:
        raise pytest.UsageError(str(error)) from None
    metafunc.parametrize("case", cases, ids=[case.id for case in cases])


def skip_gpu_tests_without_gpu(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what is marked ``gpu`` where no GPU answers, and say so."""
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if marked and (config.option.device == "cpu" or gpu_count() == 0):
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="needs an NVIDIA GPU, none answers here"))


def begin_session(request: pytest.FixtureRequest) -> Session:
    """Open this run: its device, its floors, its roofs."""
    config = request.config
    device, note = _device(config)
    started = time.perf_counter()
    try:
        floors = load_floors(
            config.option.baselines / device.slug / "floors.toml",
            known_cases={case.id for case in catalogue.cases(Scale.BENCH)},
        )
        session = Session(device, floors, Tier(config.option.tier))
        session.wall_s["start"] = _seconds_since_process_start()
        session.begin(_selected(request.session))
    except PeakgateError as error:
        pytest.exit(str(error), returncode=int(ExitCode.BAD_INPUT))
    session.wall_s["begin"] = time.perf_counter() - started
    if note:
        session.notes.append(note)
    config.stash[_SESSION] = session
    return session


def describe_machine(config: pytest.Config, machine_info: dict[str, Any]) -> None:
    """Add the device to pytest-benchmark's ``machine_info``."""
    if session := config.stash.get(_SESSION, None):
        machine_info["gpu"] = record.machine_info(session)


def describe_run(config: pytest.Config, output_json: dict[str, Any]) -> None:
    """Add the schema number and the run's own section to pytest-benchmark's file."""
    if session := config.stash.get(_SESSION, None):
        output_json["peakgate_schema"] = record.SCHEMA
        output_json["peakgate"] = record.run_info(session)


def finish(pytest_session: pytest.Session) -> None:
    """Turn the verdicts into the exit code and write them where a caller that loses exit codes can read them."""
    config = pytest_session.config
    session = config.stash.get(_SESSION, None)
    if session is None or pytest_session.exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        return
    code = exit_code(session.verdicts, strict=config.option.strict_floors)
    if code != ExitCode.OK:
        pytest_session.exitstatus = int(code)
    verdict = {
        "exit_code": int(pytest_session.exitstatus),
        "device": session.device.slug,
        "verdicts": dict(Counter(verdict.value for verdict in session.verdicts)),
        "cases": [
            {"case": outcome.case.id, "verdict": outcome.judgement.verdict.value, "reason": outcome.judgement.reason}
            for outcome in session.outcomes
        ],
    }
    config.option.out.mkdir(parents=True, exist_ok=True)
    write_atomically(config.option.out / VERDICT_FILE, json.dumps(verdict, indent=1).encode())


def summarize(reporter: pytest.TerminalReporter) -> None:
    """Print the run's table and its last words."""
    session = reporter.config.stash.get(_SESSION, None)
    if session is None or not session.outcomes:
        return
    colour = bool(reporter.hasmarkup) and "NO_COLOR" not in os.environ
    session.wall_s["total"] = _seconds_since_process_start()
    reporter.ensure_newline()
    reporter.write_line(table.render(session, width=reporter._tw.fullwidth, colour=colour))  # noqa: SLF001
    reporter.write_line(f"verdicts: {reporter.config.option.out / VERDICT_FILE}")


def _wants_kernels(config: pytest.Config) -> bool:
    return any(BENCH_FILE in argument for argument in config.args)


def _device(config: pytest.Config) -> tuple[Device, str | None]:
    if _DEVICE not in config.stash:
        config.stash[_DEVICE] = open_device(config.option.device)
    return config.stash[_DEVICE]


def _selected(pytest_session: pytest.Session) -> list[Case]:
    return [
        item.callspec.params["case"]
        for item in pytest_session.items
        if hasattr(item, "callspec") and "case" in item.callspec.params
    ]


def _seconds_since_process_start() -> float:
    """Wall time since the interpreter was started, imports included (field 22 of /proc/self/stat, clock ticks)."""
    fields = Path("/proc/self/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    started = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started
