"""Runs an untrusted program in a sandbox: no network, only the named files, limited resources.

It uses the first of three ways that the machine permits. Linux namespaces (user, mount, network, process, IPC), made by
``unshare``, with a file system of only the named paths, read-only, and a scratch folder. Landlock rules, which do not
hide the names of files. Resource limits only. In each, ``base/seccomp.py`` denies system calls that no family needs,
and sockets if they could reach the machine's. The environment has only the given variables. A vulnerability in the
permitted part of the operating system's kernel is not covered.

``python -m peakgate.base.sandbox PARENT RULES COMMAND...`` is started: it sets the limits, and the Landlock rules, and
then executes the command.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import shutil
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

from peakgate.base import seccomp
from peakgate.base.files import PACKAGES
from peakgate.base.formatting import one_line
from peakgate.base.packages import import_path, overlap
from peakgate.base.processes import BYTECODE, end_with_parent, limit_to

NAMESPACE_TOOLS = ("unshare", "mount", "umount", "pivot_root", "setpriv", "env", "sh")
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc/alternatives", "/etc/ld.so.cache", "/nix/store")
PROGRAM_FOLDERS = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
DEVICES = ("null", "zero", "full", "random", "urandom")

MOST_MEMORY_BYTES = 64 << 30
MOST_FILE_BYTES = 1 << 30

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
        [ "$1" = "${WRITABLE-}" ] || mount -o remount,bind,ro,nosuid,nodev "$new$1"
    fi
    shift
done
shift
mkdir -p "$new/tmp" "$new/proc" "$new/dev/shm" "$new/old" "$new$out"
for device in DEVICES; do
    : > "$new/dev/$device"
    mount --bind "/dev/$device" "$new/dev/$device"
done
[ ! -d "$new$HIDDEN/.git" ] || mount -t tmpfs -o ro tmpfs "$new$HIDDEN/.git"
mount -t proc proc "$new/proc" 2> /dev/null || :
mount --bind "$out" "$new$out"
cd "$new"
pivot_root . old
umount -l old
rmdir old
cd "$WORK"
exec setpriv --no-new-privs --bounding-set=-all --inh-caps=-all -- "$@"
""".replace("DEVICES", " ".join(DEVICES))
"""Shell script of the first process in the namespaces: sets up a new root with only the named paths, then execs."""


class Isolation(StrEnum):
    """How a program is isolated."""

    NAMESPACES = "namespaces"
    LANDLOCK = "landlock"
    LIMITS = "limits alone"


@cache
def isolation() -> tuple[Isolation, str]:
    """The way that this machine permits, and why not namespaces (empty if it is namespaces)."""
    why = refusal_of_namespaces()
    if not why:
        return Isolation.NAMESPACES, ""
    return (Isolation.LANDLOCK if _landlock_version() > 0 else Isolation.LIMITS), why


