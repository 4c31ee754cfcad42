"""Each side of an experiment is named by its own commit and changes, in every file, whichever process measured it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from ab_experiment import CHANGED, PAD, reported, start_quickly
from ab_fake import FakeSide, commit, git
from synthetic_runs import LADDER, slower

from peakgate.base.git import UNVERSIONED, commit_info
from peakgate.cli import main
from peakgate.compare.ab import experiment, process
from peakgate.compare.ab.folders import SideEnvironment
from peakgate.compare.ab.process import SideProcesses, side_environment
from peakgate.run.ab_process import AB_VARIABLE, LOOK_FILES
from peakgate.spec import catalogue
from peakgate.spec.case import Scale

ROOT = Path(__file__).parents[2]

Tree = tuple[str, bool]
"""A commit, and whether files are changed on top of it."""


def repository(folder: Path, head: FakeSide, log: Path) -> tuple[str, str]:
    """A repository whose second commit is ``head``; both commits."""
    FakeSide().write(folder, "base", log)
    (folder / ".gitignore").write_text("__pycache__\n")
    before = commit(folder, "base")
    head.write(folder, "head", log)
    return before, commit(folder, "head")


def clone(of: Path, folder: Path, at: str) -> Path:
    git(of, "clone", "--quiet", str(of), str(folder))
    git(folder, "checkout", "--quiet", at)
    return folder


def named(out: Path) -> dict[str, set[Tree]]:
    """By side how manifest, run files and verdict name its tree."""
    manifest = json.loads((out / "ab" / "manifest.json").read_text())
    found = {side: {(manifest[side]["commit"] or UNVERSIONED, manifest[side]["dirty"])} for side in ("base", "head")}
    for path in (out / "ab").glob("*-*.json"):
        about = json.loads(path.read_text())["commit_info"]
        found[path.stem.rpartition("-")[2]].add((about["id"], about["dirty"]))
    verdict = json.loads((out / "ab.json").read_text())
    for side, key in (("base", "base"), ("head", "new")):
        found[side] |= {(run["commit"], run["dirty"]) for run in verdict[key]["runs"]}
        assert all(Path(run["path"]).name.endswith(f"-{side}.json") for run in verdict[key]["runs"])
    return found


def ab(tmp_path: Path, *options: str) -> int:
    return main(["ab", *options, "--out", str(tmp_path / "out"), "--pairs", "4,4"])


@pytest.fixture(autouse=True)
def _quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start_quickly(tmp_path, monkeypatch)


HEADS = {
    "one process samples both": FakeSide(CHANGED, slower(PAD, 1.3)),
    "a process per side": FakeSide(CHANGED, launches={PAD: "otherwise"}),
}


@pytest.mark.parametrize(
    ("head", "by_base"),
    [("one process samples both", False), ("a process per side", False), ("a process per side", True)],
)
def test_two_commits_are_named_each_by_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, head: str, *, by_base: bool
) -> None:
    before, after = repository(tmp_path / "tree", HEADS[head], tmp_path / "runs.log")
    monkeypatch.chdir(tmp_path / "tree")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "tree"))  # a side that another judges has no modules of its own
    monkeypatch.setenv(AB_VARIABLE, json.dumps({"judged_by_base": by_base}))
    ab(tmp_path, before, after)
    assert named(tmp_path / "out") == {"base": {(before, False)}, "head": {(after, False)}}
    report = (tmp_path / "out" / "ab.md").read_text()
    assert before[:12] in report
    assert after[:12] in report


def test_folders_are_named_by_their_commits_and_a_changed_one_as_changed(tmp_path: Path) -> None:
    before, after = repository(tmp_path / "tree", HEADS["one process samples both"], tmp_path / "runs.log")
    base, other = (clone(tmp_path / "tree", tmp_path / name, at) for name, at in (("b", before), ("h", after)))
    (other / "peakgate.toml").write_text('pythonpath = ["."]\n# changed\n')
    ab(tmp_path, str(base), str(other))
    assert named(tmp_path / "out") == {"base": {(before, False)}, "head": {(after, True)}}
    assert f"{after[:12]} with uncommitted changes" in (tmp_path / "out" / "ab.md").read_text()


def test_a_working_tree_with_changes_is_named_as_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "runs.log"
    tree = FakeSide().write(tmp_path / "tree", "base", log)
    before = commit(tree, "base")
    FakeSide(CHANGED).write(tree, "head", log)
    monkeypatch.chdir(tree)
    ab(tmp_path, "HEAD", ".")
    assert named(tmp_path / "out") == {"base": {(before, False)}, "head": {(before, True)}}


def test_folders_of_no_repository_have_no_commit(tmp_path: Path) -> None:
    log = tmp_path / "runs.log"
    base, head = FakeSide().write(tmp_path / "b", "base", log), FakeSide(CHANGED).write(tmp_path / "h", "head", log)
    ab(tmp_path, str(base), str(head))
    assert named(tmp_path / "out") == {side: {(UNVERSIONED, False)} for side in ("base", "head")}


def test_sides_in_environments_are_named_by_the_commit_of_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, after = repository(tmp_path / "tree", HEADS["one process samples both"], tmp_path / "runs.log")
    together: list[Any] = []

    def other_builds(*codes: Any) -> dict[str, Any]:
        together.append(codes)
        return {}

    monkeypatch.setattr(experiment, "other_builds", other_builds)
    here = SideEnvironment("here", sys.executable, {})
    monkeypatch.setattr("peakgate.compare.ab.command.made", lambda *_: here)
    monkeypatch.setattr("peakgate.compare.ab.command.usual", lambda: here)
    monkeypatch.chdir(tmp_path / "tree")
    ab(tmp_path, before, after, "--base-env", "old.lock")
    assert not together  # each side is measured by processes of its own
    assert named(tmp_path / "out") == {"base": {(before, False)}, "head": {(after, False)}}


def test_what_was_measured_before_an_interrupt_is_named_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "runs.log"
    slow = FakeSide(dict.fromkeys(LADDER, "changed"), noise=0.02)
    FakeSide(noise=0.02, interrupt_at=4).write(tmp_path / "tree", "base", log)
    (tmp_path / "tree" / ".gitignore").write_text("__pycache__\n")
    before = commit(tmp_path / "tree", "base")
    slow.write(tmp_path / "tree", "head", log)
    after = commit(tmp_path / "tree", "head")
    monkeypatch.chdir(tmp_path / "tree")
    assert ab(tmp_path, before, after, "--pairs", "10") == 130
    assert list((tmp_path / "out" / "ab").glob("screen-*-head.json"))
    assert named(tmp_path / "out") == {"base": {(before, False)}, "head": {(after, False)}}


def test_no_phase_of_an_experiment_is_idle_for_less_than_nothing(tmp_path: Path) -> None:
    log = tmp_path / "runs.log"
    base, head = FakeSide(), FakeSide(dict.fromkeys(LADDER, "changed"), slower(PAD, 1.3), noise=0.02)
    folders = base.write(tmp_path / "b", "base", log), head.write(tmp_path / "h", "head", log)
    ab(tmp_path, str(folders[0]), str(folders[1]))
    phases = reported(tmp_path)["wall_s"]
    assert {name for name, row in phases.items() if "idle" in row} == {"proof", "screen", "confirm"}
    assert all(0 <= row["idle"] <= row["wall"] for row in phases.values() if "idle" in row)


HARNESS_ON_THE_EMULATOR = """
import sys
from peakgate.cli import command
from peakgate.device.interface import Device

