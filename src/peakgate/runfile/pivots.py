"""Results of one family as pandas pivot tables: by stage and block, and by stage and size.

A row is a stage, or a variant of a stage if the family has variants. A cell is the figure (a numeric column of the
runs) of the fastest matching case, NaN if there is none. With several figures, each has its own columns, grouped under
its name. Stages are in the order of the run, blocks sorted by their threads and then by their width, sizes by the bytes
they move.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import pandas as pd

from peakgate.base.errors import Code, PeakgateError
from peakgate.base.formatting import nearest
from peakgate.runfile.frame import is_usable, require
from peakgate.spec.recorded import ARITHMETIC_ROOFS

NEEDED = (
    *("case", "family", "stage", "size", "block", "variant", "taken", "verdict", "bound", "roof"),
    *("time_us", "bytes", "gbs", "peak_fraction", "roof_fraction", "memory_roof_gbs"),
)
"""Columns of a DataFrame of runs that a pivot needs besides the figure."""


def by_block(
    runs: pd.DataFrame, family: str, figure: str | Sequence[str] = "time_us", size: str | None = None
) -> pd.DataFrame:
    """A figure of a family at one size, with a row per stage and a column per block.

    ``size`` is by default the size with the most blocks, the largest of several; ``attrs["size"]`` says which it is.
    """
    rows = of_family(runs, family, figure)
    sizes = list(_sizes(rows))
    if size is None:
        blocks = rows.groupby("size")["block"].nunique()
        size = max(sizes, key=lambda each: (blocks[each], sizes.index(each)), default="")
    elif size not in sizes:
        raise PeakgateError(
            f"{size}: no size of {family}{nearest(size, sizes)}; there are {_named(sizes)}", Code.NO_RUN
        )
    rows = rows[rows["size"].isin([size])]
    found = _pivot(rows, "block", figure, sorted(rows["block"].unique(), key=_threads))
    found.attrs["size"] = size
    return found


def by_size(runs: pd.DataFrame, family: str, figure: str | Sequence[str] = "time_us") -> pd.DataFrame:
    """A figure of a family, with a row per stage and a column per size; each cell is of the fastest block."""
    rows = of_family(runs, family, figure)
    return _pivot(rows, "size", figure, _sizes(rows))


def of_family(runs: pd.DataFrame, family: str, figure: str | Sequence[str] = "time_us") -> pd.DataFrame:
    """The timed cases of a family, with ``roof_fraction`` relative to the limiting roof.

    A memory-bound case whose roof is an arithmetic one, such as a small matrix product, is compared with the fastest
    memory rate that its run measured.
    """
    columns = list(dict.fromkeys((*NEEDED, *([figure] if isinstance(figure, str) else figure))))
    require(runs, columns, "runs")
    own = runs["family"].isin([family])  # == takes no name that ends in a NUL
    if not own.any():
        families = runs["family"].dropna().unique().tolist()
        given = f"{family}: no family of these runs{nearest(family, families)}"
        raise PeakgateError(f"{given}; there are {_named(families)}", Code.NO_RUN)
    rows = runs.loc[own, columns]
    rows = rows[is_usable(rows)].fillna(dict.fromkeys(("stage", "size", "block", "variant"), ""))
    other = (rows["bound"] == "memory") & is_arithmetic(rows)
    rows["roof_fraction"] = rows["roof_fraction"].mask(other, rows["gbs"] / rows["memory_roof_gbs"])
    return rows


def is_arithmetic(rows: pd.DataFrame) -> pd.Series[bool]:
    """A mask of the rows whose roof is an arithmetic one: their rate is in TFLOP/s."""
    return rows["roof"].str.split("_").str[0].isin(ARITHMETIC_ROOFS).astype(bool)


def _pivot(rows: pd.DataFrame, column: str, figure: str | Sequence[str], ordered: Sequence[str]) -> pd.DataFrame:
    index = ["stage", "variant"] if (rows["variant"] != "").any() else ["stage"]
    fastest = rows.sort_values("time_us").drop_duplicates([*index, column])
    columns = pd.Index(ordered, name=column)
    if not isinstance(figure, str):
        columns = pd.MultiIndex.from_product([figure, ordered], names=[None, column])
    found = fastest.pivot(index=index, columns=column, values=figure)
    return found.reindex(index=rows.set_index(index).index.unique(), columns=columns)


def _sizes(rows: pd.DataFrame) -> list[str]:
    return rows.groupby("size", sort=False)["bytes"].max().sort_values(kind="stable").index.tolist()


def _threads(block: str) -> tuple[int, list[int], str]:
    """Sort key of a block: its number of threads, then its width; cases without a block come first."""
    sides = [int(each) for each in re.findall(r"\d{1,9}", block)]
    return math.prod(sides) if block else 0, sides, block


def _named(names: Sequence[str]) -> str:
    return ", ".join(names[:20]) + (" ..." if len(names) > 20 else "")
