from __future__ import annotations

import gzip
import json
import os
import shutil
from collections.abc import Mapping
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ab_fake import git as git_in
from refusals import refusal
from synthetic_runs import document, save

from peakgate.base.config import ProjectSettings
from peakgate.base.errors import Code, PeakgateError
from peakgate.base.files import LARGEST_FILE_BYTES
from peakgate.cli import main
from peakgate.judge import acknowledged
from peakgate.review import protect
from peakgate.review import sides as project_sides
from peakgate.review.changes import ChangeKind, FileChange
from peakgate.spec.contract import Contract

PAD = "transpose.smem_pad-8192-32x8"
COPY = "roof.copy-1GiB"
SOON = (datetime.now(UTC).date() + timedelta(days=30)).isoformat()
Captured = pytest.CaptureFixture[str]
git = partial(git_in, Path())
"""Of the working directory."""


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
    (folder / acknowledged.ACKNOWLEDGED_FILE).write_text(f"schema = 1\n{text}")


def changed(*options: str, base: str = "base", of: str = "failing") -> list[tuple[str, ...]]:
    """GPU, kind and subject, before and after of each change against the base, as the verdict lists them."""
    main(["protect", "--base", base, "--out", ".git/out", *options])
    listed = json.loads(Path(".git/out/protect.json").read_text())["changes"][of]
    return [tuple(each[name] for name in ("gpu", "kind", "what", "before", "after")) for each in listed]


