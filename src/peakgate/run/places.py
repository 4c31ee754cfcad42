"""Where the files of a run go. They are written to a staging folder and moved once they are complete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peakgate.base import records
from peakgate.base.config import near
from peakgate.base.errors import Code, PeakgateError
from peakgate.base.files import file_digest, make_folder, remove_output, unwritable, write_new, write_whole
from peakgate.base.git import UNVERSIONED
from peakgate.base.report import Report, write_json
from peakgate.base.verdict import ExitCode
from peakgate.runfile.openmetrics import PROM, CaseMetrics, openmetrics

VERDICT_FILE = "bench.json"
METRICS_FILE = f"bench{PROM}"
OTHER_BUILDS_FILE = "other_builds.json"
"""In the verdict's folder: the run file of the builds that an A/B samples interleaved with the cases."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where a run's files go: the verdict to ``out``, run files to ``json`` and ``storage``.

    ``json`` is the file of ``--benchmark-json`` or None, ``storage`` the folder of ``--benchmark-storage``; if None,
    runs are saved in the project, in a folder per GPU model.
    """

    out: Path
    json: Path | None = None
    storage: Path | None = None

    @property
    def staging(self) -> Path:
        """The folder in which pytest-benchmark, whose writer is not atomic, writes its files."""
        return self.out / "bench.staged"

    @property
    def staged_json(self) -> Path:
        return self.staging / "run.json"

    def clear(self) -> None:
        """Remove an earlier run's files, which could be taken for this run's. Raises PeakgateError if it cannot."""
        stale = [self.out / VERDICT_FILE, self.out / METRICS_FILE, *([self.json] if self.json else [])]
        stale += [scratch for path in stale for scratch in path.parent.glob(f".{path.name}.*")]  # of a killed run
        try:
            make_folder(self.out)
            for path in (*stale, self.staging):
                remove_output(path)
            make_folder(self.staging)
        except OSError as error:
            raise unwritable(Path(error.filename or self.out), error) from None

    def publish(self, default_storage: Path, *, measured: bool = True) -> list[Path]:
        """Move the staged run files to their places, complete and fsynced; return their paths.

        An empty file is ignored if nothing was ``measured``: pytest-benchmark 5.2 creates it in advance.
        """
        published = []
        for path in sorted(self.staging.rglob("*.json")):
            content = path.read_bytes()
            if not content and not measured:
                remove_output(path)
                continue
            try:
                records.decode(content, dict[str, Any], path, "")
            except PeakgateError:
                raise PeakgateError(
                    f"{path}: the run file is incomplete; free disk space and measure again with --resume",
                    Code.UNWRITABLE,
                ) from None
            if path == self.staged_json:
                assert self.json is not None
                write_whole(self.json, content)
                published.append(self.json)
            else:
                folder = (self.storage or default_storage) / path.parent.name
                published.append(_save_numbered(folder, path.name, content))
            remove_output(path)
        return published

    def remove_staging(self) -> None:
        """Remove the staging folder."""
        remove_output(self.staging)


def storage_folder(given: str | None) -> Path | None:
    """The folder that ``--benchmark-storage`` names; raises PeakgateError for another kind of storage."""
    if given is None:
        return None
    scheme = "file://"
    if "://" in given and not given.startswith(scheme):
        raise PeakgateError(
            f"--benchmark-storage={given}: runs are saved as files; expected a folder or file://FOLDER", Code.OPTION
        )
    return Path(given.removeprefix(scheme)).absolute()


def write_verdict(out: Path, verdict: Mapping[str, Any], baselines: Path, saved: Sequence[Path]) -> None:
    """Write the verdict with the SHA-256 of the files it depends on, floors and saved runs, and its metrics beside it.

    ``verdict`` has the exit code as ``code``.
    """
    slug = str(verdict["device"])
    files = [baselines / slug / "floors.toml", *saved]
    digests = {str(near(path.absolute())): file_digest(path) for path in files}
    known = [{name: case.get(name) for name in CaseMetrics._fields} for case in verdict["cases"]]
    about = {"gpu": slug, "commit": verdict["commit"] or UNVERSIONED}
    cases = (CaseMetrics(**case | about) for case in known)
    write_whole(out / METRICS_FILE, openmetrics(cases))
    write_json(verdict_report({**verdict, "files": digests}), out / VERDICT_FILE)  # last: it says that the run is saved


def verdict_report(verdict: Mapping[str, Any]) -> Report:
    """The report of a run; ``verdict`` has its exit code as ``code`` besides the fields of the document."""
    fields = {name: value for name, value in verdict.items() if name != "code"}
    return Report("bench", ExitCode(verdict["code"]), fields=fields)


def _save_numbered(folder: Path, name: str, content: bytes) -> Path:
    """Save a run under the folder's next number, as pytest-benchmark does; never overwrite another run."""
    rest = name.partition("_")[2]
    while True:
        taken = [int(path.name[:4]) for path in folder.glob("[0-9][0-9][0-9][0-9]_*.json")]
        path = folder / f"{max(taken, default=0) + 1:04}_{rest}"
        if write_new(path, content):
            return path
