"""Which files differ between two sides, and whose functions are called for it."""

from __future__ import annotations

import os
import shutil
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from ab_fake import commit

from peakgate.compare.ab import changed, plan
from peakgate.compare.ab.changed import changed_files
from peakgate.compare.ab.folders import SideEnvironment, SideFolder, Wanted, folders
from peakgate.spec.contract import Contract


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "project"
    (root / "kernels").mkdir(parents=True)
    for name in ("k.cu", "family.py", "x.npy"):
        (root / "kernels" / name).write_text("1")
    (root / "peakgate.toml").write_text("")
    (root / ".gitignore").write_text("ignored\n")
    monkeypatch.chdir(root)
    return root


def in_folders(base: Path, head: Path) -> list[str] | None:
    found = changed_files(*(SideFolder(str(each), each.resolve(), None) for each in (base, head)))
    return found if found is None else sorted(found)


def copied(root: Path, name: str = "copy") -> Path:
    return Path(shutil.copytree(root, root.with_name(name), symlinks=True))


@pytest.mark.parametrize("name", ["family.py", "x.npy", "k.cu"])
def test_files_that_differ_are_named_but_for_sources_of_kernels(project: Path, name: str) -> None:
    known = [] if name == "k.cu" else [f"kernels/{name}"]
    base = copied(project)
    before = commit(project, "one")
    (project / "kernels" / name).write_text("2")
    (project / "ignored").write_text("")
    with folders(Wanted(before), Wanted(".")) as placed:
        assert changed_files(*placed) == known
    (project / "new.py").write_text("")
    with folders(Wanted(before), Wanted(".")) as placed:
        assert changed_files(*placed) == [*known, "new.py"]
    with folders(Wanted(before), Wanted(commit(project, "two"))) as placed:
        assert changed_files(*placed) == [*known, "new.py"]
        (placed[0].path / "by-the-build.npy").write_text("")
        assert changed_files(*placed) is None
    (project / "ignored").unlink()
    shutil.rmtree(project / ".git")
    assert in_folders(base, project) == [*known, "new.py"]
    assert in_folders(project, base) == [*known, "new.py"]


def test_nothing_is_known_of_what_a_build_makes(project: Path) -> None:
    base = copied(project)
    assert in_folders(base, project) == []
    (base / "peakgate.toml").write_text('build = "make"')
    assert in_folders(base, project) is None


def test_two_environments_may_differ_and_one_does_not_differ_from_itself(project: Path) -> None:
    side = SideFolder("a", project, None)
    old, new = (replace(side, environment=SideEnvironment(name, "python", {})) for name in ("old.lock", "new.lock"))
    assert (changed_files(old, old), changed_files(old, new), changed_files(side, old)) == ([], None, None)


def test_what_commands_leave_in_a_folder_is_no_difference(project: Path) -> None:
    base = copied(project)
    for name in changed.LEFT_BEHIND:
        (base / name).mkdir()
        (base / name / "file.py").write_text("")
    assert in_folders(base, project) == []


def test_links_are_alike_where_they_lead_to_the_same_place_of_their_trees(project: Path) -> None:
    (project / "inside").symlink_to("kernels/x.npy")
    (project / "folder").symlink_to("kernels")
    (project / "gone").symlink_to("no-such-file")
    base = copied(project)
    assert in_folders(base, project) == []
    for each in (base, project):
        (each / "outside").symlink_to("../file")
    (base / "inside").unlink()
    (base / "inside").write_text("1")
    (base / "folder").unlink()
    (base / "folder").symlink_to("gone")
    assert in_folders(base, project) == ["folder", "inside", "outside"]
    assert in_folders(project, base) == ["folder", "inside", "outside"]


def test_a_link_that_leads_out_of_one_tree_alone_is_no_file_of_both(project: Path) -> None:
    base = copied(project)
    for each in (base, project):
        (each / "link").symlink_to(project / "kernels")
    assert in_folders(base, project) == in_folders(project, base) == ["link"]


def test_files_of_equal_size_and_time_are_compared_by_their_content(project: Path) -> None:
    base = copied(project)
    (project / "kernels" / "x.npy").write_text("2")
    for each in (base, project):
        os.utime(each / "kernels" / "x.npy", (1, 1))
    assert in_folders(base, project) == ["kernels/x.npy"]


def test_a_commit_and_a_folder_are_compared_by_their_files(project: Path) -> None:
    base = copied(project)
    head = SideFolder("head", project.resolve(), commit(project, "one"))
    (base / "new.py").write_text("")
    other = SideFolder("base", base.resolve(), None)
    assert changed_files(other, head) == changed_files(head, other) == ["new.py"]


@pytest.mark.parametrize(("limit", "there"), [("MOST_BYTES", 11), ("MOST_FILES", 5)])
def test_of_large_folders_it_is_not_known(
    project: Path, monkeypatch: pytest.MonkeyPatch, limit: str, there: int
) -> None:
    base = copied(project)
    for most, known in ((there - 1, None), (there, [])):
        monkeypatch.setattr(changed, limit, most)
        assert in_folders(base, project) == known


def test_of_one_large_folder_it_is_not_known_either(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = copied(project)
    (project / "more.py").write_text("")
    monkeypatch.setattr(changed, "MOST_FILES", 5)
    assert in_folders(base, project) is in_folders(project, base) is None


def test_folders_at_other_places_of_their_repositories_are_not_compared(project: Path) -> None:
    base = copied(project)
    commit(project.parent, "all")
    inner = project / "inner"
    inner.mkdir()
    assert in_folders(base, inner) is None


def test_one_side_alone_can_show_that_a_function_gives_the_same(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    called, new = Contract(code="1", reference="r", benchmark_data="d"), Contract(code="1")
    answers = iter([{"a.b": called, "a.c": called, "a.d": called}, {"a.b": new, "a.c": called}])
    asked: list[tuple[str, ...]] = []

    def ask(*given: object) -> nullcontext[None]:
        asked.append(tuple(map(str, given[4:])))
        return nullcontext()

    monkeypatch.setattr(plan, "_asked", ask)
    monkeypatch.setattr(plan, "_answer", lambda *_: next(answers))
    side = SideFolder("a", project, None)
    base, head = plan.read_codes((side, side), "gate", ({}, {}))
    assert (base["a.b"], head["a.b"]) == (new, new)
    assert [base["a.c"], head["a.c"], base["a.d"]] == [called] * 3
    assert [more[0] for more in asked] == ["--changed"] * 2
