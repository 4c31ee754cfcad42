"""The pictures and the extra tables of the kernels' pages, and what each of them shows of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from kernels.ladder.tables import FURTHER, LadderPicture, Shown, TimedCase, figure, machine, rate, shape
from peakgate.base.errors import Code, PeakgateError
from peakgate.render import families
from peakgate.render.files import table_line
from peakgate.runfile.frame import to_frame
from peakgate.runfile.saved import CaseResult, Run
from peakgate.spec.case import Case
from peakgate.spec.catalogue import module_at

from . import charts, lessons
from .charts import Bar, Bars, Blocks, Chart, Curve, Curves, Groups

access = module_at(Path(__file__).parent / "access" / "family.py")

ACCESS, HGEMM, OCCUPANCY, SGEMM, TRANSPOSE = "access", "hgemm", "occupancy", "sgemm", "transpose"

WORTH_A_MARK = 1.02
"""In the picture of the transpose, another shape is marked where it is faster than the headline by this factor."""

FLOAT_AND_DOUBLE = (("float32", "float", 4), ("float64", "double", 8))


def pictures(shown: Shown) -> dict[str, LadderPicture]:
    """Every picture by its name, which begins with its family's; a PeakgateError names one the run cannot fill."""
    found = {}
    for name, chart in drawn(shown).items():
        block, title = name.partition("_")[0], chart.title
        if isinstance(chart, Blocks):
            usual = "; – is the usual block of a stage" if "" in chart.shapes else ""
            block += FURTHER
            title = f"{chart.unit} of each stage with each block ({chart.size}), the darker the faster{usual}"
        found[name] = LadderPicture(title, charts.digest(chart), partial(charts.svg, chart), block)
    return found


def drawn(shown: Shown) -> dict[str, Chart]:
    """The data of every picture by its name; a PeakgateError names one the run cannot fill."""
    note = ", ".join(machine(shown.run))
    found: dict[str, Chart] = {
        "access_stride": _access_stride(shown.timed[ACCESS], note),
        "access_offset": _access_offset(shown.timed[ACCESS], note),
        "occupancy": _occupancy(shown.timed[OCCUPANCY], note, _roof(shown.run, "copy_256MiB")),
        "sgemm": SGEMM_SIZES.groups(shown),
        "transpose": _headlines(shown, TRANSPOSE, "Transpose of a float matrix of side {}"),
    }
    if HGEMM in shown.timed:
        found["hgemm"] = HGEMM_SIZES.groups(shown)
        ladder = _against_the_library(shown, HGEMM_SIZES, "8192")
        found |= {"hgemm_ladder": ladder} if ladder.bars else {}
    found |= {name: sizes.groups(shown) for name, sizes in ATTENTION.items() if "attention" in shown.timed}
    found |= {name: _headlines(shown, name, title) for name, title in AGAINST_A_ROOF.items() if name in shown.timed}
    for name, (family, title, stage) in FURTHER_HEADLINES.items():
        further = _headlines(shown, family, title, stage) if family in shown.timed else None
        found |= {name: further} if further and further.bars else {}
    found |= {f"{chart.title}_blocks": chart for chart in _blocks(shown) if not charts.is_empty(chart)}
    for name, chart in found.items():
        if charts.is_empty(chart):
            raise PeakgateError(f"{shown.run.path}: nothing for the picture {name}; name a whole run", Code.PAGE)
    return found


def _blocks(shown: Shown) -> Iterator[Blocks]:
    """The rates of each family by stage and block; of many stages only those that have several blocks."""
    runs = to_frame([shown.run])
    for family in shown.timed:
        for rated in families.rated(runs, family):
            rate, unit = next(iter(rated.figures.items()))
            if rated.blocks is None or rate == "time_us":
                continue
            rates = rated.blocks[[rate]].droplevel(0, axis=1)
            if len(rates) > families.MOST_ROWS_DRAWN:
                rates = rates[rates.notna().sum(axis=1) > 1].dropna(axis=1, how="all")
            names = [name if isinstance(name, str) else " ".join(filter(None, name)) for name in rates.index]
            cells = rates.astype(object).where(rates.notna(), None).to_numpy().tolist()
            stages = tuple(zip(names, map(tuple, cells), strict=True))
            yield Blocks(family, unit, rated.blocks.attrs["size"], tuple(rates.columns), stages)


