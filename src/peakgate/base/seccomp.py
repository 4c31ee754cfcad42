"""Denies an untrusted program system calls that no family needs, by a seccomp filter that cannot be removed.

Denied are calls that affect other processes, the machine's settings, mounts and namespaces, and those of large, rarely
used parts of the kernel, in which most vulnerabilities were found (seccomp(2)). All others are allowed: a list of the
calls of Python, NumPy and compilers would differ for each version of the C library.

``python seccomp.py PLACE COMMAND...`` installs the filter and executes the command; the sandbox starts it. PLACE is
``namespaces`` if the program cannot see the machine's processes and sockets, else ``machine``: then it can create no
sockets and cannot leave its process group, which is killed with it. This module imports the standard library only, so
that it starts within 20 ms.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys
from collections.abc import Sequence

DENIED: dict[str, tuple[int | None, int | None]] = {
    # other processes, and keys that they share
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    # parts of the kernel with programs, queues or faults of the user's
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "fanotify_init": (300, 262),
    "lookup_dcookie": (212, 18),
    "modify_ldt": (154, None),
    "personality": (135, 92),
    # files by other ways than their paths
    "open_by_handle_at": (304, 265),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    # namespaces; new ones are denied to clone below
    "unshare": (272, 97),
    "setns": (308, 268),
    # the machine
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "acct": (163, 89),
    "syslog": (103, 116),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "vhangup": (153, 58),
    "iopl": (172, None),
    "ioperm": (173, None),
}
"""Calls that fail with EPERM, each with its number on x86-64 and AArch64, None if it does not exist there."""

CLONE, CLONE3, IOCTL, SOCKET = (56, 220), (435, 435), (16, 29), (41, 198)
LEAVE_GROUP = {"setsid": (112, 157), "setpgid": (109, 154)}
"""Calls that appear to succeed without effect: build tools call them but do not need them."""
_LATEST = 469
"""The highest number that was considered, of Linux 6.18; later calls fail with ENOSYS."""
_NEW_NAMESPACES = 0x7E020000
"""The flags of clone(2) that make namespaces."""
_TYPES_FOR_ANOTHER = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX of ioctl(2), which insert input into a terminal."""

NAMESPACES, MACHINE = "namespaces", "machine"
_AF_UNIX = 1

_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""The index in the pairs above, and the kernel's constant for the architecture (linux/audit.h)."""
_X32 = 0x40000000
"""Numbers from here on are calls of the x32 ABI."""

_LOAD, _EQUAL, _AT_LEAST, _ANY_OF, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
"""Offsets in ``struct seccomp_data``; the lower half of a 64-bit argument comes first."""

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _MODE_FILTER = 38, 22, 2


def refusal() -> str:
    """Why this machine's kernel cannot filter calls; empty if it can."""
    if platform.machine() not in _ARCHITECTURES:
        return f"no list of system calls for {platform.machine()}"
    library = ctypes.CDLL(None, use_errno=True)
    library.prctl(_PR_SET_SECCOMP, _MODE_FILTER, None, 0, 0)  # always fails without a filter: EFAULT if supported
    return "" if ctypes.get_errno() == errno.EFAULT else "this machine's kernel filters no system calls"


def program(machine: str, where: str) -> bytes:
    """The filter as BPF instructions, for a machine named as by ``uname -m``."""
    place, architecture = _ARCHITECTURES[machine]
    eperm, enosys = _ERRNO | errno.EPERM, _ERRNO | errno.ENOSYS
    denied = sorted(number for numbers in DENIED.values() if (number := numbers[place]) is not None)
    of_socket = _refused(_EQUAL, _AF_UNIX, eperm, unless=True)
    idle: list[int] = []
    if where == MACHINE:
        of_socket, idle = [(_RETURN, 0, 0, eperm)], [numbers[place] for numbers in LEAVE_GROUP.values()]
    lines = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        *_refused(_EQUAL, architecture, _KILL, unless=True),
        (_LOAD, 0, 0, _NUMBER),
        *_refused(_AT_LEAST, _X32, _KILL),
        *_refused(_AT_LEAST, _LATEST + 1, enosys),
        *_refused(_EQUAL, CLONE3[place], enosys),  # a filter cannot read its flags; C libraries fall back to clone
        *(line for number in denied for line in _refused(_EQUAL, number, eperm)),
        *(line for number in idle for line in _refused(_EQUAL, number, _ERRNO)),
        *_looked_at(CLONE[place], 0, _refused(_ANY_OF, _NEW_NAMESPACES, eperm)),
        *_looked_at(IOCTL[place], 1, [line for each in _TYPES_FOR_ANOTHER for line in _refused(_EQUAL, each, eperm)]),
        *_looked_at(SOCKET[place], 0, of_socket),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return b"".join(struct.pack("=HBBI", *line) for line in lines)


_Line = tuple[int, int, int, int]
"""A BPF instruction: operation, instructions to skip if true and if false, operand."""


def _refused(test: int, number: int, answer: int, *, unless: bool = False) -> list[_Line]:
    """Return ``answer`` if (or with ``unless``, if not) the loaded value passes the test."""
    return [(test, *((1, 0) if unless else (0, 1)), number), (_RETURN, 0, 0, answer)]


def _looked_at(call: int, argument: int, tests: Sequence[_Line]) -> list[_Line]:
    """For this call, run ``tests`` on the lower half of an argument, then allow it."""
    return [
        (_EQUAL, 0, len(tests) + 2, call),
        (_LOAD, 0, 0, _ARGUMENTS + 8 * argument),
        *tests,
        (_RETURN, 0, 0, _ALLOW),
    ]


def deny(where: str) -> None:
    """Install the filter for this process and its descendants; raises OSError if the kernel refuses it."""
    filter_of = program(platform.machine(), where)
    lines = ctypes.create_string_buffer(filter_of, len(filter_of))
    described = struct.pack("@HP", len(filter_of) // 8, ctypes.addressof(lines))
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or library.prctl(
        _PR_SET_SECCOMP, _MODE_FILTER, ctypes.c_char_p(described), 0, 0
    ):
        raise OSError(ctypes.get_errno(), "the filter of system calls is refused")


if __name__ == "__main__":
    deny(sys.argv[1])
    os.execvp(sys.argv[2], sys.argv[2:])  # noqa: S606
