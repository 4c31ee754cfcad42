from __future__ import annotations

import math
import re
import subprocess
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refusal
from synthetic_runs import BYTES, LADDER, document, save

from peakgate.base.errors import Code, PeakgateError
from peakgate.cli import main
from peakgate.compare.floors import margins
from peakgate.compare.floors.proposals import Proposals, diff, evidence_of, propose, revised, rounded_down, summary
from peakgate.judge.floors import Floors, load_floors
from peakgate.runfile.frame import records, to_frame
from peakgate.runfile.saved import Run, load_run

PAD = "transpose.smem_pad-8192-32x8"
Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def sessions(folder: Path, fractions: list[float], time_us: float = 160.0, **content: Any) -> list[Run]:
    """One run a fraction of peak, of one case."""
    median = sorted(fractions)[len(fractions) // 2]
    return [
        load_run(
            save(
                folder,
                f"run{day}",
                document({PAD: time_us * median / each}, day=day, extra={PAD: {"peak_fraction": each}}, **content),
            )
        )
        for day, each in enumerate(fractions, 1)
    ]


def proposed(runs: list[Run], present: dict[str, float] | None = None) -> Proposals:
    return propose(to_frame(runs), Floors(Path("floors.toml"), "nvidia-h200", present is not None, present or {}))


def test_a_floor_of_one_gpu_lies_at_least_five_percent_below_its_worst_session(tmp_path: Path) -> None:
    (proposal,) = records(proposed(sessions(tmp_path, [0.724, 0.725, 0.726])).every)
    assert proposal.floor <= 0.95 * 0.724
    assert proposal.floor == 0.667
    assert proposal.room == pytest.approx(0.726 / 0.667 - 1)


@given(st.floats(1e-6, 1.0))
def test_rounding_down_loses_less_than_one_percent(exact: float) -> None:
    assert 0.99 * exact < rounded_down(exact) <= exact * (1 + 1e-12)


def test_a_proposal_says_what_it_rests_on(tmp_path: Path) -> None:
    (proposal,) = proposed(sessions(tmp_path, [0.724, 0.725, 0.726])).raised.itertuples()
    origin = "3 sessions of 1 GPU, median 0.725, spread 0.14 %, room 8.8 %, driver 580.159.04, 2026-11-03"
    assert proposal.origin == origin


def test_a_transfer_between_host_and_device_gets_no_floor_and_loses_the_one_it_has(tmp_path: Path) -> None:
    link = {"access.h2d": {"bound": "link"}}
    runs = [
        load_run(save(tmp_path, str(day), document({PAD: 160.0, "access.h2d": 300.0}, day=day, extra=link)))
        for day in (1, 2)
    ]
    found = proposed(runs, {"access.h2d": 0.8})
    assert found.every["case"].to_list() == [PAD]
    assert (found.transfers, found.dropped, found.skipped) == (("access.h2d",), ("access.h2d",), ())
    text = 'schema = 1\ngpu = "nvidia-h200"\n[floors]\n"access.h2d" = 0.8\n'
    assert "access.h2d" not in revised(text, found)
    assert proposed(runs, {PAD: 0.1}).dropped == ()


def test_a_higher_floor_is_raised_an_equal_one_left_and_a_lower_one_kept_apart(tmp_path: Path) -> None:
    runs = sessions(tmp_path, [0.724, 0.725, 0.726])
    for present, raised, lowered in ((0.6, [0.667], []), (0.667, [], []), (0.8, [], [0.667])):
        found = proposed(runs, {PAD: present})
        assert (found.raised["floor"].to_list(), found.lowered["floor"].to_list()) == (raised, lowered)


def test_wrong_open_lonely_and_peakless_cases_are_skipped(tmp_path: Path) -> None:
    names = ("a.wrong", "a.open", "a.lonely", "a.peakless", "a.good")
    wrong = [{"case": "a.wrong", "verdict": "WRONG", "reason": "x"}]
    first = document(
        dict.fromkeys(names, 100.0),
        extra={"a.open": {"verdict": "INCONCLUSIVE"}, "a.peakless": {"peak_fraction": None}},
    )
    second = document(dict.fromkeys(("a.open", "a.peakless", "a.good"), 100.0), day=2, not_measured=wrong)
    found = proposed([load_run(save(tmp_path, "1", first)), load_run(save(tmp_path, "2", second))])
    assert found.raised["case"].to_list() == ["a.good"]
    assert found.skipped == ("a.lonely", "a.open", "a.peakless", "a.wrong")


@pytest.mark.parametrize("verdict", ["WRONG", "CRASHED", "TIMEOUT", "IMPOSSIBLE"])
@pytest.mark.parametrize("timed", [True, False])
def test_a_case_that_any_session_found_at_fault_gets_no_floor(tmp_path: Path, verdict: str, timed: bool) -> None:
    found = {"verdict": verdict, "peak_fraction": 0.9}
    lost = [] if timed else [{"case": PAD, "verdict": verdict, "reason": "x"}]
    other = document(
        {PAD if timed else "a.other": 100.0}, day=9, extra={PAD: found} if timed else {}, not_measured=lost
    )
    runs = [*sessions(tmp_path, [0.724, 0.725, 0.726]), load_run(save(tmp_path, "faulty", other))]
    assert proposed(runs).raised.empty


def test_a_session_that_left_a_case_open_does_not_count(tmp_path: Path) -> None:
    left_open = document({PAD: 400.0}, day=9, extra={PAD: {"verdict": "INCONCLUSIVE", "peak_fraction": 0.1}})
    runs = [*sessions(tmp_path, [0.724, 0.725, 0.726]), load_run(save(tmp_path, "open", left_open))]
    (proposal,) = proposed(runs).raised.itertuples()
    assert proposal.floor == 0.667


def test_one_session_mixed_models_and_emulated_runs_propose_nothing(tmp_path: Path) -> None:
    one, two = sessions(tmp_path / "a", [0.7, 0.7])
    (other, _) = sessions(tmp_path / "b", [0.7, 0.7], slug="nvidia-l4")
    emulated = sessions(tmp_path / "c", [0.7, 0.7], slug="cpu-emulator")
    for runs, code in (([one], Code.TOO_FEW), ([one, other], Code.GPU_MODELS), (emulated, Code.EMULATED)):
        with pytest.raises(PeakgateError) as caught:
            proposed(runs)
        assert caught.value.code is code
    with pytest.raises(PeakgateError, check=lambda error: error.code is Code.GPU_MODELS):
        propose(to_frame([one, two]), Floors(Path("floors.toml"), "nvidia-l4", True))


def saved_sessions(tmp_path: Path, count: int = 5) -> list[str]:
    times_us = {case: us * 5 for case, us in LADDER.items()}
    work = {case: {"bytes": 4 * BYTES} for case in LADDER}
    days = range(1, count + 1)
    return [str(save(tmp_path / "runs", f"run{day}", document(times_us, day=day, extra=work))) for day in days]


def test_the_command_prints_a_diff_and_writes_only_when_told(tmp_path: Path, capsys: Captured) -> None:
    runs, path = saved_sessions(tmp_path), tmp_path / "baselines" / "nvidia-h200" / "floors.toml"
    assert main(["floors", *runs]) == 0
    assert f'+"{PAD}" = 0.128' in capsys.readouterr().out
    assert not path.exists()
    assert main(["floors", *runs, "--write"]) == 0
    assert load_floors(path, known_cases=set(LADDER)).get(PAD) == 0.128
    before = path.read_text()
    assert capsys.readouterr().out.count("written: ") == 1
    assert main(["floors", *runs, "--write"]) == 0
    assert path.read_text() == before
    assert "written: " not in capsys.readouterr().out


def test_the_printed_diff_is_one_that_patch_tools_take(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "baselines" / "nvidia-h200" / "floors.toml"
    path.parent.mkdir(parents=True)
    path.write_text(f'schema = 1\ngpu = "nvidia-h200"\n[floors]\n"{PAD}" = 0.1  # agreed with the team\n')
    assert main(["floors", *saved_sessions(tmp_path)]) == 0
    printed = capsys.readouterr().out
    (tmp_path / "change.diff").write_text(printed[: printed.index("14 new floors")])
    subprocess.run(["git", "apply", "change.diff"], cwd=tmp_path, check=True)
    assert tomllib.loads(path.read_text())["floors"][PAD] == 0.128
    assert "with the team; " in path.read_text()


def test_a_lower_floor_is_told_and_written_only_when_asked(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "baselines" / "nvidia-h200" / "floors.toml"
    path.parent.mkdir(parents=True)
    path.write_text(f'schema = 1\ngpu = "nvidia-h200"\n[floors]\n"{PAD}" = 0.9\n')
    arguments = ["floors", str(tmp_path / "runs"), "--write"]
    saved_sessions(tmp_path)
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    assert " to 0.128, " in printed
    assert load_floors(path).get(PAD) == 0.9
    assert main([*arguments, "--lower"]) == 0
    assert load_floors(path).get(PAD) == 0.128


def test_under_five_sessions_are_warned_of_and_one_file_twice_is_one_session(tmp_path: Path, capsys: Captured) -> None:
    first, second = saved_sessions(tmp_path, 2)
    assert main(["floors", first, second]) == 0
    assert "warning: 2 sessions" in capsys.readouterr().out
    assert main(["floors", first, first]) == 2
    assert refusal(capsys) is Code.TOO_FEW


def test_floors_are_not_written_from_fewer_than_five_sessions(tmp_path: Path, capsys: Captured) -> None:
    assert main(["floors", *saved_sessions(tmp_path, 4), "--write"]) == 2
    captured = capsys.readouterr()
    assert captured.err.endswith(f" [{Code.TOO_FEW}]\n")
    assert f'+"{PAD}" = 0.128' in captured.out
    assert not (tmp_path / "baselines").exists()


def test_of_long_lists_the_furthest_falls_are_named_and_all_on_request(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "baselines" / "nvidia-h200" / "floors.toml"
    path.parent.mkdir(parents=True)
    floors = "".join(f'"{case}" = 0.9\n' for case in LADDER)
    path.write_text(f'schema = 1\ngpu = "nvidia-h200"\n[floors]\n{floors}')
    runs = saved_sessions(tmp_path)
    assert main(["floors", *runs]) == 0
    short = capsys.readouterr().out.splitlines()
    lowest = min(LADDER, key=lambda case: 1 / LADDER[case])
    assert short[1].startswith(f"{len(LADDER)} floors ")
    assert short[2].startswith(f"  {lowest}: 0.9 to ")
    assert f" {len(LADDER) - 5} more" in short[7]
    assert main(["floors", *runs, "--all"]) == 0
    named = [line.strip().partition(":")[0] for line in capsys.readouterr().out.splitlines()]
    assert sum(name in LADDER for name in named) == 2 * len(LADDER)


def some_proposals(
    cases: int, skipped: int = 0, transfers: tuple[str, ...] = (), present: Mapping[str, float] | None = None
) -> Proposals:
    """Floors of 0.5 with rooms of 25 %, 50 % and so on; some have one today."""
    names = [f"a.{number}" for number in range(cases)]
    every = pd.DataFrame(
        {
            "case": names,
            "floor": 0.5,
            "present": [(present or {}).get(name.removeprefix("a."), math.nan) for name in names],
            "origin": "origin",
            "room": [(number + 1) / 4 for number in range(cases)],
            "duration": margins.LONG,
            "power": 0.5,
            "present_power": math.nan,
        }
    ).astype({"present": float, "present_power": float})
    lacking = tuple(f"b.{number}" for number in range(skipped))
    return Proposals("nvidia-h200", 2, every, lacking, transfers, transfers[:1])


def numbers(line: str) -> list[str]:
    return re.findall(r"\d+(?:\.\d+)?", line.partition("nvidia")[0])


def test_a_summary_counts_what_is_new_raised_lowered_skipped_and_a_transfer() -> None:
    found = summary(some_proposals(3, 2, ("t.x", "t.y"), {"1": 0.4, "2": 0.6}), 4).splitlines()
    assert [numbers(line) for line in found] == [
        ["1", "1", "4", "2"],  # new, raised, sessions, GPUs
        ["4", "5"],  # too few to trust
        ["1"],
        ["2", "0.6", "0.5"],
        ["2", "0", "1"],
        ["2", "1"],  # transfers, dropped
        ["50.0", "70.0", "90", "75.0"],
        ["10"],
        ["100", "50", "3"],
        ["2", "75.0", "50"],
        ["1", "50.0", "50"],
        ["0", "25.0", "50"],
    ]
    assert found[2].endswith("--lower")
    assert "--lower" not in summary(some_proposals(1, present={"0": 0.6}), 5, lower=True)
    assert len(summary(some_proposals(0), 5).splitlines()) == 1
    assert len(summary(some_proposals(1), 5).splitlines()) == 5


@pytest.mark.parametrize(("cases", "more"), [(5, []), (6, ["1"]), (8, ["3"])])
def test_of_a_long_list_five_are_named_and_the_others_counted(cases: int, more: list[str]) -> None:
    given = some_proposals(cases, cases, present={str(number): 0.6 + number / 100 for number in range(cases)})
    short, whole = summary(given, 5).splitlines(), summary(given, 5, everything=True).splitlines()
    rest = [numbers(line) for line in short if line.endswith("--all names them")]
    assert rest == [more] * 3 if more else rest == []
    assert [line.split(":")[0] for line in short if line.startswith("  a.")] == [
        *(f"  a.{number}" for number in range(cases - 1, cases - 6, -1)),
        *(f"  a.{number}" for number in range(cases - 1, cases - 6, -1)),
    ]
    (skipped,) = [line for line in short if "b.0" in line]
    assert ("b.4" in skipped, "b.5" in skipped) == (True, False)
    assert not [line for line in whole if line.endswith("--all names them")]
    assert len([line for line in whole if line.startswith("  a.")]) == 2 * cases


def test_runs_without_a_uuid_are_of_one_more_gpu_and_what_is_below_zero_has_no_floor(tmp_path: Path) -> None:
    runs = [*sessions(tmp_path / "a", [0.7, 0.7]), *sessions(tmp_path / "b", [0.7, 0.7], uuid=None)]
    assert sorted(set(evidence_of(to_frame(runs))["gpu"])) == ["GPU-0001", "unknown"]
    assert proposed(runs).gpus == 2
    assert (rounded_down(0.0), rounded_down(-1.0), rounded_down(0.12345), rounded_down(1.0)) == (0.0, 0.0, 0.123, 1.0)


def test_the_origin_of_a_floor_has_its_spread_its_room_and_unknown_drivers(tmp_path: Path) -> None:
    found = proposed(sessions(tmp_path, [0.59, 0.6, 0.61], driver=None)).every
    (proposal,) = records(found)
    spread, room = re.findall(r"(?:spread|room) (\S+) %", proposal.origin)
    of_runs = margins.bounds(evidence_of(to_frame(sessions(tmp_path, [0.59, 0.6, 0.61], driver=None))))
    assert float(spread) == pytest.approx(100 * of_runs["spread"].item(), rel=0.004)
    assert float(room) == pytest.approx(100 * proposal.room, rel=0.004)
    assert "driver unknown" in proposal.origin


@pytest.mark.parametrize("one", [0.001, 0.055, 0.276])
def test_a_floor_that_twice_the_time_would_reach_is_none(tmp_path: Path, one: float) -> None:
    found = proposed(sessions(tmp_path, [0.551, 0.552, 0.553, 0.552, one]))
    assert (found.every["case"].to_list(), found.skipped) == ([], ())
    assert found.apart == (f"{PAD} ({one} to 0.553)",)
    assert found.apart[0] in summary(found, 5)


def test_a_fraction_of_zero_is_none_and_a_file_changes_only_where_something_is_proposed(tmp_path: Path) -> None:
    runs = sessions(tmp_path, [0.7, 0.7])
    zero = load_run(save(tmp_path, "zero", document({PAD: 160.0}, day=9, extra={PAD: {"peak_fraction": 0.0}})))
    assert len(evidence_of(to_frame([*runs, zero]))) == 2
    text = f'schema = 1\ngpu = "nvidia-h200"\n[floors]\n"{PAD}" = 0.9\n'
    lower = proposed(runs, {PAD: 0.9})
    assert revised(text, lower) == text
    assert revised(text, lower, lower=True) != text
    assert revised("", some_proposals(0)) == ""
    assert revised(text, some_proposals(0, transfers=(PAD,))) == text.rpartition('"tr')[0]


def test_a_diff_says_where_a_file_has_no_last_line_break() -> None:
    assert diff("a", "b\n", Path("/f")).splitlines()[3:] == ["-a", "\\ No newline at end of file", "+b"]
    assert diff("a\n", "b\n", Path("f")).splitlines()[3:] == ["-a", "+b"]


def test_where_no_case_is_known_every_floor_is_of_none(tmp_path: Path) -> None:
    (path := tmp_path / "floors.toml").write_text('schema = 1\ngpu = "g"\n[floors]\n"a.b" = 0.5\n')
    assert load_floors(path).get("a.b") == 0.5
    with pytest.raises(PeakgateError):
        load_floors(path, known_cases=[])


def test_a_floor_near_zero_has_its_power(tmp_path: Path) -> None:
    (row,) = records(proposed(sessions(tmp_path, [0.6, 0.61]), {PAD: 5e-324}).every)
    assert row.present_power == pytest.approx(0.0)
