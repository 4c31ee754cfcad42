from __future__ import annotations

import subprocess
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from peakgate.cli import main
from peakgate.common.errors import PeakgateError
from peakgate.reports.protect import acknowledged
from peakgate.reports.protect.changes import (
    Acknowledgement,
    Change,
    FileChange,
    Kind,
    contract_changes,
    floor_changes,
    reviewed_changes,
    rule,
    run_changes,
)
from synthetic_runs import document, save

PAD = "transpose.smem_pad-8192-32x8"
COPY = "roof.copy-1GiB"
TODAY = date(2026, 11, 20)
SOON = (datetime.now(UTC).date() + timedelta(days=30)).isoformat()
Captured = pytest.CaptureFixture[str]
FLOORS = st.dictionaries(st.sampled_from("abcdef"), st.floats(0.1, 1.0))


def git(*arguments: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, *arguments], check=True, capture_output=True)


def floors(values: Mapping[str, float]) -> str:
    lines = [f'"{case}" = {floor}' for case, floor in values.items()]
    return "\n".join(['schema = 1\ngpu = "nvidia-h200"\n[floors]', *lines, ""])


@pytest.fixture
def gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The baselines of one GPU in a repository whose tag ``base`` has two floors and two runs."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "baselines" / "nvidia-h200"
    (folder / "runs").mkdir(parents=True)
    (folder / "floors.toml").write_text(floors({PAD: 0.7, COPY: 0.8}))
    for name in ("one", "two"):
        (folder / "runs" / f"{name}.json").write_text(f'{{"run": "{name}"}}')
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "base")
    git("tag", "base")
    return folder


def acknowledge(folder: Path, *entries: str) -> None:
    text = "".join(f"[[acknowledged]]\n{entry}\n" for entry in entries)
    (folder / acknowledged.FILE).write_text(f"schema = 1\n{text}")


def test_an_untouched_tree_passes(gpu: Path, capsys: Captured) -> None:
    assert main(["protect", "--base", "base"]) == 0
    assert capsys.readouterr().out == "no unacknowledged change of floors, saved runs or contracts against base\n"


def test_raising_and_adding_is_fine(gpu: Path) -> None:
    (gpu / "floors.toml").write_text(floors({PAD: 0.75, COPY: 0.8, "roof.read-1GiB": 0.9}))
    save(gpu / "runs", "three", document())
    git("add", ".")
    assert main(["protect", "--base", "base"]) == 0


def test_a_lowered_floor_fails_and_is_listed_by_itself(gpu: Path, capsys: Captured) -> None:
    (gpu / "floors.toml").write_text(floors({PAD: 0.65, COPY: 0.9}))
    assert main(["protect", "--base", "base"]) == 1
    listed = capsys.readouterr().out.splitlines()
    assert listed[0] == f"nvidia-h200: floor lowered: {PAD}: 0.7 to 0.65"
    assert len(listed) == 2
    assert "baselines/nvidia-h200/acknowledged.toml" in listed[1]


def test_a_dropped_floor_fails(gpu: Path, capsys: Captured) -> None:
    (gpu / "floors.toml").write_text(floors({PAD: 0.7}))
    assert main(["protect", "--base", "base"]) == 1
    assert f"floor dropped: {COPY}: 0.8 to none" in capsys.readouterr().out


def test_a_deleted_floors_file_drops_every_floor(gpu: Path, capsys: Captured) -> None:
    (gpu / "floors.toml").unlink()
    assert main(["protect", "--base", "base"]) == 1
    assert capsys.readouterr().out.count("floor dropped") == 2


def test_an_edited_and_a_deleted_run_fail_whether_committed_or_not(gpu: Path, capsys: Captured) -> None:
    (gpu / "runs" / "one.json").write_text("{}")
    (gpu / "runs" / "two.json").unlink()
    for _ in range(2):
        assert main(["protect", "--base", "base"]) == 1
        reported = capsys.readouterr().out
        assert "nvidia-h200: run edited: one.json" in reported
        assert "nvidia-h200: run deleted: two.json" in reported
        git("add", "-A")
        git("commit", "-q", "--allow-empty", "-m", "change")


