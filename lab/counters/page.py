"""The tables of the page, from the records of counters and of racecheck: ``python -m lab.counters.page``."""

from __future__ import annotations

import json
import lzma
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lab.counters.counters import CASES
from lab.pages import fill_page, read_json
from peakgate.render.files import table_line
from peakgate.run.ncu import STALLS

HERE = Path(__file__).parent
PAGE = HERE / "README.md"
RECORDS = tuple(HERE / f"counters{part}.json.xz" for part in ("", "-2", "-3"))
"""The oldest first: a case is shown as the last one has it."""
SHARES = {
    "DRAM": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "L2": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "L1 and shared memory": "l1tex__throughput.avg.pct_of_peak_sustained_active",
    "tensor cores": "sm__pipe_tensor_type_hmma_hgmma_qgmma_imma_igmma_bmma_bgmma_cycles_active"
    ".avg.pct_of_peak_sustained_elapsed",
    "FMA": "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active",
    "XU": "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active",
    "issue slots": "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "warps": "sm__warps_active.avg.pct_of_peak_sustained_active",
}
DURATION = "gpu__time_duration.sum"
STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
WAITS = tuple(stall for stall in (*STALLS, "gmma") if stall not in ("selected", "not_selected"))
"""Reasons for which a warp cannot be issued; the others have an instruction that could be."""
MOST = 2
ARRIVALS = {
    "sanitize-2": "one lane of a warp",
    "sanitize-3": "one lane of a warp",
    "sanitize-4": "every thread",
    "sanitize-5": "every thread",
}
"""By record of ``peakgate sanitize``, who arrives at the barriers of ``RACING``."""
RACING = ("norm.rings", "reduce.scan_ahead")


def table(records: Sequence[Mapping[str, Any]], family: str) -> Iterator[str]:
    """A row for each case with counters: its time under ncu, how busy each part is, what its warps wait for most."""
    gpus = {f"{record['gpu']['name']}, driver {record['gpu']['driver']}" for record in records}
    yield f"{'; '.join(sorted(gpus))}; percent of what the part can do."
    yield ""
    yield table_line(("case", "commit", "µs", *SHARES, "waits for each issued instruction"))
    yield table_line(("---", "---", *["--:"] * (1 + len(SHARES)), "---"))
    newest = {name: record for record in records for name in record["cases"]}
    for case in CASES[family]:
        if (record := newest.get(f"{family}.{case}")) is None:
            continue
        counters = record["cases"][f"{family}.{case}"]
        waits = {stall: counters[STALL.format(stall)] for stall in WAITS if STALL.format(stall) in counters}
        largest = sorted(waits, key=lambda stall: -waits[stall])[:MOST]
        yield table_line(
            (
                case,
                record["commit"][:8],
                f"{counters[DURATION] / 1e3:.1f}",
                *(f"{counters[name]:.0f}" for name in SHARES.values()),
                ", ".join(f"{stall.replace('_', ' ')} {waits[stall]:.1f}" for stall in largest),
            )
        )


def races() -> Iterator[str]:
    """A row for each record of racecheck: how many races it reports of a kernel, and of how many kinds."""
    yield table_line(("record", "version", "who arrives", *(f"`{kernel}`: reports (kinds)" for kernel in RACING)))
    yield table_line(("---", "---", "---", *["--:"] * len(RACING)))
    for name, who in ARRIVALS.items():
        record = read_json(HERE / f"{name}.json")
        (tool,) = (each for each in record["tools"] if each["tool"] == "racecheck")
        reported = [*tool["defects"], *tool["waived"]]
        counts = [[each["count"] for each in reported if each["kernel"] == kernel] for kernel in RACING]
        cells = (f"{sum(each)} ({len(each)})" if each else "none" for each in counts)
        yield table_line((f"`{name}.json`", record["sanitizer"], who, *cells))


def blocks() -> dict[str, str]:
    """The blocks of the page."""
    records = [json.loads(lzma.decompress(path.read_bytes())) for path in RECORDS]
    counters = {f"counters-{family}": "\n".join(table(records, family)) for family in CASES}
    return {**counters, "counters-races": "\n".join(races())}


def main() -> int:
    """Fill the page."""
    fill_page(PAGE, blocks())
    return 0


if __name__ == "__main__":
    sys.exit(main())
