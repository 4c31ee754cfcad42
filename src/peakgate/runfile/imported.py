"""``peakgate import``: measurements of other tools as run files that floors, compare and history read."""

from __future__ import annotations

import argparse
import hashlib
import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import Struct, to_builtins

from peakgate.base import config, records
from peakgate.base.errors import Code, PeakgateError
from peakgate.base.files import LARGEST_FILE_BYTES, read_limited, read_text, write_whole
from peakgate.base.formatting import counted
from peakgate.base.streams import say
from peakgate.base.verdict import FAILING, Judgement, Verdict, counts, exit_code
from peakgate.device import driver
from peakgate.judge.floors import Floors, by_floor, load_floors
from peakgate.runfile.foreign import ForeignMeasured, ForeignRun, google_benchmark, nvbench, pytest_benchmark
from peakgate.runfile.options import verb_parser
from peakgate.runfile.saved import CASE_COLUMNS, run_of
from peakgate.runfile.schema import SHORTEST_S, Imported, RunDocument
from peakgate.spec.case import CASE_SCHEMA

UNKNOWN_FACTS = ("uuid", "driver", "cuda_driver", "nvrtc", "cupy", "cublas", "vbios", "power_limit_w", "mig")
"""Properties of a GPU that such a file hardly ever has."""

ALWAYS_KNOWN = {"case", "time_us", "samples", "sampling_error", "verdict", "reason", "host_bound"}
"""Columns of a case that are always filled in."""

COMMIT = re.compile(r"[0-9a-f]{4,40}")

RESULTS_NOT_CHECKED = "results not checked by Peakgate"

HOW_TO_WRITE = (
    "write it again: --json FILE of nvbench, --benchmark_out=FILE of Google Benchmark, --benchmark-json=FILE of "
    "pytest-benchmark"
)


def main(verb: str, arguments: Sequence[str]) -> int:
    """Write one run file per GPU of each given file; the exit code follows from their verdicts."""
    parser = verb_parser(
        verb,
        "Convert the JSON of nvbench, cuda-bench, Google Benchmark or pytest-benchmark to run files. What such a file "
        "lacks (the driver, whether results were checked) is recorded as unknown.",
        "exit codes: 0 pass, 1 below a floor, 2 bad input, 3 could not decide",
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="JSON that such a tool wrote")
    parser.add_argument("--gpu", help="the GPU's name, where the file lacks it (Google Benchmark's always do)")
    parser.add_argument("--commit", help="the commit that was measured (default: what the file says)")
    parser.add_argument("--date", help="when it was measured, ISO (default: the file's own, else its time stamp)")
    parser.add_argument("--out", type=Path, help="folder for the run files (default: .benchmarks/<gpu>/imported)")
    options = parser.parse_args(arguments)
    if options.commit is not None and not COMMIT.fullmatch(options.commit):
        raise PeakgateError(
            f"--commit {options.commit}: expected a commit's hash, as `git rev-parse {options.commit}` prints it",
            Code.OPTION,
        )
    verdicts: list[Verdict] = []
    for path in options.files:
        data = read_limited(path, LARGEST_FILE_BYTES)
        sha256 = hashlib.sha256(data).hexdigest()
        for target, text, judged in [_import(path, sha256, run, options) for run in read_foreign(data, path)]:
            write_whole(target, text)
            for case, judgement in judged.items():
                if judgement.verdict in FAILING:
                    say(f"{case}: {judgement.verdict}, {judgement.reason}")
            found = [judgement.verdict for judgement in judged.values()]
            say(f"{counted(len(found), 'case')}: {counts(found)}; {config.near(target)}")
            verdicts += found
            earlier = [each for each in target.parent.glob("*.json") if each.name < target.name]
    what = f"compare {config.near(max(earlier))}" if earlier else "show"
    say(f"next: peakgate {what} {config.near(target)}")
    return exit_code(verdicts)


