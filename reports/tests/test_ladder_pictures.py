"""What the pictures show of a run."""

from __future__ import annotations

from pathlib import Path

import pytest
from ladder_repository import lay_out, shown, whole_run
from peakgate.reports.ladder.charts import Curves
from peakgate.reports.ladder.command import FOLDER as PICTURES
from peakgate.reports.ladder.command import pictures


@pytest.fixture(autouse=True)
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return lay_out(tmp_path, monkeypatch)


def test_the_strided_picture_sets_each_type_beside_its_sector_model(repository: Path) -> None:
    reported = {"access.stride-f32-s8": {"roof_fraction": 0.12}, "access.stride-f64-s8": {"roof_fraction": 0.24}}
    picture = pictures(shown(whole_run(reported), repository))[PICTURES / "access_stride.svg"]
    assert isinstance(picture, Curves)
    points = {curve.label: dict(curve.points) for curve in picture.curves}
    assert points["float, measured"][8] == 0.12
    assert points["float, predicted by the sector model"][8] == 0.125
    assert points["double, measured"][8] == 0.24
    assert points["double, predicted by the sector model"][8] == 0.25


def test_offsets_are_held_against_offset_0_of_the_same_type(repository: Path) -> None:
    reported = {"access.offset-f32-o0": {"gbs": 2500.0}, "access.offset-f32-o1": {"gbs": 2250.0}}
    picture = pictures(shown(whole_run(reported), repository))[PICTURES / "access_offset.svg"]
    assert isinstance(picture, Curves)
    assert dict(picture.curves[0].points) == {0: 1.0, 1: 0.9, 16: 0.8}
