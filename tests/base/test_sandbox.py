"""What a program in the sandbox reaches, by each way that this machine permits."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from peakgate.base import processes
from peakgate.base.processes import end_group
from peakgate.base.sandbox import Isolation

PROGRAM = """
import json, os, resource, socket, sys
from pathlib import Path

def tried(attempt):
    try:
        attempt()
    except Exception as error:
        return type(error).__name__
    return "worked"

secret, parent, package = sys.argv[1:]
print(json.dumps({
    "read the user's file": tried(lambda: open(secret).read()),
    "write beside itself": tried(lambda: open("mine", "w")),
    "write over the tool": tried(lambda: open(__import__("peakgate.cli").cli.__file__, "a")),
    "connect": tried(lambda: socket.create_connection(("127.0.0.1", 9), 2)),
    "signal the judge": tried(lambda: os.kill(int(parent), 0)),
    "read a package elsewhere": tried(lambda: open(package).read()),
    "read its own file": tried(lambda: open("own").read()),
    "write scratch": tried(lambda: open(os.environ["TMPDIR"] + "/left", "w")),
    "memory": tried(lambda: bytearray(resource.getrlimit(resource.RLIMIT_AS)[0] + 1)),
    "environment": sorted(os.environ),
}))
"""


@pytest.mark.parametrize("way", [Isolation.NAMESPACES, Isolation.LANDLOCK])
def test_a_program_reads_its_folder_and_writes_its_scratch(way, tmp_path, monkeypatch, sandboxed):
    monkeypatch.setenv("TOKEN", "secret")
    folder, secret = tmp_path / "folder", tmp_path / "secret"
    folder.mkdir()
    secret.write_text("secret")
    (folder / "own").write_text("")
    package = tmp_path / "named by a .pth file" / "site-packages" / "theirs.py"
    package.parent.mkdir(parents=True)
    package.write_text("")
    monkeypatch.syspath_prepend(str(package.parent))
    # Landlock hides processes and TCP from version 6 on.
    process = sandboxed(way, PROGRAM, str(secret), str(os.getpid()), str(package), landlock=6)
    found = json.loads(process.communicate(timeout=60)[0])
    allowed = {"read its own file", "read a package elsewhere", "write scratch"}
    assert {name for name in found if found[name] == "worked"} == allowed, found
    assert "TOKEN" not in found["environment"]
    assert [path.name for path in folder.iterdir()] == ["own"]
    assert found["memory"] == "MemoryError"


def test_a_program_in_the_sandbox_ends_with_its_judge(tmp_path):
    (tmp_path / "scratch").mkdir()
    (tmp_path / "folder").mkdir()
    script = (
        "import subprocess, sys, time; from pathlib import Path\n"
        "from peakgate.base import sandbox\n"
        "command = [sys.executable, '-c', 'import time; print(1, flush=True); time.sleep(600)']\n"
        "process = sandbox.start(command, *map(Path, sys.argv[1:]), stdout=subprocess.PIPE)\n"
        "process.stdout.readline()\n"
        "print(process.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    judge = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "folder"), str(tmp_path / "scratch")], stdout=subprocess.PIPE
    )
    assert judge.stdout is not None
    started = int(judge.stdout.readline())
    judge.kill()
    judge.communicate()
    for _ in range(10_000):
        if not Path(f"/proc/{started}").exists() or "zombie" in Path(f"/proc/{started}/status").read_text():
            break
    else:
        pytest.fail("it lives on")


LEAVES_ITS_GROUP = """
import os, time
print(open("/proc/self/oom_score_adj").read().strip(), flush=True)
ready, tell = os.pipe()
if not os.fork():
    os.setsid()
    if not os.fork():
        os.setpgid(0, 0)
        os.write(tell, b"x")
        time.sleep(60)
    os._exit(0)
os.close(tell)
os.read(ready, 1)
"""


@pytest.mark.parametrize("way", Isolation)
def test_nothing_that_a_program_started_outlives_it(way, sandboxed):
    process = sandboxed(way, LEAVES_ITS_GROUP)
    assert process.stdout is not None
    assert process.stdout.readline() == b"1000\n"
    end_group(process, 30.0)
    with process.stdout:
        assert process.stdout.read().strip() == b""  # at its end only when nobody holds it


def test_a_flood_of_output_is_ended(monkeypatch, capsys):
    monkeypatch.setattr(processes, "MOST_OUTPUT_BYTES", 1000)
    process = subprocess.Popen(["yes"], stdout=subprocess.PIPE, start_new_session=True)
    assert processes.print_output(process, 600.0) == -signal.SIGKILL
    assert len(capsys.readouterr().out) < 2000
