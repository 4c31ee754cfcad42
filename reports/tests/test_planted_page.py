"""From a campaign's files to its page, with made-up processes of a few cases."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from peakgate.reports.ab.schedule import Which
from peakgate.reports.planted import attained
from peakgate.reports.planted.__main__ import PAGE, main
from peakgate.reports.planted.about import About, Cell, Gate, Origin, write_about
from peakgate.reports.planted.attained import FalseGates
from peakgate.reports.planted.draw import Medians, Pairing
from peakgate.reports.planted.findings import Findings
from peakgate.reports.planted.found import Found, Judged, Mutant, write_found
from peakgate.reports.planted.others import Layout, Tool, sampled, tools
from peakgate.reports.planted.page import BLOCKS
from peakgate.reports.planted.processes import Experiment, Process, Processes, from_runs, write
from peakgate.reports.planted.rules import RULES
from peakgate.reports.planted.sentences import compared

SAME_US = {f"transpose.stage{number}-8192": 20.0 * (1 + number) for number in range(12)}
STEPS_US = {f"steps.copy_float-150us-{permille}pm-{repeat}": 150.0 for permille in (0, 100) for repeat in range(2)}
COMMITS = "a1a1a1a to b2b2b2b"
Captured = pytest.CaptureFixture[str]


def slowed(case: str) -> float:
    return 1.1 if "100pm" in case else 1.0


def campaign(times_us: dict[str, float], pairs: int, seed: int, **from_runs_options: Any) -> Processes:
    """Pairs of processes with 0.1 % between processes and 0.1 % between samples; head has what is planted."""
    lot = np.random.default_rng(seed)

    def process(pair: int, side: Which) -> Process:
        benchmarks = []
        for case, time_us in times_us.items():
            factor = lot.normal(1, 0.001) * (slowed(case) if side is Which.HEAD else 1.0)
            data = 1e-6 * time_us * factor * lot.normal(1, 0.001, 12)
            stats = {"median": np.median(data), "mean": data.mean(), "stddev": data.std(ddof=1), "min": data.min()}
            stats |= {"q1": np.quantile(data, 0.25), "q3": np.quantile(data, 0.75), "rounds": 12, "data": data.tolist()}
            benchmarks.append({"extra_info": {"case": case}, "stats": stats})
        return Process(pair, side, {"benchmarks": benchmarks})

    return from_runs((process(pair, side) for pair in range(pairs) for side in Which), **from_runs_options)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    there = tmp_path_factory.mktemp("planted")
    write(there, Experiment.SAME, campaign(SAME_US, 12, seed=1))
    write(there, Experiment.STEPS, campaign(STEPS_US, 12, seed=2))
    gates = [Gate(Experiment.SAME, 0, 12, 10, 4, 190.0, {}), Gate(Experiment.STEPS, 1, 4, 10, 4, 60.0, {})]
    origins = {Experiment.SAME: Origin(COMMITS, "2026-11-21T10:00:00")}
    about = About("NVIDIA H200", "580.159.04", origins, {Cell(150, 100): 0.0950}, tuple(gates))
    write_about(there, about)
    write_found(there, Found((Mutant("no-padding", "Padding dropped.", (Judged("a.b-1", "SLOWER", 3.21),)),), 4, ()))
    return there


@pytest.fixture(scope="module")
def one_gate_of_the_record(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page as it would be written from the committed record with a single drawn gate."""
    page = tmp_path_factory.mktemp("page") / "page.md"
    page.write_text(PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    assert main(["--gates", "1", "--page", str(page), "--write"]) == 0
    return page.read_text(encoding="utf-8")


def block(text: str, name: str) -> list[str]:
    start = text.index(f"<!-- ladder:{name} -->")
    return text[start : text.index(f"<!-- /ladder:{name} -->")].splitlines()[2:-1]


def row(lines: list[str], starting: str) -> list[str]:
    return [cell.strip() for cell in next(line for line in lines if line.startswith(f"| {starting}")).split("|")[1:-1]]


def test_the_page_tells_false_gates_what_was_found_and_what_other_rules_say(folder: Path, capsys: Captured) -> None:
    assert main([str(folder), "--gates", "5"]) == 0
    text = capsys.readouterr().out
    facts = "".join(block(text, "planted-facts"))
    assert facts.startswith("NVIDIA H200, driver 580.159.04, pairs of processes: 12 pairs of the gate tier (12 cases)")
    assert f"nothing changed (2026-11-21, commit {COMMITS}). The rule" in facts, "copies and mutants: origin unknown"
    false = block(text, "planted-false")
    assert row(false, "whole runs")[1:4] == ["1", "0 (0 %)", "95 %"]
    assert row(false, "drawn: pairs")[1:3] == ["5", "0 (0 %)"]
    assert row(block(text, "planted-found"), "150 µs") == ["150 µs", "0 of 2", "0 of 2"]
    assert "No gates are drawn: one takes 50 pairs, and there are 12." in text
    measured = row(block(text, "planted-shifts"), "150 µs")[2]
    assert measured.startswith("10.")
    assert measured.endswith(")")
    assert row(block(text, "planted-mutants"), "no-padding")[2:] == ["a.b-1", "3.2 %", "1 of 1"]
    assert "1 of 1 mutants caught; of 4 untouched cases, none flagged." in text
    assert row(block(text, "planted-walls"), "slowed copies")[1:] == ["4", "10", "4", "60"]
    compared = block(text, "planted-tools")
    assert row(compared, "**`nox -s ab`**") == ["**`nox -s ab`**", "10 to 50", "0 %", "0 %"]
    assert "by whole runs of ours; the other rules were asked up to 5 times" in text
    assert "12 of unchanged code and 12 of copies, of each process and case the first 12." in text
    assert row(compared, "pyperf")[2:] == ["100 %", "100 %"]
    assert row(compared, "pytest-benchmark mean:5%")[2:] == ["0 %", "100 %"]
    by_duration = compared[compared.index("| --- | --- | --- |") :]
    assert row(by_duration, "pyperf") == ["pyperf t test 95 %", "1", "100"]
    assert sum(line.startswith("| pyperf") for line in by_duration) == 2
    short = " ".join(block(text, "planted-short"))
    assert "A case was called slower in 0 of 1 whole runs of `ab`, and in 0 of 5 gates" in short
    assert "95 % or more were called slower, in 1 whole run of `ab`: 150 µs at no share that was planted." in short
    assert "1 of 1 planted mistakes were called slower, the least of them by 3.2 %; of 4 untouched" in short
    assert "A whole run of `ab` took 190 s with everything measured though nothing changed." in short


def test_with_pairs_enough_for_a_gate_the_page_tells_what_drawn_gates_found(
    folder: Path, tmp_path: Path, capsys: Captured
) -> None:
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    write(tmp_path, Experiment.STEPS, campaign(STEPS_US, 50, seed=3))
    assert main([str(tmp_path), "--gates", "3"]) == 0
    text = capsys.readouterr().out
    assert row(block(text, "planted-found"), "150 µs") == ["150 µs", "0 of 2 (0 %)", "0 of 2 (100 %)"]
    assert "In brackets the share of drawn gates; 1 of them could be drawn that share no process." in text
    assert "called slower in 95 % of drawn gates or more: 150 µs from 10 %." in text
    assert row(block(text, "planted-tools"), "**`nox -s ab`**")[-1] == "100 %"
    assert "by drawn gates of ours" in text


def test_written_twice_the_page_is_the_same(folder: Path, tmp_path: Path, capsys: Captured) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    texts = []
    for _ in range(2):
        assert main([str(folder), "--gates", "2", "--page", str(page), "--write"]) == 0
        texts.append(page.read_text(encoding="utf-8"))
    assert texts[0] == texts[1]
    assert capsys.readouterr().out == f"written: {page}\n" * 2


def test_the_committed_page_has_a_place_for_every_table() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert all(f"<!-- ladder:{name} -->" in text for name in BLOCKS)


@pytest.mark.parametrize("name", ["facts", "found", "shifts", "mutants", "walls"])
def test_the_committed_page_says_what_the_record_says_as_far_as_no_drawing_is_needed(
    name: str, one_gate_of_the_record: str
) -> None:
    committed, written = (
        [re.sub(r" \([\d.]+ %\)", "", line) for line in block(text, f"planted-{name}")]  # the share of drawn gates
        for text in (PAGE.read_text(encoding="utf-8"), one_gate_of_the_record)
    )
    assert committed == written


def test_a_folder_without_a_campaign_and_a_page_with_another_block_exit_2(
    folder: Path, tmp_path: Path, capsys: Captured
) -> None:
    assert main([str(tmp_path)]) == 2
    assert "name the folder of a campaign" in capsys.readouterr().err
    page = tmp_path / "page.md"
    page.write_text("<!-- ladder:planted-fals -->\n<!-- /ladder:planted-fals -->\n")
    assert main([str(folder), "--gates", "1", "--page", str(page)]) == 2
    error = capsys.readouterr().err
    assert "the nearest is planted-false" in error
    assert error.count("\n") == 1


def test_a_count_of_no_gates_is_refused(capsys: Captured) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--gates", "0"])
    assert caught.value.code == 2
    assert "expected 1 or more" in capsys.readouterr().err


def test_ten_processes_a_side_are_left_out_where_there_are_fewer() -> None:
    same, steps = campaign(SAME_US, 4, seed=3), campaign(STEPS_US, 4, seed=4)
    found = tools(same, steps, 6)
    assert {tool.layout for tool in found} == {Layout.ONE}
    assert {tool.gates for tool in found} == {6}
    assert all(judged == 2 * 6 for tool in found for _, judged in tool.found.values())


def test_samples_are_compared_of_cases_that_every_process_has_and_of_whole_pairs() -> None:
    measured = campaign(SAME_US, 3, seed=5, sample_pairs=2)
    partly = measured.samples.drop(index=0)
    lone = partly[(partly["pair"] == 0) | (partly["side"] == "base")]
    assert len(sampled(measured).base) == len(sampled(measured).head) == 2
    assert sampled(Processes(measured.summary, partly)).cases == tuple(sorted(SAME_US))[1:]
    assert len(sampled(Processes(measured.summary, lone)).base) == 1


def told(*rates: tuple[float, int]) -> str:
    """What is said of rules with such rates of false gates that found so many of 100 copies slowed by 5 %."""
    cell, rule = Cell(150, 50), RULES[0]
    gates = FalseGates(1000, 4, 0, 0, 1, 17.5)
    return compared(
        Findings(
            about=About("NVIDIA H200", "580", {}, {}, ()),
            same=Medians((), np.empty((0, 0)), np.empty((0, 0))),
            steps=Medians((), np.empty((0, 0)), np.empty((0, 0))),
            real=None,
            drawn={Pairing.AS_MEASURED: gates},
            found={cell: attained.Found(100, 98)},
            real_found={},
            shifts={cell: 0.05},
            mutants=Found((), 0, ()),
            tools=[
                Tool(rule, Layout.ONE, 100, round(100 * rate), rate, {cell: (slower, 100)}) for rate, slower in rates
            ],
            sample_pairs=(20, 10),
            most_samples=60,
        )
    )


def test_the_sentence_on_other_rules_sets_quiet_ones_apart_from_loud_ones() -> None:
    silent = "With nothing changed `nox -s ab` called a case slower in 0.4 % of gates"
    ours = f"{silent}; of copies slowed by 5 % it found 98 %."
    assert told() == ours
    both = told((0.0, 3), (0.05, 7), (0.06, 90), (1.0, 100))
    assert "2 did so in 5 % of gates or fewer, and found 7 % of the copies slowed by 5 % at best." in both
    assert both.endswith("The remaining 2 called unchanged code slower in 6 to 100 % of gates.")
    assert told((0.2, 9), (0.2, 9)) == f"{ours} The other 2 rules called unchanged code slower in 20 % of gates."
