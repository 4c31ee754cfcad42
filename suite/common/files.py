"""Write a file whole or not at all, JSON so that its diffs can be read; where all that can be made again is kept."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from peakgate.common.errors import PeakgateError
from peakgate.verdict import ExitCode

CACHE_VARIABLE = "PEAKGATE_CACHE"
CUPY_VARIABLE = "CUPY_CACHE_DIR"

_DEFAULT_MODE = 0o644


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
    with _scratch(path, content) as scratch:
        scratch.chmod(path.stat().st_mode if path.exists() else _DEFAULT_MODE)
        scratch.replace(path)


def leave_verdict(path: Path, code: ExitCode, found: Mapping[str, Any]) -> ExitCode:
    """Write a command's verdict where a caller that loses exit codes can read it; the code."""
    verdict = {"exit_code": int(code), "date": datetime.now(UTC).isoformat(timespec="seconds"), **found}
    write_whole(path, json.dumps(verdict, indent=1))
    sys.stdout.write(f"verdict: {path}\n")
    return code


def write_new(path: Path, content: str | bytes) -> bool:
    """As ``write_whole``, but never over another file; whether ``path`` was free."""
    with _scratch(path, content) as scratch:
        scratch.chmod(_DEFAULT_MODE)
        try:
            os.link(scratch, path)
        except FileExistsError:
            return False
        finally:
            scratch.unlink()
    return True


def unwritable(path: Path, error: OSError) -> PeakgateError:
    """One line for a full, read-only or missing place."""
    return PeakgateError(f"{path}: cannot be written ({error.strerror}); free or open that folder, or name another one")


@contextmanager
def _scratch(path: Path, content: str | bytes) -> Iterator[Path]:
    """A fsynced file beside ``path`` with its content to be; what is left of it afterwards is removed."""
    data = content if isinstance(content, bytes) else content.encode("utf-8", errors="backslashreplace")
    scratch: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        scratch = Path(name)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(descriptor)
        yield scratch
        _sync_folder(path.parent)
    except OSError as error:
        _remove(scratch)
        raise unwritable(path, error) from error
    except BaseException:
        _remove(scratch)
        raise


def _sync_folder(folder: Path) -> None:
    """Make a rename in the folder survive a loss of power."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(scratch: Path | None) -> None:
    if scratch is not None:
        scratch.unlink(missing_ok=True)


def file_digest(path: Path) -> str | None:
    """A file's sha256; None where it cannot be read."""
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        return None


def cache_folder() -> Path:
    """Cubins, what CuPy compiles, the emulator's builds.

    ``$PEAKGATE_CACHE``, else ``.cache`` in the working directory, where ``.benchmarks`` is too; absolute.
    """
    return Path(os.environ.get(CACHE_VARIABLE) or ".cache").resolve()


def cupy_cache() -> Path:
    """Where CuPy keeps what it compiles: in our folder, which CI keeps, unless ``$CUPY_CACHE_DIR`` names another."""
    return Path(os.environ.get(CUPY_VARIABLE) or cache_folder() / "cupy")