def test_a_renamed_run_is_a_deleted_one(gpu: Path, capsys: Captured) -> None:
    git("mv", "baselines/nvidia-h200/runs/one.json", "baselines/nvidia-h200/runs/first.json")
    assert main(["protect", "--base", "base"]) == 1
    assert "run deleted: one.json" in capsys.readouterr().out


def test_baselines_that_are_gone_altogether_fail(gpu: Path, capsys: Captured) -> None:
    git("rm", "-q", "-r", "baselines")
    assert not gpu.exists()
    assert main(["protect", "--base", "base"]) == 1
    reported = capsys.readouterr().out
    assert (reported.count("floor dropped"), reported.count("run deleted")) == (2, 2)


def test_an_acknowledged_change_passes_and_is_still_listed(gpu: Path, capsys: Captured) -> None:
    (gpu / "floors.toml").write_text(floors({PAD: 0.65, COPY: 0.8}))
    blob = hashed(gpu / "runs" / "one.json")
    (gpu / "runs" / "one.json").unlink()
    acknowledge(
        gpu,
        f'case = "{PAD}"\nfrom = 0.7\nto = 0.65\nreason = "less shared memory"\nexpires = {SOON}',
        f'run = "one.json"\nfrom = "{blob}"\nto = "none"\nreason = "throttled"\nexpires = "{SOON}"',
    )
    assert main(["protect", "--base", "base"]) == 0
    reported = capsys.readouterr().out
    assert f"floor lowered: {PAD}: 0.7 to 0.65; acknowledged until {SOON}: less shared memory" in reported
    assert "run deleted: one.json" in reported


def test_an_acknowledgement_excuses_its_own_case_alone(gpu: Path, capsys: Captured) -> None:
    (gpu / "floors.toml").write_text(floors({PAD: 0.65, COPY: 0.7}))
    acknowledge(gpu, f'case = "{PAD}"\nfrom = 0.7\nto = 0.65\nreason = "meant"\nexpires = {SOON}')
    assert main(["protect", "--base", "base"]) == 1
    assert "1 changes against base" in capsys.readouterr().out


def test_an_acknowledgement_that_nothing_needs_is_pointed_out(gpu: Path, capsys: Captured) -> None:
    acknowledge(gpu, f'case = "{PAD}"\nfrom = 0.7\nto = 0.65\nreason = "meant"\nexpires = {SOON}')
    assert main(["protect", "--base", "base"]) == 0
    assert f"the acknowledgement of {PAD} (0.7 to 0.65) excuses nothing here" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("schema = 2", "schema is 2"),
        ("schema = true", "schema is True"),
        ("schema = 1\nacknowledge = []", "unknown key 'acknowledge'"),
        ("schema = 1\nacknowledged = 3", "not a list"),
        ("schema = 1\nacknowledged = [3]", "entry 1 is not a table"),
        ("schema = 1\n[[acknowledged]]\ncase = 'a'\nfrom = 1\nto = 2\nreason = 'b'", "expires of a is None"),
        (
            "schema = 1\n[[acknowledged]]\ncase = 'a'\nfrom = 1\nto = 2\nreason = 'b'\nexpires = '31.12.2026'",
            "expires of a is '31.12.2026'",
        ),
        (
            "schema = 1\n[[acknowledged]]\ncase = 'a'\nfrom = 1\nto = 2\nreason = 'b'\nexpires = 2026-12-31T00:00:00",
            "expected a date",
        ),
        (
            "schema = 1\n[[acknowledged]]\ncase = 'a'\nfrom = 1\nto = 2\nreason = 'b'\nexpires = 20261231",
            "expected a date",
        ),
        (
            "schema = 1\n[[acknowledged]]\ncase = 'a'\nfrom = 1\nto = 2\nreason = 'b'\nexpires = 2026-11-19",
            "a expired on 2026-11-19",
        ),
        (
            "schema = 1\n[[acknowledged]]\ncase = 'a'\nfrom = 1\nto = 2\nreason = ' '\nexpires = 2026-12-31",
            "reason of a is ' '",
        ),
        ("schema = 1\n[[acknowledged]]\ncase = 'a'\nwhy = 'b'\nexpires = 2026-12-31", "unknown key in entry 1: 'why'"),
        ("schema = 1\n[[acknowledged]]\nreason = 'b'\nexpires = 2026-12-31", "neither case nor run"),
        (
            "schema = 1\n[[acknowledged]]\ncase = 'a'\nrun = 'r'\nfrom = 1\nto = 2\nreason = 'b'\nexpires = 2026-12-31",
            "both a case and a run",
        ),
        ("schema = 1\n[[acknowledged]]\ncase = 'a'\nreason = 'b'\nexpires = 2026-12-01", "from of a is None"),
        ("schema = 1\n[[acknowledged]]\ncase = 'a'\nfrom = [1]\nto = 2\nreason = 'b'", "from of a is [1]"),
        (
            "schema = 1\n[[acknowledged]]\ncase = 'a'\nfrom = 1\nto = 2\nreason = 'b'\nexpires = 9999-12-31",
            "may live 90 days",
        ),
        ("schema = ", "not TOML"),
    ],
)
def test_a_file_of_acknowledgements_is_read_strictly(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / acknowledged.FILE).write_text(text)
    with pytest.raises(PeakgateError) as caught:
        acknowledged.load(tmp_path / acknowledged.FILE, "g", TODAY)
    assert said in str(caught.value)
    assert acknowledged.FILE in str(caught.value)


