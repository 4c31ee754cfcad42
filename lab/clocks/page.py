"""Fill the table on other clocks in docs/explanation/sampling.md from the record: ``python -m lab.clocks.page``."""

from __future__ import annotations

import json
import lzma
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lab.pages import ROOT, fill_page
from peakgate.render.files import table_line

PAGE = ROOT / "docs" / "explanation" / "sampling.md"
RECORD = Path(__file__).with_name("clocks.json.xz")
SAMPLES, NCU_LAUNCHES = 6, 5
NCU_KERNELS = {"sgemm.cublas-256": 2}
"""Of cases with more than one kernel, which ncu times one by one."""


def blocks() -> dict[str, str]:
    """The table, with where it was measured in front."""
    record: dict[str, Any] = json.loads(lzma.decompress(RECORD.read_bytes()))
    gpu = record["gpu"]
    where = f"{gpu['name']}, driver {gpu['driver']}, {record['date'][:10]}; medians in µs."
    return {"clocks": "\n".join([where, "", *rows(record)])}


def rows(record: Mapping[str, Any]) -> Iterator[str]:
    """A row a case: events as here and as nvbench places them, the kernel alone in both, and with a clean L2."""
    heads = ("case", "events", "last of a batch", "as nvbench", "CUPTI", "CUPTI, as nvbench", "CUPTI, clean L2")
    yield table_line((*heads, "ncu, clean L2"))
    yield table_line(("---", *["--:"] * 7))
    profiled = by_case(record["ncu_us"]["all"], list(record["cases"]))
    for case, row in record["cases"].items():
        events, cupti = row["events_us"], row["cupti_us"]
        figures = (
            *(events["bench"], events["bench"][SAMPLES - 1 :: SAMPLES], events["nvbench"]),
            *(cupti["bench"], cupti["nvbench"], cupti["read"], profiled[case]),
        )
        yield table_line((case, *(f"{statistics.median(each):.2f}" for each in figures)))


def by_case(durations_us: Sequence[float], cases: Sequence[str]) -> dict[str, list[float]]:
    """The durations of each case's launches right behind a flush, of all that ncu gave in order."""
    found, at = {}, 0
    for case in cases:
        kernels = NCU_KERNELS.get(case, 1)
        own = durations_us[at : at + kernels * NCU_LAUNCHES]
        found[case] = [sum(own[first : first + kernels]) for first in range(0, len(own), kernels)]
        at += 2 * kernels * NCU_LAUNCHES
    assert at == len(durations_us), f"{len(durations_us)} durations of {at}"
    return found


if __name__ == "__main__":
    fill_page(PAGE, blocks())