def _access_stride(measured: Sequence[TimedCase], note: str) -> Curves:
    """Useful bytes per second at each stride, against the best copy of the same size, beside the sector model."""
    curves = []
    for colour, (dtype, name, element_bytes) in enumerate(FLOAT_AND_DOUBLE):
        found = _by_knob(measured, "stride", dtype)
        points = sorted((knob, result.roof_fraction) for knob, result in found if result.roof_fraction)
        model = tuple(
            (float(step), access.setups.sector_useful_fraction(step, element_bytes)) for step in access.ALL_STRIDES
        )
        curves += [
            Curve(f"{name}, measured", tuple(points), colour),
            Curve(f"{name}, predicted by the sector model", model, colour, predicted=True),
        ]
    return Curves(
        title="Strided access: what is left of the bandwidth for useful bytes",
        note=note,
        x_label="stride (elements)",
        y_label="useful bandwidth (% of the best copy)",
        curves=tuple(curves),
        x_ticks=(1, 2, 4, 8, 16, 32),
        doubling=True,
    )


def _access_offset(measured: Sequence[TimedCase], note: str) -> Curves:
    """Bandwidth at each offset against that at offset 0, beside what each warp alone would ask of memory."""
    curves = []
    for colour, (dtype, name, element_bytes) in enumerate(FLOAT_AND_DOUBLE):
        bandwidths = {knob: result.gbs for knob, result in _by_knob(measured, "offset", dtype) if result.gbs}
        points = (
            tuple((knob, gbs / bandwidths[0]) for knob, gbs in sorted(bandwidths.items())) if 0 in bandwidths else ()
        )
        model = tuple(
            (float(shift), access.setups.warp_useful_fraction(1, element_bytes, shift)) for shift in access.ALL_OFFSETS
        )
        curves += [
            Curve(f"{name}, measured", points, colour),
            Curve(f"{name}, predicted if no warp shared a sector", model, colour, predicted=True),
        ]
    return Curves(
        title="Offset access: what a misaligned start costs",
        note=note,
        x_label="offset (elements)",
        y_label="bandwidth (% of that at offset 0)",
        curves=tuple(curves),
        x_ticks=tuple(range(0, 33, 4)),
        steps=True,
    )


def _occupancy(measured: Sequence[TimedCase], note: str, roof: tuple[str, float] | None) -> Curves:
    """Bandwidth (GB/s) against theoretical occupancy, held down by shared memory, for float and float4 per thread."""
    curves = []
    for colour, (stage, name) in enumerate((("shared_limited", "one float"), ("shared_limited_float4", "one float4"))):
        points = (
            (result.occupancy, result.gbs)
            for case, result in measured
            if case.stage.name == stage and result.occupancy is not None and result.gbs is not None
        )
        curves.append(Curve(f"{name} per thread", tuple(sorted(points)), colour))
    return Curves(
        title="Bandwidth against occupancy: bytes in flight decide",
        note=note,
        x_label="theoretical occupancy (% of the warps that an SM can hold)",
        y_label="bandwidth (GB/s)",
        curves=tuple(curves),
        x_ticks=tuple(eighth / 8 for eighth in range(9)),
        y_limits=(0, None),
        x_fractions=True,
        y_fractions=False,
        roof=roof,
    )


