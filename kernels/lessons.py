"""Tables that answer the published lessons (kernels/README.md lists them): computed figures beside measured ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from kernels.ladder.tables import Shown, figure
from peakgate.render.files import table_line
from peakgate.runfile.saved import CaseResult
from peakgate.spec.case import Case
from peakgate.spec.catalogue import module_at

access = module_at(Path(__file__).parent / "access" / "family.py")
sgemm = module_at(Path(__file__).parent / "sgemm" / "family.py")
transpose = module_at(Path(__file__).parent / "transpose" / "family.py")

SIDES = tuple(map(str, transpose.BENCH_SIDES))
LARGEST = SIDES[-1]
PADS = tuple(transpose.EACH_PAD.values())
SQUARE_TILES = {0: "smem", 1: "smem_pad", 2: "smem_pad-pad2"}
"""The stage, and the variant, that pads a square tile by this many floats."""


def strides(shown: Shown) -> Iterator[str]:
    """Bandwidth of useful bytes, and of the sectors that hold them, by the distance of elements in bytes."""
    found: dict[int, dict[str, float]] = {}
    for case, result in shown.timed.get("access", ()):
        if case.stage.name == "stride" and not case.block and result.gbs:
            distance = int(case.variant.removeprefix("s")) * access.setups.element_bytes(case.dtype)
            found.setdefault(distance, {})[case.dtype] = result.gbs
    yield table_line(("bytes apart", "float: useful", "its sectors", "double: useful", "its sectors"))
    yield table_line(("--:",) * 5)
    for distance, useful in sorted(found.items()):
        cells = []
        for dtype in access.TYPE_LABELS:
            gbs, size = useful.get(dtype), access.setups.element_bytes(dtype)
            moved = gbs and gbs / access.setups.sector_useful_fraction(distance // size, size)
            cells += [figure(gbs), figure(moved)]
        yield table_line((str(distance), *cells))


def diagonals(shown: Shown) -> Iterator[str]:
    """How much faster the diagonal order of blocks is than the usual one, by threads and side: rows / columns."""
    results = _transposes(shown)
    yield table_line(("threads", *SIDES))
    yield table_line(("---", *["--:"] * len(SIDES)))
    for block in map(_label, transpose.BLOCKS):
        gains = [[_gain(results, way, f"{side}-{block}") for way in ("row", "col")] for side in SIDES]
        yield table_line((block, *(" / ".join(pair) for pair in gains)))


def _gain(results: dict[str, CaseResult], way: str, where: str) -> str:
    moved, usual = (results.get(f"{stage}_{way}-{where}") for stage in ("diagonal", "naive"))
    if moved is None or usual is None or not moved.gbs or not usual.gbs:
        return "–"
    return f"{100 * (moved.gbs / usual.gbs - 1):+.1f} %"


def paddings(shown: Shown) -> Iterator[str]:
    """Bank conflicts of a warp's write and read of a tile, by its shape and padding, beside the bandwidth."""
    results = _transposes(shown)
    headings = (*(f"conflicts, pad {pad}" for pad in PADS), *(f"GB/s, pad {pad}" for pad in PADS))
    yield table_line(("threads", "tile", *headings))
    yield table_line(("---", "---", *["--:"] * len(headings)))
    for x, y in transpose.BLOCKS:
        side = max(x, y)
        conflicts = (_conflicts(x, side + pad, x) for pad in PADS)
        names = (SQUARE_TILES.get(pad, "").partition("-") for pad in PADS)
        cases = (results.get(f"{stage}-{LARGEST}-{x}x{y}{dash}{pad}") for stage, dash, pad in names)
        yield table_line((_label((x, y)), f"{side} x {side}", *conflicts, *map(_gbs, cases)))
    for x, y in transpose.RECTANGULAR_BLOCKS:
        conflicts = (_conflicts(x, x + pad, y) for pad in PADS)
        cases = (results.get(f"smem_rectangular-{LARGEST}-{x}x{y}-pad{pad}") for pad in PADS)
        yield table_line((_label((x, y)), f"{x} x {y}", *conflicts, *map(_gbs, cases)))


