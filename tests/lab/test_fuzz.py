"""Hostile files for every reader, a few of those that `nox -s fuzz` makes; and each that once was read wrongly."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fuzz_readers
import fuzz_runs
import fuzz_settings
import pytest
from fuzz_calls import Finding, call, verb
from fuzz_readers import READERS, attempt
from fuzz_runs import whole
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from synthetic_runs import document

from peakgate.runfile import saved as runfile

RECORD = Path(__file__).parents[2] / "lab" / "faults" / "fuzz.json"
SHARE = 900
"""A test makes one input where a campaign makes so many."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    made = tmp_path_factory.mktemp("fuzz")
    before, now = Path.cwd(), runfile.now
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("PEAKGATE_CACHE", str(made / ".cache"))
        fuzz_readers.prepare(made)
        yield made
    os.chdir(before)
    runfile.now = now


@pytest.mark.filterwarnings("ignore:Data type alias")  # of NumPy, where a damaged type's name is one
@pytest.mark.parametrize("name", READERS)
def test_a_hostile_file_is_one_line_or_passes_nothing(folder: Path, name: str) -> None:
    checks = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]

    @settings(
        max_examples=2 + READERS[name].inputs // SHARE, deadline=None, database=None, suppress_health_check=checks
    )
    @given(st.integers(0, 10**6))
    def one(number: int) -> None:
        code, wrong = attempt(name, number, folder)
        assert code is not None, f"{wrong}; nox -s fuzz -- --seed= --input {number} '{name}' repeats it"

    one()


def test_the_honest_file_of_a_run_passes_or_no_other_could(folder: Path) -> None:
    run = whole()
    run["peakgate"]["not_measured"] = []
    assert READERS["run file: compare"].read(folder, json.dumps(run).encode()) == 0


@pytest.mark.parametrize("section", ["stats", "extra_info"])
def test_what_must_not_pass_is_noticed(folder: Path, section: str) -> None:
    """The oracle itself: a slower case, and one below its floor, are found in a run that is said to pass."""
    run = whole()
    worse = {"stats": {"median": 1.0}, "extra_info": {"peak_fraction": 0.01}}[section]
    run["benchmarks"][1][section] |= worse
    assert fuzz_runs.false_pass(run, "") is not None


def test_a_command_that_fails_on_its_own_is_a_finding() -> None:
    for code in (70, -11):
        with pytest.raises(Finding, match=f"exit code {code}"):
            call(lambda code=code: code)  # type: ignore[misc]
    with pytest.raises(Finding, match="2 lines"):
        call(_refuses_in_two_lines)


def _refuses_in_two_lines() -> int:
    import sys  # noqa: PLC0415  # the stream that call() puts there

    sys.stderr.write("one\ntwo\n")
    return 2


def test_a_campaign_is_recorded_with_its_counts_and_no_findings() -> None:
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    assert record["findings"] == {}
    assert record["readers"].keys() == record["commits"].keys() == READERS.keys()
    assert sum(sum(codes.values()) for codes in record["readers"].values()) == record["inputs"] >= 200_000
    assert all(
        code in ("exit 0", "exit 1", "exit 2", "exit 3") for codes in record["readers"].values() for code in codes
    )


# What a campaign once found, each by its name.


def saved(folder: Path, name: str, content: object) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    return path


def manifest(folder: Path, **changes: Any) -> str:
    """What decide says of a manifest of which one process has these facts."""
    content = json.loads(json.dumps(fuzz_runs.MANIFEST))
    content["processes"][1] |= changes
    saved(folder, "ab/manifest.json", content)
    found = verb("ab", "--from", folder, "--out", folder / "decided")
    assert found.code == 2
    return found.err


@pytest.mark.parametrize(
    "changes",
    [{"pair": ["x"]}, {"pair": 0.5}, {"file": 5}, {"file": "../run.json"}, {"refused": {"b.c": ["BROKEN", "why"]}}],
)
def test_a_manifest_with_a_part_that_is_none_is_refused(folder: Path, changes: dict[str, Any]) -> None:
    assert f"processes[1].{next(iter(changes))}" in manifest(folder, **changes)


def test_a_manifest_whose_plan_holds_lists_for_cases_is_refused(folder: Path) -> None:
    content = json.loads(json.dumps(fuzz_runs.MANIFEST))
    content["plan"]["measured"] = [["a.b"]]
    saved(folder, "ab/manifest.json", content)
    assert verb("ab", "--from", folder, "--out", folder / "decided").code == 2


@pytest.mark.parametrize("change", ["an empty plan", "a case left out of the plan", "a case said to be unchanged"])
def test_a_manifest_that_hides_a_case_from_its_plan_is_refused(folder: Path, change: str) -> None:
    content = json.loads(json.dumps(fuzz_runs.MANIFEST))
    if change == "an empty plan":
        content["plan"] = {name: [] for name in content["plan"]} | {"unchanged": {}}
        content["processes"] = []
    else:
        content["plan"]["measured"].remove("a.slow-2")
    if change == "a case said to be unchanged":
        content["plan"]["unchanged"]["a.slow-2"] = "print"
    saved(folder, "ab/manifest.json", content)
    assert verb("ab", "--from", folder, "--out", folder / "decided").code == 2


