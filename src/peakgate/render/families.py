"""The folded section of a page for each family of a run: pictures of its stages and blocks, tables, and its command."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import pandas as pd

from peakgate.base import progress
from peakgate.base.report import CellValue, Section, Table
from peakgate.runfile.frame import to_frame
from peakgate.runfile.pivots import by_block, by_size, is_arithmetic, of_family
from peakgate.runfile.saved import Run
from peakgate.spec.recorded import ID_PATTERN

if TYPE_CHECKING:
    from peakgate.render.pictures import StageShare

MOST_ROWS_DRAWN = 24
"""In a picture of blocks; of more only the stages are drawn that were measured with several blocks."""


class Rated(NamedTuple):
    """The cases of a family that are measured in one rate, by stage and block and by stage and size.

    Each is a pivot of ``figures``, columns with their headings, of which the rate is the first where the cases have
    one; None where there are not several blocks, or sizes.
    """

    figures: Mapping[str, str]
    blocks: pd.DataFrame | None
    sizes: pd.DataFrame | None


def sections(
    run: Run, before: Mapping[str, float] = MappingProxyType({}), *, explained: bool = False
) -> tuple[Mapping[str, Sequence[StageShare]], Sequence[Section]]:
    """The stages of each family of a run, for the picture of all, and a section for each, its stages first.

    Nothing of an emulated run, whose times are none. ``before`` has by case the fraction of peak in the base of a
    comparison. ``explained``: the stages of each say what their shares are of, as those of a single family do.
    """
    from peakgate.render import pictures  # noqa: PLC0415  # matplotlib

    if run.emulated:
        return {}, ()
    runs = to_frame([run])
    runs["family"] = runs["family"].fillna(runs["case"].str.split(".").str[0])
    reached = {family: shares(runs, family, before) for family in runs["family"].unique()}
    alone = len(reached) == 1
    found = []
    for family, best in progress.each(reached.items(), "drawing the families", len(reached), "picture"):
        drawn = [pictures.stages(family, best, explained=explained or alone)] if alone or len(best) > 1 else []
        tables: list[Table] = []
        for each in rated(runs, family):
            tables += pivot_tables(each)
            rate, unit = next(iter(each.figures.items()))
            if each.blocks is not None and rate != "time_us":
                pivot = each.blocks[[rate]].droplevel(0, axis=1)
                pivot.index = pd.Index(map(_name, pivot.index))
                if len(pivot) > MOST_ROWS_DRAWN:
                    pivot = pivot[pivot.notna().sum(axis=1) > 1].dropna(axis=1, how="all")
                drawn.append(pictures.blocks(f"{family}: {_by_block(unit, each.blocks)}", pivot))
        if len(best) > 1 or tables:
            found.append(Section(family, [each for each in drawn if each], tables))
    return reached, found


def command(family: str) -> str:
    """The sentence that ends a family's tables: how to measure it, and how to see it."""
    chosen = f" -k {family}." if ID_PATTERN.fullmatch(family) else ""
    return f"`peakgate bench --tier full{chosen}` measures these cases, `peakgate show latest` makes these tables."


def shares(runs: pd.DataFrame, family: str, before: Mapping[str, float]) -> list[StageShare]:
    """The best case of each stage at its largest problem, which no cache holds, in the order of the run."""
    from peakgate.render.pictures import StageShare  # noqa: PLC0415  # matplotlib

    rows = of_family(runs, family)
    rows = rows[rows["bytes"].isna() | (rows["bytes"] == rows.groupby("stage")["bytes"].transform("max"))].copy()
    rows["share"] = rows["roof_fraction"].fillna(rows["peak_fraction"])
    rows["before"] = rows["case"].map(before).astype(float) * rows["share"] / rows["peak_fraction"]
    best = rows.dropna(subset="share").sort_values("share").drop_duplicates("stage", keep="last").sort_index()
    figures = best[["stage", "share", "before"]].astype(object)
    return [StageShare(*each) for each in figures.where(figures.notna(), None).to_numpy().tolist()]


def rated(runs: pd.DataFrame, family: str) -> Iterator[Rated]:
    """Rate, median time and fraction of the roof in GB/s, and in TFLOP/s of the cases whose roof is arithmetic's."""
    own = of_family(runs, family, "tflops")
    arithmetic = is_arithmetic(own)
    for rate, unit, rows in (("gbs", "GB/s", own[~arithmetic]), ("tflops", "TFLOP/s", own[arithmetic])):
        headings = {rate: unit, "time_us": "Median time (µs)", "roof_fraction": "% of the roof that binds"}
        if figures := {name: heading for name, heading in headings.items() if rows[name].notna().any()}:
            yield Rated(
                figures,
                by_block(rows, family, list(figures)) if rows["block"].nunique() > 1 else None,
                by_size(rows, family, list(figures)) if rows["size"].nunique() > 1 else None,
            )


def pivot_tables(found: Rated) -> Iterator[Table]:
    """A table per figure by stage and block, then by stage and size."""
    for figure, heading in found.figures.items():
        if found.blocks is not None:
            yield _table(_by_block(heading, found.blocks), found.blocks, figure)
    for figure, heading in found.figures.items():
        if found.sizes is not None:
            yield _table(f"{heading} by stage and size", found.sizes, figure)


def _by_block(heading: str, pivot: pd.DataFrame) -> str:
    """Title of a pivot by block: a size that is no number, as ``f32``, stands there without the word."""
    size = pivot.attrs["size"]
    return ", ".join(filter(None, [f"{heading} by stage and block", f"size {size}" if size[:1].isdigit() else size]))


def _table(title: str, pivot: pd.DataFrame, figure: str) -> Table:
    """A figure of a pivot as a table without its empty columns, fractions in percent."""
    pivot = pivot[[figure]].droplevel(0, axis=1).dropna(axis=1, how="all")
    rows: list[Sequence[CellValue]] = []
    for index, values in zip(pivot.index, pivot.to_numpy().tolist(), strict=True):
        shown = [100 * each if figure == "roof_fraction" else each for each in values]
        # Four significant digits, all before the point.
        cells = [None if math.isnan(each) else round(each) if each >= 1000 else float(f"{each:.4g}") for each in shown]
        rows.append([_name(index), *cells])
    return Table(title, ["stage", *(column or "–" for column in pivot.columns)], rows)


def _name(index: str | tuple[str, str]) -> str:
    """A row of a pivot: the stage, and the variant where it is one."""
    return index if isinstance(index, str) else " ".join(filter(None, index))
