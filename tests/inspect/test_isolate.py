"""A stranger's family under `check --isolate`: what it tries, and what of it works."""

import json
from pathlib import Path

import pytest

from peakgate.base import sandbox
from peakgate.base.errors import Code
from peakgate.cli import main

FAMILY = """
import json, os, socket, subprocess, sys
from pathlib import Path

def tried(attempt):
    try:
        attempt()
    except Exception as error:
        return type(error).__name__
    return "worked"

SECRET, OUTSIDE = {secret!r}, {outside!r}
found = {{
    "network": tried(lambda: socket.create_connection(("192.0.2.1", 80), 5)),
    "read a file of the user": tried(lambda: open(SECRET).read()),
    "read the repository": tried(lambda: open(".git/config").read()),
    "write beside itself": tried(lambda: open(__file__, "a")),
    "write over the tool": tried(lambda: open(sys.modules["peakgate"].__file__, "a")),
    "mount": tried(lambda: subprocess.run(["mount", "-o", "remount,bind,rw", "/usr"], check=True, capture_output=True)),
    "environment": sorted(os.environ),
}}
Path("/tmp/left").write_text("")  # its own scratch folder, gone with it
tried(lambda: open(OUTSIDE, "w").write("left"))
raise RuntimeError("\\x1b[2J " + json.dumps(found))
"""


@pytest.fixture
def stranger(tmp_path, monkeypatch):
    """A project of a stranger's beside a file of the user's, in a folder that only the user sees."""
    project = tmp_path / "stranger"
    family = project / "kernels" / "evil" / "family.py"
    family.parent.mkdir(parents=True)
    (project / ".git").mkdir()
    (project / ".git" / "config").write_text("token")
    (project / "peakgate.toml").write_text("")
    (tmp_path / "secret").write_text("secret")
    family.write_text(FAMILY.format(secret=str(tmp_path / "secret"), outside=str(tmp_path / "outside")))
    monkeypatch.chdir(project)
    monkeypatch.setenv("TOKEN", "secret")
    return project


@pytest.mark.skipif(bool(sandbox.refusal_of_namespaces()), reason="this machine permits no user namespaces")
def test_a_stranger_has_no_network_no_file_of_the_users_and_no_environment(stranger, capsys):
    assert main(["check", "--isolate"]) == 3
    out = capsys.readouterr().out
    assert "\x1b" not in out
    found = json.loads(out[out.index("{") : out.index("}") + 1])
    assert "worked" not in found.values()
    assert "FileNotFoundError" in found.values()
    ours = {"CUPY_CACHE_DIR", "PEAKGATE_CACHE", "PYTHONPYCACHEPREFIX", "PYTHONSAFEPATH"}
    assert {*found["environment"]} <= {"HOME", "LANG", "LC_CTYPE", "PATH", "PWD", "TMPDIR"} | ours
    assert sorted(path.name for path in stranger.parent.iterdir()) == ["secret", "stranger"]
    assert not Path("/tmp/left").exists()


def test_a_machine_without_namespaces_is_one_line_and_exit_3(stranger, monkeypatch, capsys):
    monkeypatch.setattr(sandbox, "PROGRAM_FOLDERS", str(stranger))
    assert main(["check", "--isolate"]) == 3
    assert capsys.readouterr().err.startswith("--isolate: unshare, mount, ")
    refusing = stranger / "bin"
    refusing.mkdir()
    for tool in sandbox.NAMESPACE_TOOLS:
        (refusing / tool).write_text("#!/bin/sh\necho 'unshare: unshare failed: Operation not permitted' >&2; exit 1\n")
        (refusing / tool).chmod(0o755)
    monkeypatch.setattr(sandbox, "PROGRAM_FOLDERS", str(refusing))
    monkeypatch.setenv("PATH", str(refusing))
    assert main(["check", "--isolate"]) == 3
    reported = capsys.readouterr().err
    assert f"[{Code.ISOLATION}]" in reported
    assert "Operation not permitted" in reported
    assert len(reported.splitlines()) == 1


def test_a_folder_that_holds_more_than_the_strangers_files_is_refused(monkeypatch, capsys):
    monkeypatch.chdir(Path.home())
    assert main(["check", "--isolate"]) == 2
    assert f"[{Code.OPTION}]" in capsys.readouterr().err


def test_check_of_a_file_outside_the_project_warns_that_it_runs_native_code(tmp_path, monkeypatch, capsys):
    (tmp_path / "family.py").write_text("raise RuntimeError('imported')")
    assert main(["check", str(tmp_path / "family.py"), "--out", str(tmp_path)]) == 3
    reported = capsys.readouterr().err.splitlines()
    assert "native code" in reported[0]
    assert "--isolate" in reported[0]