class ToolKeys(Struct):
    """The keys by which the tools' files differ."""

    benchmarks: list[Any] | None = None
    devices: Any = None
    context: Any = None
    machine_info: Any = None
    peakgate_schema: Any = None


def read_foreign(data: bytes, path: Path) -> list[ForeignRun]:
    """The runs in a file's content, one per GPU; ``path`` is the file, next to which nvbench's sample files are.

    The content of a ``*.gz`` file is decompressed first.

    PeakgateError if the content is in none of the formats, lacks what its format requires, or has no benchmark.
    """
    data = records.unpacked(data, path, HOW_TO_WRITE)
    found = records.decode(data, ToolKeys, path, HOW_TO_WRITE)
    if found.peakgate_schema is not None:
        raise PeakgateError(f"{path}: is a run of Peakgate, which every verb reads as it is", Code.RECORD)
    if found.benchmarks is not None and found.devices is not None:
        runs = nvbench.runs(records.decode(data, nvbench.NvbenchDocument, path, HOW_TO_WRITE), path.parent)
    elif found.benchmarks is not None and found.context is not None:
        runs = [google_benchmark.run(records.decode(data, google_benchmark.GoogleDocument, path, HOW_TO_WRITE))]
    elif found.benchmarks is not None and found.machine_info is not None:
        runs = [pytest_benchmark.run(records.decode(data, pytest_benchmark.HostDocument, path, HOW_TO_WRITE))]
    else:
        raise PeakgateError(
            f"{path}: neither nvbench's JSON (devices, benchmarks), nor Google Benchmark's (context, benchmarks), nor "
            f"pytest-benchmark's (machine_info, benchmarks); {HOW_TO_WRITE}",
            Code.RECORD,
        )
    runs = [replace(run, measured=tuple(map(_plausible, run.measured))) for run in runs if run.measured]
    if not runs:
        raise PeakgateError(f"{path}: has no benchmark; measure again, and see what its filter matches", Code.TOO_FEW)
    return runs


def _plausible(measured: ForeignMeasured) -> ForeignMeasured:
    """The measurement, without a time that is shorter than a run file may hold."""
    if measured.median_s is None or measured.median_s >= SHORTEST_S:
        return measured
    problem = f"its time is {measured.median_s * 1e9:.3g} ns, expected at least 1 ns"
    return ForeignMeasured(measured.family, measured.stage, measured.size, problem=problem)


def _import(
    path: Path, sha256: str, run: ForeignRun, options: argparse.Namespace
) -> tuple[Path, str, dict[str, Judgement]]:
    """The path and content of one GPU's run file, which is not written, and the judgement of each case.

    PeakgateError if the content is not a valid run, or the path exists with other content.
    """
    given = options.gpu if run.device == "cpu" else None
    name = given or run.gpu.get("name") or options.gpu
    if not name:
        raise PeakgateError(
            f"{path}: {run.tool} does not name what it ran on; name it, such as --gpu 'NVIDIA H200'",
            Code.GPU_MODELS,
        )
    slug = driver.slug(str(name))
    floors = load_floors(config.near(config.current().baselines) / slug / "floors.toml")
    judged: dict[str, Judgement] = {}
    for measured in run.measured:
        if measured.case in judged:
            raise PeakgateError(f"{path}: two benchmarks are the case {measured.case}; rename one of them", Code.RECORD)
        judged[measured.case] = judge(measured, floors.get(measured.case))
    timed = [measured for measured in run.measured if measured.median_s is not None]
    if not timed:
        raise PeakgateError(f"{path}: no benchmark in it has a time", Code.TOO_FEW)
    taken, said_by = _moment(path, options.date, run.taken)
    document = {
        "machine_info": {"gpu": {**dict.fromkeys(UNKNOWN_FACTS), **run.gpu, "name": name, "slug": slug}},
        "commit_info": {"id": options.commit or run.commit, "dirty": False},
        "benchmarks": [_benchmark(measured, judged[measured.case], floors) for measured in timed],
        "datetime": taken.isoformat(),
        "version": None,
        "peakgate_schema": CASE_SCHEMA,
        "peakgate": {
            "device": run.device,
            "tier": None,
            "whole": run.whole,
            "verdicts": Counter(judgement.verdict.value for judgement in judged.values()),
            "not_measured": [
                {"case": measured.case, "verdict": Verdict.INCONCLUSIVE, "reason": measured.problem}
                for measured in run.measured
                if measured.median_s is None
            ],
            "imported": to_builtins(Imported(run.tool, run.version, path.name, sha256, said_by)),
        },
    }
    stem = re.sub(r"[^A-Za-z0-9_.-]", "_", path.stem)
    folder = options.out or config.current().runs / slug / "imported"
    number = "" if run.number is None else f"-gpu{run.number}"
    target: Path = folder / f"{taken:%Y%m%dT%H%M%S}-{stem}-{slug}{number}-{sha256[:8]}.json"
    text = json.dumps(document, indent=1) + "\n"
    if target.exists() and read_text(target) != text:
        raise PeakgateError(
            f"{target}: exists with other contents; saved runs are never overwritten: delete it, or name another --out",
            Code.TAKEN,
        )
    run_of(records.decode(text.encode(), RunDocument, path, "measure again"), path)
    return target, text, judged


