"""What conftest.py delegates to: the run's options, its device, its verdict and its last words."""

from __future__ import annotations

import difflib
import json
import os
import platform
import shutil
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from suite import catalogue, record, table
from suite.baseline import load_floors
from suite.case import Case, Tier
from suite.device.choose import device_slug, open_device
from suite.device.driver import gpu_count
from suite.errors import PeakgateError
from suite.files import write_whole
from suite.schema import SCHEMA
from suite.session import Session, no_room
from suite.status_line import StatusLine
from suite.verdict import ExitCode, exit_code

BENCH_FILE = "bench_kernels.py"
VERDICT_FILE = "bench.json"
DEFAULT_STORAGE = "file://./.benchmarks"

AB_VARIABLE = "PEAKGATE_AB"
"""Set for the runs of an A/B, which want times and no roofs: ``proof`` for one that proves its kernels first, ``pair``
for one that repeats it and only times them."""

_CASES = pytest.StashKey[dict[str, Case]]()
_SESSION = pytest.StashKey[Session]()
_STATUS = pytest.StashKey[StatusLine]()


def add_options(parser: pytest.Parser) -> None:
    """Add this project's options to pytest's command line."""
    group = parser.getgroup("peakgate")
    group.addoption("--device", default="auto", help="auto (a GPU if one answers, else cpu), cpu, gpu or gpu:N")
    group.addoption(
        "--tier", default="gate", choices=[tier.value for tier in Tier], help="gate: every stage, few shapes; full: all"
    )
    group.addoption(
        "--strict-gate",
        action="store_true",
        help="exit 3 where a case has no floor, and before measuring a doubtful GPU",
    )
    group.addoption(
        "--baselines", default="baselines", type=Path, help="folder with <gpu>/floors.toml (default: baselines)"
    )
    group.addoption("--cases", default=None, type=Path, help="a file of case ids, one a line: run these, of any tier")
    group.addoption("--commit", default=None, help="the commit measured, where git cannot tell it")
    group.addoption(
        "--out", default="reports/out", type=Path, help="folder for the run's verdict (default: reports/out)"
    )


def configure(config: pytest.Config) -> None:
    """Keep runs apart by GPU; open device and floors early, so that a mistake is told before anything runs."""
    if not _wants_kernels(config):
        return
    try:
        if _ab_part():
            config.pluginmanager.register(_BriefMachine())
        if config.option.benchmark_storage == DEFAULT_STORAGE:
            config.option.benchmark_storage = f"{DEFAULT_STORAGE}/{device_slug(config.option.device)}"
        _session(config)
    except PeakgateError as error:
        raise pytest.UsageError(str(error)) from None
    config.stash[_STATUS] = status = StatusLine(config)
    if not _ab_part():
        config.pluginmanager.register(status)


def parametrize(metafunc: pytest.Metafunc) -> None:
    """Give the kernel test every case of the device's scale and the chosen tier."""
    if metafunc.definition.path.name != BENCH_FILE or "case_id" not in metafunc.fixturenames:
        return
    try:
        _session(metafunc.config)
    except PeakgateError as error:
        raise pytest.UsageError(str(error)) from None
    known = metafunc.config.stash[_CASES]
    metafunc.parametrize("case_id", list(known))


def case_of(request: pytest.FixtureRequest) -> Case:
    """The case behind a test's id: the run file keeps the id, not the record."""
    return request.config.stash[_CASES][request.getfixturevalue("case_id")]