def test_a_case_acknowledged_twice_is_an_error(tmp_path: Path) -> None:
    entry = "case = 'a'\nfrom = 1\nto = 2\nreason = 'b'\nexpires = 2026-12-31"
    acknowledge(tmp_path, entry, entry)
    with pytest.raises(PeakgateError, match="a is acknowledged twice"):
        acknowledged.load(tmp_path / acknowledged.FILE, "g", TODAY)


def test_an_acknowledgement_holds_on_its_last_day(tmp_path: Path) -> None:
    acknowledge(tmp_path, "case = 'a'\nfrom = 1\nto = 2\nreason = 'b'\nexpires = 2026-11-20")
    assert acknowledged.load(tmp_path / acknowledged.FILE, "g", TODAY) == [
        Acknowledgement("g", "floor", "a", "1", "2", "b", "2026-11-20")
    ]


def test_bytes_that_are_no_text_are_named(tmp_path: Path) -> None:
    (tmp_path / acknowledged.FILE).write_bytes(b"\xff")
    with pytest.raises(PeakgateError, match="cannot be read as UTF-8"):
        acknowledged.load(tmp_path / acknowledged.FILE, "g", TODAY)


@pytest.mark.parametrize("ref", ["nowhere", "--all", "", "base:baselines"])
def test_a_base_that_is_no_commit_exits_2_with_one_line(gpu: Path, capsys: Captured, ref: str) -> None:
    assert main(["protect", f"--base={ref}"]) == 2
    reported = capsys.readouterr().err
    assert len(reported.splitlines()) == 1
    assert "no commit of that name" in reported


def test_a_folder_outside_any_repository_exits_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert main(["protect", "--base", "main"]) == 2
    assert "not a git repository" in capsys.readouterr().err