def _conflicts(x: int, pitch: int, y: int) -> str:
    """``1 + 32``: how many-way a warp's write of ``x`` floats per row conflicts, and its read of ``y`` rows.

    Rows of the tile are ``pitch`` floats apart.
    """
    words = access.setups.tile_words
    write, read = words((x, y), pitch - x, by="row"), words((0, y), pitch, by="col")
    return f"{access.setups.bank_turns(write):.0f} + {access.setups.bank_turns(read):.0f}"


def _transposes(shown: Shown) -> dict[str, CaseResult]:
    """Results of the family by the case's id without the family."""
    return {case.id.partition(".")[2]: result for case, result in shown.timed.get("transpose", ())}


def _label(block: tuple[int, int]) -> str:
    return "x".join(map(str, block))


def _gbs(result: CaseResult | None) -> str:
    return figure(result.gbs if result else None)


def loads(shown: Shown) -> Iterator[str]:
    """Elements that a block and a thread load per multiply-add, by stage and tile, beside the best rate with it."""
    timed = shown.timed.get("sgemm", ())
    headings = ("stage", "tile of a block", "of a thread", "a block loads", "a thread loads", "sides", "best TFLOP/s")
    yield table_line(headings)
    yield table_line(("---", "---", "---", "--:", "--:", "---", "--:"))
    for stage, tilings in sgemm.TILINGS.items():
        for tiling in tilings:
            found = [pair for pair in timed if pair[0].stage.name == stage and _built_so(pair[0], tiling.defines)]
            sides = sorted(int(case.size) for case, _ in found if case.size.isdecimal())
            ends = "–" if not sides else str(sides[0]) if len(sides) == 1 else f"{sides[0]} to {sides[-1]}"
            best = max((result.tflops for _, result in found if result.tflops), default=None)
            both = (tiling.block_loads(), tiling.thread_loads())
            shares = (f"1 / {1 / each:.3g}" if each < 1 else f"{each:.0f}" for each in both)
            tiles = (f"{tiling.rows} x {tiling.cols}", " x ".join(map(str, tiling.thread)))
            yield table_line((stage, *tiles, *shares, ends, figure(best)))


def _built_so(case: Case, macros: Mapping[str, int]) -> bool:
    return dict(case.defines) == {name: str(value) for name, value in macros.items()}


LESSON_SIDES = (1024, 2048, 4096, 16384)
LESSON_GFLOPS = {
    "naive": (2007.8, 2992.4, 4215.6, 4058.4),
    "tiled": (3046.9, 6824.2, 15601.0, 26880.9),
    "vectorized": (3265.2, 7093.8, 16721.3, 29684.6),
    "moved_sync": (3302.2, 7045.1, 16816.0, 29874.8),
    "conflict_free": (3183.0, 7367.5, 18664.1, 30244.3),
    "fake_double_buffer": (4269.5, 10641.9, 19062.4, 30942.2),
    "double_buffer": (3369.8, 8038.8, 19853.7, 31643.0),
    "cublas": (2455.6, 7348.5, 18581.3, 41743.2),
}
"""Printed by the SGEMM lesson for an RTX 4090, CUDA 12.1 and managed memory, with a GFLOP of 1024^3 operations."""


def lesson(shown: Shown) -> Iterator[str]:
    """GFLOP/s of the SGEMM lesson, converted to 10^9, beside the run's, by stage and side."""
    ours = {(case.stage.name, case.size): result.tflops for case, result in shown.timed.get("sgemm", ())}
    yield table_line(("stage", *(f"{side}: {whose}" for side in LESSON_SIDES for whose in ("lesson", "here"))))
    yield table_line(("---", *["--:"] * (2 * len(LESSON_SIDES))))
    for stage, printed in LESSON_GFLOPS.items():
        cells = []
        for side, gflops in zip(LESSON_SIDES, printed, strict=True):
            here = ours.get((stage, str(side)))
            cells += [f"{gflops * 1024**3 / 1e9:.0f}", "–" if here is None else f"{1000 * here:.0f}"]
        yield table_line((stage, *cells))


TABLES = {
    "access-strides": strides,
    "transpose-diagonals": diagonals,
    "transpose-paddings": paddings,
    "sgemm-loads": loads,
    "sgemm-lesson": lesson,
}
