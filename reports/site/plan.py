"""What the pages of a site are called, and which of them an earlier call has already written."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from peakgate.common.files import write_whole
from peakgate.reports.render.template import TEMPLATES
from peakgate.reports.runs.index import Session
from peakgate.verdict import Verdict

LEDGER = "site.json"
SHORT = re.compile(r"[a-z0-9][a-z0-9._-]{0,79}")


def name(text: str) -> str:
    """A file name for this text, the same at every call, and safe on every file system; ids of cases stay readable."""
    if SHORT.fullmatch(text):
        return text
    digest = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:10]
    return "-".join(filter(None, [re.sub(r"[^a-z0-9._]+", "-", text.lower())[:60].strip("-."), digest]))


def run_name(session: Session) -> str:
    """A session by its time; the digest separates two of the same second."""
    digest = hashlib.sha256(f"{session.taken.isoformat()} {session.uuid} {session.commit}".encode(errors="replace"))
    return f"{session.taken:%Y%m%dt%H%M%S}-{digest.hexdigest()[:6]}"


@dataclass(slots=True)
class Ledger:
    """The pages that stand in the folder, and what each was made from.

    Only what it names is ever deleted.
    """

    folder: Path
    known: dict[str, Any] = field(default_factory=dict)
    kept: dict[str, dict[str, Any]] = field(default_factory=dict)

    def current(self, page: str, made_from: str) -> Verdict | None:
        """The verdict on this page, where it stands and was made from the same."""
        entry = self.known.get(page)
        if not isinstance(entry, dict) or entry.get("from") != made_from or not (self.folder / page).is_file():
            return None
        if entry.get("verdict") not in set(Verdict):
            return None
        self.kept[page] = entry
        return Verdict(entry["verdict"])

    def write(self, page: str, text: str, made_from: str = "", verdict: Verdict | None = None) -> None:
        """Write a page and note what it was made from, and the verdict on it."""
        write_whole(self.folder / page, text)
        self.kept[page] = {"from": made_from, "verdict": verdict}

    def close(self) -> int:
        """Delete the pages whose run is gone, save what stands now, and return how many were deleted."""
        gone = [page for page in self.known if page not in self.kept and _below(self.folder, page)]
        for page in gone:
            (self.folder / page).unlink(missing_ok=True)
        write_whole(self.folder / LEDGER, json.dumps({"version": _version(), "pages": self.kept}, indent=1) + "\n")
        return len(gone)


def open_ledger(folder: Path) -> Ledger:
    """That of an earlier call; an empty one where there is none, or where another version wrote it."""
    try:
        saved = json.loads((folder / LEDGER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return Ledger(folder)
    pages = saved.get("pages") if isinstance(saved, dict) else None
    if not isinstance(pages, dict):
        return Ledger(folder)
    if saved.get("version") != _version():
        pages = dict.fromkeys(pages)
    return Ledger(folder, pages)


def state(file: Path, cases: Iterable[str]) -> str:
    """Changes when the run file does, or the cases that its page refers to."""
    found = file.stat()
    digest = hashlib.sha256("\n".join(cases).encode(errors="replace")).hexdigest()[:10]
    return f"{found.st_size}-{found.st_mtime_ns}-{digest}"


def _below(folder: Path, page: str) -> bool:
    return (folder / page).resolve().is_relative_to(folder.resolve()) and page.endswith(".html")


def _version() -> str:
    """Of this tool and of the templates the pages are made from."""
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(TEMPLATES.iterdir())))
    return f"{metadata.version('peakgate')} {digest.hexdigest()[:12]}"