def test_without_git_the_error_says_so(gpu: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setenv("PATH", "")
    assert main(["protect", "--base", "base"]) == 2
    assert "git is not installed" in capsys.readouterr().err


def test_floors_that_cannot_be_read_are_named_with_their_commit(gpu: Path, capsys: Captured) -> None:
    (gpu / "floors.toml").write_text("schema = 9")
    git("commit", "-q", "-a", "-m", "broken")
    assert main(["protect", "--base", "HEAD"]) == 2
    assert "HEAD:baselines/nvidia-h200/floors.toml:1: schema is 9" in capsys.readouterr().err


def test_a_folder_of_baselines_that_cannot_be_exits_2(gpu: Path, capsys: Captured) -> None:
    assert main(["protect", "--base", "base", "--baselines", "no/such/place"]) == 2
    assert "no such place" in capsys.readouterr().err


def test_a_repository_without_baselines_has_nothing_to_protect(gpu: Path) -> None:
    assert main(["protect", "--base", "base", "--baselines", "elsewhere"]) == 0


@given(FLOORS, FLOORS)
def test_exactly_the_floors_that_no_longer_hold_as_much_are_changes(
    before: dict[str, float], after: dict[str, float]
) -> None:
    changes = floor_changes("g", before, after)
    assert {change.what for change in changes} == {case for case in before if after.get(case, 0.0) < before[case]}
    assert all((change.kind is Kind.DROPPED) == (change.what not in after) for change in changes)


def word(gpu: str, change: Change) -> Acknowledgement:
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


def test_an_acknowledgement_of_another_gpu_or_of_other_values_excuses_nothing() -> None:
    changes = floor_changes("nvidia-h200", {"a": 0.7}, {"a": 0.65})
    for other in (
        word("nvidia-l4", changes[0]),
        word("nvidia-h200", floor_changes("g", {"a": 0.7}, {"a": 0.6})[0]),
        word("nvidia-h200", floor_changes("g", {"a": 0.8}, {"a": 0.65})[0]),
    ):
        assert rule(changes, [other]).failing == tuple(changes)
    assert rule(changes, [word("nvidia-h200", changes[0])]).failing == ()


def test_only_files_in_a_runs_folder_are_runs_and_links_are_none() -> None:
    states = [("M", "g/floors.toml"), ("M", "resources.json"), ("A", "g/runs/new.json"), ("T", "g/runs/deep/x.json")]
    files = [FileChange(state, path, False, "1", "2") for state, path in states]
    assert [(change.kind, change.what) for change in run_changes(files)] == [(Kind.EDITED, "deep/x.json")]
    link = FileChange("T", "g/floors.toml", True, "1", "link")
    assert [change.kind for change in run_changes([link])] == [Kind.LINK]


def test_every_term_of_a_known_case_that_differs_is_a_change_and_so_is_a_case_that_is_gone() -> None:
    before: dict[str, dict[str, object]] = {
        "a": {"bytes": 8, "tolerance": 1e-6, "host_bound": False},
        "b": {"bytes": 1},
    }
    after: dict[str, dict[str, object]] = {
        "a": {"bytes": 16, "tolerance": 1e9, "host_bound": False},
        "new": {"bytes": 2},
    }
    found = contract_changes(before, after)
    assert [str(change) for change in found] == [
        "contract changed: bytes of a: 8 to 16",
        "contract changed: tolerance of a: 1e-06 to 1000000000.0",
        "case dropped: b: present to none",
    ]


@pytest.mark.parametrize(
    "path",
    [
        *(".github/workflows/gate.yml", ".github/verdict.py", "noxfile.py", "requirements/bench.txt", "pyproject.toml"),
        *("baselines/waivers.toml", "baselines/g/digests.json", "baselines/g/acknowledged.toml", "suite/verdict.py"),
        *("baselines/resources.json", "reports/compare.py", "CODEOWNERS", ".ci/run"),
    ],
)
def test_files_that_decide_how_a_change_is_judged_are_for_review(path: str) -> None:
    assert [change.what for change in reviewed_changes([FileChange("M", path, False, "1", "2")], "baselines")] == [path]


@pytest.mark.parametrize("path", ["kernels/a/a.cu", "README.md", "baselines/g/floors.toml", "baselines/g/runs/x.json"])
def test_other_files_are_not(path: str) -> None:
    assert reviewed_changes([FileChange("M", path, False, "1", "2")], "baselines") == []


def test_what_is_for_review_passes_unless_strict(gpu: Path, capsys: Captured) -> None:
    Path("noxfile.py").write_text("")
    assert main(["protect", "--base", "base"]) == 0
    assert "for review: noxfile.py: none to e69de29bb2d1" in capsys.readouterr().out
    assert main(["protect", "--base", "base", "--strict"]) == 1


def test_a_link_among_the_baselines_fails(gpu: Path, capsys: Captured) -> None:
    (gpu / "floors.toml").rename(gpu.parent.parent / "elsewhere.toml")
    (gpu / "floors.toml").symlink_to("../../elsewhere.toml")
    assert main(["protect", "--base", "base"]) == 1
    assert "symbolic link: floors.toml" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (document() | {"datetime": "2099-01-01T00:00:00+00:00"}, "in the future"),
        (document(slug="nvidia-l4"), "among those of nvidia-h200"),
        ({}, "not a pytest-benchmark file"),
    ],
)
def test_a_forged_run_that_is_added_fails(gpu: Path, capsys: Captured, content: dict[str, object], said: str) -> None:
    save(gpu / "runs", "three", content)
    assert main(["protect", "--base", "base"]) == 1
    reported = capsys.readouterr().out
    assert "run that cannot be trusted: three.json" in reported
    assert said in reported


