"""Hardware counters of cases by NVIDIA Nsight Compute (ncu): its command line, its output, and the profiled process.

``python -m peakgate.run.ncu JOURNAL CASES`` runs under ncu and launches each case to be profiled. CASES is a file of
case ids, one per line. An NVTX range with the case's id encloses its profiled launch, between start and stop of the
profiler; an earlier launch loads the code. The journal has a JSON line when a case begins, one when it ends, with the
reason if it was not profiled, and one at the end. The process ends after a GPU fault, which may destroy the context,
and after a case that exceeds its time limit.
"""

from __future__ import annotations

import argparse
import csv
import faulthandler
import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from peakgate.base.errors import PeakgateError, refused
from peakgate.base.files import open_output, remove_output, write_whole
from peakgate.base.processes import end_group, last_words_in
from peakgate.base.verdict import ExitCode

NCU = "ncu"

NCU_SECTIONS = (
    *("SpeedOfLight", "LaunchStats", "Occupancy", "SchedulerStats", "WarpStateStats", "InstructionStats"),
    *("ComputeWorkloadAnalysis", "MemoryWorkloadAnalysis", "MemoryWorkloadAnalysis_Tables"),
)

STALLS = (
    *("barrier", "branch_resolving", "dispatch_stall", "drain", "imc_miss", "lg_throttle", "long_scoreboard"),
    *("math_pipe_throttle", "membar", "mio_throttle", "no_instruction", "not_selected", "selected"),
    *("short_scoreboard", "sleeping", "tex_throttle", "wait"),
)
COUNTER_METRICS = (
    *("gpu__time_duration.sum", "sm__cycles_active.sum", "smsp__inst_executed.sum"),
    *("dram__bytes_read.sum", "dram__bytes_write.sum", "lts__t_sectors.sum", "lts__t_sector_hit_rate.pct"),
    "lts__t_sectors_srcunit_tex.sum",
    *(f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{way}.sum" for way in ("ld", "st")),
    *(f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{way}.sum" for way in ("ld", "st")),
    *(
        f"l1tex__t_{what}_pipe_lsu_mem_{space}_op_{way}.sum"
        for what in ("requests", "sectors")
        for space in ("global", "local")
        for way in ("ld", "st")
    ),
    "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    *(f"smsp__average_warps_issue_stalled_{stall}_per_issue_active.ratio" for stall in STALLS),
)
"""The counters that the ranking of causes reads, for compute capability 7.0 and later."""

EXPLAINING = ((NCU_SECTIONS, COUNTER_METRICS), (NCU_SECTIONS, ()), ((), COUNTER_METRICS))
"""Sections and metrics to request, in order of preference: ncu refuses a request with one that it does not know."""

Counters = Mapping[str, float]
"""Metric to value of one kernel, in base units: bytes, ns, percent, counts."""

DURATION = "gpu__time_duration.sum"

CASE_LIMIT_S = 60.0
"""Time limit to prepare and profile one case; ncu launches its kernels some ten times."""

START_LIMIT_S, MEAN_LIMIT_S = 120.0, 15.0
"""Time limit of a process: to start, and for each of its cases on average."""

PRINTING_LIMIT_S = 10.0
"""Time that ncu has after its limit, or Ctrl-C, to print its results."""

MOST_BARREN = 3
"""Profiling stops after this many processes in a row without counters of any case."""

NO_NCU = "no hardware counters: ncu is not on PATH; install NVIDIA Nsight Compute, a part of the CUDA toolkit"
STOPPED = "interrupted"
WITHOUT_KERNEL = "it launches no kernel"
NO_PERMISSION = "ERR_NVGPUCTRPERM"
PERMISSION = (
    "run as root, or have the driver loaded with NVreg_RestrictProfilingToAdminUsers=0 (a line `options nvidia ...` in "
    "/etc/modprobe.d)"
)


@dataclass(frozen=True, slots=True)
class Profiled:
    """By case the counters of a launch's kernels in order, or why there are none (``failed``).

    ``problem`` is why the remaining cases were not tried; None if all were.
    """

    kernels: dict[str, list[Counters]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    problem: str | None = None


def find() -> str | None:
    """The path of ncu; None if it is not on PATH."""
    return shutil.which(NCU)


def command(
    program: str, target: Sequence[str], sections: Sequence[str], metrics: Sequence[str], *, flush: bool = True
) -> list[str]:
    """The command line that profiles the launches of ``target`` between start and stop of the profiler.

    With ``flush`` ncu flushes the caches before each kernel.
    """
    line = [program, "--csv", "--page", "raw", "--print-units", "base", "--nvtx", "--profile-from-start", "off"]
    line += ["--target-processes", "application-only", "--clock-control", "none"]
    line += ["--cache-control", "all" if flush else "none"]
    line += [word for section in sections for word in ("--section", section)]
    return [*line, *(("--metrics", ",".join(metrics)) if metrics else ()), *target]


def profile(
    program: str,
    cases: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    out: Path,
    *,
    asked: Sequence[tuple[Sequence[str], Sequence[str]]],
    device: str,
    flush: bool = True,
) -> Profiled:
    """The counters of each kernel case of the project in ``folder``; other ids are ignored.

    ``asked`` are requests of sections and metrics, tried in order until ncu accepts one. After a case that faults or
    takes too long, profiling continues with the others. ncu's last output is kept in ``out``, an absolute path, as
    ``ncu.csv`` and ``ncu.log``.
    """
    journal, listed = out / "profiled.jsonl", out / "cases.txt"
    target = [sys.executable, "-P", "-m", "peakgate.run.ncu", str(journal), str(listed), "--device", device]
    found, to_ask, left, barren = Profiled(), list(asked), list(cases), 0
    while left:
        write_whole(listed, "\n".join(left) + "\n")
        remove_output(journal)
        limit_s = START_LIMIT_S + MEAN_LIMIT_S * len(left)
        problem, stopped = _run(command(program, target, *to_ask[0], flush=flush), folder, environment, out, limit_s)
        records = []
        for line in journal.read_text(encoding="utf-8").splitlines() if journal.is_file() else ():
            with suppress(ValueError):
                records.append(json.loads(line))
        ended = {record["case"]: record["problem"] for record in records if "case" in record}
        lost = next((record["begun"] for record in records if "begun" in record and record["begun"] not in ended), None)
        launched = [case for case, reason in ended.items() if reason is None]
        kernels = parse((out / "ncu.csv").read_text(encoding="utf-8", errors="replace"), launched)
        found.kernels.update(kernels)
        found.failed.update({case: reason for case, reason in ended.items() if reason is not None})
        if stopped:
            return replace(found, problem=problem)
        if lost is not None:
            found.failed[lost] = problem or f"its process ended; see {out / 'ncu.log'}"
        elif not kernels and (not records or (launched and problem)):
            if len(to_ask) == 1 or NO_PERMISSION in (problem or ""):
                return replace(found, problem=problem or f"no case was launched; see {out / 'ncu.log'}")
            del to_ask[0]
            continue
        elif {"end": True} in records:
            found.failed.update({case: WITHOUT_KERNEL for case in launched if case not in kernels})
            break
        left = [case for case in left if case not in found.kernels and case not in found.failed]
        barren = 0 if kernels else barren + 1
        if barren == MOST_BARREN:
            return replace(found, problem=f"{barren} processes in a row had no counters; see {out / 'ncu.log'}")
    return found


def _run(
    line: Sequence[str], folder: Path, environment: Mapping[str, str], out: Path, limit_s: float
) -> tuple[str | None, bool]:
    """Run ncu; return what went wrong, if anything, and whether it was stopped by the limit or Ctrl-C.

    ncu prints its results so far when it is stopped.
    """
    log_file = out / "ncu.log"
    with open_output(out / "ncu.csv", "wb") as printed, open_output(log_file, "wb") as log:
        process = subprocess.Popen(
            line, cwd=folder, env=dict(environment), stdout=printed, stderr=log, start_new_session=True
        )
        try:
            code = process.wait(limit_s)
        except (subprocess.TimeoutExpired, KeyboardInterrupt) as stopped:
            process.terminate()
            interrupted = isinstance(stopped, KeyboardInterrupt)
            return STOPPED if interrupted else f"ncu did not end within {limit_s:g} s", True
        finally:
            end_group(process, PRINTING_LIMIT_S)
    printed_text = "".join(path.read_text(encoding="utf-8", errors="replace") for path in (out / "ncu.csv", log_file))
    errors = [
        each.removeprefix("==ERROR==").strip() for each in printed_text.splitlines() if each.startswith("==ERROR==")
    ]
    if errors:
        return f"ncu: {errors[0][:200]}; {PERMISSION if NO_PERMISSION in errors[0] else f'see {log_file}'}", False
    return f"ncu: {last_words_in(log_file)} (exit {code})" if code else None, False


def parse(text: str, cases: Collection[str]) -> dict[str, list[Counters]]:
    """The counters of each case's kernels, in order, from the output of ``ncu --csv --page raw --nvtx``.

    Kernels outside the range of a case are left out, and metrics without a number.
    """
    lines = text.splitlines()
    start = next((at for at, line in enumerate(lines) if line.startswith('"ID"')), None)
    found: dict[str, list[Counters]] = {}
    for row in csv.DictReader(io.StringIO("\n".join(lines[start:]))) if start is not None else ():
        ranges = " ".join(str(value) for name, value in row.items() if "Push/Pop_Range" in str(name))
        case = next((word for word in re.findall(r"[\w.-]+", ranges) if word in cases), None)
        if case is None:
            continue  # the units, or a message after the table
        values = {}
        for name, value in row.items():
            if isinstance(name, str) and isinstance(value, str) and "__" in name:
                with suppress(ValueError):
                    values[name] = float(value.replace(",", ""))
        found.setdefault(case, []).append(values)
    return found


def of_launch(kernels: Sequence[Counters]) -> Counters:
    """The counters of a launch of several kernels: sums are added, others are averaged weighted by kernel time."""
    if len(kernels) == 1:
        return kernels[0]
    together = {}
    for name in set.intersection(*(set(each) for each in kernels)):
        values = [each[name] for each in kernels]
        if name.endswith(".sum"):
            together[name] = sum(values)
        else:
            weights = [each.get(DURATION, 0.0) for each in kernels]
            weighted = sum(value * weight for value, weight in zip(values, weights, strict=True))
            together[name] = weighted / sum(weights) if sum(weights) else sum(values) / len(values)
    return together


def main(arguments: Sequence[str] | None = None) -> int:
    """Launch each case; 0 when the journal is complete."""
    # Imported here: other modules use this one on machines without a GPU.
    import cupy  # noqa: PLC0415
    import cupyx.profiler  # noqa: PLC0415

    from peakgate.base.errors import BuildError  # noqa: PLC0415
    from peakgate.device.driver import named_gpus  # noqa: PLC0415
    from peakgate.device.gpu import FAULTS, GpuDevice  # noqa: PLC0415
    from peakgate.device.interface import KernelFault  # noqa: PLC0415
    from peakgate.run.identity import listed_in  # noqa: PLC0415

    parser = argparse.ArgumentParser(prog="python -m peakgate.run.ncu", description=__doc__)
    parser.add_argument("journal", type=Path, metavar="JOURNAL")
    parser.add_argument("cases", type=Path, metavar="CASES")
    parser.add_argument("--device", default="gpu:0", help="gpu, gpu:N or gpu:N,M, of which the first is used")
    options = parser.parse_args(arguments)
    try:
        device = GpuDevice(named_gpus(options.device)[0], guarded=False)
        with open_output(options.journal) as journal:

            def write(**record: Any) -> None:
                journal.write(f"{json.dumps(record)}\n")
                journal.flush()

            for case in listed_in(options.cases):
                write(begun=case.id)
                faulthandler.dump_traceback_later(CASE_LIMIT_S, exit=True)
                refusal = f"needs {case.gpus} GPUs" if case.gpus > 1 else device.refusal(case)
                try:
                    if refusal is None:
                        launchable = device.prepare(case)
                        launchable.run()
                        with cupyx.profiler.time_range(case.id), cupyx.profiler.profile():
                            launchable.launch()
                            cupy.cuda.get_current_stream().synchronize()
                except FAULTS as fault:
                    refusal = str(device.faulted(case, fault))
                except (BuildError, KernelFault, MemoryError) as error:
                    refusal = str(error)
                faulthandler.cancel_dump_traceback_later()
                write(case=case.id, problem=refusal)
                if device.lost:
                    os._exit(ExitCode.OK)  # clean-up would fail without the context; the journal has the results
            write(end=True)
    except PeakgateError as error:
        return refused(error)
    return ExitCode.OK


if __name__ == "__main__":
    sys.exit(main())
