"""``peakgate bench --counters``: adds hardware counters of the kernel cases to the run file before it is published.

They are read after the run, in separate processes: no time and no verdict depends on them. If they cannot be read, one
line says why and the run counts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from peakgate.base.files import remove_output, write_whole
from peakgate.base.formatting import counted
from peakgate.base.streams import say
from peakgate.judge.work import work_notes
from peakgate.run import ncu
from peakgate.run.places import Places
from peakgate.runfile.schema import CountersReport
from peakgate.spec.recorded import TENSOR_MATH, CaseCounters

FOLDER = "counters"
"""In the verdict's folder: what ncu printed, a folder per state of the caches."""

EMULATED = "no hardware counters: the emulator has none"

SECTOR_BYTES = 32

_GLOBAL = "l1tex__t_{}_pipe_lsu_mem_global_op_{}.sum"
_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{}.sum"
_L2 = "lts__t_sectors_srcunit_tex_{}.sum"
_DRAM = "dram__bytes_{}.sum"
_OCCUPANCY = "sm__warps_active.avg.pct_of_peak_sustained_active"
_TENSOR = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"

# Operations per instruction and thread, as in Nsight Compute's rooflines.
_EXECUTED = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum"
_PLAIN = {"ffma": 2, "fadd": 1, "fmul": 1, "dfma": 2, "dadd": 1, "dmul": 1}
_HALVES = {"hfma": 4, "hadd": 2, "hmul": 2}
_TENSOR_OPERATIONS = tuple(
    f"sm__ops_path_tensor_src_{source}.sum"
    for source in ("fp64", "tf32_dst_fp32", "bf16_dst_fp32", "fp16", "fp8", "int8")
)

_EVERYWHERE = (
    ncu.DURATION,
    *(_DRAM.format(way) for way in ("read", "write")),
    *(_L2.format(what) for what in ("op_read", "op_write", "lookup_hit", "lookup_miss")),
    *(_GLOBAL.format(what, way) for what in ("sectors", "requests") for way in ("ld", "st")),
    *(_CONFLICTS.format(way) for way in ("ld", "st")),
    *(_OCCUPANCY, _TENSOR),
    *(_EXECUTED.format(operation) for operation in (*_PLAIN, *_HALVES)),
)
ASKED = (((), (*_EVERYWHERE, *_TENSOR_OPERATIONS)), ((), _EVERYWHERE))
"""Sections and metrics; the counters of tensor cores' operations are those of compute capability 9.0."""


def add(places: Places, root: Path, device: str | None) -> dict[str, Any]:
    """Read the counters of a staged run's cases, add them to its files, and print notes and problems.

    ``device`` is the ``--device`` of the run, None for the emulator. Returns the report as JSON.
    """
    remove_output(places.out / FOLDER)  # of an earlier run
    staged: dict[Path, dict[str, Any]] = {
        path: json.loads(content) for path in places.staging.rglob("*.json") if (content := path.read_bytes())
    }
    document: dict[str, Any] = next(iter(staged.values()), {"benchmarks": [], "machine_info": {"gpu": {}}})
    entries = {each["extra_info"]["case"]: each["extra_info"] for each in document["benchmarks"]}
    program, found, report = ncu.find(), dict[str, CaseCounters](), CountersReport()
    if device is None or program is None:
        report.problem = EMULATED if device is None else ncu.NO_NCU
    for cold in (True, False):  # ncu flushes the caches before each kernel, or leaves them as they are
        measured = {case: entry for case, entry in entries.items() if entry.get("metric") != "launch"}
        cases = [case for case, entry in measured.items() if (entry["state"] == "cold") == cold]
        if device is None or program is None or report.problem or not cases:
            continue
        out = (places.out / FOLDER / ("cold" if cold else "repeated")).absolute()
        profiled = ncu.profile(program, cases, root, os.environ, out, asked=ASKED, device=device, flush=cold)
        found |= {case: case_counters(kernels, entries[case]["math"]) for case, kernels in profiled.kernels.items()}
        report.not_counted |= profiled.failed
        report.problem = profiled.problem
    report.notes = [
        note
        for case, counters in found.items()
        for note in work_notes(
            case,
            entries[case]["state"],
            counters,
            declared_bytes=entries[case]["bytes"],
            declared_flops=entries[case]["flops"],
            l2_bytes=document["machine_info"]["gpu"].get("l2_bytes"),
        )
    ]
    reported: dict[str, Any] = to_builtins(report)
    for path, run in staged.items():
        for benchmark in run["benchmarks"]:
            benchmark["extra_info"]["counters"] = to_builtins(found.get(benchmark["extra_info"]["case"]))
        run["peakgate"]["counters"] = reported
        write_whole(path, json.dumps(run, indent=4))
    for note in report.notes:
        say(f"note: {note.sentence}")
    for case, reason in report.not_counted.items():
        say(f"no hardware counters of {case}: {reason}")
    say(f"hardware counters of {counted(len(found), 'case')}, {counted(len(report.notes), 'note')}")
    if report.problem is not None:
        say(report.problem)
    return reported


def case_counters(kernels: Sequence[ncu.Counters], math: str) -> CaseCounters:
    """The counters of a launch of these kernels; ``math`` is the type of the case's operations.

    ``executed_flops`` is None for a case on tensor cores if ncu cannot count their operations.
    """
    of_launch = ncu.of_launch(kernels)

    def ratio(dividend: str, *divisors: str) -> float | None:
        total = sum(of_launch.get(name, 0.0) for name in divisors)
        return of_launch[dividend] / total if dividend in of_launch and total else None

    def times(factor: float, name: str) -> float | None:
        return factor * of_launch[name] if name in of_launch else None

    def operations(of_each: Mapping[str, int]) -> float | None:
        names = {_EXECUTED.format(operation): factor for operation, factor in of_each.items()}
        return (
            sum(factor * of_launch[name] for name, factor in names.items())
            if names.keys() <= of_launch.keys()
            else None
        )

    executed, on_tensor = operations(_PLAIN), [of_launch[name] for name in _TENSOR_OPERATIONS if name in of_launch]
    if executed is not None:
        executed = executed + sum(on_tensor) if on_tensor or math not in TENSOR_MATH else None
    hits = _L2.format("lookup_hit")
    return CaseCounters(
        launched_kernels=len(kernels),
        load_sectors_per_request=ratio(_GLOBAL.format("sectors", "ld"), _GLOBAL.format("requests", "ld")),
        store_sectors_per_request=ratio(_GLOBAL.format("sectors", "st"), _GLOBAL.format("requests", "st")),
        shared_load_conflicts=times(1, _CONFLICTS.format("ld")),
        shared_store_conflicts=times(1, _CONFLICTS.format("st")),
        achieved_occupancy=times(0.01, _OCCUPANCY),
        tensor_fraction=times(0.01, _TENSOR),
        l2_hit_fraction=ratio(hits, hits, _L2.format("lookup_miss")),
        l2_read_bytes=times(SECTOR_BYTES, _L2.format("op_read")),
        l2_written_bytes=times(SECTOR_BYTES, _L2.format("op_write")),
        dram_read_bytes=times(1, _DRAM.format("read")),
        dram_written_bytes=times(1, _DRAM.format("write")),
        executed_flops=executed,
        half_flops=operations(_HALVES),
    )
