"""The system calls that a program in the sandbox is denied, and that it goes on without them."""

import errno
import importlib.util
import json
import platform
import re
import signal
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from peakgate.base import sandbox, seccomp
from peakgate.base.sandbox import Isolation

HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
NEW_USER, TIOCSTI, TIOCLINUX, TIOCGWINSZ = 0x10000000, 0x5412, 0x541C, 0x5413
UNIX, INET, VSOCK = 1, 2, 40
Run = Callable[..., tuple[int, str]]
EPERM, ENOSYS = f"error {errno.EPERM}", f"error {errno.ENOSYS}"


def decided(machine: str, where: str, number: int, *arguments: int, architecture: int | None = None) -> str:
    """What the filter says to a call: its instructions followed as the kernel does."""
    place = seccomp._ARCHITECTURES[machine][1] if architecture is None else architecture
    call = struct.pack("<IIQ6Q", number, place, 0, *arguments, *[0] * (6 - len(arguments)))
    lines = list(struct.iter_unpack("=HBBI", seccomp.program(machine, where)))
    at = loaded = 0
    while True:
        what, where_so, where_not, value = lines[at]
        if what == 0x06:
            names = {0x7FFF0000: "allowed", 0x80000000: "killed"}
            return names.get(value) or f"error {value ^ 0x00050000}"
        if what == 0x20:
            loaded = struct.unpack_from("<I", call, value)[0]
        else:
            so = {0x15: loaded == value, 0x35: loaded >= value, 0x45: bool(loaded & value)}[what]
            at += where_so if so else where_not
        at += 1


@pytest.mark.parametrize("machine", seccomp._ARCHITECTURES)
def test_the_listed_calls_are_denied_and_no_other(machine: str) -> None:
    place = seccomp._ARCHITECTURES[machine][0]
    denied = {numbers[place] for numbers in seccomp.DENIED.values()} - {None}
    for number in range(seccomp._LATEST + 1):
        expected = EPERM if number in denied else ENOSYS if number == 435 else "allowed"
        arguments = (UNIX,) if number == seccomp.SOCKET[place] else ()
        assert decided(machine, seccomp.NAMESPACES, number, *arguments) == expected, number
    assert decided(machine, seccomp.NAMESPACES, seccomp._LATEST + 1) == ENOSYS


@pytest.mark.parametrize("machine", seccomp._ARCHITECTURES)
def test_arguments_decide_of_clone_ioctl_and_socket(machine: str) -> None:
    place = seccomp._ARCHITECTURES[machine][0]
    clone, ioctl, socket = seccomp.CLONE[place], seccomp.IOCTL[place], seccomp.SOCKET[place]
    for upper in (0, 1 << 32):
        assert decided(machine, seccomp.NAMESPACES, clone, upper | NEW_USER | signal.SIGCHLD) == EPERM
        assert decided(machine, seccomp.NAMESPACES, clone, upper | 0x3D0F00) == "allowed"  # a thread
        for terminal in (TIOCSTI, TIOCLINUX):
            assert decided(machine, seccomp.NAMESPACES, ioctl, 0, upper | terminal) == EPERM
        assert decided(machine, seccomp.NAMESPACES, ioctl, 0, upper | TIOCGWINSZ) == "allowed"
        assert decided(machine, seccomp.NAMESPACES, socket, upper | UNIX) == "allowed"
        assert decided(machine, seccomp.MACHINE, socket, upper | UNIX) == EPERM
        for family in (INET, VSOCK):
            assert decided(machine, seccomp.NAMESPACES, socket, upper | family) == EPERM


@pytest.mark.parametrize("machine", seccomp._ARCHITECTURES)
def test_where_processes_are_the_machines_none_leaves_its_group(machine: str) -> None:
    place = seccomp._ARCHITECTURES[machine][0]
    for numbers in seccomp.LEAVE_GROUP.values():
        assert decided(machine, seccomp.MACHINE, numbers[place]) == "error 0"
        assert decided(machine, seccomp.NAMESPACES, numbers[place]) == "allowed"


def test_calls_of_another_architecture_end_the_program() -> None:
    arm, intel, intel_32 = seccomp._ARCHITECTURES["aarch64"][1], seccomp._ARCHITECTURES["x86_64"][1], 0x40000003
    assert decided("x86_64", seccomp.NAMESPACES, 1, architecture=intel_32) == "killed"
    assert decided("x86_64", seccomp.NAMESPACES, 1, architecture=arm) == "killed"
    assert decided("aarch64", seccomp.NAMESPACES, 1, architecture=intel) == "killed"
    for number in (0x40000001, 0x40000000 | 520, 0xFFFFFFFF):
        assert decided("x86_64", seccomp.NAMESPACES, number) == "killed"


