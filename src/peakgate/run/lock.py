"""One GPU, one measurement: an exclusive lock per GPU on this host, by its uuid.

The lock is flock(2) on a file that stays where it is: the kernel releases it when the last process that inherited it is
gone, however it ended. It excludes the commands of this tool; any other process on the GPU is looked for by NVML.
Containers that do not share the folder do not see each other's locks.
"""

from __future__ import annotations

import argparse
import fcntl
import getpass
import os
import shlex
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct
from msgspec.json import encode

from peakgate.base import records
from peakgate.base.errors import CannotDecide, Code, PeakgateError
from peakgate.base.streams import warn
from peakgate.device import driver
from peakgate.device.choose import gpu_indices

DEFAULT_WAIT_S = 600.0
LOCK_POLL_S = 0.5
LOCK_FOLDERS = (Path("/run/lock"), Path("/tmp"))  # noqa: S108  (the lock must be where every user looks for it)
HELD_VARIABLE = "PEAKGATE_GPU_LOCK"
"""The paths of the locks that a command holds, for the commands it starts: they measure under its locks."""

WAIT_LONGER = "run again once it has ended; bench and ab wait longer with --wait SECONDS"
"""The remedy of `bench` and `ab`, also where `gate` or `bisect`, which have no such option, have started them."""
WRITTEN_THERE = "another run writes its verdict there, and --out names another folder"

_held: list[int] = []
_held_s: list[float] = []


class Holder(Struct):
    """The holder of a lock, by its file."""

    pid: int
    user: str
    command: str
    since: str


def inherited() -> tuple[int, ...]:
    """Descriptors of the locks of this process, for ``pass_fds``: a child that outlives it keeps them locked."""
    return tuple(_held)


def held_s() -> float:
    """For how long this process has held locks of GPUs that it released."""
    return sum(_held_s)


def device_uuid(choice: str) -> str | None:
    """The uuid of the GPU that a ``--device`` leads to; None where it leads to the emulator or to no GPU.

    Those of several are joined by commas, as ``CUDA_VISIBLE_DEVICES`` has them.
    """
    indices, count = driver.named_gpus(choice), driver.gpu_count()
    return ",".join(filter(None, (driver.gpu_uuid(index) for index in indices if index < count))) or None


def why_no_gpu(choice: str) -> str:
    """Why a ``--device`` leads to no GPU; empty where it does, or is ``cpu``. PeakgateError where it is none."""
    try:
        there = choice == "cpu" or bool(gpu_indices(choice))
    except PeakgateError as error:
        if error.code is not Code.NO_GPU:
            raise
        return error.message
    return "" if there else "no usable GPU on this machine; check nvidia-smi, or use --device cpu"


@contextmanager
def locked(uuid: str | None, wait_s: float = DEFAULT_WAIT_S, remedy: str = WAIT_LONGER) -> Iterator[None]:
    """Lock a GPU, or each of several, for the length of a ``with`` block; without a uuid nothing is locked.

    Waits up to ``wait_s`` for another run and says for whom; CannotDecide, with the ``remedy``, when it has not ended
    by then. All runs lock in one order, so that no two wait for each other.
    """
    with ExitStack() as stack:
        for each in sorted({*uuid.split(",")} if uuid else ()):
            stack.enter_context(_one_locked(each, wait_s, remedy))
        yield


@contextmanager
def _one_locked(uuid: str, wait_s: float, remedy: str) -> Iterator[None]:
    path = _folder() / f"peakgate-{uuid}.lock"
    if str(path) in os.environ.get(HELD_VARIABLE, "").split(os.pathsep):
        yield
        return
    descriptor = _open(path)
    try:
        take(descriptor, uuid, wait_s, lambda: f"in use by {_holder(descriptor)}", remedy)
        # who holds it, for those who wait
        try:
            user = getpass.getuser()
        except (KeyError, OSError):  # a container's user without a name
            user = str(os.getuid())
        since = datetime.now(UTC).isoformat(timespec="seconds")
        with suppress(OSError):  # a full disk does not keep the lock from excluding others
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, encode(Holder(os.getpid(), user, shlex.join(sys.argv)[:200], since)), 0)
        _held.append(descriptor)
        began = time.monotonic()
        before = os.environ.get(HELD_VARIABLE, "")
        os.environ[HELD_VARIABLE] = f"{before}{os.pathsep}{path}"
        try:
            yield
        finally:
            os.environ[HELD_VARIABLE] = before
            _held.remove(descriptor)
            _held_s.append(time.monotonic() - began)
    finally:
        os.close(descriptor)


@contextmanager
def folder_locked(folder: Path, wait_s: float) -> Iterator[None]:
    """Lock a folder of outputs for the length of a ``with`` block, in which no other run of its verb writes there.

    Waits up to ``wait_s`` for another run; CannotDecide when it has not ended by then.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        take(descriptor, str(folder), wait_s, lambda: WRITTEN_THERE)
        yield
    finally:
        os.close(descriptor)


def add_lock_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--wait``, for every command that measures on a GPU."""
    parser.add_argument(
        "--wait",
        type=seconds,
        default=DEFAULT_WAIT_S,
        metavar="SECONDS",
        help=f"how long to wait for another run on this GPU before exit 3 (default: {DEFAULT_WAIT_S:.0f})",
    )


def seconds(text: str) -> float:
    """A number of seconds, 0 or more, for argparse."""
    number = float(text)
    if not 0 <= number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text}: expected seconds, 0 or more")
    return number


def _folder() -> Path:
    """The first folder in which every user of this host may make files: the same one for all of them."""
    for folder in LOCK_FOLDERS:
        if folder.is_dir() and folder.stat().st_mode & stat.S_IWOTH:
            return folder
    return LOCK_FOLDERS[-1]


def _open(path: Path) -> int:
    """The lock's file, made if need be for users of every account. A link in its place is refused."""
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        try:
            return os.open(path, flags)
        except FileNotFoundError:
            descriptor = os.open(path, flags | os.O_CREAT, 0o666)
            if os.fstat(descriptor).st_uid == os.geteuid():
                os.fchmod(descriptor, 0o666)  # whatever the umask is
            return descriptor
    except OSError as error:
        raise PeakgateError(
            f"{path}: this GPU's lock cannot be opened ({error.strerror}); remove that file", Code.UNWRITABLE
        ) from None


def take(descriptor: int, name: str, wait_s: float, why: Callable[[], str], remedy: str = WAIT_LONGER) -> None:
    """Lock an open file; while another process has it, wait up to ``wait_s``, and say once ``why`` of ``name``.

    CannotDecide, with the ``remedy``, when it is not free by then.
    """
    until = time.monotonic() + wait_s
    said = False
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pass
        else:
            return
        left = until - time.monotonic()
        if left <= 0:
            raise CannotDecide(f"{name}: {why()}; {remedy}", Code.BUSY)
        if not said:
            warn(f"{name}: {why()}; waiting up to {wait_s:.0f} s")
            said = True
        time.sleep(min(LOCK_POLL_S, left))


def _holder(descriptor: int) -> str:
    try:
        about = records.decode(os.pread(descriptor, 4096, 0), Holder, Path("the lock"), "wait for it")
    except (OSError, PeakgateError):
        return "a run that did not give its name"
    reported = f"pid {about.pid} (user {about.user}, `{about.command}`, since {about.since})"
    return "".join(letter if letter.isprintable() else "?" for letter in reported)
