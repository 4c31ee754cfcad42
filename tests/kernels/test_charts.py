from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from peakgate.spec.catalogue import module_at

charts = module_at(Path(__file__).parents[2] / "kernels" / "pictures.py").charts

CURVES = charts.Curves(
    title="Strided access",
    note="NVIDIA H200 $x$",
    x_label="stride (elements)",
    y_label="useful bandwidth (%)",
    curves=(
        charts.Curve("float", ((1, 0.6), (2, 0.4)), 0),
        charts.Curve("model", ((1, 1.0), (2, 0.5)), 0, predicted=True),
    ),
    x_ticks=(1, 2),
    doubling=True,
    roof=("best copy", 1.0),
)
BARS = charts.Bars(
    title="Transpose",
    note="NVIDIA H200",
    x_label="bandwidth (GB/s)",
    bars=(charts.Bar("smem", 1772.0, ("16x16", 1965.0)), charts.Bar("hinted", 4185.0)),
    roof=("best copy", 4249.0),
)
GROUPS = charts.Groups(
    title="SGEMM",
    note="NVIDIA H200",
    y_label="TFLOP/s",
    sizes=("128", "256", "512", "1024", "2048", "4096"),
    stages=(("naive", (0.3, 1.3, 2.0, None, None, None)), ("tiled", (0.1, 0.5, 4.0, 9.0, 20.0, 27.0))),
    reference=("cuBLAS", (0.5, 2.9, None, 34.0, 50.0, 51.0)),
)
BLOCKS = charts.Blocks(
    title="transpose",
    unit="GB/s",
    size="16384",
    shapes=("16x16", "32x8"),
    stages=(("smem", (1965.0, 1771.0)), ("smem_pad", (2057.0, None))),
)
each_picture = pytest.mark.parametrize(
    "picture", [CURVES, BARS, GROUPS, BLOCKS], ids=["curves", "bars", "groups", "blocks"]
)


@each_picture
def test_the_same_data_draw_the_same_bytes(picture: Any) -> None:
    assert charts.svg(picture) == charts.svg(picture)


@each_picture
def test_a_picture_is_whole_xml_with_its_own_background_and_no_date(picture: Any) -> None:
    drawn = charts.svg(picture)
    assert ElementTree.fromstring(drawn).tag == "{http://www.w3.org/2000/svg}svg"
    assert "#fcfcfa" in drawn
    assert "<dc:date>" not in drawn


@each_picture
def test_a_picture_knows_its_data_from_others(picture: Any) -> None:
    other = replace(picture, title="Another")
    drawn = charts.svg(picture)
    assert charts.digest(picture) in drawn
    assert charts.digest(other) not in drawn
    assert charts.digest(picture) != charts.digest(other)


@each_picture
def test_a_picture_is_dark_where_its_reader_prefers_that(picture: Any) -> None:
    dark = charts.svg(picture).partition("@media (prefers-color-scheme: dark)")[2].partition("</style>")[0]
    assert all(f'fill: {light}"]{{fill: {colour} !important}}' in dark for light, colour in charts.DARK.items())


def test_a_heat_map_has_a_figure_in_each_cell_that_was_measured() -> None:
    drawn = "".join(ElementTree.fromstring(charts.svg(BLOCKS)).itertext()).split()
    assert {"smem", "smem_pad", "16x16", "32x8", "1965", "1771", "2057"} <= set(drawn)
    assert "nan" not in drawn


def test_a_picture_is_drawn_in_other_forms_too() -> None:
    assert charts.rendered(BARS, "png", dpi=40).startswith(b"\x89PNG")


def test_a_picture_without_measured_data_is_empty() -> None:
    assert charts.is_empty(replace(CURVES, curves=CURVES.curves[1:]))
    assert charts.is_empty(replace(BARS, bars=()))
    assert charts.is_empty(replace(GROUPS, sizes=()))
    assert charts.is_empty(replace(BLOCKS, stages=()))
    assert charts.is_empty(replace(BLOCKS, shapes=BLOCKS.shapes[:1]))
    assert not any(charts.is_empty(picture) for picture in (CURVES, BARS, GROUPS, BLOCKS))


def test_measured_points_are_not_joined_where_nothing_lies_between_them() -> None:
    measured, model = CURVES.curves
    stepped = replace(CURVES, curves=(measured, model), steps=True)

    def lines(picture: Any) -> int:
        return int(charts.svg(picture).count(f"fill: none; stroke: {charts.COLOURS[0]}"))

    assert lines(CURVES) > lines(stepped)