def test_a_change_cannot_acknowledge_itself_where_the_base_is_asked(gpu: Path) -> None:
    (gpu / "floors.toml").write_text(floors({PAD: 0.65, COPY: 0.8}))
    acknowledge(gpu, f'case = "{PAD}"\nfrom = 0.7\nto = 0.65\nreason = "meant"\nexpires = {SOON}')
    assert main(["protect", "--base", "base"]) == 0
    assert main(["protect", "--base", "base", "--acknowledged-from-base"]) == 1
    git("add", str(gpu / acknowledged.FILE))
    git("commit", "-q", "-m", "an owner's word")
    assert main(["protect", "--base", "HEAD", "--acknowledged-from-base"]) == 0


FAMILY = """
from pathlib import Path

import numpy as np
from peakgate.case import Buffer, Case, Family, Launch, Role, Stage, Tier, Work

STAGE = Stage("fill", "writes ones", Path(__file__).with_name("fill.cu"), MORE)


def reference(xp, inputs):
    return [xp.ones(SHAPE, dtype=xp.float32)]


def cases(scale):
    launch = Launch((1, 1, 1), (32, 1, 1))
    out = Buffer(Role.OUT, SHAPE)
    yield Case("fills", STAGE, launch, (out,), Work(BYTES), reference, tolerance=TOLERANCE, tier=TIER)


def probes(case):
    yield from cases(None)


FAMILY = Family("fills", "a test", (STAGE,), cases, probes)
"""
HONEST = {"SHAPE": "(32,)", "BYTES": "128", "TOLERANCE": "0.0", "TIER": "Tier.GATE", "MORE": "min_capability=(7, 5)"}


@pytest.mark.parametrize(
    ("changed", "terms"),
    [
        ({"BYTES": "256"}, {"bytes"}),
        ({"TOLERANCE": "1e9"}, {"tolerance", "reference"}),
        ({"TIER": "Tier.FULL"}, {"tier"}),
        ({"MORE": "min_capability=(9, 9)"}, {"min_capability"}),
        ({"MORE": "min_capability=(7, 5), host_bound=True"}, {"host_bound"}),
        ({"SHAPE": "(16,)"}, {"buffers", "reference"}),
    ],
)
def test_each_way_to_loosen_a_cases_contract_is_listed(
    gpu: Path, capsys: Captured, changed: dict[str, str], terms: set[str]
) -> None:
    folder = Path("kernels/fills")
    folder.mkdir(parents=True)
    (folder / "fill.cu").write_text('extern "C" __global__ void fill(float* out) { out[threadIdx.x] = 1.0f; }\n')
    Path("peakgate.toml").write_text("")

    def write(values: dict[str, str]) -> None:
        text = FAMILY
        for name, value in values.items():
            text = text.replace(name, value) if name != "TIER" else text.replace("tier=TIER", f"tier={value}")
        (folder / "family.py").write_text(text)

    write(HONEST)
    git("add", ".")
    git("commit", "-q", "-m", "a family")
    write(HONEST | changed)
    assert main(["protect", "--base", "HEAD"]) == 1
    listed = [line for line in capsys.readouterr().out.splitlines() if line.startswith("contract changed: ")]
    assert {line.split(": ")[1].split(" of ")[0] for line in listed} == terms


def hashed(path: Path) -> str:
    done = subprocess.run(["git", "hash-object", str(path)], check=True, capture_output=True, text=True)
    return done.stdout[:12]