Device.prepare_other = lambda _device, beside, _fingerprint: beside
sys.exit(command())
"""


def test_a_process_that_samples_two_trees_names_each_in_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    FakeSide().write(tmp_path / "other", "other", tmp_path / "runs.log")
    other = commit(tmp_path / "other", "one")
    (tmp_path / "other" / "run.json").write_text("changed")
    (tmp_path / "emulated.py").write_text(HARNESS_ON_THE_EMULATOR)
    monkeypatch.setattr(process, "HARNESS", "emulated")
    monkeypatch.setattr(process, "AHEAD", 1)
    listed = catalogue.cases(Scale.SMALL, listed=[catalogue.family_at(ROOT / "kernels" / "roof" / "family.py")])
    copies = [case for case in listed if case.stage.operation == "memcpy"]
    asked, out, file = tmp_path / "others", tmp_path / "verdict", tmp_path / "run.json"
    about = {"fingerprints": {copies[0].id: ""}, "folder": str(tmp_path / "other"), "looks": True}
    asked.write_text(json.dumps(about))
    (tmp_path / "cases").write_text(copies[0].id)
    arguments = [
        "--device=cpu",
        f"--peakgate-cases={tmp_path / 'cases'}",
        f"--peakgate-other-builds={asked}",
        "--tier=full",
    ]
    arguments += [f"--benchmark-json={file}", f"--benchmark-storage=file://{tmp_path / 'saved'}", f"--out={out}"]
    environment = side_environment(ROOT) | {"PYTHONPATH": str(tmp_path)}
    with SideProcesses("base", ROOT, environment, tmp_path / "base.log") as side:
        run = side.ask([*arguments, "--assert=plain"], {"PEAKGATE_AB": "pair"}, tmp_path / "run.txt")
        run.begin()
        assert not run.until_left(), (tmp_path / "run.txt").read_text()
        looked = [json.loads((out / name).read_text())["commit_info"] for name in LOOK_FILES]
        run.leave()
        assert run.finish().exit_code == 0, (tmp_path / "run.txt").read_text()
    written = [json.loads(path.read_text())["commit_info"] for path in (file, out / "other_builds.json")]
    assert looked == written == [commit_info(ROOT), commit_info(tmp_path / "other")]
    assert [written[1][name] for name in ("id", "dirty", "project")] == [other, True, "other"]


def test_a_folder_that_a_repository_does_not_track_is_not_of_its_commit(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    known = commit(tmp_path, "one")
    (tmp_path / "exported").mkdir()
    (tmp_path / "exported" / "file").write_text("")
    assert commit_info(tmp_path)["id"] == known
    assert commit_info(tmp_path / "exported")["id"] == UNVERSIONED
    assert commit_info(tmp_path / "nowhere")["id"] == UNVERSIONED
