"""Writes the lab's tables into the pages of sgemm and transpose, or says which are not as the records have them.

tables.py [--write]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd

HERE = Path(__file__).parent
ROOT = HERE.parents[3]
TRIED = {"barrier_ring": "barrier_ring-BGAP0-CPOS0-FL1-GV1-PIN0", "stream_k": "stream_k-BGAP1-CPOS1-FL1-GV1-PIN0"}
"""The variants of sweep-2.csv with the loop that was spelled for the banks, by the stage whose loop they would be."""
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


def kept_and_tried() -> str:
    """TFLOP/s of cuBLAS, of the stage and of the spelling that was tried, with the clock and power of the latter."""
    sweep = pd.read_csv(HERE / "sweep-2.csv").set_index(["side", "variant"])
    lines = [
        "| side | stage | cuBLAS | kept | tried | kept / cuBLAS | tried / cuBLAS | lowest MHz | highest W |",
        "| --: | --- | --: | --: | --: | --: | --: | --: | --: |",
    ]
    for side, stage in SIDES.items():
        library, kept, tried = (sweep.loc[(side, name)] for name in ("cublas", f"old_{stage}", TRIED[stage]))
        lines.append(
            f"| {side} | {stage} | {library.tflops:.1f} | {kept.tflops:.1f} | {tried.tflops:.1f} "
            f"| {kept.tflops / library.tflops:.3f} | {tried.tflops / library.tflops:.3f} "
            f"| {tried.min_sm_mhz:.0f} | {tried.max_w:.0f} |"
        )
    return "\n".join(lines)


def loops() -> str:
    """What the machine code of the loop lets expect, and what was measured while all SMs are busy, at 4096."""
    lines = [
        "| variant | instructions | bank conflicts | expected, % of peak | measured, % of peak |",
        "| --- | --: | --: | --: | --: |",
    ]
    lines += [
        f"| {row.variant} | {row.instructions} | {row.bank_conflicts} | {row.bound_percent_of_peak:.1f} "
        f"| {row.percent_of_peak_while_busy:.1f} |"
        for row in pd.read_csv(HERE / "loops.csv").itertuples()
    ]
    return "\n".join(lines)


def transposes() -> str:
    """The copies, `hinted` and the five best variants of both sweeps, in % of the best copy of the same sweep."""
    lines = ["| sweep | side | copy, GB/s | hinted | best variants |", "| --: | --: | --: | --: | --- |"]
    for number in (1, 2):
        sweep = pd.read_csv(HERE / f"transposes-{number}.csv")
        for side, part in sweep.groupby("side"):
            copies = part.variant.str.startswith(("copy4", "memcpy"))
            copy = part[copies].gbs.max()
            share = (100 * part.set_index("variant").gbs / copy)[~copies.to_numpy()].sort_values(ascending=False)
            best = ", ".join(f"`{name}` {value:.1f} %" for name, value in share.drop("hinted").head(3).items())
            lines.append(f"| {number} | {side} | {copy:.0f} | {share['hinted']:.1f} % | {best} |")
    return "\n".join(lines)


TABLES: dict[str, tuple[str, Callable[[], str]]] = {
    "kept-and-tried": ("kernels/sgemm/README.md", kept_and_tried),
    "loops": ("kernels/sgemm/README.md", loops),
    "transposes": ("kernels/transpose/README.md", transposes),
}


def stale(*, write: bool) -> list[str]:
    """The tables that are not as the records have them; written anew if asked to."""
    found = []
    for name, (page, table) in TABLES.items():
        path = ROOT / page
        text = path.read_text(encoding="utf-8")
        start, end = f"<!-- lab:{name} -->\n", f"\n<!-- /lab:{name} -->"
        if text.count(start) != 1 or text.count(end) != 1:
            sys.exit(f"{page}: expected one pair of markers lab:{name}")
        before, _, rest = text.partition(start)
        new = f"{before}{start}\n{table()}\n{rest[rest.index(end) :]}"
        if new != text:
            found.append(f"{page}: {name}")
            if write:
                path.write_text(new, encoding="utf-8")
    return found


if __name__ == "__main__":
    writing = sys.argv[1:] == ["--write"]
    differing = stale(write=writing)
    sys.stdout.write("\n".join(differing) + "\n" if differing else "all tables are as the records have them\n")
    sys.exit(bool(differing) and not writing)
