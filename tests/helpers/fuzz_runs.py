"""Readers of what runs leave: run files, records of an A/B, journals, selftests, other tools' results."""

from __future__ import annotations

import json
from contextlib import chdir
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import fuzz_mutate as mutate
from ab_records import ab_record
from benchmark_documents import COUNT, MEAN, RATE, SHARE, state, summary
from benchmark_documents import google as google_document
from benchmark_documents import nvbench as nvbench_document
from fuzz_calls import Finding, call, verb
from synthetic_runs import document

from peakgate.base.verdict import REGRESSIONS, ExitCode, Verdict
from peakgate.compare.ab import folders
from peakgate.compare.ab.plan import Plan
from peakgate.compare.ab.record import Process
from peakgate.compare.ab.schedule import Phase, Side, order
from peakgate.run import journal
from peakgate.runfile import saved as runfile
from peakgate.spec.recorded import Energy

TIMES_US = {"a.fast-1": 5.0, "a.slow-2": 400.0, "b.c": 40.0, "b.d": 80.0}


MEASURED: dict[str, Any] = {
    "energy": asdict(Energy(2e-3, 1.9e-3, 2.1e-3, 3, 5.0, 400.0, 71.0)),
    "tuned": [{"kernel": "tile", "configuration": "BLOCK: 128", "code": "f" * 16}],
}
"""What a run may have of a case besides its time."""


def whole(day: int = 2, **facts: Any) -> dict[str, Any]:
    """A run with floors and one unmeasured case."""
    figures = {case: {"floor": 0.2, "peak_fraction": 0.5, "tolerance": 1e-6} | MEASURED for case in TIMES_US}
    lost = [{"case": "b.lost", "verdict": "INCONCLUSIVE", "reason": "no room in memory"}]
    run = document(TIMES_US, day=day, extra=figures, not_measured=lost, **facts)
    run["peakgate"] |= {"partial": None, "restarts": []}
    return run


def a_run(random: Random) -> bytes:
    """Half of them without the unmeasured case, which keeps a comparison undecided."""
    run = whole()
    if random.random() < 0.5:
        run["peakgate"]["not_measured"] = []
    return mutate.document(run, random)


def honest_base() -> dict[str, Any]:
    """A run of the same work."""
    return document(TIMES_US, day=1, extra={case: {"peak_fraction": 0.5} for case in TIMES_US})


def compared(folder: Path, data: bytes) -> int:
    """As NEW it must pass only where it is no worse than an honest BASE; as BASE it must be read or refused."""
    new, base = folder / "new.json", folder / "base.json"
    new.write_bytes(data)
    if not base.exists():
        base.write_text(json.dumps(honest_base()))
    verb("compare", new, base, "--out", folder)
    found = verb("compare", base, new, "--out", folder)
    if found.code == ExitCode.OK and (worse := false_pass(json.loads(data.decode("utf-8-sig")), found.out)):
        raise Finding(f"passes although {worse}")
    return found.code


def false_pass(run: dict[str, Any], reported: str) -> str | None:
    """Why a run that was compared with the honest one must not pass; None where nothing is against it."""
    times_us, wrong = {}, []
    work = {each["extra_info"]["case"]: each["extra_info"]["bytes"] for each in honest_base()["benchmarks"]}
    for each in run["benchmarks"]:
        extra, case = each["extra_info"], each["extra_info"]["case"]
        times_us[case] = each["stats"]["median"] * 1e6
        fraction, floor = extra.get("peak_fraction") or 0.0, extra.get("floor") or 0.0
        if extra.get("verdict") in REGRESSIONS:
            wrong.append(f"{case} is {extra['verdict']}")
        if fraction > 1.03 or (extra.get("peak_fraction") is not None and fraction < floor - 1e-3):
            wrong.append(f"{case} is at {fraction} of peak, its floor is {floor}")
        for name, honest in (("bytes", work.get(case)), ("sampling", "flush, hold, event")):
            if case in TIMES_US and extra.get(name) not in (honest, None) and name not in reported:
                wrong.append(f"{case} has other {name}, and no line says so")
    for case, time_us in TIMES_US.items():
        if times_us.get(case, 1e9) > 1.5 * time_us:
            wrong.append(f"{case} is missing, or slower than {time_us} us")
    about = run.get("peakgate") or {}
    if about.get("partial") and about.get("whole") is not False:
        wrong.append("a partial run is marked whole")
    if datetime.fromisoformat(str(run["datetime"])).replace(tzinfo=UTC) > runfile.now():
        wrong.append(f"it is dated {run['datetime']}")
    return wrong[0] if wrong else None