def test_an_untouched_tree_passes(gpu: Path, capsys: Captured) -> None:
    assert main(["protect", "--base", "base"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_raising_and_adding_is_fine(gpu: Path) -> None:
    (gpu / "floors.toml").write_text(floors({PAD: 0.75, COPY: 0.8, "roof.read-1GiB": 0.9}))
    save(gpu / "runs", "three", document())
    git("add", ".")
    assert main(["protect", "--base", "base"]) == 0


def test_a_lowered_floor_fails_and_is_listed_by_itself(gpu: Path, capsys: Captured) -> None:
    (gpu / "floors.toml").write_text(floors({PAD: 0.65, COPY: 0.9}))
    assert main(["protect", "--base", "base"]) == 1
    assert "baselines/nvidia-h200/acknowledged.toml" in capsys.readouterr().out
    assert changed() == [("nvidia-h200", "floor lowered", PAD, "0.7", "0.65")]


def test_a_deleted_floors_file_drops_every_floor(gpu: Path, capsys: Captured) -> None:
    (gpu / "floors.toml").unlink()
    assert main(["protect", "--base", "base"]) == 1
    assert capsys.readouterr().out.count("floor dropped") == 2


def test_edited_and_deleted_runs_fail_committed_or_not(gpu: Path) -> None:
    one, two = gpu / "runs" / "one.json", gpu / "runs" / "two.json"
    before = hashed(one), hashed(two)
    one.write_text("{}")
    two.unlink()
    for _ in range(2):
        assert main(["protect", "--base", "base"]) == 1
        assert changed() == [
            ("nvidia-h200", "run edited", "one.json", before[0], hashed(one)),
            ("nvidia-h200", "run deleted", "two.json", before[1], "none"),
        ]
        git("add", "-A")
        git("commit", "-q", "--allow-empty", "-m", "change")


def test_a_run_packed_with_the_same_content_is_no_change(gpu: Path) -> None:
    plain = gpu / "runs" / "one.json"
    packed = gpu / "runs" / "one.json.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    assert main(["protect", "--base", "base"]) == 0
    git("add", "-A")
    git("commit", "-q", "-m", "packed")
    git("tag", "packed")
    packed.write_bytes(gzip.compress(b"{}"))
    assert main(["protect", "--base", "packed"]) == 1
    assert [each[1:3] for each in changed(base="packed")] == [("run edited", "one.json.gz")]
    assert main(["protect", "--base", "base"]) == 1
    assert sorted(each[2] for each in changed()) == ["one.json", "one.json.gz"]


def submodule(path: str) -> None:
    """Add a submodule at ``path``: a repository with one commit, beside the one at hand."""
    git("init", "-q", "../library")
    git("-C", "../library", "commit", "-q", "--allow-empty", "-m", "library")
    git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "../library", path)


@pytest.fixture
def repository(gpu: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The repository of ``gpu``, in a folder that has a neighbour of its own."""
    moved = gpu.parents[1] / "repository"
    moved.mkdir()
    for path in [path for path in moved.parent.iterdir() if path != moved]:
        path.rename(moved / path.name)
    monkeypatch.chdir(moved)
    return moved


def test_submodules_and_repositories_elsewhere_are_harmless(repository: Path) -> None:
    submodule("third_party/library")
    git("init", "-q", "nested")
    git("init", "-q", "scratch/deep")
    (repository / "nested" / "file").write_text("")
    (repository / "folder_link").symlink_to(repository / "third_party", target_is_directory=True)
    assert main(["protect", "--base", "base"]) == 0
    git("add", "third_party", "folder_link")
    git("commit", "-q", "-m", "a submodule")
    assert main(["protect", "--base", "base"]) == 0
    git("mv", "third_party/library", "moved")
    assert main(["protect", "--base", "HEAD"]) == 0
    git("-C", "moved", "commit", "-q", "--allow-empty", "-m", "newer")
    (repository / "moved" / "untracked").write_text("")
    assert main(["protect", "--base", "HEAD"]) == 0
    git("rm", "-q", "-f", "moved")
    assert main(["protect", "--base", "HEAD"]) == 0


@pytest.mark.parametrize("ignore", ["none", "all"])
def test_a_submodule_among_baselines_fails_until_acknowledged(repository: Path, ignore: str) -> None:
    submodule("baselines/nvidia-h200/runs/more")
    git("config", "-f", ".gitmodules", "submodule.baselines/nvidia-h200/runs/more.ignore", ignore)
    git("commit", "-q", "-a", "-m", "a submodule")
    assert main(["protect", "--base", "base"]) == 1
    (found,) = changed()
    assert found[:4] == ("nvidia-h200", "nested repository", "runs/more", "none")
    entry = f'run = "runs/more"\nfrom = "none"\nto = "{found[4]}"\nreason = "old"\nexpires = {SOON}'
    acknowledge(repository / "baselines" / "nvidia-h200", entry)
    assert main(["protect", "--base", "base"]) == 0


@pytest.mark.parametrize("place", ["baselines", "baselines/nvidia-h200/runs/new", "kernels/new", "kernels"])
def test_an_untracked_repository_among_kernels_fails(repository: Path, place: str) -> None:
    (repository / "peakgate.toml").write_text("")
    (repository / "kernels" / "some").mkdir(parents=True)
    if place == "baselines":
        git("rm", "-q", "-r", "baselines")
    git("init", "-q", place)
    if place == "kernels":
        (repository / "kernels" / "file").write_text("")
    git("add", "peakgate.toml")
    git("commit", "-q", "-m", "a project")
    assert main(["protect", "--base", "HEAD"]) == 1
    nested = ("nested repository", place.removeprefix("baselines/nvidia-h200/"), "none", "repository")
    assert nested in [each[1:] for each in changed(base="HEAD")]


def test_an_acknowledged_change_passes_and_is_still_listed(gpu: Path) -> None:
    (gpu / "floors.toml").write_text(floors({PAD: 0.65, COPY: 0.8}))
    blob = hashed(gpu / "runs" / "one.json")
    (gpu / "runs" / "one.json").unlink()
    (gpu.parent / "notes").write_text("of no GPU")
    acknowledge(
        gpu,
        f'case = "{PAD}"\nfrom = 0.7\nto = 0.65\nreason = "less shared memory"\nexpires = {SOON}',
        f'run = "one.json"\nfrom = "{blob}"\nto = "none"\nreason = "throttled"\nexpires = "{SOON}"',
    )
    assert main(["protect", "--base", "base"]) == 0
    assert [each[1:3] for each in changed(of="acknowledged")] == [("floor lowered", PAD), ("run deleted", "one.json")]


@pytest.mark.parametrize("ref", ["nowhere", "--all", "", "base:baselines"])
def test_a_base_that_is_no_commit_exits_2_with_one_line(gpu: Path, capsys: Captured, ref: str) -> None:
    assert main(["protect", f"--base={ref}"]) == 2
    reported = capsys.readouterr().err
    assert len(reported.splitlines()) == 1
    assert reported.endswith(f" [{Code.COMMIT}]\n")


def test_floors_that_cannot_be_read_are_named_with_their_commit(gpu: Path, capsys: Captured) -> None:
    (gpu / "floors.toml").write_text("schema = 9")
    git("commit", "-q", "-a", "-m", "broken")
    assert main(["protect", "--base", "HEAD"]) == 2
    reported = capsys.readouterr().err
    assert reported.startswith("HEAD:baselines/nvidia-h200/floors.toml:1: ")
    assert reported.endswith(f" [{Code.RECORD}]\n")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("x = ", Code.MALFORMED),
        ("[floors]", Code.RECORD),
        (floors({PAD: 1.5}), Code.RECORD),
        (floors({PAD: 0.5}), Code.GPU_MODELS),
        (floors({PAD: 0.5}).replace("h200", "h100-80gb"), None),
    ],
)
@pytest.mark.parametrize("added", [False, True])
def test_new_floors_of_another_gpu_are_read_as_strictly(
    gpu: Path, capsys: Captured, text: str, code: Code | None, added: bool
) -> None:
    other = gpu.with_name("nvidia-h100-80gb")
    other.mkdir()
    (other / "floors.toml").write_text(text)
    if added:
        git("add", ".")
    assert main(["protect", "--base", "base"]) == (0 if code is None else 2)
    assert code is None or refusal(capsys) is code


def test_a_command_that_fails_leaves_no_older_verdict(gpu: Path) -> None:
    assert main(["protect", "--base", "base", "--out", "out"]) == 0
    assert main(["protect", "--base", "nowhere", "--out", "out"]) == 2
    assert list(Path("out").iterdir()) == []


@pytest.mark.parametrize("named", ["no/such/place", "elsewhere", "kernels", "baselines/nvidia-h200"])
def test_a_folder_without_baselines_is_refused(gpu: Path, capsys: Captured, named: str) -> None:
    Path("kernels/a").mkdir(parents=True, exist_ok=True)
    assert main(["protect", "--base", "base", "--baselines", named]) == 2
    assert refusal(capsys) is Code.UNREADABLE


def test_a_repository_without_baselines_has_nothing_to_protect(gpu: Path) -> None:
    git("rm", "-rq", "baselines")
    git("commit", "-qm", "none")
    assert main(["protect", "--base", "HEAD"]) == 0


def test_what_is_for_review_passes_unless_strict(gpu: Path) -> None:
    Path("noxfile.py").write_text("")
    assert main(["protect", "--base", "base"]) == 0
    assert [each[2:] for each in changed(of="review")] == [
        ("noxfile.py", "none", "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391")
    ]
    assert main(["protect", "--base", "base", "--strict"]) == 1


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (document() | {"datetime": "2099-01-01T00:00:00+00:00"}, "in the future"),
        (document(slug="nvidia-l4"), "among those of nvidia-h200"),
        ({}, "not a run of Peakgate"),
    ],
)
def test_a_forged_run_that_is_added_fails(gpu: Path, capsys: Captured, content: dict[str, object], said: str) -> None:
    save(gpu / "runs", "three", content)
    assert main(["protect", "--base", "base"]) == 1
    reported = capsys.readouterr().out
    assert said in reported
    assert [each[2] for each in changed()] == ["three.json"]


def test_no_change_acknowledges_itself_where_the_base_is_asked(gpu: Path, capsys: Captured) -> None:
    (gpu / "floors.toml").write_text(floors({PAD: 0.65, COPY: 0.8}))
    acknowledge(gpu, f'case = "{PAD}"\nfrom = 0.7\nto = 0.65\nreason = "meant"\nexpires = {SOON}')
    assert main(["protect", "--base", "base"]) == 0
    assert main(["protect", "--base", "base", "--acknowledged-from-base"]) == 1
    assert "merged first" in capsys.readouterr().out
    git("add", str(gpu / acknowledged.ACKNOWLEDGED_FILE))
    git("commit", "-q", "-m", "an owner's word")
    assert main(["protect", "--base", "HEAD", "--acknowledged-from-base"]) == 0


@pytest.mark.parametrize("deleted", [False, True])
def test_an_expired_acknowledgement_of_the_base_excuses_nothing(gpu: Path, capsys: Captured, deleted: bool) -> None:
    old = (datetime.now(UTC).date() - timedelta(days=1)).isoformat()
    acknowledge(gpu, f'case = "{PAD}"\nfrom = 0.7\nto = 0.65\nreason = "meant"\nexpires = {old}')
    git("add", ".")
    git("commit", "-q", "-m", "an owner's word")
    if deleted:
        (gpu / acknowledged.ACKNOWLEDGED_FILE).unlink()
    given = ["protect", "--base", "HEAD", "--acknowledged-from-base"]
    assert main(given) == 0
    assert old in capsys.readouterr().out
    (gpu / "floors.toml").write_text(floors({PAD: 0.65, COPY: 0.8}))
    assert main(given) == 1
    assert main(["protect", "--base", "HEAD"]) == (1 if deleted else 2)


def test_the_bases_acknowledgements_count_in_a_gpus_folder_alone(gpu: Path) -> None:
    (gpu / "old").mkdir()
    (gpu / "old" / acknowledged.ACKNOWLEDGED_FILE).write_text("schema = 2")
    git("add", ".")
    git("commit", "-q", "-m", "deeper")
    assert main(["protect", "--base", "HEAD", "--acknowledged-from-base"]) == 0


def hashed(path: Path) -> str:
    return git("hash-object", str(path))


def test_baselines_behind_a_link_to_another_folder_never_pass(gpu: Path, capsys: Captured) -> None:
    Path("perf").mkdir()
    git("mv", "baselines", "perf/baselines")
    git("commit", "-q", "-m", "deeper")
    Path("perf").rename("other")
    (Path("other") / "baselines" / gpu.name / "floors.toml").unlink()
    Path("perf").symlink_to("other")
    assert main(["protect", "--base", "HEAD", "--baselines", "perf/baselines"]) == 2
    assert refusal(capsys) is Code.PROTECTED


def test_settings_that_judge_the_next_change_fail_unacknowledged(gpu: Path) -> None:
    Path("peakgate.toml").write_text("")
    git("add", ".")
    git("commit", "-q", "-m", "a project")
    (settings := gpu.parent.parent / "settings.toml").write_text("")  # those of the base, which judge
    Path("peakgate.toml").write_text('baselines = "elsewhere"\n')
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PEAKGATE_SETTINGS", str(settings))
        assert changed(base="HEAD") == [("", "setting changed", "settings", "baselines", "elsewhere")]
        entry = 'case = "settings"\nterm = "baselines"\nfrom = "baselines"\nto = "elsewhere"\nreason = "moved"'
        acknowledge(gpu.parent, f"{entry}\nexpires = {SOON}")
        assert changed(base="HEAD") == []


@pytest.mark.parametrize("kind", ["endless link", "FIFO", "large", "folder", "nothing"])
def test_floors_that_become_something_else_never_pass(gpu: Path, capsys: Captured, kind: str) -> None:
    path = gpu / "floors.toml"
    path.unlink()
    if kind == "endless link":
        path.symlink_to("/dev/zero")
    elif kind == "FIFO":
        os.mkfifo(path)
    elif kind == "large":
        with path.open("wb") as file:
            file.truncate(LARGEST_FILE_BYTES + 1)
    elif kind == "folder":
        path.mkdir()
    code = main(["protect", "--base", "base"])
    assert (code, len(capsys.readouterr().err.splitlines())) in ((1, 0), (2, 1))


@pytest.mark.parametrize("target", ["/dev/zero", "three.json", "/proc/self/maps", "/proc/self"])
def test_a_link_among_the_runs_fails_and_is_not_read(gpu: Path, capsys: Captured, target: str) -> None:
    (gpu / "runs" / "three.json").symlink_to(target)
    assert main(["protect", "--base", "base"]) == 1
    assert "symbolic link: runs/three.json" in capsys.readouterr().out
    assert [each[-1] for each in changed()] == ["link"]


def test_baselines_that_become_a_link_fail(gpu: Path, tmp_path: Path, capsys: Captured) -> None:
    elsewhere = tmp_path.parent / f"{tmp_path.name}-elsewhere"
    gpu.parent.rename(elsewhere)
    gpu.parent.symlink_to(elsewhere)
    assert main(["protect", "--base", "base"]) == 1
    assert "symbolic link: baselines" in capsys.readouterr().out


@pytest.mark.parametrize("target", ["/dev/zero", "baselines"])
def test_baselines_that_become_a_link_to_no_folder_never_pass(gpu: Path, target: str) -> None:
    gpu.parent.rename(gpu.parent.with_name("moved"))
    gpu.parent.symlink_to(target)
    assert main(["protect", "--base", "base"]) in (1, 2)


@pytest.fixture
def project(gpu: Path) -> Path:
    """The repository with a project."""
    for name, text in {"peakgate.toml": "", "kernels/a/family.py": "FAMILY = None"}.items():
        (path := gpu.parents[1] / name).parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git("add", ".")
    git("commit", "-q", "-m", "project")
    git("tag", "--force", "base")
    return gpu.parents[1]


def test_the_bases_contracts_are_compared_with_the_trees(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed: dict[str, Path] = {}

    def contracts(tree: Path, name: str) -> dict[str, Contract]:
        listed[name] = tree
        assert (tree / "kernels" / "a" / "family.py").is_file()
        if name == "base":
            return {"a.b": Contract(tolerance=1e-6, code="1"), "a.c": Contract(), "a.d": Contract(bytes=8)}
        return {"a.b": Contract(tolerance=1.0, code="2"), "a.d": Contract(bytes=8), "a.e": Contract()}

    monkeypatch.setattr(protect, "contracts", contracts)
    (project / "kernels" / "a" / "b.cu").write_text("")
    assert main(["protect", "--base", "base", "--out", "out"]) == 1
    assert listed["the working tree"] == project
    assert not listed["base"].is_relative_to(project)
    found = json.loads((project / "out" / "protect.json").read_text())
    assert (found["schema"], found["command"], found["exit_code"], len(found["base"])) == (1, "protect", 1, 40)
    assert found["counts"]["failing"] == len(found["changes"]["failing"]) == 2
    assert found["counts"]["acknowledged"] == 0
    assert [(each["gpu"], each["kind"], each["term"], each["what"]) for each in found["changes"]["failing"]] == [
        ("", "contract changed", "tolerance", "a.b"),
        ("", "case dropped", "case", "a.c"),
    ]
    assert {each["gpu"] for each in found["changes"]["review"]} <= {""}
    Path("peakgate.toml").write_text('baselines = "elsewhere"\n')
    assert [each[1] for each in changed("--baselines", "baselines")].count("setting changed") == 1
    assert main(["protect", "--base", "base", "--no-contracts"]) == 0


@pytest.mark.parametrize("gone", ["kernels", "peakgate.toml"])
@pytest.mark.parametrize("place", [".", "deep/project"])
def test_without_kernels_or_project_a_tree_drops_every_case(
    project: Path, monkeypatch: pytest.MonkeyPatch, gone: str, place: str
) -> None:
    (inside := project / place).mkdir(parents=True, exist_ok=True)
    for name in ("peakgate.toml", "kernels", "baselines"):
        git("mv", "-k", name, place)
    git("commit", "-q", "--allow-empty", "-m", "moved")
    git("tag", "--force", "base")
    asked: list[tuple[Path, str]] = []

    def contracts(tree: Path, name: str) -> dict[str, Contract]:
        asked.append((tree, name))
        return {"a.b": Contract(bytes=8)}

    monkeypatch.setattr(protect, "contracts", contracts)
    monkeypatch.chdir(inside)
    where = ["protect", "--base", "base", "--baselines", "baselines"]
    assert main(where) == 0
    assert {name: tree == inside for tree, name in asked} == {"base": False, "the working tree": True}
    assert next(tree for tree, name in asked if name == "base").name == ("base" if place == "." else "project")
    git("rm", "-r", "-q", gone)
    assert main([*where, "--out", "out"]) == 1
    (found,) = json.loads(Path("out/protect.json").read_text())["changes"]["failing"]
    assert (found["kind"], found["what"]) == ("case dropped", "a.b")


def test_a_family_that_imports_uncommitted_files_is_told_so(project: Path) -> None:
    (project / "kernels" / "a").mkdir(exist_ok=True)
    (project / "kernels" / "a" / "family.py").write_text("import made_by_the_build\n")
    with pytest.raises(PeakgateError) as refused:
        protect.contracts(project, "base")
    assert refused.value.code is Code.FAMILY
    assert "made_by_the_build" in refused.value.message
    assert "`build`" in refused.value.message


def test_a_project_around_the_repository_is_not_the_repositorys(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protect, "contracts", lambda tree, name: pytest.fail("listed"))
    (repository.parent / "peakgate.toml").write_text("")
    (repository.parent / "kernels").mkdir()
    assert project_sides.side_at(repository, repository).project is None
    assert main(["protect", "--base", "base", "--baselines", "baselines"]) == 0


def places(project: Path, **settings: Any) -> tuple[set[str], set[str]]:
    tests, imported = project_sides.places(project, [(project, ProjectSettings(**settings))])
    return set(tests), set(imported)


def link(path: Path, target: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


def test_a_folder_that_is_a_link_has_two_names(project: Path) -> None:
    assert places(project) == (set(), {"kernels"})
    (project / "kernels").rename(project / "others")
    (project / "kernels").symlink_to("others")
    (project / "others" / "a" / "refs.py").symlink_to("../../data/refs.txt")
    (project / "others" / "out").symlink_to("/etc")
    assert places(project)[1] == {"kernels", "others", "others/a/refs.py", "others/out", "data/refs.txt"}


def test_a_folder_of_kernels_that_links_to_itself_keeps_its_name(project: Path) -> None:
    (project / "kernels").rename(project / "others")
    (project / "kernels").symlink_to("kernels")
    assert places(project)[1] == {"kernels"}


def test_links_are_followed_hop_by_hop_and_into_folders(project: Path) -> None:
    link(project / "src" / "a", "../l1")
    link(project / "l1" / "b", str(project / "l2"))
    (project / "l2").mkdir()
    assert places(project, pythonpath=("src",))[1] == {"kernels", "src", "src/a", "l1", "l1/b", "l2"}
    link(project / "l2" / "refs", "../lib/current")
    link(project / "lib" / "current", "v2")
    (project / "lib" / "v2").mkdir()
    assert places(project, pythonpath=("src",))[1] >= {"l2/refs", "lib/current", "lib/v2"}


@pytest.mark.parametrize(("package", "place"), [(False, "bench"), (True, ".")])
@pytest.mark.parametrize("named", ["bench", "bench/test_a.py"])
def test_beside_a_benchmark_test_helpers_are_imported(project: Path, named: str, package: bool, place: str) -> None:
    (project / "bench").mkdir()
    (project / "bench" / ("__init__.py" if package else "helper.py")).touch()
    assert places(project, benchmarks=(named,)) == ({named}, {"kernels", place})


def test_an_archive_named_by_the_changes_own_pythonpath_fails(
    project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (settings := tmp_path_factory.mktemp("judge") / "settings.toml").write_text("")  # the base's, which judge
    monkeypatch.setenv("PEAKGATE_SETTINGS", str(settings))
    (project / "data.bin").write_text("")
    (project / "peakgate.toml").write_text('pythonpath = ["data.bin"]\n')
    assert [each[1:3] for each in changed("--no-contracts")] == [("code that is not source", "data.bin")]


def test_a_header_that_no_kernel_includes_is_for_review(project: Path) -> None:
    kernel = project / "kernels" / "a" / "a.cu"
    kernel.parent.mkdir(exist_ok=True)
    kernel.write_text('#include "a.h"\n__global__ void a() {}\n')
    for name in ("a.h", "table.h", "table.cu"):
        kernel.with_name(name).write_text("")
    git("add", "--all")
    git("commit", "-q", "-m", "headers")
    for name in ("a.h", "table.h", "table.cu"):
        kernel.with_name(name).write_text("int i;\n")
    kernel.write_text('#include "a.h"\n#include "table.h"\n#include "new.h"\n__global__ void a() {}\n')
    kernel.with_name("new.h").write_text("")
    found = [each[2] for each in changed("--no-contracts", base="HEAD", of="review")]
    assert found == ["kernels/a/table.cu", "kernels/a/table.h"]


def test_a_kernel_elsewhere_that_a_family_names_is_measured(project: Path) -> None:
    kernels = [project / "src" / "a.cu", project / "src" / "b.cu"]
    kernels[0].parent.mkdir()
    for kernel in kernels:
        kernel.write_text("__global__ void a() {}\n")
    family = project / "kernels" / "a" / "family.py"
    family.parent.mkdir(exist_ok=True)
    family.write_text('FAMILY = kernel("../../src/a.cu")  # b\n')
    git("add", "--all")
    git("commit", "-q", "-m", "kernels")
    for kernel in kernels:
        kernel.write_text("__global__ void a() { __syncthreads(); }\n")
    family.write_text('FAMILY = kernel("../../src/a.cu", "../../src/b.cu")\n')
    found = [each[2] for each in changed("--no-contracts", base="HEAD", of="review")]
    assert found == ["kernels/a/family.py", "src/b.cu"]


def test_a_file_that_the_bases_python_names_is_for_review(project: Path) -> None:
    (project / "data").mkdir()
    (project / "data" / "large.txt").write_text("2")
    family = project / "kernels" / "family.py"
    family.write_text('from pathlib import Path\nF = Path(__file__).parents[2] / "data/large.txt"\n')
    git("add", "--all")
    git("commit", "-q", "-m", "data")
    (project / "data" / "large.txt").write_text("3")
    family.write_text("")
    found = [each[2] for each in changed("--no-contracts", base="HEAD", of="review")]
    assert found == ["data/large.txt", "kernels/family.py"]


def test_each_folder_behind_links_is_listed_once(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = project / "kernels" / "p" / "d" / "d"
    folder.mkdir(parents=True)
    (folder / "family.py").write_text("inside")
    (project.parent / "elsewhere").mkdir()
    (project.parent / "elsewhere" / "family.py").write_text("outside")
    for name, target in {"m1": "p", "m2": "p/d", "m3": "m2/d", "out": "../../elsewhere"}.items():
        link(project / "kernels" / name, target)
    listed: list[str] = []
    scandir = os.scandir

    def noted(path: str) -> Any:
        listed.append(path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", noted)
    words = project_sides.words(project_sides.places(project, [(project, ProjectSettings())])[1], project)
    assert "inside" in words
    assert "outside" not in words
    assert max(map(listed.count, listed)) == 2  # once for links, once for words


@pytest.mark.parametrize("side", ["base", "change"])
def test_with_a_build_every_file_but_kernels_is_for_review(project: Path, side: str) -> None:
    (project / "Makefile").write_text("all:\n")
    if side == "base":
        (project / "peakgate.toml").write_text('build = "make"\n')
    git("add", "--all")
    git("commit", "-q", "-m", "built")
    if side == "change":
        (project / "peakgate.toml").write_text('build = "make"\n')
    (project / "Makefile").write_text("all: other\n")
    assert "Makefile" in [each[2] for each in changed("--no-contracts", base="HEAD", of="review")]


def test_committed_runs_and_verdicts_fail_and_others_pass(project: Path) -> None:
    for name in (".benchmarks/h200/0001_x.json", ".peakgate/out/bench.json"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("{}")
    assert changed("--no-contracts") == []
    git("add", "--all", "--force", ".benchmarks", ".peakgate")
    assert [each[1:3] for each in changed("--no-contracts")] == [
        ("committed output", ".benchmarks/h200/0001_x.json"),
        ("committed output", ".peakgate/out/bench.json"),
    ]


def test_code_that_is_not_source_fails_until_it_is_acknowledged(project: Path) -> None:
    file = project / "lib" / "refs.so"
    file.parent.mkdir()
    file.write_text("")
    git("add", "--force", "lib")
    ((gpu, kind, what, before, after),) = changed("--no-contracts")
    assert (gpu, kind, what, before) == ("", "code that is not source", "lib/refs.so", "none")
    entry = f'case = "lib/refs.so"\nterm = "file"\nfrom = "none"\nto = "{after}"\nreason = "ours"\nexpires = {SOON}'
    acknowledge(project / "baselines", entry)
    assert changed("--no-contracts") == []


def test_a_base_without_kernels_has_no_contracts_to_compare(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protect, "contracts", lambda tree, name: pytest.fail("listed"))
    git("rm", "-r", "-q", "kernels")
    git("commit", "-q", "-m", "without")
    git("tag", "--force", "base")
    (project / "kernels" / "a").mkdir(parents=True)
    (project / "kernels" / "a" / "family.py").write_text("")
    assert main(["protect", "--base", "base"]) == 0


def test_floors_of_every_gpu_are_compared(gpu: Path, capsys: Captured) -> None:
    other = gpu.parent / "nvidia-l4"
    other.mkdir()
    (other / "floors.toml").write_text(floors({PAD: 0.5}).replace("nvidia-h200", "nvidia-l4"))
    git("add", ".")
    git("commit", "-q", "-m", "another")
    git("tag", "--force", "base")
    for folder in (gpu, other):
        path = folder / "floors.toml"
        path.write_text(path.read_text().replace("0.7", "0.6").replace("0.5", "0.4"))
    assert main(["protect", "--base", "base"]) == 1
    lowered = [line.partition(":")[0] for line in capsys.readouterr().out.splitlines() if "lowered" in line]
    assert lowered == ["nvidia-h200", "nvidia-l4"]
    (other / "floors.toml").write_text(floors({PAD: 0.5}))  # of another GPU than its folder's
    assert main(["protect", "--base", "base"]) == 2


@pytest.mark.parametrize(
    ("deleted", "state", "link", "left"),
    [
        ("nvidia-h200/runs/one.json", "D", False, 0),
        ("nvidia-h200/runs/one.json", "M", False, 2),
        ("nvidia-h200/runs/one.json", "D", True, 2),
        ("nvidia-h200/notes.json", "D", False, 2),
    ],
)
def test_a_packed_run_is_a_deleted_one_and_a_file_of_its_content(
    gpu: Path, deleted: str, state: str, link: bool, left: int
) -> None:
    (gpu / "notes.json").write_bytes((gpu / "runs" / "one.json").read_bytes())
    shutil.copytree(gpu.parent, then := gpu.parent.with_name("then"))
    (packed := gpu.parent / f"{deleted}.gz").write_bytes(gzip.compress((gpu / "runs" / "one.json").read_bytes()))
    if link:
        packed = packed.rename(packed.with_name("elsewhere"))
        (gpu.parent / f"{deleted}.gz").symlink_to(packed)
    files = [FileChange(state, deleted, False, "1", "2"), FileChange("A", f"{deleted}.gz", link, "", "2")]
    edited = FileChange("M", f"{deleted}.gz", False, "1", "2")
    assert len(protect._without_repacked(files, then, gpu.parent)) == left
    assert len(protect._without_repacked([files[0], edited], then, gpu.parent)) == 2


def test_what_is_no_new_file_among_the_runs_is_not_read_as_a_run(gpu: Path) -> None:
    given = [FileChange("A", "g/runs/a.json", False, "", "1"), FileChange("M", "g/runs/b.json", False, "", "1")]
    given += [FileChange("A", "g/runs/c.json", True, "", "1"), FileChange("A", "g/runs/d", False, "", "1", True)]
    given += [FileChange("A", "g/other.json", False, "", "1")]
    found = protect._forged(gpu.parent, given)
    assert [(each.gpu, each.kind, each.term, each.what, each.before) for each in found] == [
        ("g", ChangeKind.FORGED, "run", "a.json", "none")
    ]


def test_the_python_of_tests_and_kernels_is_for_review(project: Path) -> None:
    (project / "peakgate.toml").write_text('benchmarks = ["tests"]\n')
    (project / "tests").symlink_to(project.parent)
    (project / "kernels" / "a" / "family.py").write_text("FAMILY = 1")
    assert [each[2] for each in changed("--no-contracts", of="review")] == [
        "kernels/a/family.py",
        "peakgate.toml",
        "tests",
    ]
    (project / "tests").unlink()
    (project / "tests").mkdir()
    (project / "tests" / "test_x.cfg").write_text("")
    assert [each[2] for each in changed("--no-contracts", of="review")][-1] == "tests/test_x.cfg"


@pytest.mark.parametrize("broken", [False, True])
def test_an_unpacked_run_is_no_change_unless_its_content_is(gpu: Path, broken: bool) -> None:
    path = save(gpu / "runs", "three", document())
    (packed := path.with_name("three.json.gz")).write_bytes(gzip.compress(path.read_bytes()))
    content = path.read_text()
    path.unlink()
    git("add", ".")
    git("commit", "-q", "-m", "packed")
    git("tag", "--force", "base")
    packed.unlink()
    path.write_text(content[: len(content) // 2] if broken else content)
    assert main(["protect", "--base", "base"]) == int(broken)


def test_a_submodule_that_became_a_file_is_named_by_its_content(gpu: Path) -> None:
    (path := gpu / "library").write_text("code")
    (gpu / "folder").mkdir()
    given = [("library", "0" * 40), ("folder", "b" * 40), ("folder", "0" * 40)]
    changed = [FileChange("T", f"{gpu.name}/{name}", False, "a" * 40, after, True) for name, after in given]
    found = [protect._named(gpu.parent, file) for file in changed]
    assert [(each.before, each.after) for each in found] == [
        ("a" * 40, hashed(path)),
        ("a" * 40, "b" * 40),
        ("a" * 40, "repository"),
    ]


def test_a_projects_cases_print_contracts_or_why_they_cannot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = SimpleNamespace(problem="", output=b'{"a.b": {"bytes": 8}}')
    asked = SimpleNamespace(finish=lambda: done)

    def ask(command: list[str], limit_s: float, cwd: Path) -> nullcontext[SimpleNamespace]:
        assert (command[-1], limit_s, cwd) == ("--terms", protect.IDENTITY_TIMEOUT_S, tmp_path)
        return nullcontext(asked)

    monkeypatch.setattr(protect, "Asked", ask)
    assert protect.contracts(tmp_path, "base") == {"a.b": Contract(bytes=8)}
    done.problem = "it ended"
    with pytest.raises(PeakgateError, match=r"^base: .*it ended") as caught:
        protect.contracts(tmp_path, "base")
    assert caught.value.code is Code.FAMILY