@dataclass(frozen=True, slots=True)
class BySize:
    """TFLOP/s of each stage of a family on each size that the run has of the ``kept`` cases, beside a library's."""

    family: str
    title: str
    reference: tuple[str, str] | None
    """The library's stage and name; None where the family has none."""
    kept: Callable[[Case], bool] = lambda _: True

    def groups(self, shown: Shown) -> Groups:
        """The figures, sizes in the order of their work."""
        found = [(case, result) for case, result in shown.timed.get(self.family, ()) if self.kept(case)]
        timed = sorted(found, key=lambda pair: pair[0].work.flops)
        sizes = tuple(dict.fromkeys(case.size for case, _ in timed))
        tflops = {(case.stage.name, case.size): result.tflops for case, result in timed}
        known = {stage for stage, _ in tflops}
        names = (entry.stage.name for entry in shown.entries.get(self.family, ()) if entry.stage.name in known)
        rows = {name: tuple(tflops.get((name, size)) for size in sizes) for name in names}
        stage, library = self.reference or ("", "")
        return Groups(
            title=self.title,
            note=", ".join(machine(shown.run)),
            y_label="TFLOP/s",
            sizes=sizes,
            reference=(library, rows.pop(stage, (None,) * len(sizes))),
            stages=tuple(rows.items()),
        )

    def table(self, shown: Shown) -> Iterator[str]:
        """A row a stage, the best of a size in bold, and the ratio of our best to the library."""
        groups = self.groups(shown)
        name, reference = groups.reference
        ours = [_best(column) for column in zip(*(figures for _, figures in groups.stages), strict=True)]
        best = [_best(pair) for pair in zip(ours, reference, strict=True)]
        yield table_line((f"stage ({groups.y_label})", *groups.sizes))
        yield table_line(("---", *["--:"] * len(groups.sizes)))
        for stage, figures in (*groups.stages, groups.reference):
            cells = map(figure, figures)
            marked = (
                f"**{cell}**" if value and value == top else cell
                for cell, value, top in zip(cells, figures, best, strict=True)
            )
            yield table_line((stage, *marked))
        ratios = (f"{our / their:.2f}" if our and their else "–" for our, their in zip(ours, reference, strict=True))
        yield table_line((f"best of ours / {name}", *ratios))


def hgemm_clocks(shown: Shown) -> Iterator[str]:
    """SM clock of our best and of the library by size, and each one's share of the tensor cores' peak at that clock."""
    timed = [(case, result) for case, result in shown.timed.get(HGEMM, ()) if case.math == "bf16"]
    highest = shown.run.gpu.get("sm_clock_max_mhz")
    assert HGEMM_SIZES.reference is not None
    stage, library = HGEMM_SIZES.reference
    yield table_line(
        ("size", "stage", "SM clock (MHz)", "of the peak at that clock", f"{library}'s clock (MHz)", "its share")
    )
    yield table_line(("---", "---", *["--:"] * 4))
    for size in HGEMM_SIZES.groups(shown).sizes + HGEMM_LAYERS.groups(shown).sizes:
        here = [(case, result) for case, result in timed if case.size == size]
        ours = max((pair for pair in here if pair[0].stage.name != stage), key=rate, default=None)
        theirs = next((pair for pair in here if pair[0].stage.name == stage), None)
        if ours is None or theirs is None or not highest:
            continue
        cells = [ours[0].stage.name]
        for _, result in (ours, theirs):
            clock, share = result.sm_clock_mhz, result.peak_fraction
            cells.append("–" if clock is None else f"{clock:.0f}")
            cells.append("–" if clock is None or share is None else f"{100 * share * highest / clock:.1f} %")
        yield table_line((size, *cells))


def _is_long_attention(case: Case, variant: str) -> bool:
    """Whether a case is a forward pass of this variant, of a length that most stages are measured at."""
    return case.variant == variant and case.stage.name != "backward" and int(case.size.partition("x")[2]) > 512


SGEMM_SIZES = BySize(SGEMM, "SGEMM: the stages on each size", ("cublas", "cuBLAS"))
HGEMM_SIZES = BySize(
    HGEMM,
    "Matrix product in bfloat16: the stages on each side",
    ("cublas", "cuBLAS"),
    lambda case: case.math == "bf16" and "x" not in case.size,
)
HGEMM_LAYERS = replace(HGEMM_SIZES, kept=lambda case: case.math == "bf16" and "x" in case.size)
HGEMM_FP8 = BySize(HGEMM, "", ("cublaslt", "cuBLASLt"), lambda case: case.math == "fp8")
ATTENTION = {
    f"attention_{kind}": BySize(
        "attention",
        f"Attention in bfloat16, heads of 128 columns, {kind}: the stages at each length",
        None,
        partial(_is_long_attention, variant=f"128-{kind}"),
    )
    for kind in ("full", "causal")
}
AGAINST_A_ROOF = {
    "norm": "Softmax of the rows of a {} matrix of bfloat16",
    "reduce": "Sums and histograms of {}",
    "quantize": "8-bit floats from and to a {} matrix of bfloat16",
}
"""Titles of pictures of a family's headlines, by family."""
FURTHER_HEADLINES = {
    "norm_long_rows": ("norm", "Softmax of the rows of a {} matrix of bfloat16", "rings"),
    "reduce_scans": ("reduce", "Running sums of {}", "scan_ahead"),
}
"""Those of another size or roof: family, title, and a stage whose headline has both."""


