"""The tables of the page, from the record of ``lab.counters.counters``: ``python -m lab.counters.page``."""

from __future__ import annotations

import json
import lzma
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from peakgate.check.ncu import STALLS
from peakgate.reports.write.files import table_line

from lab.counters.counters import CASES
from lab.pages import fill_page

HERE = Path(__file__).parent
PAGE, RECORD = HERE / "README.md", HERE / "counters.json.xz"
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


def table(record: Mapping[str, Any], family: str) -> Iterator[str]:
    """A row for each case: its time under ncu, how busy each part is, what its warps wait for most."""
    gpu = record["gpu"]
    yield f"{gpu['name']}, driver {gpu['driver']}, commit {record['commit'][:12]}; percent of what the part can do."
    yield ""
    yield table_line(("case", "µs", *SHARES, "waits for each issued instruction"))
    yield table_line(("---", *["--:"] * (1 + len(SHARES)), "---"))
    for case in CASES[family]:
        counters = record["cases"][f"{family}.{case}"]
        waits = {stall: counters[STALL.format(stall)] for stall in WAITS if STALL.format(stall) in counters}
        largest = sorted(waits, key=lambda stall: -waits[stall])[:MOST]
        yield table_line(
            (
                case,
                f"{counters[DURATION] / 1e3:.1f}",
                *(f"{counters[name]:.0f}" for name in SHARES.values()),
                ", ".join(f"{stall.replace('_', ' ')} {waits[stall]:.1f}" for stall in largest),
            )
        )


def main() -> int:
    """Fill the page."""
    record = json.loads(lzma.decompress(RECORD.read_bytes()))
    fill_page(PAGE, {f"counters-{family}": "\n".join(table(record, family)) for family in CASES})
    return 0


if __name__ == "__main__":
    sys.exit(main())
