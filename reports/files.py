"""Write a file whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from suite.errors import PeakgateError


def write_whole(path: Path, text: str) -> None:
    """Put ``text`` (UTF-8) at ``path``, making its folder; whoever reads meanwhile sees the old file or the new one.

    Half a surrogate pair, which JSON can hold and UTF-8 cannot, is written as its backslash escape.
    """
    scratch: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        scratch = Path(name)
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
            file.write(text)
        scratch.chmod(path.stat().st_mode if path.exists() else 0o644)
        scratch.replace(path)
    except OSError as error:
        if scratch is not None:
            scratch.unlink(missing_ok=True)
        raise PeakgateError(
            f"{path}: cannot be written ({error.strerror}); free or open that folder, or name another one"
        ) from error
