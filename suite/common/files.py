"""Write a file whole or not at all, and JSON so that its diffs can be read."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from peakgate.common.errors import PeakgateError

_DEFAULT_MODE = 0o644


def a_line_each(head: Mapping[str, Any], name: str, members: Mapping[str, Any] | Sequence[Any]) -> str:
    """``head`` as JSON with one entry more, whose members stand a line each: a diff shows which of them changed."""
    if isinstance(members, Mapping):
        rows, (opening, closing) = [f"{json.dumps(key)}: {json.dumps(member)}" for key, member in members.items()], "{}"
    else:
        rows, (opening, closing) = [json.dumps(member) for member in members], "[]"
    text = json.dumps(head, indent=1).removesuffix("\n}")
    lines = ",\n".join(f"  {row}" for row in rows)
    return f"{text},\n {json.dumps(name)}: {opening}\n{lines}\n {closing}\n}}\n"


def write_whole(path: Path, content: str | bytes) -> None:
    """Put ``content`` at ``path``, making its folder; whoever reads meanwhile sees the old file or the new one.

    Text is written as UTF-8; half a surrogate pair, which JSON can hold and UTF-8 cannot, as its backslash escape. A
    PeakgateError names a place that cannot be written.
    """
    data = content if isinstance(content, bytes) else content.encode("utf-8", errors="backslashreplace")
    scratch: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        scratch = Path(name)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
        scratch.chmod(path.stat().st_mode if path.exists() else _DEFAULT_MODE)
        scratch.replace(path)
    except OSError as error:
        _remove(scratch)
        raise PeakgateError(
            f"{path}: cannot be written ({error.strerror}); free or open that folder, or name another one"
        ) from error
    except BaseException:
        _remove(scratch)
        raise


def _remove(scratch: Path | None) -> None:
    if scratch is not None:
        scratch.unlink(missing_ok=True)
