"""Hardware counters of the stages of attention, norm, reduce and quantize, by Nsight Compute.

``python -m lab.counters.counters OUT [TEXT...]`` profiles one launch of each case below on a GPU, or of those whose id
has one of the texts. OUT then has ncu's own output and ``counters.json.xz`` with all counters, some of which
``lab.counters.page`` shows.
"""

from __future__ import annotations

import json
import lzma
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from lab.pages import ROOT
from peakgate.base.errors import PeakgateError
from peakgate.base.files import write_whole
from peakgate.base.text import say
from peakgate.device.choose import open_device
from peakgate.run import ncu

LIMIT_S = 300.0
CASES = {
    "attention": (
        *(f"{stage}-64x4096-128-full" for stage in ("mma_sync", "wgmma", "ping_pong", "overlapped")),
        "longest_first-64x4096-128-causal",
        "overlapped-128x4096-64-full",
    ),
    "norm": (
        *(f"{stage}-32768x4096-softmax-bf16" for stage in ("warp_per_row", "online", "vectors", "registers")),
        *(f"{stage}-2048x65536-softmax-bf16" for stage in ("clusters", "rings")),
        "rings-512x65536-softmax-bf16",
        "rings-2048x65536-layer-bf16",
    ),
    "reduce": (
        *(f"{stage}-256MiB-sum" for stage in ("shared_tree", "shuffles", "last_block")),
        *(f"{stage}-256MiB" for stage in ("scan_chained", "scan_lookback", "scan_ahead")),
        *(f"{stage}-256MiB-spread" for stage in ("histogram_shared", "histogram_lanes")),
    ),
    "quantize": (
        *(f"{stage}-32768x4096-fp8-row" for stage in ("naive", "registers")),
        *(f"{stage}-32768x4096-fp8-block" for stage in ("blocks", "restore_naive", "restore")),
        *(f"registers-{rows}x16384-fp8-row" for rows in (8192, 2048)),
        *(f"blocks-8192x16384-{kind}-block" for kind in ("fp8", "int8")),
    ),
}


def main(arguments: Sequence[str]) -> int:
    """Profile all; 1 where a case has no counters."""
    out, texts = Path(arguments[0]).resolve(), arguments[1:]
    program = ncu.find()
    if program is None:
        raise PeakgateError("ncu is not on PATH")
    every = [f"{family}.{case}" for family, each in CASES.items() for case in each]
    cases = [case for case in every if not texts or any(text in case for text in texts)]
    found, problem = ncu.profile(program, cases, ROOT, dict(os.environ), out, device="gpu:0", limit_s=LIMIT_S)
    device, _ = open_device("gpu")
    record = {"gpu": device.describe(), "commit": os.environ.get("PEAKGATE_COMMIT", ""), "cases": found}
    write_whole(out / "counters.json.xz", lzma.compress(json.dumps(record).encode()))
    say(problem or f"{len(found)} cases")
    return 1 if problem else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
