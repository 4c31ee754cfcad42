"""The environments of an ``ab``: installed, found or linked; one that cannot be had is bad input."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from ab_experiment import CHANGED, PAD, reported, row, start_quickly
from ab_fake import FakeSide, commit, wheels

from peakgate.base.errors import Code, PeakgateError
from peakgate.cli import main
from peakgate.compare.ab.folders import SideEnvironment, differing, made
from peakgate.help import page


def version_in(environment: SideEnvironment, *others: str) -> str:
    """The version of ``tiny`` that a process of the environment imports together with other packages."""
    code = f"import {', '.join(('tiny', *others))}; print(tiny.VALUE)"
    done = subprocess.run([environment.python, "-P", "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_an_environment_has_its_wheels_and_what_it_lacks_from_this_one(tmp_path: Path) -> None:
    environment = made("asked", str(wheels(tmp_path / "w", "1.5")), tmp_path / "env")
    assert environment.packages["tiny"] == "1.5"
    assert version_in(environment, "peakgate", "numpy") == "1.5"


def test_an_environment_that_exists_is_linked_and_keeps_its_versions(tmp_path: Path) -> None:
    made("asked", str(wheels(tmp_path / "w", "1.5")), tmp_path / "theirs")
    again = made("asked", str(tmp_path / "theirs"), tmp_path / "env")
    assert version_in(again, "peakgate") == "1.5"


def test_a_lock_file_is_installed_by_uv(tmp_path: Path) -> None:
    lock = tmp_path / "old.lock"
    lock.write_text(f"--no-index\n--find-links {wheels(tmp_path / 'w', '2.0')}\ntiny==2.0\n")
    assert made("asked", str(lock), tmp_path / "env").packages["tiny"] == "2.0"


def test_one_that_does_not_install_has_the_last_lines_of_the_resolver(tmp_path: Path) -> None:
    lock = tmp_path / "old.lock"
    lock.write_text(f"--no-index\n--find-links {wheels(tmp_path / 'w', '2.0')}\ntiny==3.0\n")
    with pytest.raises(PeakgateError, match=r"tiny==3\.0") as refused:
        made("asked", str(lock), tmp_path / "env")
    assert refused.value.code is Code.ENVIRONMENT


@pytest.mark.parametrize("given", ["nowhere", "empty", "other-python"])
def test_what_is_no_environment_is_refused(tmp_path: Path, given: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "other-python").mkdir()
    (tmp_path / "other-python" / "pyvenv.cfg").write_text("version = 2.7\n")
    with pytest.raises(PeakgateError) as refused:
        made("asked", str(tmp_path / given), tmp_path / "env")
    assert refused.value.code is Code.ENVIRONMENT


def test_the_sandboxed_processes_of_an_environment_find_what_its_links_lead_to(tmp_path: Path) -> None:
    environment = made("asked", str(wheels(tmp_path / "w", "1.5")), tmp_path / "env")
    family = tmp_path / "project" / "kernels" / "scale"
    family.mkdir(parents=True)
    (tmp_path / "project" / "peakgate.toml").write_text('kernels = "kernels"\n')
    (family / "scale.cu").write_text('extern "C" __global__ void scale(float* out, int n) { out[0] = n; }\n')
    (family / "family.py").write_text(
        "import tiny\nfrom peakgate.family import Out, Value, kernel\n"
        "FAMILY = kernel('scale.cu', arguments=lambda n: [Out(1), Value(n)], grid=1, block=1, bytes=lambda n: 4,\n"
        "    reference=lambda xp, *, n: xp.full(1, n), sizes=[8], lesson=tiny.VALUE)\n"
    )
    command = [environment.python, "-P", "-m", "peakgate.run.identity", "--terms"]
    done = subprocess.run(command, cwd=tmp_path / "project", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)) == {"scale.scale-8"}


def test_packages_differ_by_version_or_by_being_there() -> None:
    base = SideEnvironment("a", "", {"same": "1", "tiny": "1", "gone": "1"})
    head = SideEnvironment("b", "", {"same": "1", "tiny": "2"})
    assert [each.split(" to ") for each in differing(base, head)] == [["gone 1", "none"], ["tiny 1", "2"]]


def test_the_pages_command_measures_a_commit_where_its_code_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_quickly(tmp_path, monkeypatch)
    tree = FakeSide(fingerprints=CHANGED).write(tmp_path / "tree", "tree", tmp_path / "runs.log")
    identity = tree / "fake_peakgate" / "run" / "identity.py"
    codes = f"import tiny\nscript['identities'][{PAD!r}]['code'] = tiny.VALUE\n"
    identity.write_text(identity.read_text().replace("print(", f"{codes}print("))
    commit(tree, "both sides")
    monkeypatch.chdir(tree)
    for name, version in (("old", "1.0"), ("new", "2.0")):
        found = wheels(tmp_path / name, version)
        (tree / f"{name}.lock").write_text(f"--no-index\n--find-links {found}\ntiny=={version}\n")
    command = next(line for line in page("library-upgrade").splitlines() if line.startswith("peakgate ab --base-env"))
    arguments = [*command.split()[1:], f"--out={tmp_path / 'out'}", "--pairs=4,4"]
    assert main(arguments) == 0
    assert row(tmp_path, PAD)["verdict"] == "SAME"
    notes = reported(tmp_path)["notes"]
    assert any("tiny 1.0 to" in note and "to 2.0" in note for note in notes)
    assert any("changed in 1" in note and PAD in note for note in notes)


def test_an_environment_that_does_not_install_ends_ab_as_bad_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_quickly(tmp_path, monkeypatch)
    tree = FakeSide().write(tmp_path / "tree", "tree", tmp_path / "runs.log")
    (tmp_path / "bad.lock").write_text("--no-index\ntiny==1\n")
    trees = [str(tree), str(tree)]
    assert main(["ab", f"--head-env={tmp_path / 'bad.lock'}", *trees, f"--out={tmp_path / 'out'}"]) == 2