@pytest.mark.parametrize("machine", seccomp._ARCHITECTURES)
def test_numbers_are_those_of_the_kernels_headers(machine: str) -> None:
    if not HEADERS[machine].exists():
        pytest.skip(f"no {HEADERS[machine]} on this machine")
    found = re.findall(r"^#define __NR(?:3264)?_(\w+)\s+(\d+)\s*$", HEADERS[machine].read_text(), re.MULTILINE)
    headers = {name: int(number) for name, number in reversed(found)}
    place = seccomp._ARCHITECTURES[machine][0]
    known = {name: numbers[place] for name, numbers in seccomp.DENIED.items() if name != "open_tree_attr"}
    known |= {name: numbers[place] for name, numbers in seccomp.LEAVE_GROUP.items()}
    known |= {"clone": seccomp.CLONE[place], "clone3": seccomp.CLONE3[place]}
    known |= {"ioctl": seccomp.IOCTL[place], "socket": seccomp.SOCKET[place]}
    assert {name: headers.get(name) for name in known} == known


PROGRAM = """
import ctypes, errno, json, os, platform
from peakgate.base import seccomp

library = ctypes.CDLL(None, use_errno=True)
place = seccomp._ARCHITECTURES[platform.machine()][0]

def ended(number, *arguments):
    ctypes.set_errno(0)
    library.syscall(number, *map(ctypes.c_ulong, arguments))
    return errno.errorcode.get(ctypes.get_errno(), "worked")

found = {name: ended(numbers[place], 0, 0, 0, 0, 0) for name, numbers in seccomp.DENIED.items() if numbers[place]}
found["a namespace"] = ended(seccomp.CLONE[place], 0x10000000, 0, 0, 0, 0)
found["clone3"] = ended(seccomp.CLONE3[place], 0, 0)
found["TIOCSTI"] = ended(seccomp.IOCTL[place], 0, 0x5412, 0)
for name, family in {"unix": 1, "internet": 2, "vsock": 40}.items():
    found[name] = ended(seccomp.SOCKET[place], family, 2, 0)
print(json.dumps(found))
"""

USEFUL = """
import os, socket, subprocess, threading
import numpy as np

a = np.ones((300, 300))
products = []
threads = [threading.Thread(target=lambda: products.append((a @ a).sum())) for _ in range(4)]
for each in threads: each.start()
for each in threads: each.join()
assert products == [300.0 ** 3] * 4
if not (child := os.fork()):
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert subprocess.run(["sh", "-c", "echo $((6 * 7)) | cat"], capture_output=True, check=True).stdout == b"42\\n"
ours, theirs = socket.socketpair()
ours.sendall(b"x")
assert theirs.recv(1) == b"x"
from multiprocessing import get_context
(worker := get_context("fork").Process(target=os.getpid)).start()
worker.join()
assert worker.exitcode == 0
"""

FOREIGN = """
import ctypes, mmap, sys
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(bytes.fromhex(sys.argv[1]))
print("there", flush=True)
ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
print("went on", flush=True)
"""
"""Calls machine code."""


@pytest.fixture
def run(sandboxed: Callable[..., subprocess.Popen[bytes]]) -> Callable[..., tuple[int, str]]:
    """A Python program in the sandbox: its exit code and what it printed."""

    def ended(way: Isolation, *program: str) -> tuple[int, str]:
        process = sandboxed(way, *program, stderr=subprocess.STDOUT)
        printed = process.communicate(timeout=60)[0].decode()
        return process.returncode, printed

    return ended


@pytest.mark.parametrize("way", Isolation)
def test_a_program_in_the_sandbox_is_denied_what_no_family_needs(way: Isolation, run: Run) -> None:
    code, printed = run(way, PROGRAM)
    found = json.loads(printed)
    expected = dict.fromkeys(found, "EPERM") | {"clone3": "ENOSYS"}
    expected["unix"] = "worked" if way is Isolation.NAMESPACES else "EPERM"
    assert (code, found) == (0, expected)
    assert len(found) > 50


@pytest.mark.parametrize("way", Isolation)
def test_numpy_threads_processes_and_pipes_work_in_the_sandbox(way: Isolation, run: Run) -> None:
    assert run(way, USEFUL) == (0, "")


def test_cupy_is_imported_in_the_sandbox(run: Run) -> None:
    found = importlib.util.find_spec("cupy")
    if found is None or found.origin is None:
        pytest.skip("CuPy is not installed")
    program = "import sys; sys.path.append(sys.argv[1]); import cupy; print(cupy.ndarray.__name__)"
    code, printed = run(sandbox.isolation()[0], program, str(Path(found.origin).parents[1]))
    assert (code, printed.splitlines()[-1]) == (0, "ndarray")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="machine code of x86-64")
@pytest.mark.parametrize(
    "code",
    ["b814000000cd80c3", "b827000040" + "0f05c3"],
    ids=["a call of 32 bits", "a call with addresses of 32 bits"],
)
def test_a_call_by_another_door_ends_the_program(code: str, run: Run) -> None:
    ended, printed = run(sandbox.isolation()[0], FOREIGN, code)
    assert printed == "there\n"
    assert ended in (-signal.SIGSYS, 128 + signal.SIGSYS)
