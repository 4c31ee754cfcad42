"""The saved runs below a folder as one frame, and the times of a run that a history and a schedule go by."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from synthetic_runs import LADDER, document, save

from peakgate.base.errors import PeakgateError
from peakgate.compare.history.series import history
from peakgate.runfile.find import Archive
from peakgate.runfile.frame import HISTORY_COLUMNS, to_frame
from peakgate.runfile.saved import load_run

PAD = "transpose.smem_pad-8192-32x8"


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    extra = {PAD: {"fingerprint": "cafe"}}
    return [save(tmp_path / "runs", f"run{day}", document(day=day, extra=extra)) for day in (1, 2, 3)]


def test_an_archive_has_the_rows_that_a_history_needs(runs: list[Path]) -> None:
    expected = to_frame(map(load_run, runs))[[*HISTORY_COLUMNS]]
    found = Archive([runs[0].parent]).cases
    pd.testing.assert_frame_equal(found.reset_index(drop=True)[[*HISTORY_COLUMNS]], expected)


@pytest.mark.parametrize("odd", [7, ["GPU-1"]])
def test_a_gpu_or_driver_that_is_no_text_is_one_all_the_same(tmp_path: Path, odd: object) -> None:
    path = save(tmp_path, "run", document(uuid=odd, driver=odd))
    if isinstance(odd, list):
        with pytest.raises(PeakgateError, match=r"machine_info\.gpu\."):
            load_run(path)
        return
    (session,) = history(Archive([tmp_path]).cases).sessions
    assert (session.uuid, session.driver) == (str(odd), str(odd))


@pytest.mark.parametrize("odd", ["a figure that is not a number", "a byte order mark"])
def test_a_run_that_a_strict_parser_refuses_is_read(tmp_path: Path, odd: str) -> None:
    content, expected = document(), load_run(save(tmp_path, "run", document()))
    if odd.startswith("a figure"):
        content["benchmarks"][0]["stats"]["ops"] = float("nan")
    path = save(tmp_path, "run", content)
    if odd.startswith("a byte"):
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert load_run(path) == expected


def test_undecided_and_host_bound_cases_have_no_time(tmp_path: Path) -> None:
    wrong, host = "transpose.smem-8192-32x8", "transpose.smem-4096-32x8"
    reported = [{"case": wrong, "verdict": "WRONG", "reason": "race"}]
    content = document(
        not_measured=reported, extra={PAD: {"verdict": "INCONCLUSIVE"}, wrong: {}, host: {"host_bound": True}}
    )
    path = save(tmp_path, "run", content)
    expected = set(LADDER) - {PAD, wrong, host}
    assert set(load_run(path).times_us) == set(history(Archive([tmp_path]).cases).cases) == expected


def test_an_archives_sessions_are_those_of_its_files(runs: list[Path]) -> None:
    first = Archive([runs[0].parent]).cases
    save(runs[1].parent, "run2", document({PAD: 1.0}, day=2))
    changed = Archive([runs[0].parent]).cases
    second = str(runs[1])
    assert changed.loc[changed["run"] == second, ["case", "time_us"]].to_numpy().tolist() == [[PAD, pytest.approx(1.0)]]
    left, right = (each[each["run"] != second].reset_index(drop=True) for each in (first, changed))
    pd.testing.assert_frame_equal(left, right)


def test_foreign_files_are_passed_over_and_named(runs: list[Path]) -> None:
    folder = runs[0].parent
    (folder / "half.json").write_text(runs[0].read_text()[:100])
    (folder / "list.json").write_text("[]")
    twice = document()
    twice["benchmarks"].append(twice["benchmarks"][0])
    negative = document()
    negative["benchmarks"][0]["stats"]["median"] = -1.0
    for name, content in (("twice", twice), ("neg", negative), ("other", document() | {"peakgate_schema": 2})):
        save(folder, name, content)
    archive = Archive([folder])
    assert len(archive.sessions) == 3
    passed_over = {Path(note.split(": ")[1]).stem for note in archive.notes}
    assert passed_over == {"half", "list", "twice", "neg", "other"}
