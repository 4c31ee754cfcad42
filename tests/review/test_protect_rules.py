"""Acknowledgements and rules of `protect`: pure functions on changes, and the file that is read strictly."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from peakgate.base.config import ProjectSettings
from peakgate.base.errors import PeakgateError
from peakgate.base.report import Report
from peakgate.judge import acknowledged
from peakgate.judge.acknowledged import Acknowledgement
from peakgate.review.changes import (
    ChangeKind,
    FileChange,
    ProtectedChange,
    compiled_changes,
    contract_changes,
    floor_changes,
    output_changes,
    repository_changes,
    reviewed_changes,
    rule,
    run_changes,
    setting_changes,
)
from peakgate.review.protect import report
from peakgate.spec.contract import Contract

TODAY = date(2026, 11, 20)
FLOORS = st.dictionaries(st.sampled_from("abcdef"), st.floats(0.1, 1.0))


SOURCES = ["kernels/a/a.cu", "kernels/a/a.cuh"]
ENTRY = "schema = 1\n[[acknowledged]]\ncase = 'a'\nfrom = 1\nto = 2\nreason = 'b'\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("schema = 2", "schema is 2"),
        ("schema = true", "schema is True"),
        ("schema = 1\nacknowledge = []", ":2: acknowledge is"),
        ("schema = 1\nacknowledged = 3", ":2: acknowledged is 3"),
        ("schema = 1\nacknowledged = [3]", ":2: acknowledged[0] is 3"),
        (ENTRY, ":2: acknowledged[0].expires"),
        (f"{ENTRY}expires = '31.12.2026'", ":7: acknowledged[0].expires"),
        (f"{ENTRY}expires = 2026-12-31T00:00:00", ":7: acknowledged[0].expires"),
        (f"{ENTRY}expires = 20261231", ":7: acknowledged[0].expires"),
        (f"{ENTRY}expires = 2026-11-19", "a expired on 2026-11-19"),
        (f"{ENTRY}expires = 9999-12-31", "at most 90 days"),
        (f"{ENTRY}expires = 2026-12-31".replace("'b'", "' '"), ":6: acknowledged[0].reason"),
        (f"{ENTRY}expires = 2026-12-31".replace("case = 'a'\n", ""), "neither case nor run"),
        (f"{ENTRY}expires = 2026-12-31\nrun = 'r'", "both a case and a run"),
        (f"{ENTRY}expires = 2026-12-01".replace("from = 1\nto = 2\n", ""), "acknowledged[0].from"),
        (ENTRY.replace("from = 1", "from = [1]"), ":4: acknowledged[0].from"),
        ("schema = 1\n[[acknowledged]]\ncase = 'a'\nwhy = 'b'\nexpires = 2026-12-31", "acknowledged[0].why"),
        ("schema = ", "not TOML"),
    ],
)
def test_a_file_of_acknowledgements_is_read_strictly(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / acknowledged.ACKNOWLEDGED_FILE).write_text(text)
    with pytest.raises(PeakgateError) as caught:
        acknowledged.load(tmp_path / acknowledged.ACKNOWLEDGED_FILE, "g", TODAY)
    assert said in str(caught.value)
    assert acknowledged.ACKNOWLEDGED_FILE in str(caught.value)


def test_a_case_acknowledged_twice_is_an_error(tmp_path: Path) -> None:
    entry = f"{ENTRY}expires = 2026-12-31\n"
    (tmp_path / acknowledged.ACKNOWLEDGED_FILE).write_text(entry + entry.removeprefix("schema = 1\n"))
    with pytest.raises(PeakgateError, match="a is acknowledged twice"):
        acknowledged.load(tmp_path / acknowledged.ACKNOWLEDGED_FILE, "g", TODAY)


def test_an_acknowledgement_holds_on_its_last_day(tmp_path: Path) -> None:
    (tmp_path / acknowledged.ACKNOWLEDGED_FILE).write_text(f"{ENTRY}expires = 2026-11-20")
    assert acknowledged.load(tmp_path / acknowledged.ACKNOWLEDGED_FILE, "g", TODAY) == [
        Acknowledgement("g", "floor", "a", "1", "2", "b", "2026-11-20")
    ]


@pytest.mark.parametrize(
    ("named", "term"), [("case = 'a'", "floor"), ("run = 'a'", "run"), ("case = 'a'\nterm = 'bytes'", "bytes")]
)
def test_an_acknowledgement_is_of_what_it_names(tmp_path: Path, named: str, term: str) -> None:
    path = tmp_path / acknowledged.ACKNOWLEDGED_FILE
    path.write_text(f"{ENTRY}expires = 2026-11-20".replace("case = 'a'", named))
    assert [(each.term, each.what) for each in acknowledged.load(path, "g", TODAY)] == [(term, "a")]


@pytest.mark.parametrize(
    ("percent", "day", "taken"), [("0.5", "2026-11-20", True), ("0", "2026-11-20", False), ("3", "2026-11-21", False)]
)
def test_a_regression_is_accepted_by_a_size_and_a_past_day(tmp_path: Path, percent: str, day: str, taken: bool) -> None:
    path = tmp_path / acknowledged.ACKNOWLEDGED_FILE
    path.write_text(f"schema = 1\n[[regression]]\ncase = 'a'\npercent = {percent}\nreason = 'b'\ndate = {day}")
    if taken:
        assert [each.percent for each in acknowledged.load_regressions(path, TODAY)] == [float(percent)]
    else:
        with pytest.raises(PeakgateError, match=":"):
            acknowledged.load_regressions(path, TODAY)


@pytest.mark.parametrize(("days", "taken"), [(90, True), (91, False), (180, False)])
def test_an_acknowledgement_lives_ninety_days_and_no_longer(tmp_path: Path, days: int, taken: bool) -> None:
    (tmp_path / acknowledged.ACKNOWLEDGED_FILE).write_text(f"{ENTRY}expires = {TODAY + timedelta(days)}")
    if taken:
        assert len(acknowledged.load(tmp_path / acknowledged.ACKNOWLEDGED_FILE, "g", TODAY)) == 1
    else:
        with pytest.raises(PeakgateError, match="at most 90 days"):
            acknowledged.load(tmp_path / acknowledged.ACKNOWLEDGED_FILE, "g", TODAY)


def test_bytes_that_are_no_text_are_named(tmp_path: Path) -> None:
    (tmp_path / acknowledged.ACKNOWLEDGED_FILE).write_bytes(b"\xff")
    with pytest.raises(PeakgateError, match="UTF-8"):
        acknowledged.load(tmp_path / acknowledged.ACKNOWLEDGED_FILE, "g", TODAY)


@given(FLOORS, FLOORS)
def test_floors_that_no_longer_hold_as_much_are_changes(before: dict[str, float], after: dict[str, float]) -> None:
    changes = floor_changes("g", before, after)
    assert {change.what for change in changes} == {case for case in before if after.get(case, 0.0) < before[case]}
    assert all((change.kind is ChangeKind.DROPPED) == (change.what not in after) for change in changes)


@pytest.mark.parametrize("after", [0.6999, 0.699, 0.694])
def test_a_floor_that_is_lower_by_however_little_is_lowered(after: float) -> None:
    assert [each.kind for each in floor_changes("g", {"a": 0.7}, {"a": after})] == [ChangeKind.LOWERED]
    assert floor_changes("g", {"a": after}, {"a": 0.7}) == []


def word(gpu: str, change: ProtectedChange) -> Acknowledgement:
    return Acknowledgement(gpu, change.term, change.what, change.before, change.after, "meant", "2026-12-31")


@given(FLOORS, FLOORS)
def test_every_change_is_failing_or_acknowledged_and_never_both(
    before: dict[str, float], after: dict[str, float]
) -> None:
    changes = floor_changes("g", before, after)
    words = [word("g", change) for change in changes[::2]]
    ruling = rule(changes, words)
    assert [change for change, _ in ruling.acknowledged] == changes[::2]
    assert list(ruling.failing) == changes[1::2]
    assert ruling.idle == ()


def test_an_acknowledgement_of_other_values_excuses_nothing() -> None:
    changes = floor_changes("nvidia-h200", {"a": 0.7}, {"a": 0.65})
    for other in (
        word("nvidia-l4", changes[0]),
        word("nvidia-h200", floor_changes("g", {"a": 0.7}, {"a": 0.6})[0]),
        word("nvidia-h200", floor_changes("g", {"a": 0.8}, {"a": 0.65})[0]),
    ):
        assert rule(changes, [other]).failing == tuple(changes)
    assert rule(changes, [word("nvidia-h200", changes[0])]).failing == ()


def test_every_term_that_differs_and_every_case_gone_is_a_change() -> None:
    of_a = Contract(bytes=8, tolerance=1e-6, host_bound=False, launch="a", code="a")
    before = {"a": of_a, "b": Contract(bytes=1)}
    after = {
        "a": structs.replace(of_a, bytes=16, tolerance=1e9, saved="x.npy:1", launch="b", code="b"),
        "new": Contract(bytes=2),
    }
    found = contract_changes(before, after)
    assert [(change.kind, change.term, change.what, change.before, change.after) for change in found] == [
        ("contract changed", "bytes", "a", "8", "16"),
        ("contract changed", "saved", "a", "none", "x.npy:1"),
        ("contract changed", "tolerance", "a", "1e-06", "1000000000.0"),
        ("case dropped", "case", "b", "present", "none"),
    ]


@pytest.mark.parametrize(
    "path",
    [
        *(".github/workflows/gate.yml", ".github/verdict.py", "noxfile.py", "requirements/bench.txt", "pyproject.toml"),
        *("baselines/waivers.toml", "baselines/g/digests.json", "baselines/g/acknowledged.toml", "src/peakgate/cli.py"),
        *("baselines/resources.json", "src/peakgate/judge/floors.py", "CODEOWNERS", ".ci/run"),
        *("below/pyproject.toml", "below/peakgate.toml", "below/noxfile.py", "below/requirements/bench.txt"),
        *("peakgate.gitlab-ci.yml", ".gitlab-ci.yml", ".gitlab/ci/gate.yml"),
        *(".gitattributes", "kernels/.gitattributes", ".gitmodules", ".lfsconfig"),  # how git reads the others
        *("Jenkinsfile", ".buildkite/pipeline.yml", ".circleci/config.yml", "azure-pipelines.yml", "below/tox.ini"),
        *("pylock.toml", "pylock.gpu.toml", "environment.yml", "uv.toml", "pytest.ini", "setup.cfg", "Dockerfile"),
    ],
)
def test_files_that_decide_how_a_change_is_judged_are_for_review(path: str) -> None:
    assert [change.what for change in reviewed_changes([FileChange("M", path, False, "1", "2")], "baselines")] == [path]


@pytest.mark.parametrize(
    ("path", "listed"),
    [
        ("kernels/a/a.cu", False),
        ("kernels/a/a.cuh", False),
        ("kernels/a/table.h", True),
        ("kernels/a/table.cu", True),
        ("kernels/a/family.py", True),
        ("kernels/a/table.npy", True),
        ("other/a/family.py", True),
        ("deep/conftest.py", True),
        ("kernels2/family.py", False),
        ("tool.py", False),
        ("tests/data.txt", True),
        ("bench.py", True),
        ("tests", True),
        ("tests2/data.txt", False),
        ("README.md", False),
        ("baselines/g/floors.toml", False),
        ("baselines/g/runs/x.json", False),
        ("baselines/g/runsx", True),
        ("baselines/g/x/floors.toml", True),
    ],
)
def test_only_tests_and_the_python_of_kernels_are_for_review(path: str, listed: bool) -> None:
    found = reviewed_changes(
        [FileChange("M", path, False, "1", "2")], "baselines", ["tests", "bench.py"], ["kernels", "other"], SOURCES
    )
    assert [(each.kind, each.what, each.before, each.after) for each in found] == (
        [("for review", path, "1", "2")] if listed else []
    )


@pytest.mark.parametrize(
    ("path", "words", "built", "listed"),
    [
        ("data/large.txt", {"large.txt"}, False, True),
        ("data/large.txt", {"data"}, False, True),
        ("data/large.txt", {".txt"}, False, True),
        ("data/large.txt", {"large", "txt", ".npy", ""}, False, False),
        ("my table(1).txt", {"my", "table", "1", ".txt"}, False, True),
        ("my table.dat", {"my", "table"}, False, False),
        ("Makefile", {"all"}, False, False),
        ("Makefile", set(), True, True),
        ("tools/gen.sh", set(), True, True),
        ("kernels/a/a.cu", {"a.cu", "kernels"}, True, False),
        ("baselines/g/floors.toml", {"floors.toml"}, True, False),
    ],
)
def test_what_a_build_or_a_name_in_python_may_read_is_for_review(
    path: str, words: set[str], built: bool, listed: bool
) -> None:
    files = [FileChange("M", path, False, "1", "2")]
    found = reviewed_changes(files, "baselines", [], ["kernels"], SOURCES, mentioned=words, built=built)
    assert [each.what for each in found] == ([path] if listed else [])


def test_python_that_a_kernel_includes_is_for_review() -> None:
    files = [FileChange("A", "src/refs/__init__.py", False, "none", "1")]
    found = reviewed_changes(files, "baselines", [], ["src"], ["src/refs/__init__.py"])
    assert [each.what for each in found] == ["src/refs/__init__.py"]


def test_a_submodule_anywhere_is_for_review() -> None:
    files = [FileChange("M", "vendor/lib", False, "1", "2", repository=True)]
    assert [each.what for each in reviewed_changes(files, "baselines")] == ["vendor/lib"]


def test_committed_output_fails_and_other_output_does_not() -> None:
    files = [FileChange("A", f".benchmarks/{name}.json", False, "none", "2") for name in ("a", "b")]
    found = output_changes(files, [".benchmarks/a.json"])
    assert [each.what for each in rule(found, []).failing] == [".benchmarks/a.json"]


@pytest.mark.parametrize("path", ["tool.py", "deep/data.txt", "src/refs.py", "README.md"])
def test_where_the_top_is_imported_from_most_is_for_review(path: str) -> None:
    files = [FileChange("M", path, False, "1", "2"), FileChange("M", "kernels/a.cu", False, "1", "2")]
    found = reviewed_changes(files, "baselines", [], ["kernels", "."], ["kernels/a.cu"])
    assert [each.what for each in found] == [path]
    assert [each.what for each in reviewed_changes(files, "baselines", ["."], [])] == sorted(["kernels/a.cu", path])


@pytest.mark.parametrize(
    ("path", "listed"),
    [
        ("kernels/a/__pycache__/family.cpython-311.pyc", True),
        ("kernels/a/family.pyc", True),
        ("kernels/a/family.so", True),
        ("src/refs.abi3.so", True),
        ("src/refs.cpython-311-x86_64-linux-gnu.so", True),
        ("anywhere/at/all.so", True),
        ("packed.zip", True),
        ("other.zip", False),
        ("kernels/a/family.py", False),
        ("kernels/a/so", False),
        ("kernels/a.so/family.py", False),
    ],
)
@pytest.mark.parametrize("state", ["A", "M", "T", "D"])
def test_what_python_imports_and_nobody_can_read_fails(path: str, state: str, *, listed: bool) -> None:
    file = FileChange(state, path, False, "1", "2")
    found = compiled_changes([file], ["src", ".", "packed.zip/inside"])
    listed &= not (state == "D" and "__pycache__" in path)  # which no judge reads
    assert [each.key for each in found] == ([("", "file", path, "1", "2")] if listed else [])
    assert rule(found, []).failing == tuple(found)
    word = Acknowledgement("", "file", path, "1", "2", "built by hand", "2026-12-31")
    assert rule(found, [word]).failing == ()


@pytest.mark.parametrize(
    ("path", "repository", "listed"),
    [
        ("kernels", True, True),
        ("kernels/new", True, True),
        ("code", True, True),
        ("code/kernels/a", True, True),
        ("kernels/new", False, False),
        ("kernels2", True, False),
        ("code/kernels2", True, False),
    ],
)
def test_a_repository_in_or_around_the_kernels_is_a_change(path: str, repository: bool, listed: bool) -> None:
    file = FileChange("A", path, False, "none", "repository", repository)
    found = repository_changes([file], ["kernels", "code/kernels"])
    assert [(each.gpu, each.kind, each.what) for each in found] == ([("", "nested repository", path)] if listed else [])


@pytest.mark.parametrize(
    ("path", "state", "kind", "found"),
    [
        ("g/runs/x.json", "M", "file", ("g", "run edited", "x.json")),
        ("g/runs/deep/x.json", "T", "file", ("g", "run edited", "deep/x.json")),
        ("g/runs/x.json", "D", "file", ("g", "run deleted", "x.json")),
        ("g/runs/x.json", "A", "file", None),
        ("g/runs", "M", "file", None),
        ("g/old/x.json", "M", "file", None),
        ("g/floors.toml", "M", "file", None),
        ("g/floors.toml", "T", "link", ("g", "symbolic link", "floors.toml")),
        ("g", "A", "link", ("", "symbolic link", "g")),
        ("g/runs/more", "A", "repository", ("g", "nested repository", "runs/more")),
        ("g", "A", "repository", ("", "nested repository", "g")),
    ],
)
def test_only_files_in_a_runs_folder_are_runs(path: str, state: str, kind: str, found: tuple[str, ...] | None) -> None:
    changes = run_changes([FileChange(state, path, kind == "link", "1", "2", kind == "repository")])
    assert [(each.gpu, each.kind, each.what) for each in changes] == ([found] if found else [])


def test_what_protect_reports(shown: Callable[[str, Report], None]) -> None:
    lowered = ProtectedChange("nvidia-h200", ChangeKind.LOWERED, "floor", "norms.softmax-8", "0.7", "0.65")
    contract = ProtectedChange("", ChangeKind.CONTRACT, "tolerance", "norms.softmax-8", "1e-05", "0.1")
    review = ProtectedChange("", ChangeKind.REVIEW, "file", "noxfile.py", "none", "e69de29bb2d1")
    word = Acknowledgement("nvidia-h200", "floor", "norms.softmax-8", "0.7", "0.65", "a new driver", "2026-12-31")
    idle = Acknowledgement("", "work", "norms.rms-8", "1", "2", "once", "2026-12-31")
    shown("protect.txt", report(rule([lowered, contract, review], [word, idle]), "origin/main", "a" * 40))


def test_only_settings_that_move_or_drop_what_is_judged_fail() -> None:
    before = ProjectSettings(benchmarks=("a", "b"), out="x")
    same = ProjectSettings(kernels="./kernels", benchmarks=("c", "b", "a"), compile_timeout_s=1)
    assert setting_changes(before, same) == []
    moved = ProjectSettings(kernels="others", baselines="elsewhere", benchmarks=("b",))
    found = [(each.kind, *each.key) for each in setting_changes(before, moved)]
    assert found == [
        (ChangeKind.SETTING, "", "kernels", "settings", "kernels", "others"),
        (ChangeKind.SETTING, "", "baselines", "settings", "baselines", "elsewhere"),
        (ChangeKind.SETTING, "", "benchmarks", "settings", "a", "none"),
    ]
    back = [(each.before, each.after) for each in setting_changes(moved, before)]
    assert back == [("others", "kernels"), ("elsewhere", "baselines")]
    assert setting_changes(None, moved) == setting_changes(before, None) == []


@pytest.mark.parametrize("term", ["build", "pythonpath", "plugins", "options", "include"])
def test_settings_that_the_next_judge_runs_are_for_review(term: str) -> None:
    other = structs.replace(ProjectSettings(), **{term: "x" if term == "build" else ("x",)})
    for before, after in ((ProjectSettings(), other), (other, ProjectSettings())):
        (found,) = setting_changes(before, after)
        assert (found.kind, found.term, found.what) == (ChangeKind.REVIEW, term, "settings")
        assert found.row().name == f"for review: {term} of settings"


def test_what_is_for_review_fails_where_all_is_acknowledged() -> None:
    review = ProtectedChange("", ChangeKind.REVIEW, "file", "noxfile.py", "none", "e69de29bb2d1")
    for changes, strict, code in (([review], False, 0), ([review], True, 1), ([], True, 0)):
        found = report(rule(changes, []), "origin/main", "a" * 40, strict=strict)
        assert (found.exit_code, len(found.rows), len(found.sentences)) == (code, len(changes), 1)
        assert acknowledged.ACKNOWLEDGED_FILE not in found.sentences[0]
        assert "0 changes" not in found.sentences[0]
    assert report(rule([review], []), "origin/main", "a" * 40).exit_code == 0
