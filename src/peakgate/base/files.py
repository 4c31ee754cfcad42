"""Files: untrusted ones read within limits, ours written whole or not at all; the folder of all that can be remade."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import secrets
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import IO, Any

from peakgate.base.errors import Code, PeakgateError

CACHE_VARIABLE = "PEAKGATE_CACHE"
CUPY_VARIABLE = "CUPY_CACHE_DIR"

LARGEST_FILE_BYTES = 64 * 2**20
"""Of a saved file or a text that is read whole."""

LARGEST_DIGESTED_BYTES = 4 << 30
"""A larger file takes longer to read than a run."""

_DEFAULT_MODE = 0o644
_OF_OUTPUTS = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY
_MARKS = (".git", "pyproject.toml", "peakgate.toml")
"""Of the top folder of a repository or a project."""


class UnreadableFile(PeakgateError):
    """A file that cannot be read: ``why`` is the reason in a few words, ``missing`` is True if there is no file."""

    code = Code.UNREADABLE

    def __init__(self, path: Path, why: str, *, missing: bool = False) -> None:
        super().__init__(f"{path}: {why}; name a file that can be read")
        self.why, self.missing = why, missing


def read_limited(path: Path, limit_bytes: int, *, inside: Path | None = None) -> bytes:
    """The content of a regular file of at most ``limit_bytes``, which is as much as is ever read of it.

    UnreadableFile for anything else: no file, a folder, a FIFO, a device, a larger file and, with ``inside``, a file
    that a link places outside that folder.
    """
    with opened(path, inside=inside) as stream:
        content, size_bytes = bytearray(), os.fstat(stream.fileno()).st_size
        while max(size_bytes, len(content)) <= limit_bytes and (chunk := stream.read(size_bytes + 1)):
            content += chunk  # a file may grow, and those of /proc have no size
        if max(size_bytes, len(content)) > limit_bytes:
            mebibytes = limit_bytes >> 20
            raise UnreadableFile(path, f"more than {f'{mebibytes} MiB' if mebibytes else f'{limit_bytes} bytes'}")
    return bytes(content)


def read_text(path: Path) -> str:
    """A text in UTF-8 with its line ends as they are, by ``read_limited``; UnreadableFile if it is not."""
    try:
        return read_limited(path, LARGEST_FILE_BYTES).decode()
    except UnicodeDecodeError:
        raise UnreadableFile(path, "not text in UTF-8") from None


@contextmanager
def opened(path: Path, *, inside: Path | None = None) -> Iterator[FileIO]:
    """A regular file, opened without waiting for anything; UnreadableFile as for ``read_limited``."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY  # opening a FIFO waits for its writer otherwise
    try:
        descriptor = os.open(path, flags) if inside is None else os.open(_below(path, inside), flags | os.O_NOFOLLOW)
        with os.fdopen(descriptor, "rb", buffering=0) as stream:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise UnreadableFile(path, "not a regular file")
            yield stream
    except FileNotFoundError as error:
        raise UnreadableFile(path, f"cannot be read ({error.strerror})", missing=True) from None
    except (OSError, ValueError, RuntimeError) as error:  # a name that no file can have, links in a circle
        raise UnreadableFile(path, f"cannot be read ({getattr(error, 'strerror', None) or error})") from None


def _below(path: Path, folder: Path) -> Path:
    """The path without links; UnreadableFile where it is not below the folder."""
    resolved = path.resolve(strict=True)
    if not resolved.is_relative_to(folder.resolve()):
        raise UnreadableFile(path, f"a link leads out of {folder}")
    return resolved


def a_line_each(head: Mapping[str, Any], name: str, members: Mapping[str, Any] | Sequence[Any]) -> str:
    """``head`` as JSON with one entry more, its members on one line each: a diff shows which changed."""
    if isinstance(members, Mapping):
        rows, (opening, closing) = [f"{json.dumps(key)}: {json.dumps(member)}" for key, member in members.items()], "{}"
    else:
        rows, (opening, closing) = [json.dumps(member) for member in members], "[]"
    text = json.dumps(head, indent=1).removesuffix("\n}")
    lines = ",\n".join(f"  {row}" for row in rows)
    return f"{text},\n {json.dumps(name)}: {opening}\n{lines}\n {closing}\n}}\n"


def write_whole(path: Path, content: str | bytes) -> None:
    """Put ``content`` at ``path``, making its folder; a reader sees the old file or the new one, never a part.

    File and folder are fsynced. Text is written as UTF-8; half a surrogate pair, which JSON can hold and UTF-8 cannot,
    as its backslash escape. A PeakgateError names a place that cannot be written.
    """
    with _scratch(path, content) as (folder, scratch):
        os.replace(scratch, path.name, src_dir_fd=folder, dst_dir_fd=folder)