def shown(folder: Path, data: bytes) -> int:
    (folder / "new.json").write_bytes(data)
    return verb("show", folder / "new.json", "--out", folder).code


def kept(folder: Path, data: bytes) -> int:
    """What is kept stays below the folder of baselines."""
    (folder / "new.json").write_bytes(data)
    with chdir(folder):
        found = verb("floors", "--keep", folder / "new.json")
    for path in (folder / "baselines").rglob("*.json.gz") if (folder / "baselines").exists() else ():
        runfile.load_run(path)
        path.unlink()
    return found.code


def in_history(folder: Path, data: bytes) -> int:
    """The newest of a dozen sessions is hostile; slower by half it must not pass."""
    runs = folder / "runs"
    if not runs.exists():
        runs.mkdir()
        for day in range(1, 13):
            (runs / f"{day:02}.json").write_text(json.dumps(document(TIMES_US, day=day)))
    (runs / "13.json").write_bytes(data)
    return verb("history", "--runs", runs, "--out", folder).code


def floors_proposed(folder: Path, data: bytes) -> int:
    (folder / "new.json").write_bytes(data)
    (folder / "other.json").write_text(json.dumps(document(TIMES_US, day=1)))
    with chdir(folder):
        return verb("floors", folder / "new.json", folder / "other.json").code


def nvbench(random: Random) -> bytes:
    iqr = summary("nv/cold/time/gpu/iqr/absolute", value=1e-6)
    skipped = state(MEAN, elements=3, is_skipped=True, skip_reason="why")
    return mutate.document(
        nvbench_document(state(MEAN, RATE, SHARE, COUNT, iqr), state(MEAN, RATE, SHARE, elements=2), skipped), random
    )


def google(random: Random) -> bytes:
    single = {"name": "bm/64", "run_name": "bm/64", "run_type": "iteration", "real_time": 5.0, "time_unit": "us"}
    again = single | {"bytes_per_second": 1e9}
    median = {"name": "m", "run_name": "m", "run_type": "aggregate", "aggregate_name": "median", "real_time": 2.0}
    failed = {"name": "f", "error_occurred": True, "error_message": "why"}
    return mutate.document(google_document(single, again, median | {"repetitions": 3}, failed), random)


def imported(folder: Path, data: bytes) -> int:
    """What is written is a run file that its own reader takes, below the folder that was named."""
    path, out = folder / "theirs.json", folder / "imported"
    path.write_bytes(data)
    with chdir(folder):
        found = verb("import", path, "--gpu", "NVIDIA H200", "--out", out)
    for written in out.rglob("*") if out.exists() else ():
        if found.code != ExitCode.BAD_INPUT:
            runfile.load_run(written)
        written.unlink()
    return found.code


def manifest_folder(folder: Path) -> Path:
    """A whole experiment: a proof, four pairs of screening, four of confirming."""
    raw = folder / "ab"
    if raw.exists():
        return raw
    raw.mkdir()
    plan = Plan(measured=("a.slow-2", "b.c"), sentinels=("b.d",), unchanged={"a.fast-1": "print"})
    record = ab_record(raw, plan)
    for stage in (Phase.PROOF, Phase.SCREEN, Phase.CONFIRM):
        for pair in range(1 if stage is Phase.PROOF else 4):
            for which in order(pair):
                name = f"{stage}-{pair}-{which}.json"
                slower = 1.2 if which is Side.HEAD else 1.0
                times = {"a.slow-2": 400.0 * slower, "b.c": 40.0, "b.d": 80.0}
                commit = ("a" if which is Side.BASE else "b") * 40
                (raw / name).write_text(json.dumps(document(times, day=pair + 1, commit=commit, tier="gate")))
                refusals = {"b.c": (Verdict.WRONG, "why")} if stage is Phase.PROOF else {}
                record.processes.append(Process(stage, pair, which, name, 0, 1.5, refusals))
    record.save()
    return raw


def manifest(random: Random) -> bytes:
    return mutate.document(MANIFEST, random)


MANIFEST: dict[str, Any] = {}


def decided(folder: Path, data: bytes) -> int:
    (manifest_folder(folder) / "manifest.json").write_bytes(data)
    found = verb("ab", "--from", folder, "--out", folder / "decided")
    if found.code == ExitCode.OK:
        raise Finding("passes although a case is slower by a fifth")
    return found.code


PROCESS = "confirm-1-head.json"


