"""Hardware counters of cases by NVIDIA Nsight Compute: its command line, what it prints, and what runs under it.

``python -m peakgate.run.ncu JOURNAL CASES`` runs under ncu and launches each case once to be profiled. CASES is a
file of case ids, one per line. The journal has a line per case that was profiled, in order: its id. A case that this
GPU cannot run, or that faults, has none. Only the launch between start and stop of the profiler counts; the launch
before it loads the code.
"""

from __future__ import annotations

import argparse
import csv
import io
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from peakgate.base.errors import PeakgateError, refused
from peakgate.base.files import open_output, remove_output, write_whole
from peakgate.base.processes import run_in_group
from peakgate.base.streams import warn
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
METRICS = (
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
"""The counters that the ranking reads, on compute capability 7.0 and later."""

Counters = Mapping[str, float]
"""Metric to value of one launch, in base units: bytes, ns, percent, counts."""


def find() -> str | None:
    """The path of ncu; None where it is not on PATH."""
    return shutil.which(NCU)


def command(program: str, target: Sequence[str], sections: Sequence[str], metrics: Sequence[str]) -> list[str]:
    """The command line that profiles what ``target`` launches between start and stop of the profiler."""
    line = [program, "--csv", "--page", "raw", "--print-units", "base", "--profile-from-start", "off"]
    line += ["--target-processes", "application-only", "--clock-control", "none"]
    line += [word for section in sections for word in ("--section", section)]
    return [*line, *(("--metrics", ",".join(metrics)) if metrics else ()), *target]


def launches(journal: Path, cases: Path, device: str) -> list[str]:
    """The target: this interpreter launching the cases of a file."""
    return [sys.executable, "-P", "-m", "peakgate.run.ncu", str(journal), str(cases), "--device", device]


def profile(
    program: str,
    cases: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    out: Path,
    *,
    device: str,
    limit_s: float,
) -> tuple[dict[str, Counters], str | None]:
    """The counters of each case of the project in ``folder``, and why they are not all there; None where they are.

    Sections and metrics that this ncu does not know are left out. Its output is kept in ``out``, an absolute
    path: ``ncu.csv``, ``ncu.log``.
    """
    journal, listed = out / "profiled.txt", out / "cases.txt"
    write_whole(listed, "\n".join(cases) + "\n")
    target = launches(journal, listed, device)
    problem = None
    for sections, metrics in ((NCU_SECTIONS, METRICS), (NCU_SECTIONS, ()), ((), METRICS)):
        remove_output(journal)
        problem = _run(command(program, target, sections, metrics), folder, environment, out, limit_s)
        rows = parse((out / "ncu.csv").read_text(encoding="utf-8", errors="replace"))
        profiled = journal.read_text(encoding="utf-8").split() if journal.is_file() else []
        if rows and len(rows) == len(profiled):
            missing = [case for case in cases if case not in profiled]
            return dict(zip(profiled, rows, strict=True)), f"not profiled: {', '.join(missing)}" if missing else None
    return {}, problem or f"ncu profiled {len(rows)} of {len(profiled)} launches, see ncu.csv and ncu.log in {out}"


def _run(line: Sequence[str], folder: Path, environment: Mapping[str, str], out: Path, limit_s: float) -> str | None:
    """Run ncu; what went wrong in its own words, None where it reports no error."""
    with open_output(out / "ncu.csv", "wb") as printed, open_output(out / "ncu.log", "wb") as log:
        ended = run_in_group(line, limit_s, cwd=folder, env=dict(environment), stdout=printed, stderr=log)
    if ended is None:
        return f"ncu did not end within {limit_s:g} s"
    said = "".join((out / name).read_text(encoding="utf-8", errors="replace") for name in ("ncu.csv", "ncu.log"))
    errors = [text.removeprefix("==ERROR==").strip() for text in said.splitlines() if text.startswith("==ERROR==")]
    return f"ncu: {errors[0][:200]}" if errors else None


def parse(text: str) -> list[dict[str, float]]:
    """The launches in what ``ncu --csv --page raw`` prints, in order; metrics without a number are left out."""
    lines = text.splitlines()
    start = next((at for at, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        return []
    found = []
    for row in csv.DictReader(io.StringIO("\n".join(lines[start:]))):
        if not (row.get("ID") or "").isdecimal():
            continue  # the units, or a message after the table
        values = {}
        for name, value in row.items():
            if isinstance(name, str) and isinstance(value, str) and "__" in name:
                try:
                    values[name] = float(value.replace(",", ""))
                except ValueError:
                    continue
        found.append(values)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Launch each case; 0 when the journal is complete."""
    # Reports read counters on machines without a GPU.
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
    parser.add_argument("--device", default="gpu:0", help="gpu, gpu:N or gpu:N,M, of which the first is taken")
    options = parser.parse_args(arguments)
    try:
        device = GpuDevice(named_gpus(options.device)[0], guarded=False)
        with open_output(options.journal) as journal:
            for case in listed_in(options.cases):
                if device.refusal(case) is not None or device.lost:
                    continue
                try:
                    launchable = device.prepare(case)
                    launchable.run()
                    with cupyx.profiler.profile():
                        launchable.launch()
                        cupy.cuda.get_current_stream().synchronize()
                except FAULTS as fault:
                    warn(f"{case.id}: {device.faulted(case, fault)}")
                    continue
                except (BuildError, KernelFault, MemoryError) as error:
                    warn(f"{case.id}: {error}")
                    continue
                journal.write(f"{case.id}\n")
                journal.flush()
    except PeakgateError as error:
        return refused(error)
    return ExitCode.OK


if __name__ == "__main__":
    sys.exit(main())