def refusal_of_namespaces() -> str:
    """Why a program cannot be started in its own namespaces; empty if it can."""
    if missing := [tool for tool in NAMESPACE_TOOLS if shutil.which(tool, path=PROGRAM_FOLDERS) is None]:
        return f"{', '.join(missing)} of util-linux not installed"
    probe = "mount -t tmpfs tmpfs /tmp && exec setpriv --no-new-privs true"
    done = subprocess.run(
        [*_UNSHARE, "sh", "-c", probe],
        env={"PATH": PROGRAM_FOLDERS},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    errors = done.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {done.returncode}"]
    return "" if done.returncode == 0 else f"this machine permits no user namespaces ({one_line(errors[-1])})"


_UNSHARE = ("unshare", "--user", "--map-root-user", "--mount", "--net", "--pid", "--ipc", "--uts", "--fork")


def start(
    command: Sequence[str],
    folder: Path,
    scratch: Path,
    *,
    inside: Path | None = None,
    writable: bool = False,
    readable: Sequence[Path] = (),
    environment: Mapping[str, str] | None = None,
    way: Isolation | None = None,
    **options: Any,
) -> subprocess.Popen[bytes]:
    """Start a command in the working directory ``inside`` (default: ``folder``); it can import Peakgate.

    The program can read ``folder`` (in namespaces without its ``.git``) and ``readable``. It can write to ``scratch``,
    an empty folder, and to ``folder`` only if ``writable``. ``environment`` is added to PATH, HOME, TMPDIR, LANG,
    PYTHONPATH for Peakgate, and caches of kernels and bytecode in the scratch folder: bytecode in ``folder`` is not
    used. ``options`` are those of subprocess.Popen. The program ends with the thread that started it.
    """
    way = way or isolation()[0]
    own = {"HOME": str(scratch), "TMPDIR": str(scratch), "PEAKGATE_CACHE": str(scratch / "cache")}
    tool = {"PYTHONPATH": os.pathsep.join(path)} if (path := import_path(folder)) else {}
    bytecode = Path(os.environ.get(BYTECODE, ""))  # this process's bytecode, which the program can only read
    if not bytecode.is_absolute() or overlap(bytecode, folder):
        bytecode = scratch / "bytecode"
    given = own | tool | {"PATH": PROGRAM_FOLDERS, "LANG": "C.UTF-8", "PYTHONSAFEPATH": "1", BYTECODE: str(bytecode)}
    given |= dict(environment or {})
    seen = _visible(folder, *readable, bytecode)
    become = list(command)
    if not seccomp.refusal():
        where = seccomp.NAMESPACES if way is Isolation.NAMESPACES else seccomp.MACHINE
        become = [sys.executable, "-I", "-S", seccomp.__file__, where, *become]
    rules: dict[str, list[str]] = {}
    if way is Isolation.NAMESPACES:
        root = scratch / ".root"
        root.mkdir()
        kept = [f"{name}={value}" for name, value in given.items()]
        enter = [*_UNSHARE, "--kill-child", "sh", "-c", _ENTER, "sh", str(root), str(scratch)]
        become = [*enter, *map(str, seen), "--", "env", "-i", *kept, *become]
        given = {"PATH": PROGRAM_FOLDERS, "HIDDEN": str(folder), "WORK": str(inside or folder)}
        given |= tool | {"WRITABLE": str(folder) if writable else ""}
    elif way is Isolation.LANDLOCK:
        rules = {"read": [*map(str, seen)], "write": [str(scratch)]}
        rules["read"] += ["/proc/self", *(f"/dev/{device}" for device in DEVICES)]
        rules["write"] += ["/dev/null", *([str(folder)] if writable else [])]
    launcher = [sys.executable, "-Ps", "-m", "peakgate.base.sandbox", str(os.getpid()), json.dumps(rules)]
    return subprocess.Popen(
        [*launcher, *become],
        env=given,
        cwd=inside or folder,
        start_new_session=True,  # without a controlling terminal
        **options,
    )


def _visible(folder: Path, *named: Path) -> list[Path]:
    """The paths that the program can read, without repeats: the system, Python with Peakgate, packages, named paths.

    Packages are the absolute folders of ``sys.path``, except those in or around ``folder``.
    """
    packages = [path for path in map(Path, sys.path) if path.is_absolute() and not overlap(path, folder)]
    wanted = [*map(Path, SYSTEM), Path(sys.prefix), Path(sys.base_prefix), *PACKAGES, *packages, folder, *named]
    there = [path for path in wanted if path.exists()]
    whole = [path for path in there if path.is_dir() and not path.is_symlink()]
    return [
        path
        for path in dict.fromkeys(there)
        if not any(path != other and path.is_relative_to(other) for other in whole)
    ]


def main(arguments: Sequence[str]) -> None:
    """Limit this process, then execute the command."""
    parent, rules, *command = arguments
    if not end_with_parent(int(parent)):
        return
    memory = min(MOST_MEMORY_BYTES, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * 3 // 4)
    for kind, limit in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_FSIZE, MOST_FILE_BYTES),
        (resource.RLIMIT_CORE, 0),
    ):
        limit_to(kind, limit)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")  # the OOM killer ends this process first
    if wanted := json.loads(rules):
        _restrict(wanted["read"], wanted["write"])
    os.execvp(command[0], command)  # noqa: S606


# System calls of Landlock (landlock(7)), which neither Python nor the C library wraps.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_PATH_BENEATH = 1
_PR_SET_NO_NEW_PRIVS = 38
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _TRUNCATE = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14
_RIGHTS_BY_VERSION = (13, 14, 15, 15, 16)
"""The number of access rights of Landlock's versions, from the first."""


def _landlock_version() -> int:
    """The Landlock version of the running kernel; 0 or less without Landlock."""
    return int(ctypes.CDLL(None, use_errno=True).syscall(_CREATE_RULESET, None, 0, 1))


def _restrict(readable: Sequence[str], writable: Sequence[str]) -> None:
    """Deny this process and its descendants TCP and all files except those below ``readable`` and ``writable``.

    Raises OSError if the kernel refuses a rule; the program must not start then.
    """
    library = ctypes.CDLL(None, use_errno=True)

    def call(*arguments: Any) -> int:
        found = int(library.syscall(*arguments))
        if found < 0:
            raise OSError(ctypes.get_errno(), "Landlock refuses")
        return found

    version = _landlock_version()
    every = (1 << _RIGHTS_BY_VERSION[min(version, len(_RIGHTS_BY_VERSION)) - 1]) - 1
    attributes = struct.pack("=QQQ", every, 0b11, 0b11)  # TCP: bind, connect; scopes: abstract sockets, signals
    attributes = attributes[: 8 if version < 4 else 16 if version < 6 else 24]
    ruleset = call(_CREATE_RULESET, attributes, len(attributes), 0)
    only_files = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
    read = _EXECUTE | _READ_FILE | _READ_DIR
    for names, rights in ((readable, read), (writable, every)):
        for name in names:
            descriptor = os.open(name, os.O_PATH | os.O_CLOEXEC)
            allowed = rights & every & (every if Path(name).is_dir() else only_files)
            call(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", allowed, descriptor), 0)
            os.close(descriptor)
    if library.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "no_new_privs is refused")
    call(_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


if __name__ == "__main__":
    main(sys.argv[1:])