def process_run(random: Random) -> bytes:
    """The run of one process of an experiment."""
    run = json.loads((manifest_folder(Path()) / PROCESS).read_text())
    for each in run["benchmarks"]:
        each["extra_info"] |= MEASURED
    return mutate.document(run, random)


def process_decided(folder: Path, data: bytes) -> int:
    """The run of one process of eight does not make a case that the others show slower by a fifth one that passes."""
    path = manifest_folder(folder) / PROCESS
    (path.parent / "manifest.json").write_text(json.dumps(MANIFEST))
    honest = path.read_bytes()
    path.write_bytes(data)
    try:
        found = verb("ab", "--from", folder, "--out", folder / "decided")
    finally:
        path.write_bytes(honest)
    if found.code == ExitCode.OK:
        raise Finding("passes although a case is slower by a fifth in all other processes")
    return found.code


def packages(random: Random) -> bytes:
    """What the Python of an environment prints."""
    return mutate.document({"numpy": "2.3.1", "cupy-cuda13x": "14.2.0", "torch": "2.11.0"}, random)


def packages_compared(folder: Path, data: bytes) -> int:
    """Packages of one side against those of an environment that prints something else."""
    printed = folder / "packages.json"
    printed.write_bytes(data)
    (python := folder / "python").write_text(f'#!/bin/sh\ncat "{printed}"\n')
    python.chmod(0o755)

    def read() -> None:
        packages = folders._packages("--head-env", python)
        given = folders.SideEnvironment("head", str(python), packages)
        folders.differing(folders.SideEnvironment("base", "python", {"numpy": "2.3.1"}), given)

    return call(read).code


JOURNAL = (
    {"measures": {"commit": "abc", "GPU": "GPU-1"}},
    {"roofs": {"fma": 60.0}},
    {"case": "a.b", "extra_info": {"verdict": "PASS", "case": "a.b", "peak_fraction": 0.7}, "times_us": [1.5, 0.1]},
    {"case": "a.c", "verdict": "CRASHED", "reason": "SIGSEGV"},
    {"case": "a.d", "extra_info": {"verdict": "INCONCLUSIVE"}, "times_us": []},
    {"restart": "a.c: crashed"},
)


def journal_text() -> bytes:
    text, digest = b"", ""
    for record in JOURNAL:
        line, digest = journal.line(record, digest)
        text += line
    return text


def journal_made(random: Random) -> bytes:
    """A line changed as JSON, with the digest it had, or bytes damaged."""
    text = journal_text()
    if random.random() < 0.3:
        return mutate.damaged(text, random)
    each = text.splitlines(keepends=True)
    at = random.randrange(len(each))
    each[at] = mutate.document(json.loads(each[at]), random) + b"\n"
    return b"".join(each)


def journal_read(folder: Path, data: bytes) -> int:
    """Resumed or refused; a case that is taken over is one that was written."""
    path = folder / "out" / journal.NAME
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    honest = {record["case"]: record for record in JOURNAL if "case" in record}

    def read() -> None:
        opened = journal.Journal(path.parent)
        try:
            opened.resume({"commit": "abc", "GPU": "GPU-1"})
            taken = journal.finished(path).cases
            if any(record != honest.get(case) for case, record in taken.items()):
                raise Finding("a damaged record is taken over")
        finally:
            opened.close(keep=True)

    return call(read).code


SELFTEST = {
    "schema": 1,
    "command": "selftest",
    "gpu": "nvidia-h200",
    "uuid": "GPU-0001",
    "driver": "580",
    "taken": "2026-11-01T10:00:00+00:00",
    "sessions": ["a", "b"],
    "designs": [{"gates": 10, "alarms": 0, "smallest_detectable_change_percent": {"median": 1.0}}],
    "floors_too_tight": [],
}


def selftest(random: Random) -> bytes:
    return mutate.document(SELFTEST, random)


def selftest_read(folder: Path, data: bytes) -> int:
    from peakgate.compare.command import SELFTEST_FILE, selftest_notes  # noqa: PLC0415
    from peakgate.runfile.find import RunSide  # noqa: PLC0415

    path = folder / "selftest" / SELFTEST_FILE
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    honest = folder / "honest.json"
    if not honest.exists():
        honest.write_text(json.dumps(document(TIMES_US)))

    def read() -> None:
        for note in selftest_notes(RunSide("new", (runfile.load_run(honest),)), [path]):
            if len(note.splitlines()) > 1 or len(note) > 2000:
                raise Finding(f"a note of {len(note)} letters")

    return call(read).code
