"""Runs on disks that are full, fill up or are read-only: ``nox -s disks -- [FILE]``, some minutes.

Each run of a small project in the emulator has to end with exit code 2 and one line with the path, leave whole files or
none and no verdict, and be resumable once there is room. The disks are mounted in a separate mount namespace, so that
no other process sees them.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from lab.faults.small_project import Broken, Project, cases, left
from peakgate.base.files import write_whole

DISKS_KIB = (4, 8, 16, 24, 40)
"""Sizes that are too small for all files of a run."""

FILES_BYTES = (0, 1, 100, 1000, 3000, 6000, 10_000)
ROOM = "size=64m"


@dataclass
class Record:
    """Outcomes of the runs in all places."""

    runs: list[dict[str, Any]] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    def text(self) -> str:
        return json.dumps(asdict(self), indent=1) + "\n"


@dataclass(frozen=True, slots=True)
class Place:
    """A folder for a run's files; its methods run there, record the outcome and raise Broken if it is wrong."""

    name: str
    folder: Path
    project: Project
    record: Record

    def completes(self, circumstance: str, whole: list[str], *arguments: str) -> None:
        """Check that a run with enough room, possibly resumed, ends with all cases."""
        code, output = self.project.run(self.folder, *arguments)
        self._saw(circumstance, code, "")
        if code != 0 or "Traceback" in output or cases(self.folder) != whole:
            raise Broken(f"{self.name}, {circumstance}: exit {code}: {output[-2000:]}")

    def refuses(self, circumstance: str, **options: Any) -> None:
        """Check that a run without enough room ends with one line, no verdict and no half-written file."""
        code, output = self.project.run(self.folder, **options)
        named = re.search(r"cannot be written \(([^)]+)\)", output)
        self._saw(circumstance, code, named[1] if named and code else "")
        if code != 2 or named is None or "Traceback" in output:
            raise Broken(f"{self.name}, {circumstance}: exit {code}, expected 2 and one line: {output[-2000:]}")
        left(self.folder, Counter())

    def no_verdict(self) -> None:
        if (self.folder / "out" / "bench.json").exists():
            raise Broken(f"{self.name}: a verdict of a run that could not be saved")

    def files(self) -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in sorted(self.folder.rglob("*")) if path.is_file()}

    def _saw(self, circumstance: str, code: int, error: str) -> None:
        self.record.runs.append({"place": self.name, "circumstance": circumstance, "exit": code, "error": error})


def main() -> int:
    """Run in every place; exit code 1 if a check failed, 3 if nothing can be mounted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mounting", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("record", nargs="?", type=Path, metavar="FILE", help="also write the record there, as JSON")
    options = parser.parse_args()
    if not options.mounting:
        if subprocess.run(["unshare", "-rm", "true"], check=False).returncode != 0:
            sys.stderr.write("no file system can be mounted here; run this as root, or where users have namespaces\n")
            return 3
        inside = ("unshare", "-rm", sys.executable, "-m", "lab.faults.disks", "--mounting", *sys.argv[1:])
        return subprocess.run(inside, check=False).returncode
    record = Record()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        project = Project(folder, folder / "cache")
        code, output = project.run(folder / "whole")
        if code != 0:
            sys.exit(f"a run with room exits {code}: {output}")
        whole = cases(folder / "whole")
        for place, trial in trials(folder, project, record):
            place.folder.mkdir()
            try:
                trial(place, whole)
            except Broken as error:
                record.broken.append(str(error))
                sys.stderr.write(f"{error}\n")
    sys.stdout.write(record.text())
    if options.record:
        write_whole(options.record, record.text())
    return int(bool(record.broken))


Trial = Callable[[Place, list[str]], None]


def trials(folder: Path, project: Project, record: Record) -> list[tuple[Place, Trial]]:
    """Every place and its trial."""
    disks = [(f"disk of {kib} KiB", full_disk(kib)) for kib in DISKS_KIB]
    files = [(f"files of at most {most} bytes", limited_files(most)) for most in FILES_BYTES]
    folders = [(f"read-only folder {name}/", read_only_folder(name)) for name in ("out", "saved")]
    closed = [(f"a file where the folder {name}/ is needed", no_folder(name)) for name in ("out", "saved")]
    return [
        (Place(name, folder / f"place{number}", project, record), trial)
        for number, (name, trial) in enumerate([*disks, *files, *folders, *closed])
    ]


def full_disk(kib: int) -> Trial:
    """A small disk that is too small, has room, is filled between two runs, and is read-only."""

    def trial(place: Place, whole: list[str]) -> None:
        with mounted(place.folder, "-t", "tmpfs", "-o", f"size={kib}k", "tmpfs"):
            place.refuses("empty at first")
            place.no_verdict()
            mount("-o", f"remount,{ROOM}", place.folder)
            place.completes("more room, --resume", whole, "--resume")
            _fill(place.folder / "filler")
            before = place.files()
            place.refuses("filled between two runs")
            place.no_verdict()
            if {path: data for path, data in before.items() if "saved" in path}.items() - place.files().items():
                raise Broken(f"{place.name}: a full disk changed a saved run")
            (place.folder / "filler").unlink()
            place.completes("room again", whole)
            mount("-o", "remount,ro", place.folder)
            before = place.files()
            place.refuses("read-only")
            if place.files() != before:
                raise Broken(f"{place.name}: a read-only disk changed")

    return trial


def limited_files(most_bytes: int) -> Trial:
    """Files of limited size; then the run is resumed."""

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, resource.RLIM_INFINITY))

    def trial(place: Place, whole: list[str]) -> None:
        place.refuses("no larger file is taken", preexec_fn=limit)
        place.no_verdict()
        place.completes("larger files, --resume", whole, "--resume")

    return trial


def read_only_folder(name: str) -> Trial:
    """One of the two folders of a run is read-only, the other is not."""

    def trial(place: Place, whole: list[str]) -> None:
        closed = place.folder / name
        closed.mkdir()
        with mounted(closed, "--bind", closed):
            mount("-o", "remount,bind,ro", closed)
            place.refuses("read-only")
            place.no_verdict()
        place.completes("writable again", whole)

    return trial


def no_folder(name: str) -> Trial:
    """A file has the name of a folder that a run makes."""

    def trial(place: Place, whole: list[str]) -> None:
        (place.folder / name).write_text("a file where a folder is needed")
        place.refuses("the file is there")
        (place.folder / name).unlink()
        place.completes("the file is gone", whole)

    return trial


@contextmanager
def mounted(folder: Path, *words: str | Path) -> Iterator[None]:
    """Mount for the duration of the block."""
    mount(*words, folder)
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


def mount(*words: str | Path) -> None:
    """Run the mount command; a failure ends the script."""
    subprocess.run(["mount", *words], check=True)


def _fill(filler: Path) -> None:
    """Write until the disk is full."""
    with filler.open("wb", buffering=0) as stream:
        try:
            while stream.write(bytes(1 << 16)):
                pass
        except OSError:
            return


if __name__ == "__main__":
    sys.exit(main())
