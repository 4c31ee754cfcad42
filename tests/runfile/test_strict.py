"""Run files that are impossible, contradictory, unsafe or absurd are refused in one line."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from synthetic_runs import document, save

from peakgate.base.errors import PeakgateError
from peakgate.cli import main
from peakgate.runfile import saved as runfile
from peakgate.runfile.find import Archive
from peakgate.runfile.saved import load_run

CASE = "transpose.smem_pad-4096-32x8"
Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def with_stats(time_us: float = 40.0, **stats: Any) -> dict[str, Any]:
    content = document({CASE: time_us})
    content["benchmarks"][0]["stats"] |= stats
    return content


def with_extra(**extra: Any) -> dict[str, Any]:
    return document({CASE: 40.0}, extra={CASE: extra})


ABSURD = {
    "a tier that is a list": document(tier=[]),  # type: ignore[arg-type]
    "an unknown tier": document(tier="hourly"),
    "whole that is a text": document(whole="no"),  # type: ignore[arg-type]
    "a median of next to nothing": with_stats(median=1e-300),
    "a median of ages": with_stats(median=1e308),
    "a GPU name that is a list": document(name=[]),
    "an NVRTC that is a list": document(nvrtc=[]),
    "roofs that are a list": document(roofs=[]),
    "a slug that climbs": document(slug="../../evil"),
    "a slug with a separator": document(slug="a/b"),
    "a slug of dots": document(slug=".."),
    "a slug of ages": document(slug="a" * 300),
    "a driver of ages": document(driver="9" * 50_000),
    "an empty slug": document(slug=""),
    "a fingerprint that is a list": with_extra(fingerprint=[1]),
    "a date to come": document() | {"datetime": "2099-01-01T00:00:00+00:00"},
    "a commit that is a table": document() | {"commit_info": {"id": {"a": 1}}},
    "a pass below its floor": with_extra(verdict="PASS", floor=0.9, peak_fraction=0.2),
    "more than the peak": with_extra(peak_fraction=3.5),
    "an error beyond every tolerance": with_extra(relative_error=1e9),
    "an error beyond its tolerance": with_extra(relative_error=1e-3, tolerance=1e-6),
    "an element beyond its bound": with_extra(relative_error=0.0, tolerance=1e-6, error_over_bound=1.5),
}


@pytest.mark.parametrize("content", ABSURD.values(), ids=ABSURD.keys())
def test_it_is_refused_in_one_line_by_every_reader(content: dict[str, Any], capsys: Captured) -> None:
    path = save(Path("runs"), "run", content)
    with pytest.raises(PeakgateError) as caught:
        load_run(path)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert "\n" not in message
    assert len(message) < 400
    for arguments in (
        ["show", str(path)],
        ["floors", "--keep", str(path)],
        ["floors", str(path), "--write"],
        ["compare", str(path), str(path)],
    ):
        assert main(arguments) == 2, arguments
        assert len(capsys.readouterr().err.splitlines()) == 1
    assert not list(Path().glob("**/evil*"))


def test_samples_that_scatter_absurdly_decide_nothing(tmp_path: Path, capsys: Captured) -> None:
    base, new = save(tmp_path, "base", with_stats(iqr=1.0)), save(tmp_path, "new", with_stats(30.0, iqr=1e300))
    assert main(["compare", str(base), str(new)]) == 3
    assert "INCONCLUSIVE" in capsys.readouterr().out


@pytest.mark.parametrize(("fraction", "taken"), [(0.5, True), (0.499995, True), (0.49998, False), (0.46, False)])
def test_a_pass_may_be_below_its_floor_by_rounding_alone(tmp_path: Path, fraction: float, taken: bool) -> None:
    file = save(tmp_path, "run", with_extra(verdict="PASS", floor=0.5, peak_fraction=fraction))
    assert len(Archive([file.parent]).sessions) == taken


@pytest.mark.parametrize(("minutes", "taken"), [(59, True), (61, False), (60 * 24, False)])
def test_a_run_may_be_dated_an_hour_ahead_and_no_more(tmp_path: Path, minutes: int, taken: bool) -> None:
    moment = (runfile.now() + timedelta(minutes=minutes)).isoformat()
    file = save(tmp_path, "run", document() | {"datetime": moment})
    assert len(Archive([file.parent]).sessions) == taken


def test_a_wrong_case_may_hold_any_figures(tmp_path: Path) -> None:
    run = load_run(save(tmp_path, "run", with_extra(verdict="WRONG", peak_fraction=554.8)))
    assert run.cases[CASE].peak_fraction == 554.8


def test_a_kept_run_of_another_gpu_than_its_folder_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "baselines" / "nvidia-l4" / "runs"
    with pytest.raises(PeakgateError, match="a run of nvidia-h200 among those of nvidia-l4"):
        load_run(save(folder, "run", document()))
    assert Archive([folder]).sessions.empty


def test_a_forged_future_does_not_steady_a_regression_away(tmp_path: Path, capsys: Captured) -> None:
    """Five files of 2099 once turned a case that is 10 % slower into a pass."""
    base, new = document({CASE: 40.0}), document({CASE: 44.0}, day=2)
    save(tmp_path / "runs", "base", base)
    save(tmp_path / "runs", "new", new)
    for number in range(5):
        forged = document({CASE: 40.0 * (1 + 0.2 * (number % 2))}, commit="ab" * 20)
        forged["datetime"] = f"2099-01-0{number + 1}T00:00:00+00:00"
        save(tmp_path / "runs", f"forged{number}", forged)
    assert main(["compare", "runs/base.json", "runs/new.json", "--runs", "runs"]) == 1
    assert "SLOWER" in capsys.readouterr().out