@pytest.mark.parametrize("unmeasured", [[{"case": []}], 5.5, {"case": "a"}])
def test_unmeasured_cases_of_another_form_are_refused_by_history(folder: Path, unmeasured: object) -> None:
    run = whole(day=20)
    run["peakgate"]["not_measured"] = unmeasured
    assert fuzz_runs.in_history(folder, json.dumps(run).encode()) == 2


def test_an_unreadable_newest_run_leaves_history_without_verdict(folder: Path) -> None:
    assert fuzz_runs.in_history(folder, b"{") == 2


def test_a_run_marked_whole_that_says_it_is_partial_is_refused(folder: Path) -> None:
    run = whole()
    run["peakgate"]["partial"] = "1 of 2 selected cases were not finished"
    found = verb("show", saved(folder, "partial.json", run), "--out", folder)
    assert (found.code, "but partial" in found.err) == (2, True)


def test_survivors_without_tables_or_of_huge_numbers_are_refused(folder: Path) -> None:
    for text in (f"survivor = {'9' * 5000}", "survivor = 5", "survivor = [5]"):
        assert fuzz_settings.waivers_read(folder, text.encode()) == 2


def test_numbers_beyond_a_float_in_imported_files_are_refused(folder: Path) -> None:
    single = {"name": "bm/64", "run_type": "iteration", "real_time": 10**400, "time_unit": "us"}
    google = {"context": {}, "benchmarks": [single]}
    device = {"id": 0, "name": "NVIDIA H200", "global_memory_bus_bandwidth": 10**400}
    state = {"device": 0, "summaries": []}
    nvbench = {"devices": [device], "benchmarks": [{"name": "b", "states": [state]}]}
    for content in (google, nvbench):
        assert fuzz_runs.imported(folder, json.dumps(content).encode()) == 2


def test_an_imported_file_whose_date_is_a_number_is_refused(folder: Path) -> None:
    single = {"name": "bm/64", "run_type": "iteration", "real_time": 5.0, "time_unit": "us"}
    content = {"context": {"date": 5}, "benchmarks": [single]}
    assert fuzz_runs.imported(folder, json.dumps(content).encode()) == 2


def test_a_selftest_with_a_number_beyond_a_float_is_refused(folder: Path) -> None:
    content = json.loads(json.dumps(fuzz_runs.SELFTEST))
    content["designs"][0]["smallest_detectable_change_percent"]["median"] = 10**400
    assert fuzz_runs.selftest_read(folder, json.dumps(content).encode()) == 2


@pytest.mark.parametrize("output", [5, None, [], {"abs_sum": 1.0}, {"abs_sum": "x", "samples": []}])
def test_digests_with_an_output_of_another_form_are_refused(folder: Path, output: object) -> None:
    problem = {"problem": "0", "outputs": [output]}
    content = {"peakgate_digests": 3, "device": {}, "problems": {"a.b": problem}}
    assert fuzz_settings.digests_read(folder, json.dumps(content).encode()) == 2


def test_infinite_resources_are_refused_in_one_line(folder: Path) -> None:
    usage = {"registers": 1, "spill_bytes": 0, "stack_bytes": 0, "static_shared_bytes": 0, "occupancy": {}}
    for line, code in ((usage | {"registers": float("inf")}, 2), (usage | {"occupancy": {"256": [1.0, "a\nb"]}}, 0)):
        content = {"schema": 1, "nvrtc": "13", "options": [], "kernels": {"a.b": {"sm_90": line}}}
        fuzz_settings.HONEST.pop("resources", None)
        assert fuzz_settings.resources_read(folder, json.dumps(content).encode()) == code


@pytest.mark.parametrize("line", ["    min_capability=[7, 5],", "    edges=['x'],", "    options=[[]],"])
def test_a_family_with_a_list_or_text_out_of_place_is_refused(folder: Path, line: str) -> None:
    name = line.partition("=")[0]
    lines = [line if each.startswith(f"{name}=") else each for each in fuzz_settings.FAMILY.splitlines()]
    assert fuzz_settings.family_read(folder, "\n".join(lines).encode()) == 2


def test_the_synthetic_run_that_all_are_compared_with_is_read(folder: Path) -> None:
    path = saved(folder, "synthetic.json", document())
    assert len(runfile.load_run(path).cases) == len(document()["benchmarks"])


def test_an_array_without_an_end_from_a_family_is_refused(folder: Path) -> None:
    text = b'{"arrays": [["float32", [Infinity]]]}'
    assert READERS["arrays of a family: bench"].read(folder, struct.pack("<Q", len(text)) + text) == 2
