"""Helpers for records: the commit in their names, and compression by xz."""

from __future__ import annotations

import lzma
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lab.pages import ROOT
from peakgate.base import git
from peakgate.base.errors import PeakgateError
from peakgate.base.files import write_whole
from peakgate.runfile.saved import Run, load_run, trimmed


def checked_out() -> str:
    """The commit of this tree, with ``-dirty`` if files differ from it; "unknown" if git fails."""
    try:
        return git.ask(Path(__file__).parent, "describe", "--always", "--dirty").decode().strip()
    except PeakgateError:
        return "unknown"


def pack(path: Path, text: str) -> None:
    """Compress a text to a ``.xz`` file; equal texts produce equal bytes."""
    write_whole(path, lzma.compress(text.encode(), preset=9))


def pack_run(folder: Path, document: dict[str, Any], unnamed: str = "") -> Path:
    """Write a run without its samples, compressed and named by time and GPU; returns the path."""
    stamp = document["datetime"][:19].replace("-", "").replace(":", "")
    gpu = str(document["machine_info"]["gpu"].get("uuid") or unnamed).removeprefix("GPU-")[:8]
    path = folder / f"{stamp}-{gpu}.json.xz"
    pack(path, trimmed(document))
    return path


def unpack(path: Path) -> bytes:
    """The content of a file that ``pack`` wrote. Raises PeakgateError if it is damaged."""
    try:
        return lzma.decompress(path.read_bytes())
    except (lzma.LZMAError, EOFError) as error:
        raise PeakgateError(f"{path}: cannot be unpacked ({error}); restore it from git") from error


def load_packed_run(path: Path) -> Run:
    """Read a packed run file, with the same checks as any other."""
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder, path.stem)
        plain.write_bytes(unpack(path))
        return load_run(plain)


def whole_runs(*patterns: str) -> Iterator[Run]:
    """The whole runs in the files that match these patterns, packed or not, in the order of the patterns."""
    for path in (path for pattern in patterns for path in sorted(ROOT.glob(pattern))):
        run = load_packed_run(path) if path.suffix == ".xz" else load_run(path)
        if run.whole:
            yield run
