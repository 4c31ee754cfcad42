"""Writes the tables of this folder's page from its records, or says which are not as the records have them.

python -m lab.sgemm.tables [--write]
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pandas as pd

from kernels.ladder.markers import inside, read_document
from lab.pages import fill_page, table

HERE = Path(__file__).parent
PAGE = HERE / "README.md"
NEW = {"barrier_ring": "barrier_ring-BGAP0-CPOS0-FL1-GV1-PIN0", "stream_k": "stream_k-BGAP1-CPOS1-FL1-GV1-PIN0"}
"""The variants of sweep-2.csv with the loop of today's stages, by stage."""
SIDES = {
    1536: "stream_k",
    2048: "barrier_ring",
    3072: "stream_k",
    4096: "barrier_ring",
    6144: "barrier_ring",
    8192: "barrier_ring",
    12288: "barrier_ring",
    16384: "barrier_ring",
}


def earlier_and_new() -> str:
    """TFLOP/s of cuBLAS, of the stages' earlier loop and of today's, with clock and power of the latter."""
    sweep: Any = pd.read_csv(HERE / "sweep-2.csv").set_index(["side", "variant"])
    head = ("side", "stage", "cuBLAS", "earlier", "new", "earlier / cuBLAS", "new / cuBLAS", "lowest MHz", "highest W")
    rows = []
    for side, stage in SIDES.items():
        library, earlier, new = (sweep.loc[(side, name)] for name in ("cublas", f"old_{stage}", NEW[stage]))
        rates = [f"{each.tflops:.1f}" for each in (library, earlier, new)]
        ratios = [f"{each.tflops / library.tflops:.3f}" for each in (earlier, new)]
        rows.append((side, stage, *rates, *ratios, f"{new.min_sm_mhz:.0f}", f"{new.max_w:.0f}"))
    return table(head, rows)


def orders() -> str:
    """TFLOP/s of the third sweep, by stage and side."""
    sweep: Any = pd.read_csv(HERE / "sweep-3.csv").set_index(["side", "variant"]).tflops
    orders = ("old", "down", "pairs", "up", "a-first")
    names = {
        stage: (f"old_{stage}", f"{stage}-down", f"{stage}-pairs", f"{stage}-up", f"{stage}-a-first{suffix}")
        for stage, suffix in (("group_split", ""), ("stream_k", "-up"), ("barrier_ring", ""))
    }
    rows = []
    for stage, variants in names.items():
        for side in sorted({side for side, name in sweep.index if name in variants}):
            measured = [f"{sweep[side, name]:.1f}" if (side, name) in sweep.index else "–" for name in variants]
            rows.append((stage, side, f"{sweep[side, 'cublas']:.1f}", *measured))
    return table(("stage", "side", "cuBLAS", *orders), rows)


def loops() -> str:
    """Rate predicted from the loop's machine code, and rate measured while all SMs are busy, at 4096."""
    head = ("variant", "instructions", "bank conflicts", "expected, % of peak", "measured, % of peak")
    rows = [
        (
            row.variant,
            row.instructions,
            row.bank_conflicts,
            f"{row.bound_percent_of_peak:.1f}",
            f"{row.percent_of_peak_while_busy:.1f}",
        )
        for row in pd.read_csv(HERE / "loops.csv").itertuples()
    ]
    return table(head, rows)


def transposes() -> str:
    """The copies, `hinted` and the three best variants of both sweeps, in % of the best copy of the same sweep."""
    rows = []
    for number in (1, 2):
        sweep = pd.read_csv(HERE / f"transposes-{number}.csv")
        for side, part in sweep.groupby("side"):
            copies = part.variant.str.startswith(("copy4", "memcpy"))
            copy = part[copies].gbs.max()
            share = (100 * part.set_index("variant").gbs / copy)[~copies.to_numpy()].sort_values(ascending=False)
            best = ", ".join(f"`{name}` {value:.1f} %" for name, value in share.drop("hinted").head(3).items())
            rows.append((number, side, f"{copy:.0f}", f"{share['hinted']:.1f} %", best))
    return table(("sweep", "side", "copy, GB/s", "hinted", "best variants"), rows)


TABLES = {"earlier-and-new": earlier_and_new, "orders": orders, "loops": loops, "transposes": transposes}


def stale(*, write: bool) -> list[str]:
    """The tables that are not as the records have them; written anew if asked to."""
    now = {name: made() for name, made in TABLES.items()}
    held = inside(read_document(PAGE), PAGE)
    found = [name for name, text in now.items() if held.get(name) != text]
    if found and write:
        fill_page(PAGE, now)
    return found


if __name__ == "__main__":
    writing = sys.argv[1:] == ["--write"]
    differing = stale(write=writing)
    sys.stdout.write("\n".join(differing) + "\n" if differing else "all tables are as the records have them\n")
    sys.exit(bool(differing) and not writing)
