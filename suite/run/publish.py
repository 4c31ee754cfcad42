"""Put a run's files where they belong once they are whole: the run file, and the verdict that names its inputs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peakgate.common import records
from peakgate.common.errors import PeakgateError
from peakgate.common.files import unwritable, write_new, write_whole
from peakgate.project.config import near
from peakgate.run import inputs

VERDICT_FILE = "bench.json"
STAGING = "bench.staged"
"""The folder in which pytest-benchmark, whose writer is not atomic, writes before its files are moved."""

FILE_SCHEME = "file://"


@dataclass(frozen=True, slots=True)
class Places:
    """Where a run's files go: its verdict's folder, the JSON that was asked for by name, pytest-benchmark's storage.

    ``storage`` is None for the default, a folder of the project per GPU model; ``json`` None where none is asked for.
    """

    out: Path
    json: Path | None = None
    storage: Path | None = None

    @property
    def staging(self) -> Path:
        return self.out / STAGING

    @property
    def staged_json(self) -> Path:
        return self.staging / "run.json"

    def clear(self) -> None:
        """Remove what an earlier run left, so that nothing old can be taken for this run's: PeakgateError if not."""
        stale = [self.out / VERDICT_FILE, *([self.json] if self.json else [])]
        stale += [scratch for path in stale for scratch in path.parent.glob(f".{path.name}.*")]  # of a run killed there
        stale += [path for path in self.staging.rglob("*") if path.is_file()]
        try:
            for path in stale:
                path.unlink(missing_ok=True)
            self.staging.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise unwritable(Path(error.filename or self.out), error) from None

    def publish(self, default_storage: Path) -> list[Path]:
        """Move the staged run files to their places, whole and fsynced; where they now are."""
        published = []
        for path in sorted(self.staging.rglob("*.json")):
            content = path.read_bytes()
            if not _whole(content):
                raise PeakgateError(f"{path}: the run file is not whole; free its disk and measure again with --resume")
            if path == self.staged_json:
                assert self.json is not None
                write_whole(self.json, content)
                published.append(self.json)
            else:
                folder = (self.storage or default_storage) / path.parent.name
                published.append(_numbered(folder, path.name, content))
            path.unlink()
        return published

    def remove_staging(self) -> None:
        """Leave nothing but whole files behind."""
        for path in sorted(self.staging.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        if self.staging.is_dir():
            self.staging.rmdir()


def storage_folder(given: str | None) -> Path | None:
    """The folder of a ``--benchmark-storage``; PeakgateError for a place that is none."""
    if given is None:
        return None
    if "://" in given and not given.startswith(FILE_SCHEME):
        raise PeakgateError(f"--benchmark-storage={given}: runs are saved as files; expected a folder or file://FOLDER")
    return Path(given.removeprefix(FILE_SCHEME)).absolute()


def write_verdict(
    out: Path, verdict: Mapping[str, Any], baselines: Path, cases: Path | None, saved: Sequence[Path]
) -> None:
    """Write the verdict with the sha256 of every file that it rests on: floors, cases asked for, saved runs."""
    slug = str(verdict["device"])
    files = [baselines / slug / "floors.toml", *([cases] if cases else []), *saved]
    digests = {str(near(path.absolute())): inputs.file_digest(path) for path in files}
    write_whole(out / VERDICT_FILE, json.dumps({**verdict, "files": digests}, indent=1))


def _whole(content: bytes) -> bool:
    try:
        records.decode(content, dict[str, Any], Path(VERDICT_FILE), "")
    except PeakgateError:
        return False
    return True


def _numbered(folder: Path, name: str, content: bytes) -> Path:
    """Save a run under the next number of the folder, as pytest-benchmark counts; never over another run."""
    rest = name.partition("_")[2]
    while True:
        taken = [int(path.name[:4]) for path in folder.glob("[0-9][0-9][0-9][0-9]_*.json")]
        path = folder / f"{max(taken, default=0) + 1:04}_{rest}"
        if write_new(path, content):
            return path
