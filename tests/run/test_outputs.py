"""Folders of outputs that a change has committed as links."""

import subprocess

import pytest

from peakgate.base.errors import Code
from peakgate.cli import main


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """A folder beside the project of the working directory, a repository."""
    folder = tmp_path / "elsewhere"
    for name in ("bench.staged", "out/bench.staged", "ab", "out/ab"):
        (folder / name).mkdir(parents=True)
        (folder / name / "mine.json").write_text("mine")
    root = tmp_path / "project"
    root.mkdir()
    (root / "peakgate.toml").write_text("")
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    monkeypatch.chdir(root)
    return folder


@pytest.mark.parametrize("name", [".peakgate", ".peakgate/out", ".benchmarks", ".cache"])
@pytest.mark.parametrize("command", [["bench", "--device", "cpu"], ["ab", "HEAD"], ["protect", "--base", "HEAD"]])
def test_nothing_is_written_or_removed_where_a_committed_link_leads(tmp_path, elsewhere, capsys, name, command):
    root = tmp_path / "project"
    (root / name).parent.mkdir(exist_ok=True)
    (root / name).symlink_to(elsewhere)
    subprocess.run(["git", "add", "--force", name], cwd=root, check=True)
    before = sorted(elsewhere.rglob("*"))
    assert main(command) == 2
    assert f"[{Code.TAKEN}]" in capsys.readouterr().err
    assert sorted(elsewhere.rglob("*")) == before
    assert {path.read_text() for path in before if path.is_file()} == {"mine"}


def test_a_link_of_ones_own_may_lead_to_a_larger_disk(tmp_path, elsewhere, capsys):
    (tmp_path / "project" / ".benchmarks").symlink_to(elsewhere)
    main(["bench", "--device", "cpu"])
    assert "a committed link" not in capsys.readouterr().err