def _best(figures: Iterable[float | None]) -> float | None:
    return max((value for value in figures if value is not None), default=None)


def _headlines(shown: Shown, family: str, title: str, stage: str | None = None) -> Bars:
    """The headlines of a family that have the size and the roof of the stage's, against that.

    Without a stage they are of the largest size, and have the first one's roof.
    """
    found = [(entry.headline, entry.fellows) for entry in shown.entries[family] if entry.headline]
    chosen = [headline for headline, _ in found if stage in (None, headline[0].stage.name)]
    size = max((case.work.bytes, case.size) for case, _ in chosen)[1] if chosen else ""
    roof = next((result.roof for case, result in chosen if case.size == size and result.roof), None)
    alike = [(headline, fellows) for headline, fellows in found if (headline[0].size, headline[1].roof) == (size, roof)]
    return Bars(
        title=f"{title.format(size)}: stages against the roof",
        note=", ".join(machine(shown.run)),
        x_label="bandwidth (GB/s)",
        bars=tuple(_bar(headline, fellows) for headline, fellows in alike),
        roof=_roof(shown.run, roof),
    )


def _against_the_library(shown: Shown, family: BySize, size: str) -> Bars:
    """The best of each stage on one size, in the order of the stages, against the library."""
    groups = family.groups(shown)
    library, figures = groups.reference
    at = groups.sizes.index(size) if size in groups.sizes else None
    reached = [(stage, values[at]) for stage, values in groups.stages if at is not None]
    theirs = None if at is None else figures[at]
    return Bars(
        title=f"Matrix product in bfloat16, side {size}",
        note=groups.note,
        x_label=groups.y_label,
        bars=tuple(Bar(stage, value) for stage, value in reached if value is not None),
        roof=None if theirs is None else (f"{library} ({theirs:,.0f} TFLOP/s)", theirs),
        narrow=True,
        label="stages",
    )


def _bar(headline: TimedCase, fellows: Sequence[TimedCase]) -> Bar:
    fastest = max(fellows, key=rate)
    better = (shape(fastest[0]), rate(fastest)) if rate(fastest) > WORTH_A_MARK * rate(headline) else None
    return Bar(headline[0].stage.name, rate(headline), better)


def _by_knob(measured: Sequence[TimedCase], stage: str, dtype: str) -> Iterator[tuple[float, CaseResult]]:
    """The stage's cases in its usual block, by the number that ends their variant."""
    for case, result in measured:
        if case.stage.name == stage and case.dtype == dtype and not case.block:
            yield float(case.variant.lstrip("abcdefghijklmnopqrstuvwxyz")), result


def _roof(run: Run, name: str | None) -> tuple[str, float] | None:
    """A roof of the run with its label in a picture."""
    gbs = (run.gpu.get("roofs") or {}).get(name)
    if name is None or gbs is None:
        return None
    return f"best {name.partition('_')[0]} of the same size ({gbs:,.0f} GB/s)", gbs


TABLES = {
    "sgemm-sizes": SGEMM_SIZES.table,
    "hgemm-sizes": HGEMM_SIZES.table,
    "hgemm-layers": HGEMM_LAYERS.table,
    "hgemm-fp8": HGEMM_FP8.table,
    "hgemm-clocks": hgemm_clocks,
    **lessons.TABLES,
}
"""Blocks of the documents besides one per family: tables of stages and sizes."""
