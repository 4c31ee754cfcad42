"""From a record to the tables of the page."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from kernels.ladder.markers import inside
from lab.injected.page import main, tables
from lab.injected.record import COLUMNS, Experiment, write_times

PAGE = Path(__file__).parents[2] / "lab" / "injected" / "README.md"
RECORD, WHOLE = PAGE.parent / "h200", PAGE.parent / "h200-31018ca"
SAME_US = {f"transpose.stage{number}-8192": 20.0 * (1 + number) for number in range(12)}
STEPS_US = {f"steps.copy-150us-{permille}pm-{repeat}": 150.0 for permille in (0, 100) for repeat in range(2)}
Captured = pytest.CaptureFixture[str]


def times(times_us: dict[str, float], pairs: int, seed: int) -> pd.DataFrame:
    """Pairs of processes with 0.1 % between processes; copies of 100pm are 10 % slower on head."""
    rng = np.random.default_rng(seed)
    rows = [
        (
            "screen",
            pair,
            side,
            case,
            us * rng.normal(1, 0.001) * (1.1 if side == "head" and "100pm" in case else 1),
            None,
        )
        for pair in range(pairs)
        for side in ("base", "head")
        for case, us in times_us.items()
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_times(tmp_path, Experiment.SAME, times(SAME_US, 12, seed=1))
    write_times(tmp_path, Experiment.STEPS, times(STEPS_US, 12, seed=2))
    ab = {"exit_code": 0, "screening_pairs": 10, "confirming_pairs": 4, "verdicts": {}}
    gates = [
        ab | {"experiment": "same", "cases": 12, "seconds": 190},
        ab | {"experiment": "steps", "cases": 4, "seconds": 60},
    ]
    truth = [{"duration_us": 150, "permille": 100, "log_shift": 0.095}]
    (tmp_path / "injected.json").write_text(json.dumps({"schema": 1, "gates": gates, "planted": truth}))
    cases = [{"case": "a.b-1", "verdict": "SLOWER", "change_percent": 3.21}]
    mutants = [
        {"name": "gone", "reason": "-", "cases": []},
        {"name": "pad", "reason": "Padding dropped.", "cases": cases},
    ]
    (tmp_path / "mutants.json").write_text(json.dumps({"schema": 1, "mutants": mutants}))
    return tmp_path


def row(table: str, starting: str) -> list[str]:
    line = next(line for line in table.splitlines() if line.startswith(f"| {starting}"))
    return [cell.strip() for cell in line.split("|")[1:-1]]


def test_tables_show_runs_gates_ground_truth_and_mutants(folder: Path) -> None:
    found = tables(folder, 5)
    false = found["injected-false-positives"]
    assert row(false, "whole runs")[1:5] == ["1", "0 (0 %)", "95 %", "95 % (1)"]
    assert row(false, "resampled: measured")[1:5] == ["5", "0 (0 %)", "45.1 %", "100 % (0)"]
    assert row(found["injected-detected"], "150 µs") == ["150 µs", "0 of 2", "0 of 2"]  # 12 pairs make no gate
    assert re.fullmatch(r"(9\.9|10\.)\d+ % \([+-]\d\.\d+\)", row(found["injected-shifts"], "150 µs")[2])
    assert row(found["injected-mutants"], "pad")[2:] == ["a.b-1", "3.2 %", "1 of 1"]
    assert row(found["injected-mutants"], "gone")[2:] == ["not measured", "0.0 %", "0 of 0"]


def test_with_enough_pairs_the_resampled_rate_is_in_brackets(folder: Path) -> None:
    write_times(folder, Experiment.STEPS, times(STEPS_US, 50, seed=3))
    assert row(tables(folder, 3)["injected-detected"], "150 µs")[1:] == ["0 of 2 (0 %)", "0 of 2 (100 %)"]


def test_the_same_record_makes_the_same_page(folder: Path, tmp_path: Path, capsys: Captured) -> None:
    page, texts = tmp_path / "page.md", []
    page.write_text("text\n<!-- ladder:injected-rule -->\n<!-- /ladder:injected-rule -->\n")
    for _ in range(2):
        assert main([str(folder), "--gates", "2", "--page", str(page)]) == 0
        texts.append(page.read_text())
    assert texts[0] == texts[1]
    assert "| screening pairs" in texts[0]
    assert capsys.readouterr().out == f"{page}: written\n" * 2


def test_the_committed_page_shows_the_committed_record() -> None:
    written, committed = tables(RECORD, 1, WHOLE), inside(PAGE.read_text(encoding="utf-8"), PAGE)
    assert committed.keys() == written.keys()
    for name in written.keys() - {"injected-false-positives"}:
        rates = re.compile(r" \([\d.]+ %\)|, [\d.]+ % \|")
        assert rates.sub("", committed[name]) == rates.sub("", written[name]), name


def test_the_committed_page_names_gpu_driver_and_commits() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for record in (RECORD, WHOLE):
        facts = json.loads((record / "injected.json").read_text())
        assert f"GPU: {facts['gpu']}, driver {facts['driver']}." in text
        assert all(f"| {origin['taken'][:10]} | {origin['commit']} |" in text for origin in facts["origins"].values())


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("injected.json", None, "injected.json: FileNotFoundError"),
        ("injected.json", '{"schema": 2}', "schema 2, this version reads 1"),
        ("injected.json", '{"schema": 1, "gates": [], "planted": [{}]}', "injected.json: KeyError('duration_us')"),
        ("mutants.json", "[", "mutants.json: JSONDecodeError"),
        ("same.csv.gz", None, "same.csv.gz: cannot be read"),
        ("same.csv.gz", "stage,pair", "same.csv.gz: cannot be read"),
    ],
)
def test_a_missing_file_or_one_of_another_form_exits_2(
    folder: Path, capsys: Captured, file: str, content: str | None, message: str
) -> None:
    (folder / file).unlink()
    if content is not None:
        (folder / file).write_text(content)
    assert main([str(folder), "--gates", "1"]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_record_cut_short_is_named(folder: Path, capsys: Captured) -> None:
    whole = (folder / "same.csv.gz").read_bytes()
    for damaged in (whole[:-20], whole[:30] + b"\xff" * 20 + whole[50:]):
        (folder / "same.csv.gz").write_bytes(damaged)
        assert main([str(folder), "--gates", "1"]) == 2
        assert "same.csv.gz: " in capsys.readouterr().err


def test_no_gates_and_a_page_that_does_not_exist_are_bad_input(folder: Path, capsys: Captured) -> None:
    with pytest.raises(SystemExit) as caught:
        main([str(folder), "--gates", "0"])
    assert caught.value.code == 2
    assert main([str(folder), "--page", str(folder / "none.md")]) == 2
    assert "none.md: expected" in capsys.readouterr().err
