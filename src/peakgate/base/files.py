"""Reads untrusted files within limits, writes files atomically and never through links; cache and temporary folders."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import secrets
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import IO, Any

from peakgate.base.errors import Code, PeakgateError

PACKAGE = Path(__file__).resolve().parents[1]
PACKAGES = (PACKAGE, PACKAGE.with_name("peakgate_emulator"))
"""The folders of this package and of the emulator."""

CACHE_VARIABLE = "PEAKGATE_CACHE"
CUPY_VARIABLE = "CUPY_CACHE_DIR"

LARGEST_FILE_BYTES = 64 * 2**20
"""The largest saved file or text that is read."""

LARGEST_DIGESTED_BYTES = 4 << 30
"""A larger file has no digest: reading it would take longer than a run."""

SCRATCH_PREFIX = "peakgate."
"""Of the names of temporary folders."""

_DEFAULT_MODE = 0o644
_OF_OUTPUTS = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY
_MARKS = (".git", "pyproject.toml", "peakgate.toml")
"""Files that mark the top folder of a repository or project."""


class UnreadableFile(PeakgateError):
    """A file cannot be read: ``why`` is the reason as a phrase, ``missing`` is True if it does not exist."""

    code = Code.UNREADABLE

    def __init__(self, path: Path, why: str, *, missing: bool = False) -> None:
        super().__init__(f"{path}: {why}; name a file that can be read")
        self.why, self.missing = why, missing


def read_limited(path: Path, limit_bytes: int, *, inside: Path | None = None) -> bytes:
    """The content of a regular file of at most ``limit_bytes``; hardly more is ever read.

    Raises UnreadableFile for anything else: no file, a folder, a FIFO, a device, a larger file and, with ``inside``, a
    path that resolves to a file outside that folder.
    """
    with opened(path, inside=inside) as stream:
        content, size_bytes = bytearray(), os.fstat(stream.fileno()).st_size
        while max(size_bytes, len(content)) <= limit_bytes and (chunk := stream.read(size_bytes + 1)):
            content += chunk  # a file may grow, and files in /proc have size 0
        if max(size_bytes, len(content)) > limit_bytes:
            mebibytes = limit_bytes >> 20
            raise UnreadableFile(path, f"more than {f'{mebibytes} MiB' if mebibytes else f'{limit_bytes} bytes'}")
    return bytes(content)


def read_text(path: Path) -> str:
    """A UTF-8 text with its line ends unchanged, by ``read_limited``; raises UnreadableFile if it is not UTF-8."""
    try:
        return read_limited(path, LARGEST_FILE_BYTES).decode()
    except UnicodeDecodeError:
        raise UnreadableFile(path, "not text in UTF-8") from None


@contextmanager
def opened(path: Path, *, inside: Path | None = None) -> Iterator[FileIO]:
    """A regular file, opened without blocking; raises UnreadableFile as ``read_limited`` does."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY  # opening a FIFO would wait for its writer
    try:
        found = path
        if inside is not None:
            found, flags = path.resolve(strict=True), flags | os.O_NOFOLLOW
            if not found.is_relative_to(inside.resolve()):
                raise UnreadableFile(path, f"a link leads out of {inside}")
        descriptor = os.open(found, flags)
        with os.fdopen(descriptor, "rb", buffering=0) as stream:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise UnreadableFile(path, "not a regular file")
            yield stream
    except FileNotFoundError as error:
        raise UnreadableFile(path, f"cannot be read ({error.strerror})", missing=True) from None
    except (OSError, ValueError, RuntimeError) as error:  # an invalid name, a loop of links
        raise UnreadableFile(path, f"cannot be read ({getattr(error, 'strerror', None) or error})") from None


def a_line_each(head: Mapping[str, Any], name: str, members: Mapping[str, Any] | Sequence[Any]) -> str:
    """``head`` as JSON with a further entry ``name``, whose members are on one line each, for readable diffs."""
    if isinstance(members, Mapping):
        rows, (opening, closing) = [f"{json.dumps(key)}: {json.dumps(member)}" for key, member in members.items()], "{}"
    else:
        rows, (opening, closing) = [json.dumps(member) for member in members], "[]"
    text = json.dumps(head, indent=1).removesuffix("\n}")
    lines = ",\n".join(f"  {row}" for row in rows)
    return f"{text},\n {json.dumps(name)}: {opening}\n{lines}\n {closing}\n}}\n"


