"""Names of a site's pages, and the ledger of those that an earlier call has written."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from msgspec import Struct, to_builtins
from msgspec import field as struct_field
from peakgate.core import records
from peakgate.core.errors import PeakgateError
from peakgate.core.files import write_whole
from peakgate.core.verdict import Verdict
from peakgate.reports.history.series import SessionFacts
from peakgate.reports.write.page import TEMPLATES

LEDGER_FILE = "site.json"
SAFE_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,79}")


def page_name(text: str) -> str:
    """A file name for this text, the same at every call, and safe on every file system; ids of cases stay readable."""
    if SAFE_NAME.fullmatch(text):
        return text
    digest = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:10]
    return "-".join(filter(None, [re.sub(r"[^a-z0-9._]+", "-", text.lower())[:60].strip("-."), digest]))


def run_page_name(session: SessionFacts) -> str:
    """A session by its time; the digest separates two of the same second."""
    digest = hashlib.sha256(f"{session.taken.isoformat()} {session.uuid} {session.commit}".encode(errors="replace"))
    return f"{session.taken:%Y%m%dt%H%M%S}-{digest.hexdigest()[:6]}"


class Written(Struct):
    """Source of a page, and its verdict."""

    made_from: str = struct_field(name="from")
    verdict: Verdict | None = None


class Pages(Struct):
    """The ledger's file."""

    version: str
    pages: dict[str, Written]


@dataclass(slots=True)
class Ledger:
    """The pages that stand in the folder, and what each was made from.

    Only what it names is ever deleted.
    """

    folder: Path
    known: Mapping[str, Written | None] = field(default_factory=dict)
    kept: dict[str, Written] = field(default_factory=dict)

    def current(self, page: str, made_from: str) -> Verdict | None:
        """The verdict on this page, where it stands and was made from the same."""
        entry = self.known.get(page)
        if entry is None or entry.made_from != made_from or not (self.folder / page).is_file():
            return None
        if entry.verdict is not None:
            self.kept[page] = entry
        return entry.verdict

    def write(self, page: str, text: str, made_from: str = "", verdict: Verdict | None = None) -> None:
        """Write a page and note what it was made from, and the verdict on it."""
        write_whole(self.folder / page, text)
        self.kept[page] = Written(made_from, verdict)

    def close(self) -> int:
        """Delete the pages whose run is gone, save what stands now, and return how many were deleted."""
        gone = [name for name in self.known if name not in self.kept and _below(self.folder, name)]
        for name in gone:
            (self.folder / name).unlink(missing_ok=True)
        write_whole(self.folder / LEDGER_FILE, json.dumps(to_builtins(Pages(_version(), self.kept)), indent=1) + "\n")
        return len(gone)


def open_ledger(folder: Path) -> Ledger:
    """That of an earlier call; an empty one where there is none, or where another version wrote it."""
    try:
        saved = records.read(folder / LEDGER_FILE, Pages, "delete it")
    except PeakgateError:
        return Ledger(folder)
    return Ledger(folder, saved.pages if saved.version == _version() else dict.fromkeys(saved.pages))


def source_state(file: Path, cases: Iterable[str]) -> str:
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
