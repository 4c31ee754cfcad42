"""``peakgate check --isolate``: check a stranger's kernels without network and without the user's files.

Everything runs in Linux namespaces of its own (user, mount, network, process, IPC), which ``unshare`` makes. The file
system holds the compiler, Python, this tool and the folder that is checked without its ``.git``, all of it read-only,
and a scratch folder. The environment is empty, there is no capability and no terminal. What comes out is text, printed
line by line without control characters, and the verdict's file. Not covered: a gap in the machine's kernel, which is
shared, and what the verdict says, which a program of the stranger's may have written.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from peakgate.common.errors import CannotDecide, PeakgateError
from peakgate.common.files import UnreadableFile, read_limited, write_whole
from peakgate.common.output import say
from peakgate.common.processes import end_group
from peakgate.common.text import one_line
from peakgate.verdict import ExitCode

CHECK_LIMIT_S = 900.0
"""Of a whole check."""
MOST_BYTES = 16 << 20
"""Of the verdict's file: a larger one is not read."""

ISOLATION_TOOLS = ("unshare", "mount", "umount", "pivot_root", "setpriv", "env", "sh")
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc/alternatives", "/etc/ld.so.cache", "/nix/store")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
DEVICES = ("null", "zero", "full", "random", "urandom")

_ENTER = """
set -eu
new=$1 out=$2; shift 2
mount -t tmpfs -o size=2g,mode=755,nosuid,nodev tmpfs "$new"
while [ "$1" != -- ]; do
    mkdir -p "$new$(dirname "$1")"
    if [ -L "$1" ]; then
        ln -s "$(readlink "$1")" "$new$1"
    else
        if [ -d "$1" ]; then mkdir -p "$new$1"; else : > "$new$1"; fi
        mount --rbind "$1" "$new$1"
        mount -o remount,bind,ro,nosuid,nodev "$new$1"
    fi
    shift
done
shift
mkdir -p "$new/tmp" "$new/proc" "$new/dev/shm" "$new/old" "$new$out"
for device in DEVICES; do
    : > "$new/dev/$device"
    mount --bind "/dev/$device" "$new/dev/$device"
done
[ ! -d "$new$WORK/.git" ] || mount -t tmpfs -o ro tmpfs "$new$WORK/.git"
mount -t proc proc "$new/proc" 2> /dev/null || :
mount --bind "$out" "$new$out"
cd "$new"
pivot_root . old
umount -l old
rmdir old
cd "$WORK"
exec setpriv --no-new-privs --bounding-set=-all --inh-caps=-all -- env -i PATH="$PATH" HOME=/tmp TMPDIR=/tmp \\
    PEAKGATE_CACHE=/tmp/cache LANG=C.UTF-8 "$@"
""".replace("DEVICES", " ".join(DEVICES))
"""What the first process of the namespaces does before it becomes the check: a new root with only what is named."""


def run(arguments: Sequence[str], folder: Path, out: Path, verdict_file: str) -> int:
    """Run ``peakgate check`` with these arguments on what is in ``folder``; its exit code.

    The verdict goes to ``out``. PeakgateError for a folder that holds more than what is checked. CannotDecide where the
    machine does not permit namespaces, or after LIMIT_S seconds.
    """
    if any(place.is_relative_to(folder) for place in (Path.home().resolve(), Path(tempfile.gettempdir()).resolve())):
        raise PeakgateError(
            f"--isolate: {folder} holds other files too; put what is to be checked in a folder of its own"
        )
    with tempfile.TemporaryDirectory(prefix="peakgate-root-") as root, tempfile.TemporaryDirectory() as scratch:
        _probe(Path(root), Path(scratch), folder)
        inner = [sys.executable, "-P", "-m", "peakgate", "check", *arguments, f"--out={scratch}"]
        process = _started(inner, Path(root), Path(scratch), folder)
        code = _printed(process, f"verdict: {scratch}")
        if code not in [each.value for each in ExitCode]:
            raise CannotDecide(
                f"not checked: the isolated check ended with exit code {code}, or after {CHECK_LIMIT_S:.0f} s"
            )
        with suppress(UnreadableFile):
            write_whole(out / verdict_file, read_limited(Path(scratch, verdict_file), MOST_BYTES, inside=Path(scratch)))
            say(f"verdict: {out / verdict_file}")
        return code


def _probe(root: Path, scratch: Path, folder: Path) -> None:
    """CannotDecide where an isolated process cannot be started."""
    missing = [tool for tool in ISOLATION_TOOLS if shutil.which(tool, path=PATH) is None]
    if missing:
        raise CannotDecide(
            f"--isolate needs {', '.join(missing)} of util-linux; install it, or check in a virtual machine"
        )
    process = _started(["true"], root, scratch, folder)
    output, _ = process.communicate()
    if process.returncode:
        lines = output.decode(errors="replace").strip().splitlines() or [f"exit code {process.returncode}"]
        raise CannotDecide(
            f"--isolate: this machine permits no user namespaces ({one_line(lines[-1])}); allow them "
            "(sysctl kernel.apparmor_restrict_unprivileged_userns), or check in a virtual machine"
        )


def _started(command: Sequence[str], root: Path, scratch: Path, folder: Path) -> subprocess.Popen[bytes]:
    enter = ["unshare", "--user", "--map-root-user", "--mount", "--net", "--pid", "--ipc", "--uts", "--fork"]
    enter += ["--kill-child", "sh", "-c", _ENTER, "sh", str(root), str(scratch)]
    seen = [str(path) for path in _visible(folder)]
    return subprocess.Popen(
        [*enter, *seen, "--", *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={"PATH": PATH, "WORK": str(folder)},
        start_new_session=True,  # no terminal to type into
    )


def _visible(folder: Path) -> list[Path]:
    """What the isolated process sees: the system, Python with this tool, and the folder; none inside another."""
    package = Path(__file__).resolve().parents[1]
    wanted = [*map(Path, SYSTEM), Path(sys.prefix), Path(sys.base_prefix), package, folder]
    there = [path for path in wanted if path.exists()]
    whole = [path for path in there if path.is_dir() and not path.is_symlink()]
    return [
        path
        for path in dict.fromkeys(there)
        if not any(path != other and path.is_relative_to(other) for other in whole)
    ]


def _printed(process: subprocess.Popen[bytes], but: str) -> int:
    """Print what the process says, line by line, as plain text, but for lines that begin so; its exit code.

    It is ended, with all it started, after LIMIT_S seconds.
    """
    assert process.stdout is not None
    limit = threading.Timer(CHECK_LIMIT_S, end_group, (process,))
    limit.start()
    try:
        while line := process.stdout.readline(1 << 16):
            text = line.decode(errors="replace").rstrip()
            if not text.startswith(but):
                say(text)
        return process.wait()
    finally:
        limit.cancel()
        end_group(process)
        process.stdout.close()
