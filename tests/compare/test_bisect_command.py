"""``peakgate bisect`` on repositories whose commits play back chosen times."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ab_experiment import PAD, start_quickly
from ab_fake import FakeSide, commit, wheels
from refusals import refusal
from synthetic_runs import LADDER, slower

from peakgate.base.errors import Code
from peakgate.cli import main
from peakgate.run import ncu

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start_quickly(tmp_path, monkeypatch)


def side(code: str | None, factor: float = 1.0, **more: Any) -> FakeSide:
    """A commit whose PAD kernel has this machine code and takes so much longer."""
    return FakeSide(dict.fromkeys(LADDER, "same") | {PAD: code}, slower(PAD, factor), **more)


def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *sides: FakeSide) -> list[str]:
    """A repository with a commit per side, in order, as the working directory."""
    repository, log = tmp_path / "repository", tmp_path / "runs.log"
    commits = [
        commit(each.write(repository, f"commit{number}", log), f"change {number}") for number, each in enumerate(sides)
    ]
    monkeypatch.chdir(repository)
    return commits


def bisect(tmp_path: Path, *arguments: str) -> int:
    return main(["bisect", "--out", str(tmp_path / "out"), "--pairs", "2,2", "--case", PAD, *arguments])


def answer(tmp_path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((tmp_path / "out" / "bisect" / "bisect.json").read_text())
    return found


def test_an_interrupted_bisect_goes_on_and_names_the_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    good = side("a", interrupt_at=7)  # while a commit between is compared with it
    commits = history(tmp_path, monkeypatch, good, side("b"), side("a"), side("c", 1.2), side("d", 1.2), side(None))
    command = ["bisect", commits[0], commits[-2], "--out", str(tmp_path / "out"), "--pairs=2,2"]
    assert main(command) == 130
    printed = capsys.readouterr()
    assert "--resume" in printed.err
    assert f"{commits[2][:12]}: {PAD} SAME, unchanged" in printed.out
    assert main([*command, "--resume"]) == 1
    found, said = answer(tmp_path), capsys.readouterr().out
    assert (found["case"], found["suspects"]) == (PAD, [commits[3]])
    assert found["border"]["low_percent"] < 20 < found["border"]["high_percent"]
    assert f"{commits[3][:12]} made {PAD} slower: change 3" in said
    assert f"next: peakgate ab {commits[2][:12]} {commits[3][:12]} -k {PAD} " in said


def test_equal_code_at_both_ends_is_no_commits_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    commits = history(tmp_path, monkeypatch, side("a"), side("b", 1.3), side("a"))
    assert bisect(tmp_path, commits[0], commits[-1]) == 0
    assert not (tmp_path / "runs.log").exists()


def test_a_commit_that_does_not_build_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    commits = history(tmp_path, monkeypatch, side("a"), side(None), side("b", 1.2))
    assert bisect(tmp_path, commits[0], commits[-1]) == 3
    assert answer(tmp_path)["suspects"] == commits[1:]


def test_the_gpu_that_was_named_is_that_of_the_counters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    program = tmp_path / "ncu"
    program.write_text(f"#!/bin/sh\necho $* >> {tmp_path}/asked\n")
    program.chmod(0o755)
    monkeypatch.setattr(ncu, "find", lambda: str(program))
    commits = history(tmp_path, monkeypatch, side("a"), side("b", 1.3))
    assert bisect(tmp_path, commits[0], commits[1], "--device", "gpu:1") == 1
    assert f"-k {PAD} --tier gate --device gpu:1 --explain\n" in capsys.readouterr().out
    assert {line.endswith("--device gpu:1") for line in (tmp_path / "asked").read_text().splitlines()} == {True}


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--package", "tiny", "--resume"], Code.UNREADABLE),
        (["--resume"], Code.UNREADABLE),
        (["--case", "transpose.smem_pad-819"], Code.SIDE),
    ],
)
def test_what_makes_no_sense_exits_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured, options: list[str], code: Code
) -> None:
    commits = history(tmp_path, monkeypatch, side("a"), side("b"))
    assert bisect(tmp_path, commits[0], commits[-1], *options) == 2
    assert refusal(capsys) is code


def test_good_that_is_no_ancestor_of_bad_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    commits = history(tmp_path, monkeypatch, side("a"), side("b"))
    assert bisect(tmp_path, commits[1], commits[0]) == 2
    assert refusal(capsys) is Code.NOT_ALIKE


def test_the_version_of_a_package_that_made_a_case_slower_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    (commit_of,) = history(tmp_path, monkeypatch, side("a"))
    repository, found = tmp_path / "repository", tmp_path / "wheels"
    package = repository / "fake_peakgate"
    identity, bench = package / "run" / "identity.py", package / "__main__.py"
    code = f"import tiny\nscript['identities'][{PAD!r}]['code'] = tiny.VALUE\n"
    identity.write_text(identity.read_text().replace("print(", f"{code}print("))
    line, text = '        factor = noise.gauss(1.0, side["noise"])\n', bench.read_text()
    assert line in text
    slowed = f"        import tiny\n        slower = benchmark['extra_info']['case'] == {PAD!r} and tiny.VALUE >= '3'\n"
    bench.write_text(text.replace(line, f"{line}{slowed}        factor *= 1.2 if slower else 1.0\n"))
    assert commit(repository, "follow the package") != commit_of
    for version in ("1.0", "2.0", "3.0"):
        wheels(found / version, version)
    monkeypatch.setenv("UV_FIND_LINKS", ",".join(str(each) for each in found.iterdir()))
    monkeypatch.setenv("UV_NO_INDEX", "1")
    of_tiny = ["--package", "tiny"]
    assert bisect(tmp_path, "1.0", "2.0", "3.0", *of_tiny) == 1
    assert answer(tmp_path)["suspects"] == ["3.0"]
    assert bisect(tmp_path, "1.0", "2.0", "9.0", *of_tiny) == 2
    assert refusal(capsys) is Code.ENVIRONMENT
    assert main(["bisect", "1.0", "3.0", "--package", "tiny"]) == 2