def write_whole(path: Path, content: str | bytes) -> None:
    """Write ``content`` to ``path`` atomically, creating its folder: a reader sees the old file or the new one.

    File and folder are fsynced. Text is written as UTF-8; an unpaired surrogate, which JSON can contain, as a backslash
    escape. Raises PeakgateError if it cannot be written.
    """
    with _scratch(path, content) as (folder, scratch):
        os.replace(scratch, path.name, src_dir_fd=folder, dst_dir_fd=folder)


def write_new(path: Path, content: str | bytes) -> bool:
    """As ``write_whole``, but never overwrites a file; returns whether ``path`` was free."""
    with _scratch(path, content) as (folder, scratch):
        try:
            os.link(scratch, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except FileExistsError:
            return False
    return True


def open_output(path: Path, mode: str = "w") -> IO[Any]:
    """Open a file for output without following a link, in a folder opened by ``output_folder``.

    ``mode`` is that of ``open``; text is UTF-8. Raises OSError as ``open`` does, PeakgateError for a link.
    """
    encoding = None if "b" in mode else "utf-8"
    with output_folder(path.parent) as folder:

        def below(_path: str, flags: int) -> int:
            return os.open(path.name, flags | _OF_OUTPUTS, 0o666, dir_fd=folder)

        try:
            return open(path, mode, encoding=encoding, opener=below)
        except OSError as error:
            raise (_in_place(path) if path.is_symlink() else error) from None


@contextmanager
def output_folder(path: Path) -> Iterator[int]:
    """A descriptor of an output folder, which is created if it does not exist.

    Links inside a repository or project, which a change may have committed, are not followed; links outside are.
    Raises OSError if a folder cannot be created, PeakgateError for such a link.
    """
    path = Path(os.path.abspath(path))  # noqa: PTH100  (links must not be resolved)
    descriptor = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for depth, name in enumerate(path.parts[1:], start=2):
            here = Path(*path.parts[:depth])
            try:
                inner = _inner_folder(descriptor, name)
            except OSError as error:
                error.filename = str(here)
                raise (_in_place(here) if here.is_symlink() else error) from None
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


def make_folder(path: Path) -> None:
    """Create an output folder, as ``output_folder`` does, if it does not exist."""
    with output_folder(path):
        pass


def remove_output(path: Path) -> None:
    """Remove a file, a link itself, or a folder with its contents, if it exists; its folder as in ``output_folder``.

    Raises PeakgateError if it cannot be removed.
    """
    if not os.path.lexists(path):
        return
    try:
        with output_folder(path.parent) as folder:
            if stat.S_ISDIR(os.stat(path.name, dir_fd=folder, follow_symlinks=False).st_mode):
                shutil.rmtree(path.name, dir_fd=folder)
            else:
                os.unlink(path.name, dir_fd=folder)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise unwritable(path, error) from None


def refuse_links(folder: Path) -> None:
    """Raise PeakgateError if an output folder contains a link, which programs that write there would follow."""
    for each in folder.iterdir():
        if each.is_symlink():
            raise _in_place(each)


def _inner_folder(folder: int, name: str) -> int:
    """A descriptor of a folder in another, created if missing; a link is followed only outside repositories."""
    flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
    try:
        return os.open(name, flags | os.O_NOFOLLOW, dir_fd=folder)
    except FileNotFoundError:
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=folder)
        return os.open(name, flags | os.O_NOFOLLOW, dir_fd=folder)
    except NotADirectoryError:
        # a folder within a repository or project, whose files a change may choose
        here = Path(f"/proc/self/fd/{folder}").readlink()
        if any(os.path.lexists(above / mark) for above in (here, *here.parents) for mark in _MARKS):
            raise
        return os.open(name, flags, dir_fd=folder)


def _in_place(link: Path) -> PeakgateError:
    return PeakgateError(
        f"{link}: a link in place of an output file or folder; remove it, or name another folder, such as --out DIR",
        Code.TAKEN,
    )


@contextmanager
def alone(lock: Path) -> Iterator[None]:
    """Hold an exclusive file lock in the block, if the file system supports locks."""
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise unwritable(lock, error) from error
    try:
        with suppress(OSError):  # NFS without locks: two processes may do the same work
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def unwritable(path: Path, error: OSError) -> PeakgateError:
    """The error for a full, read-only or missing folder."""
    return PeakgateError(
        f"{path}: cannot be written ({error.strerror}); free or open that folder, or name another one", Code.UNWRITABLE
    )