def judge(measured: ForeignMeasured, floor: float | None) -> Judgement:
    """Judge an imported case by the gate's rule; its results are not checked."""
    if measured.problem is not None:
        return Judgement(Verdict.INCONCLUSIVE, measured.problem)
    if measured.peak_fraction is not None:
        return by_floor(measured.peak_fraction, floor, RESULTS_NOT_CHECKED)
    if floor is not None:
        return Judgement(Verdict.INCONCLUSIVE, f"has a floor of {floor:.3g}, but no fraction of peak is known")
    return Judgement(Verdict.NO_FLOOR, f"no fraction of peak is known ({RESULTS_NOT_CHECKED})")


def _benchmark(measured: ForeignMeasured, judgement: Judgement, floors: Floors) -> dict[str, Any]:
    assert measured.median_s is not None
    info: dict[str, Any] = dict.fromkeys(name for name in CASE_COLUMNS if name not in ALWAYS_KNOWN)
    info |= {name: getattr(measured, name) for name in ("case", "family", "stage", "size", "peak_fraction")}
    info |= {
        "time_us": measured.median_s * 1e6,
        "gbs": None if measured.bytes_per_s is None else measured.bytes_per_s / 1e9,
        "bound": None if measured.peak_fraction is None else "memory",
        "floor": floors.get(measured.case),
        "sm_clock_mhz": None if measured.sm_clock_hz is None else measured.sm_clock_hz / 1e6,
        "sampling": measured.how,
        "verdict": judgement.verdict,
        "reason": judgement.reason,
    }
    stats: dict[str, Any] = {"median": measured.median_s, "iqr": measured.iqr_s, "rounds": measured.rounds}
    if measured.samples_s:
        stats |= {"data": list(measured.samples_s), "min": min(measured.samples_s), "max": max(measured.samples_s)}
    names = {"name": measured.case, "fullname": f"peakgate::{measured.case}", "group": measured.family}
    return names | {"extra_info": info, "stats": stats}


def _moment(path: Path, given: str | None, own: str | None) -> tuple[datetime, str]:
    """When a file was measured, and where the date comes from: ``--date``, the file or its time stamp."""
    for text, said_by in ((given, "--date"), (own, "the file")):
        if text is not None:
            try:
                moment = datetime.fromisoformat(text)
            except ValueError:
                code = Code.OPTION if text is given else Code.RECORD
                raise PeakgateError(f"{path}: {said_by} says {text!r}, not an ISO date and time", code) from None
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)), said_by
    return datetime.fromtimestamp(path.stat().st_mtime, UTC), "the file's time stamp"