def write_new(path: Path, content: str | bytes) -> bool:
    """As ``write_whole``, but never over another file; whether ``path`` was free."""
    with _scratch(path, content) as (folder, scratch):
        try:
            os.link(scratch, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except FileExistsError:
            return False
    return True


def open_output(path: Path, mode: str = "w") -> IO[Any]:
    """Open a file for output, not through a link, below a descriptor of its folder, which ``output_folder`` opens.

    ``mode`` is that of ``open``; text is UTF-8. OSError as of ``open``; PeakgateError where a link is in the way.
    """
    encoding = None if "b" in mode else "utf-8"
    with output_folder(path.parent) as folder:

        def below(_path: str, flags: int) -> int:
            return os.open(path.name, flags | _OF_OUTPUTS, 0o666, dir_fd=folder)

        try:
            return open(path, mode, encoding=encoding, opener=below)
        except OSError as error:
            raise _link_or(error, path) from None


@contextmanager
def output_folder(path: Path) -> Iterator[int]:
    """A descriptor of a folder of outputs, made where there is none, whose links a change may have committed.

    No link inside a repository or a project is followed; those of the machine around it are. OSError where a folder
    cannot be made; PeakgateError where such a link is in the way.
    """
    path = Path(os.path.abspath(path))  # noqa: PTH100  (no link followed)
    descriptor = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for depth, name in enumerate(path.parts[1:], start=2):
            here = Path(*path.parts[:depth])
            try:
                inner = _inner_folder(descriptor, name)
            except OSError as error:
                error.filename = str(here)
                raise _link_or(error, here) from None
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


def make_folder(path: Path) -> None:
    """Make a folder of outputs, as ``output_folder`` does, if it is not there."""
    with output_folder(path):
        pass


def remove_output(path: Path) -> None:
    """Remove a file or a folder with all in it, which need not be there; by ``output_folder``, a link itself.

    PeakgateError where it cannot be removed.
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
    """PeakgateError where an entry of a folder of outputs is a link: programs that write there by name follow it."""
    for each in folder.iterdir():
        if each.is_symlink():
            raise _in_place(each)


def _inner_folder(folder: int, name: str) -> int:
    """A descriptor of a folder in another, made where there is none; of a link's target outside repositories."""
    flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
    try:
        return os.open(name, flags | os.O_NOFOLLOW, dir_fd=folder)
    except FileNotFoundError:
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=folder)
        return os.open(name, flags | os.O_NOFOLLOW, dir_fd=folder)
    except NotADirectoryError:
        if _in_repository(folder):
            raise
        return os.open(name, flags, dir_fd=folder)


def _in_repository(folder: int) -> bool:
    """Whether a folder is one of a repository or of a project, whose files a change may choose."""
    here = Path(f"/proc/self/fd/{folder}").readlink()
    return any(os.path.lexists(above / mark) for above in (here, *here.parents) for mark in _MARKS)


def _link_or(error: OSError, path: Path) -> Exception:
    return _in_place(path) if path.is_symlink() else error


def _in_place(link: Path) -> PeakgateError:
    return PeakgateError(
        f"{link}: a link in place of a file or folder of outputs; remove it, or name another folder, such as --out DIR",
        Code.TAKEN,
    )


@contextmanager
def alone(lock: Path) -> Iterator[None]:
    """Keep other processes and threads that name the same file out of the block, where the file system can."""
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise unwritable(lock, error) from error
    try:
        with suppress(OSError):  # NFS without locks: two may do the same work
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def unwritable(path: Path, error: OSError) -> PeakgateError:
    """One line for a full, read-only or missing place."""
    return PeakgateError(
        f"{path}: cannot be written ({error.strerror}); free or open that folder, or name another one", Code.UNWRITABLE
    )


@contextmanager
def _scratch(path: Path, content: str | bytes) -> Iterator[tuple[int, str]]:
    """The folder of ``path`` and the name of a fsynced file there with its content and mode, gone after the block."""
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
                _sync_folder(folder)
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=folder)
    except OSError as error:
        raise unwritable(path, error) from error


def _mode(name: str, folder: int) -> int:
    """The mode of the file that is replaced, or that of a new one."""
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return _DEFAULT_MODE
    if stat.S_ISREG(found.st_mode):
        return stat.S_IMODE(found.st_mode)
    if stat.S_ISLNK(found.st_mode):  # which the new file takes the place of
        return _DEFAULT_MODE
    raise OSError(errno.EINVAL, "not a regular file")  # a device, for example, which a rename would replace


def _sync_folder(folder: int) -> None:
    """Make a rename in the folder survive a loss of power."""
    descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def file_digest(path: Path) -> str | None:
    """A regular file's sha256; None where it cannot be read or is larger than LARGEST_DIGESTED_BYTES."""
    try:
        with opened(path) as stream:
            small = os.fstat(stream.fileno()).st_size <= LARGEST_DIGESTED_BYTES
            return hashlib.file_digest(stream, "sha256").hexdigest() if small else None
    except UnreadableFile:
        return None


def cache_folder() -> Path:
    """Cubins, what CuPy compiles, the emulator's builds.

    ``$PEAKGATE_CACHE``, else ``.cache`` in the working directory, where ``.benchmarks`` is too; absolute.
    """
    return Path(os.environ.get(CACHE_VARIABLE) or ".cache").resolve()


def cupy_cache() -> Path:
    """Where CuPy keeps what it compiles: in our folder, which CI keeps, unless ``$CUPY_CACHE_DIR`` names another."""
    return Path(os.environ.get(CUPY_VARIABLE) or cache_folder() / "cupy")


def each_below(folder: str | Path, seen: set[str] | None = None) -> Iterator[os.DirEntry[str]]:
    """All entries below a folder, however deep, no link in it followed; what cannot be listed is passed over.

    Nothing of the folders in ``seen``, by their paths as given, to which it adds those that it lists.
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