@contextmanager
def _scratch(path: Path, content: str | bytes) -> Iterator[tuple[int, str]]:
    """The folder of ``path`` and the name of a temporary fsynced file there with its content and mode."""
    data = content if isinstance(content, bytes) else content.encode("utf-8", errors="backslashreplace")
    name = f".{path.name}.{secrets.token_hex(8)}"
    try:
        with output_folder(path.parent) as folder:
            descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _OF_OUTPUTS, 0o600, dir_fd=folder)
            try:
                with os.fdopen(descriptor, "wb") as stream:
                    stream.write(data)
                    stream.flush()
                    os.fchmod(descriptor, _mode(path.name, folder))
                    os.fsync(descriptor)
                yield folder, name
                # so that a rename in the folder survives a power failure
                descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
                try:
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=folder)
    except OSError as error:
        raise unwritable(path, error) from error


def _mode(name: str, folder: int) -> int:
    """The mode of the file to replace, or that of a new one; raises OSError if it is not a regular file."""
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return _DEFAULT_MODE
    if stat.S_ISREG(found.st_mode):
        return stat.S_IMODE(found.st_mode)
    if stat.S_ISLNK(found.st_mode):  # the new file replaces the link
        return _DEFAULT_MODE
    raise OSError(errno.EINVAL, "not a regular file")  # a device, for example, which a rename would replace


def file_digest(path: Path) -> str | None:
    """A regular file's SHA-256; None if it cannot be read or is larger than LARGEST_DIGESTED_BYTES."""
    try:
        with opened(path) as stream:
            small = os.fstat(stream.fileno()).st_size <= LARGEST_DIGESTED_BYTES
            return hashlib.file_digest(stream, "sha256").hexdigest() if small else None
    except UnreadableFile:
        return None


def cache_folder() -> Path:
    """The absolute folder of cubins, CuPy's kernels and the emulator's builds.

    ``$PEAKGATE_CACHE``, else ``.cache`` in the working directory.
    """
    return Path(os.environ.get(CACHE_VARIABLE) or ".cache").resolve()


def cupy_cache() -> Path:
    """CuPy's cache of compiled kernels: within ``cache_folder``, which CI keeps, or ``$CUPY_CACHE_DIR``."""
    return Path(os.environ.get(CUPY_VARIABLE) or cache_folder() / "cupy")


def each_below(folder: str | Path, seen: set[str] | None = None) -> Iterator[os.DirEntry[str]]:
    """All entries below a folder at any depth, without following links; folders that cannot be listed are skipped.

    Folders in ``seen`` are skipped; each listed folder is added to it.
    """
    seen = set() if seen is None else seen
    waiting = [str(folder)]
    while waiting:
        if (here := waiting.pop()) in seen:
            continue
        seen.add(here)
        with suppress(OSError), os.scandir(here) as entries:
            for each in entries:
                if each.is_dir(follow_symlinks=False):
                    waiting.append(each.path)
                yield each


def remove_tree(path: Path) -> None:
    """Remove a folder with its contents at any depth; what cannot be removed is left."""
    subprocess.run(["rm", "-rf", "--", str(path)], stderr=subprocess.DEVNULL, check=False)


@contextmanager
def scratch_folder(purpose: str, place: Path | None = None) -> Iterator[Path]:
    """A new folder in ``place``, or in the folder for temporary files, removed at the end of the block.

    Abandoned folders there, of processes that have ended, are removed first: each folder is locked while its process
    runs, and the lock also works between containers that share the place.
    """
    place = (place or Path(tempfile.gettempdir())).resolve()
    for each in place.glob(f"{SCRATCH_PREFIX}*"):
        # a folder of this user that no process has locked
        with suppress(OSError):
            lock = os.open(each, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if os.fstat(lock).st_uid == os.getuid():
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    remove_tree(each)
            finally:
                os.close(lock)
    path, lock = _locked(purpose, place)
    try:
        yield path
    finally:
        remove_tree(path)
        os.close(lock)


def _locked(purpose: str, place: Path) -> tuple[Path, int]:
    """A new folder and the descriptor that holds its lock."""
    while True:
        path = Path(tempfile.mkdtemp(prefix=f"{SCRATCH_PREFIX}{purpose}.", dir=place))
        with suppress(FileNotFoundError):  # another process or thread removed it before it was locked
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            with suppress(OSError):  # NFS without locks, where abandoned folders are not removed
                fcntl.flock(lock, fcntl.LOCK_SH)
            if path.exists():
                return path, lock
            os.close(lock)
