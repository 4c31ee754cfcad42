"""Questions to git about a tree that a stranger wrote: what the tree has changes no answer and runs nothing."""

import os
import socket
import subprocess
from pathlib import Path

import pytest

from peakgate.base import git
from peakgate.base.errors import Code, PeakgateError


def asked(folder: Path, *arguments: str) -> str:
    """What git itself answers, by its own defaults."""
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository with one commit."""
    folder = tmp_path / "tree"
    folder.mkdir()
    asked(folder, "init", "--quiet")
    for name in ("kernels/a.cu", "floors.toml"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(name)
    asked(folder, "add", "--all")
    asked(folder, "commit", "--quiet", "--message", "base")
    return folder


def program(path: Path, mark: Path) -> None:
    """A program that leaves a mark where it runs."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\ntouch {mark}\n")
    path.chmod(0o755)


def test_no_hook_of_a_tree_runs(tree: Path, tmp_path: Path) -> None:
    asked(tree, "config", "core.hooksPath", ".githooks")
    program(tree / ".githooks" / "post-checkout", mark := tmp_path / "mark")
    git.ask(tree, "worktree", "add", "--quiet", "--detach", str(tmp_path / "copy"), "HEAD")
    assert not mark.exists()
    asked(tree, "worktree", "add", "--quiet", "--detach", str(tmp_path / "another"), "HEAD")
    assert mark.exists()  # git's own default


@pytest.mark.parametrize("by", ["ask", "another program"])
def test_no_program_of_a_repository_looks_for_its_changes(tree: Path, tmp_path: Path, by: str) -> None:
    program(tree / "watch", mark := tmp_path / "mark")
    asked(tree, "config", "core.fsmonitor", str(tree / "watch"))
    if by == "ask":
        git.ask(tree, "diff", "--raw", "HEAD")
    else:
        subprocess.run(["git", "diff", "HEAD"], cwd=tree, env=os.environ | git.environment(), check=True)
    assert not mark.exists()
    asked(tree, "status")
    assert mark.exists()


def test_files_that_look_like_a_repository_are_none(tree: Path) -> None:
    inner = tree / "kernels"
    for name in ("objects", "refs"):
        (inner / name).mkdir()
    (inner / "HEAD").write_text("ref: refs/heads/main\n")
    (inner / "config").write_text("[core]\nbare = false\nworktree = ..\nrepositoryformatversion = 0\n")
    assert asked(inner, "rev-parse", "--absolute-git-dir") == str(inner.resolve())
    with pytest.raises(PeakgateError):
        git.top_of(inner)


def test_a_commit_is_itself_whatever_is_said_to_replace_it(tree: Path) -> None:
    base = asked(tree, "rev-parse", "HEAD")
    (tree / "floors.toml").write_text("lower")
    asked(tree, "commit", "--quiet", "--all", "--message", "change")
    asked(tree, "replace", base, "HEAD")
    assert asked(tree, "show", f"{base}:floors.toml") == "lower"
    assert git.ask(tree, "show", f"{base}:floors.toml") == b"floors.toml"


def test_a_copy_of_a_commit_has_every_file(tree: Path, tmp_path: Path) -> None:
    (tree / ".gitattributes").write_text("*.toml export-ignore\nkernels export-ignore\n")
    (tree / "link").symlink_to("floors.toml")
    asked(tree, "add", "--all")
    asked(tree, "commit", "--quiet", "--message", "attributes")
    asked(tree, "config", "core.sparseCheckout", "true")
    (tree / ".gitattributes").write_text("*.toml text eol=crlf\n")  # of the tree that is judged
    (tree / "floors.toml").write_text("staged")
    asked(tree, "add", "--all")
    git.export("HEAD", tree, tmp_path / "copy")
    copied = [path.relative_to(tmp_path / "copy") for path in (tmp_path / "copy").rglob("*") if not path.is_dir()]
    assert sorted(map(str, copied)) == [".gitattributes", "floors.toml", "kernels/a.cu", "link"]
    assert (tmp_path / "copy" / "floors.toml").read_bytes() == b"floors.toml"
    assert (tmp_path / "copy" / "link").readlink() == Path("floors.toml")
    assert asked(tree, "diff", "--cached", "--name-only").splitlines() == [".gitattributes", "floors.toml"]
    git.export("HEAD", tree, tmp_path / "part", ".", ":(exclude)kernels")
    assert not (tmp_path / "part" / "kernels").exists()


def test_a_commit_without_files_is_an_empty_folder(tree: Path, tmp_path: Path) -> None:
    asked(tree, "rm", "--quiet", "-r", ".")
    asked(tree, "commit", "--quiet", "--message", "nothing")
    git.export("HEAD", tree, tmp_path / "copy")
    assert [*(tmp_path / "copy").iterdir()] == []


def test_a_server_that_never_answers_ends_the_question(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git, "GIT_LIMIT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(PeakgateError) as caught:
        git.ask(tree, "ls-remote", f"git://127.0.0.1:{server.getsockname()[1]}/x")
    assert caught.value.code is Code.UPSTREAM


def test_nobody_is_asked_for_a_password(tree: Path) -> None:
    asked(tree, "config", "alias.prompt", "!echo $GIT_TERMINAL_PROMPT")
    assert git.ask(tree, "prompt") == b"0\n"


def test_a_folder_that_is_not_there_is_not_a_missing_git(tmp_path: Path) -> None:
    with pytest.raises(PeakgateError) as refused:
        git.ask(tmp_path / "nowhere", "status")
    assert refused.value.code is Code.UNREADABLE