def skip_gpu_tests_without_gpu(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what is marked ``gpu`` where no GPU answers, and say so."""
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if marked and (config.option.device == "cpu" or gpu_count() == 0):
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="needs an NVIDIA GPU, none answers here"))


def begin_session(request: pytest.FixtureRequest) -> Session:
    """Begin this run with the cases that were selected."""
    session = _session(request.config)
    selected = _selected(request.session)
    session.whole = {case.id for case in selected} >= {
        case.id for case in catalogue.cases(session.device.scale, session.tier)
    }
    session.wall_s["start"] = _seconds_since_process_start()
    if (found := session.look()) and request.config.option.strict_gate:
        pytest.exit(f"not measured under --strict-gate: {'; '.join(found)}", returncode=int(ExitCode.UNDECIDED))
    try:
        session.begin(selected)
    except MemoryError as full:
        pytest.exit(f"not measured: {no_room(full)}", returncode=int(ExitCode.UNDECIDED))
    request.config.stash[_STATUS].built()
    return session


def describe_machine(config: pytest.Config, machine_info: dict[str, Any]) -> None:
    """Add the device to pytest-benchmark's ``machine_info``."""
    if session := config.stash.get(_SESSION, None):
        machine_info["gpu"] = record.machine_info(session)


def name_commit(config: pytest.Config, commit_info: dict[str, Any]) -> None:
    """Fill in the commit a user named, where the tree has no git history to tell it (an exported archive)."""
    if config.option.commit:
        commit_info |= {"id": config.option.commit, "dirty": False, "error": None}


def describe_run(config: pytest.Config, output_json: dict[str, Any]) -> None:
    """Add the schema number and the run's own section to pytest-benchmark's file."""
    if session := config.stash.get(_SESSION, None):
        output_json["peakgate_schema"] = SCHEMA
        output_json["peakgate"] = record.run_info(session)


def finish(pytest_session: pytest.Session) -> None:
    """Turn the verdicts into the exit code and write them where a caller that loses exit codes can read them."""
    config = pytest_session.config
    session = config.stash.get(_SESSION, None)
    if (
        session is None
        or not session.outcomes
        or pytest_session.exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
    ):
        return
    code = exit_code(session.verdicts, strict=config.option.strict_gate)
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
    write_whole(config.option.out / VERDICT_FILE, json.dumps(verdict, indent=1))


def summarize(reporter: pytest.TerminalReporter) -> None:
    """Print the run's table and its last words."""
    session = reporter.config.stash.get(_SESSION, None)
    if session is None or not session.outcomes:
        return
    session.wall_s["total"] = _seconds_since_process_start()
    rows = [table.row(record.extra_info(outcome)) for outcome in session.outcomes]
    colour = reporter.hasmarkup and "NO_COLOR" not in os.environ
    width = shutil.get_terminal_size().columns
    reporter.ensure_newline()
    reporter.write_line(table.render(rows, record.closing_lines(session), width=width, colour=colour))
    reporter.write_line(f"verdicts: {reporter.config.option.out / VERDICT_FILE}")


class _BriefMachine:
    """The machine in a few words: what pytest-benchmark asks of its processor takes a second."""

    def pytest_benchmark_generate_machine_info(self) -> dict[str, Any]:
        return {"node": platform.node(), "machine": platform.machine(), "system": platform.system()}


def _ab_part() -> str | None:
    return os.environ.get(AB_VARIABLE)


def _wants_kernels(config: pytest.Config) -> bool:
    return any(BENCH_FILE in argument for argument in config.args)


def _session(config: pytest.Config) -> Session:
    if _SESSION not in config.stash:
        device, note = open_device(config.option.device)
        floors = load_floors(
            config.option.baselines / device.slug / "floors.toml",
            known_cases={case.id for case in catalogue.cases(device.scale)},
        )
        notes = [note] if note else []
        if _ab_part() == "pair":
            notes.append(f"{AB_VARIABLE}=pair: kernels were timed, their results not checked")
        session = Session(
            device,
            floors,
            Tier(config.option.tier),
            checks=_ab_part() != "pair",
            wants_roofs=_ab_part() is None,
            notes=notes,
        )
        config.stash[_CASES] = {case.id: case for case in _wanted(session, config.option.cases)}
        config.stash[_SESSION] = session
    return config.stash[_SESSION]


def _wanted(session: Session, listed: Path | None) -> list[Case]:
    """The tier's cases, or those a file lists, in the file's order."""
    if listed is None:
        return catalogue.cases(session.device.scale, session.tier)
    known = {case.id: case for case in catalogue.cases(session.device.scale)}
    try:
        wanted = listed.read_text(encoding="utf-8").split()
    except OSError as error:
        raise PeakgateError(f"--cases {listed}: {error.strerror}; expected a file of case ids, one a line") from None
    for case_id in wanted:
        if case_id not in known:
            near = difflib.get_close_matches(case_id, known, 1)
            hint = f", did you mean {near[0]!r}?" if near else ""
            raise PeakgateError(f"--cases {listed}: no case is named {case_id!r}{hint}")
    return [known[case_id] for case_id in dict.fromkeys(wanted)]


def _selected(pytest_session: pytest.Session) -> list[Case]:
    cases = pytest_session.config.stash[_CASES]
    functions = [item for item in pytest_session.items if isinstance(item, pytest.Function)]
    chosen = [getattr(function, "callspec", None) for function in functions]
    return [cases[spec.params["case_id"]] for spec in chosen if spec is not None and "case_id" in spec.params]


def _seconds_since_process_start() -> float:
    """Wall time since the interpreter was started, imports included (field 22 of /proc/self/stat, clock ticks)."""
    fields = Path("/proc/self/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    started = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started
